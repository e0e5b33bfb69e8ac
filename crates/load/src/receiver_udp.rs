//! Counts with UDP sockets, one a port, each of which may bring many datagrams to a system call.

use std::{
    io::{self, IoSliceMut},
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::Arc,
    thread::{self, JoinHandle},
};

use hawser_daemon::config::FieldError;
use hawser_wire::load;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt,
};

use crate::{
    clock,
    config::Group,
    open,
    receiver::{ReceiveTally, Receiver},
    receiver_socket::Counters,
    sender::Stop,
};

/// Datagrams wait here while the thread has no core.
const BUFFER: usize = 32 << 20;
/// A system call brings datagrams of at most this many bytes in one piece.
const PIECE: usize = 65_536;

/// UDP sockets, and the thread that reads them.
pub(super) struct UdpReceiver {
    counters: Arc<Counters>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl UdpReceiver {
    /// Begins to count what comes to the ports, at any address.
    pub(super) fn start(
        ports: &[u16],
        run: u16,
        groups: &[Group],
        window_bits: u32,
    ) -> Result<Self, open::Error> {
        let sockets = ports.iter().map(|port| socket(*port)).collect::<Result<Vec<_>, _>>()?;
        let counters = Arc::new(Counters::new(run, groups, window_bits));
        let stop = Arc::new(Stop::default());
        let (shared, told) = (Arc::clone(&counters), Arc::clone(&stop));
        let thread = thread::Builder::new().name("receive".into());
        let thread = thread.spawn(move || read(&sockets, &shared, &told))?;
        Ok(Self { counters, stop, thread: Some(thread) })
    }
}

fn socket(port: u16) -> Result<(UdpSocket, UdpSocketState), open::Error> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).map_err(|error| {
        let expected = format!("ports that can be bound ({error})");
        FieldError::new("receive.ports", port, expected)
    })?;
    let state = UdpSocketState::new((&socket).into())?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
    }
    socket.set_nonblocking(true)?;
    Ok((socket, state))
}

fn read(sockets: &[(UdpSocket, UdpSocketState)], counters: &Counters, stop: &Stop) {
    let mut room = vec![0; PIECE * BATCH_SIZE];
    let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !stop.told() {
        let mut fds: Vec<_> = sockets
            .iter()
            .map(|(socket, _)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
            .collect();
        if poll(&mut fds, Some(&wait)).is_err() {
            continue;
        }
        for (fd, (socket, state)) in fds.iter().zip(sockets) {
            if fd.revents().contains(PollFlags::IN) {
                // an error is of one datagram (an ICMP message): the next call goes on
                let _ = receive(socket, state, &mut room, counters);
            }
        }
    }
}

fn receive(
    socket: &UdpSocket,
    state: &UdpSocketState,
    room: &mut [u8],
    counters: &Counters,
) -> io::Result<()> {
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut pieces: Vec<_> = room.chunks_mut(PIECE).map(IoSliceMut::new).collect();
    let count = state.recv(socket.into(), &mut pieces, &mut metas)?;
    let now = clock::now_ns();
    let mut counters = counters.lock();
    for (meta, piece) in metas.iter().zip(&pieces).take(count) {
        let bytes = piece.get(..meta.len).unwrap_or_default();
        for datagram in bytes.chunks(meta.stride.max(1)) {
            let length = datagram.len() + headers(&meta.addr);
            match load::Repr::parse(datagram) {
                Ok(payload) => counters.observe(&payload, length, now),
                Err(_) => counters.observe_other(length),
            }
        }
    }
    Ok(())
}

/// Ethernet, IP and UDP headers, which a socket does not see.
fn headers(source: &SocketAddr) -> usize {
    let ip = if source.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    14 + ip + 8
}

impl Receiver for UdpReceiver {
    fn tally(&self) -> anyhow::Result<ReceiveTally> {
        Ok(self.counters.tally())
    }
}

impl Drop for UdpReceiver {
    fn drop(&mut self) {
        self.stop.tell();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
