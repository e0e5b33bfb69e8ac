//! From the TUN device to the connections.

use std::{io, net::IpAddr, time::Instant};

use hawser_netdev::tun::Read;
use hawser_wire::{
    flow,
    icmpv4::{self, Unreachable},
    ip,
    record::HEADER_LEN,
    tcp,
};

use super::{
    staging::{BATCH, packets},
    state::Mptcp,
};
use crate::{classify, transport::Host};

/// Bytes read from the device per turn.
const READ_BUDGET: usize = 512 << 10;

impl Mptcp {
    /// Reads packets from the device and passes them to their connections.
    pub(super) fn forward(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        let mut budget = READ_BUDGET;
        while budget > 0 {
            if self.staging.is_full() {
                self.flush_batch(host, now);
            }
            let read = match host.tun.read(self.staging.space()) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            budget = budget.saturating_sub(read.len.max(HEADER_LEN));
            self.route(host, read, now);
            if self.staging.batch().len() >= BATCH {
                self.flush_batch(host, now);
            }
        }
        self.flush_batch(host, now);
        Ok(())
    }

    /// Looks up the destination of the packet just read, and adds it to the batch.
    fn route(&mut self, host: &mut Host, read: Read, now: Instant) {
        let bytes = self.staging.space().get_mut(..read.len).unwrap_or_default();
        tcp::clamp_mss(bytes, host.config.mtu());
        let Ok(packet) = ip::Packet::parse(bytes) else {
            host.device.drops.malformed += 1;
            return;
        };
        let packets = packets(&packet, read.segmentation);
        host.device.read.add(packets, read.len);
        host.reach.note(&packet, now);
        let Some(index) = self.peers.index_by_address(packet.destination()) else {
            self.refuse(host, read.len);
            return;
        };
        let class = classify::packet(&packet, host.config.classifier.as_ref());
        let hash = flow::hash(&packet);
        let Some(group) = self.peers.choose(index, hash, class, now) else { return };
        let target = (index, group);
        if self.staging.target != Some(target) {
            // The packet stays in place; the batch before it is sent.
            self.flush_pending(host, now);
            self.staging.target = Some(target);
        }
        self.staging.commit(read);
    }

    /// Drops a packet without destination, and tells its sender by ICMP.
    fn refuse(&mut self, host: &mut Host, len: usize) {
        host.device.drops.unknown_destination += 1;
        let source = host.config.source.map(IpAddr::V4);
        let source = source.or(host.config.address.map(|net| net.addr()));
        let Some(IpAddr::V4(source)) = source.filter(|_| self.icmp_budget > 0) else { return };
        let space = self.staging.space();
        if let Ok(ip::Packet::V4(packet)) = ip::Packet::parse(space.get(..len).unwrap_or_default())
            && let Some(answer) = icmpv4::unreachable(&packet, source, Unreachable::Network)
        {
            self.icmp_budget -= 1;
            let _ = host.tun.write(&answer, None);
        }
    }

    /// Sends the batch and frees the buffer.
    fn flush_batch(&mut self, host: &mut Host, now: Instant) {
        self.flush_pending(host, now);
        (self.staging.start, self.staging.end) = (0, 0);
        self.staging.target = None;
    }

    /// Sends the batch; the next record follows behind it.
    fn flush_pending(&mut self, host: &mut Host, now: Instant) {
        let staging = &mut self.staging;
        if let Some((peer, group)) = staging.target
            && let Some(peer) = self.peers.get_mut(peer)
            && let Some(group) = peer.groups.get_mut(group)
        {
            let result = group.send(staging.batch(), now);
            staging.start = staging.end;
            let (peer, group) = self.staging.target.unwrap_or_default();
            self.finish_io(host, peer, group, result, now);
        }
        self.staging.start = self.staging.end;
    }
}
