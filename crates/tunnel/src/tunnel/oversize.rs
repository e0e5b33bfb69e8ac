//! Packets that are larger than their path group carries whole (docs/design/path-mtu.md).

use std::time::Instant;

use hawser_wire::{
    icmpv4, icmpv6, ip, ipv4_fragments::fragments, ipv6, resegment, segment::GsoPacket,
    tunnel::HEADER_LEN,
};

use super::state::Tunnel;
use crate::{
    arena::Arena,
    config::{Class, Oversize},
    group::{Group, Incoming, Marks},
    proxy::Stream,
};

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is queued.
    Carried,
    /// It is queued, but its sender had better send smaller ones.
    CarriedAnswer,
    /// It is dropped.
    Dropped,
}

impl<S: Stream> Tunnel<S> {
    /// Queues a packet that is larger than the MTU of its path group as well as that is possible,
    /// and tells its sender.
    pub(super) fn handle_oversize(
        &mut self,
        now: Instant,
        packet: &ip::Packet<'_>,
        (peer, group): (usize, usize),
        (flow, class): (u16, Class),
    ) {
        let policy = self.settings.options().oversize;
        let group = self.peers.get_mut(peer).and_then(|peer| peer.groups.get_mut(group));
        let Some(group) = group else { return };
        let marks = Marks { flow, class, retransmittable: false };
        let verdict = carry(now, group, &mut self.arena, packet, marks, policy);
        if verdict == Verdict::Dropped {
            group.counters.drops.too_long += 1;
        }
        if verdict == Verdict::Carried || !self.error_limit.admit(now, flow) {
            return;
        }
        let mtu = group.mtu();
        let answer = match packet {
            ip::Packet::V4(packet) => icmpv4::fragmentation_needed(packet, mtu),
            ip::Packet::V6(packet) => icmpv6::packet_too_big(packet, mtu),
        };
        if let Some(answer) = answer {
            group.counters.sizes.errors_sent += 1;
            self.delivered.push_back(Incoming { packet: answer.into(), checksum_omitted: false });
        }
    }
}

/// Queues a packet: data of TCP in smaller segments, IPv4 that may be fragmented in fragments,
/// other packets as they are, if a path takes them or fragments of the tunnel may carry them.
fn carry(
    now: Instant,
    group: &mut Group,
    arena: &mut Arena,
    packet: &ip::Packet<'_>,
    marks: Marks,
    policy: Oversize,
) -> Verdict {
    let (bytes, mtu) = (packet.bytes(), group.mtu());
    let cut = resegment::segmentation(bytes, mtu);
    if let Some(large) = cut.and_then(|cut| GsoPacket::new(bytes, cut)) {
        group.counters.sizes.resegmented += 1;
        group.enqueue_segments(now, Marks { retransmittable: true, ..marks }, &large, arena);
        return Verdict::CarriedAnswer;
    }
    if let ip::Packet::V4(packet) = packet
        && let Some(parts) = fragments(packet, mtu)
    {
        group.counters.sizes.fragmented += 1;
        for (header, payload) in parts {
            let bytes = arena.join(&[&[0; HEADER_LEN], &header, payload]);
            group.enqueue(now, marks, false, bytes);
        }
        return Verdict::Carried;
    }
    // Every link carries 1280 bytes of IPv6, if need be by fragmentation of its own (RFC 8200
    // section 5).
    let is_least = matches!(packet, ip::Packet::V6(_)) && bytes.len() <= ipv6::LEAST_MTU.into();
    let may_fragment = is_least || policy == Oversize::Fragment;
    if group.carries_whole(bytes.len()) || (may_fragment && group.mtu.takes_fragments) {
        group.enqueue(now, marks, false, arena.join(&[&[0; HEADER_LEN], bytes]));
        return Verdict::Carried;
    }
    Verdict::Dropped
}
