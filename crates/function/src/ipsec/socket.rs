//! The UDP socket of a tunnel, with batches (UDP GSO and GRO).

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hawser_netdev::{udp, udp_offload};
use hawser_wire::esp::UDP_PORT;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::sockopt,
};

use super::{document::Document, endpoint::Endpoint};

/// Socket buffers in each direction, bytes.
const BUFFER: usize = 8 << 20;

/// Largest result of one receive call (UDP GRO), bytes.
const PIECE: usize = 65_536;

/// Largest UDP payload over IPv4, bytes, which also limits a batch.
pub(super) const UDP_MAX_LEN: usize = 65_507;

/// Time to wait for space in the send buffer.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What the outer header of a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    pub(super) source: SocketAddr,
    pub(super) ecn: u8,
}

/// The UDP socket of a tunnel.
pub(super) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    endpoint: Arc<Endpoint>,
    /// Whether UDP GSO works on the route.
    cuts: AtomicBool,
}

impl Socket {
    pub(super) fn open(document: &Document, endpoint: Arc<Endpoint>) -> io::Result<Self> {
        let local = SocketAddrV4::new(document.local, UDP_PORT);
        let udp = udp::open(&document.interface, local)?;
        let state = UdpSocketState::new((&udp).into())?;
        // SO_RCVBUFFORCE and SO_SNDBUFFORCE exceed the limits of the system, if the process may do that.
        let _ = sockopt::set_socket_recv_buffer_size_force(&udp, BUFFER);
        let _ = state.set_send_buffer_size((&udp).into(), BUFFER);
        Ok(Self { udp, state, endpoint, cuts: udp_offload::works().into() })
    }

    /// Datagrams of a batch at most.
    pub(super) fn max_batch(&self) -> usize {
        if self.cuts.load(Ordering::Relaxed) { self.state.max_gso_segments().max(1) } else { 1 }
    }

    /// Sends a batch of datagrams of `size` bytes (the last may be shorter) to the remote end, with `tos` in their
    /// IPv4 headers. Blocks while the send buffer is full.
    pub(super) fn send(&self, batch: &[u8], size: usize, tos: u8) -> io::Result<()> {
        self.send_to(self.endpoint.now(), batch, size, tos)
    }

    /// Sends a batch to a port of the remote end.
    pub(super) fn send_to(
        &self,
        to: SocketAddrV4,
        batch: &[u8],
        size: usize,
        tos: u8,
    ) -> io::Result<()> {
        match self.send_at_once(to, batch, size, tos) {
            // The device of the route does not support UDP GSO: no batches from now on.
            Err(e) if batch.len() > size && e.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                self.cuts.store(false, Ordering::Relaxed);
                batch.chunks(size).try_for_each(|one| self.send_at_once(to, one, size, tos))
            }
            result => result,
        }
    }

    fn send_at_once(
        &self,
        to: SocketAddrV4,
        contents: &[u8],
        size: usize,
        tos: u8,
    ) -> io::Result<()> {
        let cut = if contents.len() > size { u16::try_from(size).ok() } else { None };
        loop {
            match udp::send(&self.udp, to, contents, cut, tos) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.udp, PollFlags::OUT)], Some(&PATIENCE))?;
                }
                result => return result,
            }
        }
    }

    /// Receives datagrams and passes each to `take` with its outer header; returns whether there may be more.
    pub(super) fn receive(
        &self,
        buffer: &mut ReceiveBuffer,
        mut take: impl FnMut(&mut [u8], Outer),
    ) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut pieces: Vec<_> = buffer.0.chunks_mut(PIECE).map(IoSliceMut::new).collect();
        let count = match self.state.recv((&self.udp).into(), &mut pieces, &mut metas) {
            Ok(count) => count,
            // The error is of one datagram: there may be others to receive.
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        for (meta, piece) in metas.iter().zip(&mut pieces).take(count) {
            let outer = Outer { source: meta.addr, ecn: meta.ecn.map_or(0, |ecn| ecn as u8) };
            let datagrams = piece.get_mut(..meta.len).unwrap_or_default();
            datagrams.chunks_mut(meta.stride.max(1)).for_each(|datagram| take(datagram, outer));
        }
        count == BATCH_SIZE
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

/// The buffer for received datagrams.
pub(super) struct ReceiveBuffer(Box<[u8]>);

impl ReceiveBuffer {
    pub(super) fn new() -> Self {
        Self(vec![0; PIECE * BATCH_SIZE].into_boxed_slice())
    }
}
