//! Builds the headers of a stream's frames for a given frame length.

use std::net::{IpAddr, Ipv6Addr};

use hawser_bpf::layout::{HEADER_MAX, Shape};
use hawser_wire::{
    ethernet::{self, ethertype},
    load, nsh, srh, udp, vxlan,
};

use crate::config::{Nsh, Outer, Stream, Vlan};

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_IPV6: u8 = 41;

/// Offsets of headers in a stream's frames, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// The innermost IP header.
    pub(super) ip: usize,
    /// The innermost UDP header.
    pub(super) udp: usize,
    /// The payload.
    pub(super) payload: usize,
    /// The source port of an outer UDP header, which varies by flow (RFC 7348 section 5).
    pub(super) entropy: Option<usize>,
}

impl Offsets {
    /// The offsets of a stream's headers.
    pub(super) fn of(stream: &Stream) -> Self {
        let link = ethernet::HEADER_LEN + ethernet::TAG_LEN * stream.ethernet.tags.len();
        let (outer, entropy) = match &stream.outer {
            None => (0, None),
            Some(Outer::Srv6(srv6)) => (IPV6_LEN + 8 + 16 * srv6.segments.len(), None),
            Some(Outer::Vxlan(vxlan)) => {
                let ip = ip_len(vxlan.source);
                let tunnel = udp::HEADER_LEN + vxlan::HEADER_LEN + ethernet::HEADER_LEN;
                (ip + tunnel, Some(link + ip))
            }
            Some(Outer::Nsh(_)) => (nsh::FIXED_LEN, None),
        };
        let ip = link + outer;
        let udp = ip + ip_len(stream.source.first);
        Self { ip, udp, payload: udp + udp::HEADER_LEN, entropy }
    }

    /// Shortest frame that holds the load payload, bytes.
    pub(super) fn frame_min(&self) -> usize {
        (self.payload + load::LEN).max(ethernet::FRAME_MIN)
    }
}

fn ip_len(address: IpAddr) -> usize {
    if address.is_ipv4() { IPV4_LEN } else { IPV6_LEN }
}

/// The headers of a frame of `length` bytes, with zero addresses and ports. `None` if a length does not fit
/// its field, or the headers exceed [`HEADER_MAX`].
pub(super) fn shape(stream: &Stream, source: [u8; 6], length: usize) -> Option<Shape> {
    let at = Offsets::of(stream);
    let mut bytes = link(stream, source);
    bytes.extend(outer(stream, length - bytes.len())?);
    let ip = inner_ip(stream, length - at.udp)?;
    let udp = udp::Repr { source_port: 0, destination_port: 0 }.emit(length - at.payload)?;
    let pseudo = [&[0, PROTOCOL_UDP][..], &udp[4..6]].concat();
    let udp_sum = sum(&pseudo) + sum(&udp);
    let ip_sum = sum(&ip);
    bytes.extend(ip);
    bytes.extend(udp);
    let mut header = [0; HEADER_MAX];
    header.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(Shape {
        length: u32::try_from(length).ok()?,
        ip_sum,
        udp_sum,
        header_length: u16::try_from(bytes.len()).ok()?,
        ip_offset: u16::try_from(at.ip).ok()?,
        udp_offset: u16::try_from(at.udp).ok()?,
        entropy_offset: u16::try_from(at.entropy.unwrap_or(0)).ok()?,
        ip_version: if stream.source.first.is_ipv4() { 4 } else { 6 },
        header,
    })
}

/// One's complement sum of 16-bit words in host byte order, not yet folded.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    bytes.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_ne_bytes(*word))).sum()
}

fn link(stream: &Stream, source: [u8; 6]) -> Vec<u8> {
    let carried = match &stream.outer {
        None => version(stream.source.first),
        Some(Outer::Srv6(_)) => ethertype::IPV6,
        Some(Outer::Vxlan(vxlan)) => version(vxlan.source),
        Some(Outer::Nsh(_)) => ethertype::NSH,
    };
    ethernet::Repr {
        source,
        destination: stream.ethernet.destination.octets(),
        tags: stream.ethernet.tags.iter().copied().map(tag).collect(),
        ethertype: carried,
    }
    .emit()
}

fn tag(vlan: Vlan) -> ethernet::Tag {
    let ethertype = if vlan.service { ethertype::QINQ } else { ethertype::VLAN };
    ethernet::Tag { ethertype, id: vlan.id, priority: vlan.priority }
}

