//! A receiver with UDP sockets, one per port, with several datagrams per system call (UDP GRO).

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
    config::StreamFlows,
    open,
    receiver::{ReceiveTally, Receiver},
    receiver_socket::Counters,
    sender::Stop,
};

/// Socket buffer, bytes, for datagrams that arrive while the thread is not scheduled.
const BUFFER: usize = 32 << 20;
/// Longest batch of coalesced datagrams, bytes.
const BATCH_LEN: usize = 65_536;

/// UDP sockets, and the thread that reads them.
pub(super) struct UdpReceiver {
    counters: Arc<Counters>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl UdpReceiver {
    /// Starts to count datagrams to these ports at any address.
    pub(super) fn start(
        ports: &[u16],
        run: u16,
        streams: &[StreamFlows],
        window_bits: u32,
    ) -> Result<Self, open::Error> {
        let sockets = ports.iter().map(|port| socket(*port)).collect::<Result<Vec<_>, _>>()?;
        let counters = Arc::new(Counters::new(run, streams, window_bits));
        let stop = Arc::new(Stop::default());
        let (shared, stopped) = (Arc::clone(&counters), Arc::clone(&stop));
        let thread = thread::Builder::new().name("receive".into());
        let thread = thread.spawn(move || read(&sockets, &shared, &stopped))?;
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
    let mut buffer = vec![0; BATCH_LEN * BATCH_SIZE];
    let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !stop.is_set() {
        let mut fds: Vec<_> = sockets
            .iter()
            .map(|(socket, _)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
            .collect();
        if poll(&mut fds, Some(&wait)).is_err() {
            continue;
        }
        for (fd, (socket, state)) in fds.iter().zip(sockets) {
            if fd.revents().contains(PollFlags::IN) {
                // An error reports an ICMP message about one datagram; the next call continues.
                let _ = receive(socket, state, &mut buffer, counters);
            }
        }
    }
}

fn receive(
    socket: &UdpSocket,
    state: &UdpSocketState,
    buffer: &mut [u8],
    counters: &Counters,
) -> io::Result<()> {
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut batches: Vec<_> = buffer.chunks_mut(BATCH_LEN).map(IoSliceMut::new).collect();
    let count = state.recv(socket.into(), &mut batches, &mut metas)?;
    let now = clock::now_ns();
    let mut counters = counters.lock();
    for (meta, batch) in metas.iter().zip(&batches).take(count) {
        let bytes = batch.get(..meta.len).unwrap_or_default();
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

/// Length of the Ethernet, IP and UDP headers, which a socket does not see, in bytes.
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
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
