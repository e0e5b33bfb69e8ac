//! Packets from the peer: decompressed, checked, resequenced.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;
use hawser_multipath::{DecompressError, Decompressor, Tag};
use hawser_wire::{
    context::Restored,
    fragment::is_fragment,
    ip,
    tcp::{self, Segment},
    tunnel::{Form, Header, flow_of_unknown_context, is_padding},
};

use super::state::{Group, Incoming};
use crate::{counters::PeerDrops, reach::Denied};

/// Why a well-formed packet from the peer is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dropped {
    /// Its source is not behind the peer.
    ForeignSource,
    /// It may not reach its destination.
    Denied(Denied),
}

impl Dropped {
    fn count(self, drops: &mut PeerDrops) {
        match self {
            Self::ForeignSource => drops.foreign_source += 1,
            Self::Denied(denied) => denied.count(drops),
        }
    }
}

impl Group {
    /// Takes a datagram from a member path; packets in order are appended to `delivered`. Returns
    /// the flow whose header context is unknown, to be reported to the peer.
    pub(crate) fn receive(
        &mut self,
        member: usize,
        datagram: &Bytes,
        now: Instant,
        delivered: &mut VecDeque<Incoming>,
        check: impl FnOnce(&ip::Packet<'_>) -> Result<(), Dropped>,
    ) -> Option<u16> {
        let whole;
        let datagram = if is_fragment(datagram) {
            whole = self.reassemble(now, member, datagram)?;
            &whole
        } else {
            datagram
        };
        if is_padding(datagram) {
            return None;
        }
        if let Some(flow) = flow_of_unknown_context(datagram) {
            if let Some(compressor) = &mut self.compressor {
                compressor.invalidate(flow);
            }
            return None;
        }
        let unpacked = Header::parse(datagram).map_err(DecompressError::Malformed);
        let unpacked = unpacked.and_then(|(header, packet)| {
            Ok((header, unpack(&mut self.decompressor, header, datagram.slice_ref(packet))?))
        });
        match unpacked {
            Ok((header, packet)) => self.order(member, header, packet, now, delivered, check),
            Err(DecompressError::Context(flow)) => {
                self.counters.drops.unknown_context += 1;
                return Some(flow);
            }
            Err(DecompressError::Malformed(_)) => self.counters.drops.malformed += 1,
        }
        None
    }

    /// Checks a packet and passes it to the resequencer.
    fn order(
        &mut self,
        member: usize,
        header: Header,
        packet: Bytes,
        now: Instant,
        delivered: &mut VecDeque<Incoming>,
        check: impl FnOnce(&ip::Packet<'_>) -> Result<(), Dropped>,
    ) {
        let Ok(parsed) = ip::Packet::parse(&packet) else {
            self.counters.drops.malformed += 1;
            return;
        };
        self.counters.received.add(1, packet.len());
        if let Err(dropped) = check(&parsed) {
            return dropped.count(&mut self.counters.drops);
        }
        let Header { flow, checksum_omitted, retransmittable, sequence, behind, paths, .. } =
            header;
        let ordered = Segment::of(&parsed) != Some(Segment::PureAck);
        let packet = if tcp::is_syn(&packet) { self.clamp_mss(&packet) } else { packet };
        let incoming = Incoming { packet, checksum_omitted };
        let tag = Tag { flow, sequence, behind, paths, retransmittable };
        let pass = &mut |packet| delivered.push_back(packet);
        self.resequencer.push(now, member, tag, (incoming, ordered), pass);
    }

    /// A SYN from the peer with the segments announced that fit the paths to it.
    fn clamp_mss(&self, packet: &[u8]) -> Bytes {
        let mut packet = packet.to_vec();
        tcp::clamp_mss(&mut packet, self.mtu());
        packet.into()
    }

    /// Abandons gaps whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant, delivered: &mut VecDeque<Incoming>) {
        if self.resequencer.poll_timeout().is_some_and(|at| at <= now) {
            self.resequencer.expire(now, &mut |packet| delivered.push_back(packet));
        }
    }
}

/// Decompresses the packet behind a header.
fn unpack(
    known: &mut Decompressor,
    header: Header,
    packet: Bytes,
) -> Result<Bytes, DecompressError> {
    match header.form {
        Form::Plain => Ok(packet),
        Form::Context => {
            known.learn(header.flow, header.sequence, &packet);
            Ok(packet)
        }
        Form::Compressed => {
            let Restored { head, rest } = known.restore(header.flow, &packet)?;
            Ok([head.as_slice(), rest].concat().into())
        }
    }
}
