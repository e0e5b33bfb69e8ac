//! UDP sockets.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

use bytes::BytesMut;
use hawser_tunnel::{self as tunnel, Arena, LARGEST, Purpose, Source};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Bytes that wait in the kernel for a socket, each way.
const BUFFER: usize = 4 << 20;

/// A system call brings datagrams of at most this many bytes in one piece (UDP GRO).
const PIECE: usize = 65_536;

/// The longest UDP payload in IPv4: what a batch must not exceed either.
const UDP_MAX_LEN: usize = 65_507;

/// What datagrams are received into, and kept in then.
pub(super) struct Room {
    pieces: Box<[u8]>,
    arena: Arena,
}

impl Room {
    pub(super) fn new() -> Self {
        let pieces = vec![0; PIECE * BATCH_SIZE].into_boxed_slice();
        Self { pieces, arena: Arena::default() }
    }
}

/// A socket of the tunnel's.
pub(super) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    pub(super) spec: tunnel::Socket,
}

impl Socket {
    pub(super) fn bind(spec: tunnel::Socket) -> io::Result<Self> {
        let address = spec.address;
        let named = |e: io::Error| io::Error::new(e.kind(), format!("UDP socket {address}: {e}"));
        let udp = bind(address, spec.purpose).map_err(named)?;
        let state = UdpSocketState::new((&udp).into()).map_err(named)?;
        // Beyond what the system allows where that is permitted.
        let _ = sockopt::set_socket_recv_buffer_size_force(&udp, BUFFER);
        let _ = state.set_send_buffer_size((&udp).into(), BUFFER);
        Ok(Self { udp, state, spec })
    }

    pub(super) fn is(&self, spec: &tunnel::Socket) -> bool {
        self.spec == *spec
    }

    /// Datagrams that the kernel can cut from one batch: of a longer one it takes nothing.
    pub(super) fn max_batch(&self) -> usize {
        self.state.max_gso_segments().clamp(1, UDP_MAX_LEN / usize::from(LARGEST))
    }

    /// Gives a batch to the kernel; whether it was taken.
    pub(super) fn send(&self, transmit: &tunnel::Transmit<'_>) -> bool {
        let transmit = Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(quinn_udp::EcnCodepoint::from_bits),
            contents: transmit.contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.source,
        };
        self.state.try_send((&self.udp).into(), &transmit).is_ok()
    }

    /// Receives datagrams until there are no more or others must have their turn; whether the latter.
    pub(super) fn receive(&self, room: &mut Room, mut take: impl FnMut(Source, BytesMut)) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let Room { pieces, arena } = room;
        let mut pieces: Vec<_> = pieces.chunks_mut(PIECE).map(IoSliceMut::new).collect();
        // An error is of one datagram that was sent (an ICMP message): the path is found out otherwise.
        let Ok(count) = self.state.recv((&self.udp).into(), &mut pieces, &mut metas) else {
            return false;
        };
        for (meta, piece) in metas.iter().zip(&pieces).take(count) {
            let ecn = meta.ecn.map(|ecn| ecn as u8);
            let from = Source { remote: meta.addr, local: meta.dst_ip, ecn };
            let mut bytes = arena.join(&[piece.get(..meta.len).unwrap_or_default()]);
            while !bytes.is_empty() {
                let len = meta.stride.clamp(1, bytes.len());
                take(from, bytes.split_to(len));
            }
        }
        count == BATCH_SIZE
    }
}

fn bind(address: SocketAddr, purpose: Purpose) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let udp = net::socket_with(family, SocketType::DGRAM, flags, Some(net::ipproto::UDP))?;
    sockopt::set_socket_reuseport(&udp, true)?;
    net::bind(&udp, &address)?;
    if let Purpose::Makes { remote, .. } = purpose {
        net::connect(&udp, &remote)?;
    }
    Ok(udp.into())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}
