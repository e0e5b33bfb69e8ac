//! UDP sockets.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant, SystemTime},
};

use bytes::BytesMut;
use hawser_netdev::mtu;
use hawser_tunnel::{self as tunnel, Arena, MAX_DATAGRAM, Purpose, Source, max_datagram};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Kernel buffer of a socket, bytes, per direction.
const BUFFER: usize = 4 << 20;

/// Maximum bytes that one receive call returns per buffer (UDP GRO).
const GRO_SIZE: usize = 65_536;

/// Longest UDP payload in IPv4, bytes; a GSO batch must not exceed it either.
const UDP_MAX_LEN: usize = 65_507;

/// Buffers for receiving, and memory to keep what was received.
pub(super) struct ReceiveBuffer {
    buffers: Box<[u8]>,
    arena: Arena,
}

impl ReceiveBuffer {
    pub(super) fn new() -> Self {
        let buffers = vec![0; GRO_SIZE * BATCH_SIZE].into_boxed_slice();
        Self { buffers, arena: Arena::default() }
    }
}

/// A socket of the tunnel.
pub(super) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    pub(super) spec: tunnel::Socket,
}

impl Socket {
    pub(super) fn bind(spec: tunnel::Socket) -> io::Result<Self> {
        let address = spec.address;
        let named = |e: io::Error| io::Error::new(e.kind(), format!("UDP socket {address}: {e}"));
        let udp = bind(spec).map_err(named)?;
        let state = UdpSocketState::new((&udp).into()).map_err(named)?;
        // Exceeds the system's limit where permitted.
        let _ = sockopt::set_socket_recv_buffer_size_force(&udp, BUFFER);
        let _ = state.set_send_buffer_size((&udp).into(), BUFFER);
        Ok(Self { udp, state, spec })
    }

    pub(super) fn matches(&self, spec: &tunnel::Socket) -> bool {
        self.spec == *spec
    }

    /// Maximum datagrams of a GSO batch; the kernel rejects longer ones.
    pub(super) fn max_batch(&self) -> usize {
        self.state.max_gso_segments().clamp(1, UDP_MAX_LEN / usize::from(MAX_DATAGRAM))
    }

    /// The largest datagram that is tried: what fits the interface that has its address.
    pub(super) fn max_datagram(&self) -> u16 {
        let address = self.spec.address.ip();
        let interface = mtu::of(address).ok().flatten().unwrap_or(0);
        max_datagram(interface, address.is_ipv6())
    }

    /// Sends a batch; returns whether the kernel accepted it.
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

    /// Receives one round of datagrams; returns whether there may be more.
    pub(super) fn receive(
        &self,
        buffer: &mut ReceiveBuffer,
        mut take: impl FnMut(Source, BytesMut),
    ) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let ReceiveBuffer { buffers, arena } = buffer;
        let mut buffers: Vec<_> = buffers.chunks_mut(GRO_SIZE).map(IoSliceMut::new).collect();
        // An error concerns a datagram sent earlier (ICMP). Path liveness does not rely on it.
        let Ok(count) = self.state.recv((&self.udp).into(), &mut buffers, &mut metas) else {
            return false;
        };
        let clocks = Clocks::read();
        for (meta, buffer) in metas.iter().zip(&buffers).take(count) {
            let ecn = meta.ecn.map(|ecn| ecn as u8);
            let received = meta.timestamp.and_then(|at| clocks.instant(at));
            let from = Source { remote: meta.addr, local: meta.dst_ip, ecn, received };
            let mut bytes = arena.join(&[buffer.get(..meta.len).unwrap_or_default()]);
            while !bytes.is_empty() {
                let len = meta.stride.clamp(1, bytes.len());
                take(from, bytes.split_to(len));
            }
        }
        count == BATCH_SIZE
    }
}

/// The same moment by two clocks.
struct Clocks {
    monotonic: Instant,
    /// Since 1970, as timestamps of the kernel.
    real: Duration,
}

impl Clocks {
    fn read() -> Self {
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { monotonic: Instant::now(), real }
    }

    /// A timestamp of the last second; an older one is from before the clock was set.
    fn instant(&self, at: Duration) -> Option<Instant> {
        let age = self.real.checked_sub(at).filter(|age| *age < Duration::from_secs(1))?;
        self.monotonic.checked_sub(age)
    }
}

fn bind(spec: tunnel::Socket) -> io::Result<UdpSocket> {
    let tunnel::Socket { address, interface, purpose } = spec;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let udp = net::socket_with(family, SocketType::DGRAM, flags, Some(net::ipproto::UDP))?;
    sockopt::set_socket_reuseport(&udp, true)?;
    if let Some(interface) = interface {
        hawser_netdev::bind_to_interface(&udp, interface)?;
    }
    net::bind(&udp, &address)?;
    if let Purpose::Connector { remote, .. } | Purpose::Responder { remote, .. } = purpose {
        net::connect(&udp, &remote)?;
    }
    Ok(udp.into())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}
