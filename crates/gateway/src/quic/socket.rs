//! A UDP socket and the QUIC endpoint on it.

use std::{
    collections::HashMap,
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, Endpoint, EndpointConfig, ServerConfig};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::{arena::Arena, link::Link, settings::LARGEST};

/// Bytes that wait in the kernel for a socket, each way.
const BUFFER: usize = 4 << 20;

/// A system call brings datagrams of at most this many bytes in one piece (UDP GRO).
const PIECE: usize = 65_536;

/// The longest UDP payload in IPv4: what a batch must not exceed either.
const UDP_MAX_LEN: usize = 65_507;

/// What datagrams are received into, and kept in then. The default has no room.
#[derive(Default)]
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

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Takes the connections of a path group's paths that end at its address.
    Takes { group: u8 },
    /// Makes the connection of one path.
    Makes { place: Place, remote: SocketAddr },
}

/// A member path: of which peer and group, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) peer: u16,
    pub(super) group: u8,
    pub(super) member: u8,
}

/// A socket, its endpoint and the connections on it.
pub(super) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    pub(super) endpoint: Endpoint,
    pub(super) links: HashMap<ConnectionHandle, Link>,
    pub(super) purpose: Purpose,
    pub(super) address: SocketAddr,
}

impl Socket {
    pub(super) fn bind(
        address: SocketAddr,
        purpose: Purpose,
        endpoint: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("UDP socket {address}: {e}"));
        let udp = bind(address, purpose).map_err(named)?;
        let state = UdpSocketState::new((&udp).into()).map_err(named)?;
        // Beyond what the system allows where that is permitted.
        let _ = sockopt::set_socket_recv_buffer_size_force(&udp, BUFFER);
        let _ = state.set_send_buffer_size((&udp).into(), BUFFER);
        let may_migrate = true;
        let endpoint = Endpoint::new(Arc::new(endpoint), server.map(Arc::new), may_migrate, None);
        Ok(Self { udp, state, endpoint, links: HashMap::new(), purpose, address })
    }

    /// Datagrams that the kernel can cut from one batch: of a longer one it takes nothing.
    pub(super) fn max_batch(&self) -> usize {
        self.state.max_gso_segments().clamp(1, UDP_MAX_LEN / usize::from(LARGEST))
    }

    /// Gives a batch to the kernel; whether it was taken. What cannot be sent counts as lost on the path.
    pub(super) fn send(&self, transmit: &quinn_proto::Transmit, contents: &[u8]) -> bool {
        let transmit = Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        self.state.try_send((&self.udp).into(), &transmit).is_ok()
    }

    /// Receives datagrams until there are no more or others must have their turn; whether the latter.
    pub(super) fn receive(
        &self,
        room: &mut Room,
        mut take: impl FnMut(&RecvMeta, BytesMut),
    ) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let Room { pieces, arena } = room;
        let mut pieces: Vec<_> = pieces.chunks_mut(PIECE).map(IoSliceMut::new).collect();
        // An error is of one datagram that was sent (an ICMP message): the path is found out otherwise.
        let Ok(count) = self.state.recv((&self.udp).into(), &mut pieces, &mut metas) else {
            return false;
        };
        for (meta, piece) in metas.iter().zip(&pieces).take(count) {
            let mut bytes = arena.join(&[piece.get(..meta.len).unwrap_or_default()]);
            while !bytes.is_empty() {
                let len = meta.stride.clamp(1, bytes.len());
                take(meta, bytes.split_to(len));
            }
        }
        count == BATCH_SIZE
    }
}

/// Several sockets have one port: those of paths to other peers or of other groups, and where others connect to us,
/// if the number of a group is that of a member path. They are told apart by where they lead.
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
