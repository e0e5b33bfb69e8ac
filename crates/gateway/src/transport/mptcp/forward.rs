//! From the TUN device to the connections.

use std::{io, net::IpAddr, time::Instant};

use hawser_netdev::tun::{MAX_PACKET_LEN, Read};
use hawser_wire::{
    flow,
    icmpv4::{self, Unreachable},
    ip,
    record::{self, HEADER_LEN, Segmentation},
    tcp,
};

use super::Mptcp;
use crate::{classify, setup, transport::Host};

/// ICMP errors sent in one tick, at most (RFC 1812 section 4.3.2.8).
pub(super) const ICMP_BUDGET: u32 = 10;

/// Bytes read from the device before others get their turn.
const READ_BUDGET: usize = 512 << 10;

/// Bytes of records for one connection that are gathered before it gets them.
const RUN: usize = 64 << 10;

/// Records on their way from the device to one connection: read to where they are sent from.
pub(super) struct Staging {
    bytes: Box<[u8]>,
    /// The records that are complete.
    start: usize,
    end: usize,
    /// Peer and group that they are for.
    target: Option<(usize, usize)>,
}

impl Default for Staging {
    fn default() -> Self {
        let bytes = vec![0; RUN + 2 * record::MAX_LEN].into_boxed_slice();
        Self { bytes, start: 0, end: 0, target: None }
    }
}

impl Staging {
    /// Room for the packet of one more record; there is enough unless [`Staging::is_full`].
    fn space(&mut self) -> &mut [u8] {
        let at = self.end + HEADER_LEN;
        self.bytes.get_mut(at..at + MAX_PACKET_LEN).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        self.bytes.len() - self.end < record::MAX_LEN
    }

    /// Makes a record of the packet that was read into the room.
    fn commit(&mut self, read: Read) {
        let header = record::packet_header(truncated(read.len), read.segmentation.is_some());
        self.put(&header);
        self.end += read.len;
        if let Some(segmentation) = read.segmentation {
            self.put(&segmentation.emit());
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.end..self.end + bytes.len()) {
            place.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    fn run(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }
}

/// A read gives at most [`MAX_PACKET_LEN`] bytes.
fn truncated(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

impl Mptcp {
    /// Reads packets from the device and gives them to the connections they go to.
    pub(super) fn forward(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        let mut budget = READ_BUDGET;
        while budget > 0 {
            if self.staging.is_full() {
                self.flush_run(host, now);
            }
            let read = match host.tun.read(self.staging.space()) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            budget = budget.saturating_sub(read.len.max(HEADER_LEN));
            self.sort(host, read, now);
            if self.staging.run().len() >= RUN {
                self.flush_run(host, now);
            }
        }
        self.flush_run(host, now);
        Ok(())
    }

    /// Finds out where the packet goes that was just read, and adds it to the run.
    fn sort(&mut self, host: &mut Host, read: Read, now: Instant) {
        let bytes = self.staging.space().get_mut(..read.len).unwrap_or_default();
        tcp::lower_segment_size(bytes, setup::mtu(&host.config));
        let Ok(packet) = ip::Packet::parse(bytes) else {
            host.device.drops.malformed += 1;
            return;
        };
        let packets = packets(&packet, read.segmentation);
        host.device.read.add(packets, read.len);
        let Some(index) = self.peers.behind(packet.destination()) else {
            self.refuse(host, read.len);
            return;
        };
        let class = classify::packet(&packet, host.config.classifier.as_ref());
        let hash = flow::hash(&packet);
        let Some(group) = self.peers.choose(index, hash, class, now) else { return };
        let target = (index, group);
        if self.staging.target != Some(target) {
            // The packet stays where it is; what stands before it goes.
            self.flush_before(host, now);
            self.staging.target = Some(target);
        }
        self.staging.commit(read);
    }

    /// Counts a packet that goes nowhere, and tells its sender.
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

    /// Sends the run, and makes the whole room free.
    fn flush_run(&mut self, host: &mut Host, now: Instant) {
        self.flush_before(host, now);
        (self.staging.start, self.staging.end) = (0, 0);
        self.staging.target = None;
    }

    /// Sends the run; the next record follows where it ends.
    fn flush_before(&mut self, host: &mut Host, now: Instant) {
        let staging = &mut self.staging;
        if let Some((peer, group)) = staging.target
            && let Some(peer) = self.peers.get_mut(peer)
            && let Some(group) = peer.groups.get_mut(group)
        {
            let result = group.carry(staging.run(), now);
            staging.start = staging.end;
            let (peer, group) = self.staging.target.unwrap_or_default();
            self.settle(host, peer, group, result, now);
        }
        self.staging.start = self.staging.end;
    }
}

/// Packets that a record is on a wire.
pub(super) fn packets(packet: &ip::Packet<'_>, segmentation: Option<Segmentation>) -> usize {
    segmentation.map_or(1, |cut| cut.segments(packet.bytes()))
}
