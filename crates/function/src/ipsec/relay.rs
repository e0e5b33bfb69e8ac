//! Relays IKE messages between charon and the remote end.
//!
//! charon sees the remote end at [`PEER`], and each of its outer ports (there are several where NAT changes it) as a
//! port of its own there. So a response goes where its request came from (RFC 7296 section 2.11), and charon's log
//! says from which port an authenticated exchange came.

use std::{
    io::{self, ErrorKind, Read},
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hawser_wire::esp::UDP_PORT;
use rustix::event::{PollFd, PollFlags, poll};

use super::{charon::Log, document::Ike, endpoint::Endpoint, keys::Event, socket::UDP_MAX_LEN};

/// Address at which charon sees the remote end.
pub(super) const PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Outer ports that are known at a time. One is in use; the others are of earlier mappings, or forged.
const PORTS: usize = 8;

/// Offset of the flags in an IKE message behind a non-ESP marker (RFC 7296 section 3.1, RFC 3948 section 2.2).
const FLAGS: usize = 4 + 19;
/// Flag of a response.
const RESPONSE: u8 = 0x20;

/// The sockets to charon.
pub(super) struct Relay {
    sockets: Vec<UdpSocket>,
    /// Local port of each socket.
    locals: Vec<u16>,
    ports: Mutex<Ports>,
    endpoint: Arc<Endpoint>,
}

impl Relay {
    /// Opens the sockets, the first at the configured port.
    pub(super) fn open(ike: &Ike, endpoint: Arc<Endpoint>) -> io::Result<Self> {
        let open = |at: usize| {
            let socket = UdpSocket::bind((PEER, if at == 0 { ike.peer_port } else { 0 }))?;
            socket.connect((Ipv4Addr::LOCALHOST, ike.port))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets = (0..PORTS).map(open).collect::<io::Result<Vec<_>>>()?;
        let local = |socket: &UdpSocket| socket.local_addr().map(|address| address.port());
        let locals = sockets.iter().map(local).collect::<io::Result<_>>()?;
        Ok(Self { sockets, locals, ports: Ports::default().into(), endpoint })
    }

    /// Passes a message from an outer port to charon.
    pub(super) fn inward(&self, message: &[u8], outer: u16) -> io::Result<()> {
        let at = self.ports().place(outer, self.endpoint.port());
        let socket = self.sockets.get(at).ok_or(ErrorKind::NotFound)?;
        socket.send(message).map(drop)
    }

    /// The outer port that charon sees as `seen`.
    pub(super) fn outer(&self, seen: u16) -> Option<u16> {
        let at = self.locals.iter().position(|local| *local == seen)?;
        self.ports().outer(at)
    }

    /// Passes charon's messages to `send`, with their destination, until its log ends.
    ///
    /// All that charon logged before it sent a message is handled before the message leaves: the remote end may use a
    /// new SA as soon as it has the message. charon retransmits what is lost.
    pub(super) fn run<R: Read + AsFd>(
        &self,
        mut log: Log<R>,
        mut handle: impl FnMut(Event),
        mut send: impl FnMut(SocketAddrV4, &[u8]),
    ) -> io::Result<()> {
        let mut message = vec![0; UDP_MAX_LEN];
        loop {
            let runs = log.drain(&mut handle)?;
            for (at, socket) in self.sockets.iter().enumerate() {
                while let Some(message) = receive(socket, &mut message)? {
                    log.drain(&mut handle)?;
                    send(self.destination(at, message), message);
                }
            }
            if !runs {
                return Ok(()); // the last messages, which delete SAs, have left
            }
            let sockets = self.sockets.iter().map(AsFd::as_fd);
            let ready =
                sockets.chain([log.as_fd()]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            poll(&mut ready.collect::<Vec<_>>(), None)?;
        }
    }

    /// Responses go where the request came from, everything else where the remote end is known to be.
    fn destination(&self, at: usize, message: &[u8]) -> SocketAddrV4 {
        let response = message.get(FLAGS).is_some_and(|flags| flags & RESPONSE != 0);
        let port = if response { self.ports().outer(at) } else { None };
        port.map_or(self.endpoint.now(), |port| self.endpoint.at(port))
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message from charon, if there is one.
fn receive<'a>(socket: &UdpSocket, space: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    loop {
        match socket.recv(space) {
            Ok(len) => return Ok(space.get(..len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            // charon is not listening yet, or has closed its socket.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
}

/// Which outer port belongs to which socket. The first socket keeps the port of RFC 3948.
struct Ports {
    places: [Place; PORTS],
    now: u64,
}

#[derive(Clone, Copy, Default)]
struct Place {
    outer: Option<u16>,
    /// When a message last came from it.
    used: u64,
}

impl Default for Ports {
    fn default() -> Self {
        let mut places = [Place::default(); PORTS];
        places[0].outer = Some(UDP_PORT);
        Self { places, now: 0 }
    }
}

impl Ports {
    /// The socket of an outer port. A new port replaces the least recently used one other than `current`.
    fn place(&mut self, outer: u16, current: u16) -> usize {
        self.now += 1;
        let known = self.places.iter().position(|place| place.outer == Some(outer));
        let at = known.unwrap_or_else(|| self.oldest(current));
        if let Some(place) = self.places.get_mut(at) {
            *place = Place { outer: Some(outer), used: self.now };
        }
        at
    }

    fn oldest(&self, current: u16) -> usize {
        let places = self.places.iter().enumerate().skip(1);
        let free = places.filter(|(_, place)| place.outer != Some(current));
        free.min_by_key(|(_, place)| place.used).map_or(1, |(at, _)| at)
    }

    fn outer(&self, at: usize) -> Option<u16> {
        self.places.get(at)?.outer
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io::Write};

    use super::*;

    /// From charon 5.9.8; five lines are of new SAs.
    const LOG: &str = include_str!("charon.log");

    fn relay(port: u16) -> Relay {
        let ike = Ike { command: Vec::new(), port, peer_port: 0, rekey: None };
        Relay::open(&ike, Arc::new(Endpoint::new(Ipv4Addr::new(192, 0, 2, 1)))).unwrap()
    }

    #[test]
    fn each_port_has_its_socket() {
        let mut ports = Ports::default();
        assert_eq!(ports.place(UDP_PORT, UDP_PORT), 0);
        let first = ports.place(1000, UDP_PORT);
        let second = ports.place(2000, UDP_PORT);
        assert!(first != second && first != 0 && second != 0);
        assert_eq!(ports.place(1000, UDP_PORT), first);
        assert_eq!((ports.outer(first), ports.outer(second)), (Some(1000), Some(2000)));
    }

    #[test]
    fn forged_ports_displace_neither_the_current_one_nor_the_configured_one() {
        let mut ports = Ports::default();
        let current = ports.place(1000, UDP_PORT);
        for forged in 2000..3000 {
            let at = ports.place(forged, 1000);
            assert!(at != 0 && at != current && at < PORTS);
        }
        assert_eq!((ports.outer(0), ports.outer(current)), (Some(UDP_PORT), Some(1000)));
    }

    /// charon logs and sends on while a message is relayed.
    #[test]
    fn what_was_logged_before_a_message_is_in_force_when_it_leaves() {
        let charon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = relay(charon.local_addr().unwrap().port());
        let (log, pipe) = io::pipe().unwrap();
        let mut pipe = Some(pipe);
        let mut lines = LOG.split_inclusive('\n');
        let mut go_on = || {
            for line in lines.by_ref() {
                pipe.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
                if line.contains("established with SPIs") {
                    charon.send_to(&[0; 32], (PEER, relay.locals[0])).unwrap();
                    return;
                }
            }
            pipe = None;
        };
        let (sas, messages) = (Cell::new(0), Cell::new(0));
        let handle = |event| {
            let new = matches!(event, Event::Inbound(..) | Event::Outbound(..));
            sas.set(sas.get() + u32::from(new));
        };
        go_on();
        let send = |_, _: &[u8]| {
            messages.set(messages.get() + 1);
            assert_eq!(sas.get(), messages.get() + 1, "the first line is of two SAs");
            go_on();
        };
        relay.run(Log::new(log).unwrap(), handle, send).unwrap();
        assert_eq!((sas.get(), messages.get()), (6, 5));
    }

    #[test]
    fn the_last_message_leaves_after_the_end_of_the_log() {
        let charon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = relay(charon.local_addr().unwrap().port());
        charon.send_to(&[0; 32], (PEER, relay.locals[0])).unwrap();
        let (log, _) = io::pipe().unwrap();
        let mut messages = 0;
        relay.run(Log::new(log).unwrap(), |_| {}, |_, _| messages += 1).unwrap();
        assert_eq!(messages, 1);
    }

    #[test]
    fn a_response_goes_where_its_request_came_from() {
        let relay = relay(9);
        let at = relay.ports().place(1000, UDP_PORT);
        let mut message = [0; 28 + 4];
        assert_eq!(relay.destination(at, &message).port(), UDP_PORT);
        message[FLAGS] = RESPONSE;
        assert_eq!(relay.destination(at, &message).port(), 1000);
        assert_eq!(relay.outer(relay.locals[at]), Some(1000));
        assert_eq!(relay.outer(1), None);
        relay.endpoint.follow(7);
        assert_eq!(relay.destination(at, &[0xff]).port(), 7, "a keepalive");
    }
}
