//! Packets into the tunnel: read from the device, encrypted, sent.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError},
    },
};

use hawser_esp::{Error, Outbound, sealed_len};
use hawser_netdev::tun::{MAX_PACKET_LEN, Read, Tun};
use hawser_wire::{ipv4, ipv4::protocol::IPIP, segment::GsoPacket, tcp};
use rustix::event::{PollFd, PollFlags, poll};

use super::{
    counters::{Cause, Counters},
    document::Dscp,
    keys::Event,
    rekey::Rekey,
    selectors::Selectors,
    socket::{Socket, UDP_MAX_LEN},
};

/// Packets read before a batch is sent.
const BURST: usize = 64;

/// The thread that encrypts.
pub(super) struct Outward {
    pub(super) tun: Arc<Tun>,
    /// MTU of the device.
    pub(super) mtu: u16,
    pub(super) socket: Arc<Socket>,
    pub(super) counters: Arc<Counters>,
    pub(super) events: Receiver<Event>,
    pub(super) association: Option<Outbound>,
    /// Of the association.
    pub(super) selectors: Selectors,
    pub(super) batch: Batch,
    pub(super) dscp: Dscp,
    pub(super) rekey: Option<Rekey>,
}

/// ESP packets for one system call, of equal length but for the last (UDP GSO).
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    size: usize,
    packets: usize,
    /// Bytes of the inner packets.
    inside: usize,
    /// Traffic class byte of the outer headers.
    tos: u8,
    /// No packet may follow.
    closed: bool,
}

impl Outward {
    /// Carries packets until the device ends.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut space = vec![0; MAX_PACKET_LEN];
        loop {
            poll(&mut [PollFd::new(&self.tun, PollFlags::IN)], None)?;
            if !self.renew() {
                return Ok(());
            }
            for _ in 0..BURST {
                match self.tun.read(&mut space) {
                    Ok(read) => {
                        let packet = space.get_mut(..read.len).unwrap_or_default();
                        tcp::clamp_mss(packet, self.mtu);
                        self.packet(packet, &read);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            self.flush();
            if let (Some(rekey), Some(held)) = (&mut self.rekey, &self.association) {
                rekey.sealed(held.sealed());
            }
        }
    }

    /// Applies changes of SAs; returns whether charon still runs.
    fn renew(&mut self) -> bool {
        loop {
            match self.events.try_recv() {
                Ok(Event::Outbound(spi, keys, selectors)) => {
                    self.flush();
                    self.association = Outbound::new(spi, &keys);
                    self.selectors = selectors;
                    self.rekey.iter_mut().for_each(Rekey::renewed);
                }
                Ok(Event::OutboundGone(spi)) => {
                    self.association.take_if(|held| held.spi() == spi);
                }
                Ok(Event::Flushed) => self.association = None,
                Ok(_) => {}
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn packet(&mut self, bytes: &[u8], read: &Read) {
        let Ok(packet) = ipv4::Packet::parse(bytes) else {
            self.counters.dropped(Cause::Selector, 1);
            return;
        };
        if self.association.is_some() && !self.selectors.allow_outward(&packet) {
            self.counters.dropped(Cause::Selector, 1);
            return;
        }
        let tos = self.dscp.outside(packet.dscp() << 2 | packet.ecn());
        match read.segmentation.map(|cut| GsoPacket::new(bytes, cut)) {
            None => self.push(tos, bytes.len(), |to| to.copy_from_slice(bytes)),
            Some(Some(large)) => {
                for number in 0..large.count() {
                    self.push(tos, large.len(number), |to| large.write(number, to));
                }
            }
            Some(None) => self.counters.dropped(Cause::Malformed, 1),
        }
    }

    /// Encrypts a packet of `len` bytes into the batch.
    fn push(&mut self, tos: u8, len: usize, write: impl FnOnce(&mut [u8])) {
        let sealed = sealed_len(len);
        if !self.batch.takes(sealed, tos, self.socket.max_batch()) {
            self.flush();
        }
        let Some(association) = &mut self.association else {
            self.counters.dropped(Cause::NoAssociation, 1);
            return;
        };
        let before = self.batch.bytes.len();
        self.batch.bytes.resize(before + sealed, 0);
        let place = self.batch.bytes.get_mut(before..).unwrap_or_default();
        match association.seal(IPIP, len, place, write) {
            Ok(()) => self.batch.added(sealed, len, tos),
            Err(error) => {
                self.batch.bytes.truncate(before);
                let exhausted = error == Error::Exhausted;
                let cause = if exhausted { Cause::Exhausted } else { Cause::Malformed };
                self.counters.dropped(cause, 1);
            }
        }
    }

    fn flush(&mut self) {
        let batch = &mut self.batch;
        if batch.packets > 0 {
            match self.socket.send(&batch.bytes, batch.size, batch.tos) {
                Ok(()) => self.counters.sealed.add(batch.packets, batch.inside),
                Err(_) => self.counters.dropped(Cause::SendFailed, batch.packets),
            }
        }
        batch.clear();
    }
}

impl Batch {
    /// Whether a packet fits into the batch.
    fn takes(&self, sealed: usize, tos: u8, most: usize) -> bool {
        let fits = self.packets < most && self.bytes.len() + sealed <= UDP_MAX_LEN;
        self.packets == 0 || fits && !self.closed && sealed <= self.size && tos == self.tos
    }

    fn added(&mut self, sealed: usize, len: usize, tos: u8) {
        if self.packets == 0 {
            (self.size, self.tos) = (sealed, tos);
        }
        self.closed = sealed < self.size;
        self.packets += 1;
        self.inside += len;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        (self.packets, self.inside, self.closed) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_of_a_batch_is_shorter() {
        let mut batch = Batch::default();
        assert!(batch.takes(1000, 0, 3), "anything begins one");
        batch.added(1000, 960, 0);
        assert!(batch.takes(1000, 0, 3) && batch.takes(500, 0, 3));
        assert!(!batch.takes(1004, 0, 3), "longer");
        assert!(!batch.takes(1000, 1, 3), "marked otherwise");
        batch.added(500, 460, 0);
        assert!(!batch.takes(500, 0, 3), "behind a shorter one");
        batch.clear();
        for _ in 0..3 {
            assert!(batch.takes(100, 2, 3));
            batch.added(100, 60, 2);
        }
        assert!(!batch.takes(100, 2, 3), "there are enough");
    }
}