fn version(address: IpAddr) -> u16 {
    if address.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 }
}

/// The outer headers of a frame with `length` bytes behind the link header.
fn outer(stream: &Stream, length: usize) -> Option<Vec<u8>> {
    match &stream.outer {
        None => Some(Vec::new()),
        Some(Outer::Srv6(srv6)) => {
            let protocol =
                if stream.source.first.is_ipv4() { PROTOCOL_IPV4 } else { PROTOCOL_IPV6 };
            let first = *srv6.segments.first()?;
            let payload = length - IPV6_LEN;
            let mut bytes = ipv6(stream, srh::NEXT_HEADER, srv6.source, first, payload)?;
            bytes.extend(srh::Repr::at_source(protocol, srv6.segments.clone())?.emit()?);
            Some(bytes)
        }
        Some(Outer::Vxlan(vxlan)) => {
            let payload = length - ip_len(vxlan.source);
            let mut bytes = match (vxlan.source, vxlan.target) {
                (IpAddr::V4(source), IpAddr::V4(target)) => {
                    let mut header = ipv4(stream, payload)?;
                    header.get_mut(12..16)?.copy_from_slice(&source.octets());
                    header.get_mut(16..20)?.copy_from_slice(&target.octets());
                    let check = !fold(sum(&header));
                    header.get_mut(10..12)?.copy_from_slice(&check.to_ne_bytes());
                    header
                }
                (IpAddr::V6(source), IpAddr::V6(target)) => {
                    ipv6(stream, PROTOCOL_UDP, source, target, payload)?
                }
                _ => return None,
            };
            // RFC 7348 section 5: the outer UDP checksum SHOULD be zero. RFC 6935 allows that over IPv6.
            let ports = udp::Repr { source_port: 0, destination_port: vxlan::PORT };
            bytes.extend(ports.emit(payload - udp::HEADER_LEN)?);
            bytes.extend(vxlan::emit(vxlan.vni));
            let inner = ethernet::Repr {
                source: vxlan.ethernet.source.octets(),
                destination: vxlan.ethernet.destination.octets(),
                tags: Vec::new(),
                ethertype: version(stream.source.first),
            };
            bytes.extend(inner.emit());
            Some(bytes)
        }
        Some(Outer::Nsh(place)) => service(stream, *place),
    }
}

fn service(stream: &Stream, place: Nsh) -> Option<Vec<u8>> {
    use nsh::next_protocol::{IPV4, IPV6};
    let path = nsh::Path { spi: place.spi, si: place.si };
    let context = nsh::Metadata::Fixed([0; nsh::CONTEXT_LEN]);
    let next_protocol = if stream.source.first.is_ipv4() { IPV4 } else { IPV6 };
    nsh::Repr { next_protocol, ..nsh::Repr::initial(path, context) }.emit()
}

fn inner_ip(stream: &Stream, payload: usize) -> Option<Vec<u8>> {
    if stream.source.first.is_ipv4() {
        return ipv4(stream, payload);
    }
    let none = Ipv6Addr::UNSPECIFIED;
    ipv6(stream, PROTOCOL_UDP, none, none, payload)
}

/// An IPv4 header for UDP without addresses and checksum, and with DF clear.
fn ipv4(stream: &Stream, payload: usize) -> Option<Vec<u8>> {
    let total = u16::try_from(IPV4_LEN + payload).ok()?.to_be_bytes();
    let mut header = vec![0x45, stream.dscp << 2, total[0], total[1]];
    header.extend([0, 0, 0, 0, stream.hop_limit, PROTOCOL_UDP]);
    header.resize(IPV4_LEN, 0);
    Some(header)
}

fn ipv6(
    stream: &Stream,
    next: u8,
    source: Ipv6Addr,
    target: Ipv6Addr,
    payload: usize,
) -> Option<Vec<u8>> {
    let class = u32::from(stream.dscp << 2);
    let mut header = (6u32 << 28 | class << 20).to_be_bytes().to_vec();
    header.extend(u16::try_from(payload).ok()?.to_be_bytes());
    header.extend([next, stream.hop_limit]);
    header.extend(source.octets());
    header.extend(target.octets());
    Some(header)
}

/// Folds a sum to 16 bits.
pub(super) fn fold(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    #[allow(clippy::cast_possible_truncation)] // folded twice
    let folded = ((folded & 0xffff) + (folded >> 16)) as u16;
    folded
}
