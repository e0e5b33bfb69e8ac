//! Packets of the TUN device: read into the tunnel, written when they leave it.

use std::{io, time::Instant};

use hawser_netdev::tun::{MAX_PACKET_LEN, Tun};
use hawser_tunnel::{Incoming, Stream, Tunnel, counters::TunCounters};
use hawser_wire::{
    coalesce::{Checksum, Coalescer},
    ip, tcp,
};

use crate::{classify, transport::Host};

/// Bytes read from the device per turn.
const READ_BUDGET: usize = 256 << 10;

/// Buffers for reading and writing.
pub(super) struct Device {
    space: Box<[u8]>,
    join: Coalescer,
}

impl Device {
    pub(super) fn new() -> Self {
        Self { space: vec![0; MAX_PACKET_LEN].into_boxed_slice(), join: Coalescer::default() }
    }

    /// Reads packets and passes them to the tunnel.
    pub(super) fn read<S: Stream>(
        &mut self,
        host: &mut Host,
        tunnel: &mut Tunnel<S>,
        now: Instant,
    ) -> io::Result<()> {
        let mtu = host.config.document.tun.mtu;
        let classifier = host.config.classifier.as_ref();
        let mut budget = READ_BUDGET;
        while budget > 0 {
            let read = match host.tun.read(&mut self.space) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            budget = budget.saturating_sub(read.len.max(64));
            let packet = self.space.get_mut(..read.len).unwrap_or_default();
            if tcp::is_syn(packet) {
                tcp::clamp_mss(packet, mtu);
            }
            let class = |packet: &ip::Packet<'_>| classify::packet(packet, classifier);
            tunnel.handle_packet(now, packet, read.segmentation, &mut host.device, class);
        }
        Ok(())
    }

    /// Writes the packets that the tunnel delivers; consecutive segments of a flow are coalesced.
    pub(super) fn write<S: Stream>(
        &mut self,
        host: &mut Host,
        tunnel: &mut Tunnel<S>,
        now: Instant,
    ) {
        let Host { tun, device, .. } = host;
        while let Some(Incoming { packet, checksum_omitted }) = tunnel.poll_packet(now) {
            let checksum = if checksum_omitted { Checksum::Omitted } else { Checksum::Unknown };
            if !self.join.push(&packet, checksum) {
                flush(&mut self.join, tun, device);
                self.join.push(&packet, checksum);
            }
        }
        flush(&mut self.join, tun, device);
    }
}

fn flush(join: &mut Coalescer, tun: &Tun, counters: &mut TunCounters) {
    let parts = join.segments();
    let Some((packet, cut)) = join.finish() else { return };
    if tun.write(packet, cut).is_ok() {
        counters.written.add(parts, packet.len());
    } else {
        counters.drops.write_failed += 1;
    }
    join.clear();
}
