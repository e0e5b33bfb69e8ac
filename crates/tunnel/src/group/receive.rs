//! Packets from the peer: unpacked, checked, put in order.

use std::{collections::VecDeque, net::IpAddr, time::Instant};

use bytes::Bytes;
use hawser_multipath::{Decompressor, Tag, Unknown};
use hawser_wire::{
    context::Restored,
    ip,
    tcp::Segment,
    tunnel::{Form, Header, flow_of_unknown_context, is_padding},
};

use super::state::{Group, Incoming};

impl Group {
    /// Takes a datagram from a member path; `delivered` gets the packets that are in order. Returns the flow whose
    /// context is not known here: the peer is to be told.
    pub(crate) fn receive(
        &mut self,
        member: usize,
        datagram: &Bytes,
        now: Instant,
        delivered: &mut VecDeque<Incoming>,
        owns: impl FnOnce(IpAddr) -> bool,
    ) -> Option<u16> {
        if is_padding(datagram) {
            return None;
        }
        if let Some(flow) = flow_of_unknown_context(datagram) {
            if let Some(compressor) = &mut self.compressor {
                compressor.forget(flow);
            }
            return None;
        }
        let unpacked = Header::parse(datagram).map_err(Unknown::Malformed);
        let unpacked = unpacked.and_then(|(header, packet)| {
            Ok((header, unpack(&mut self.decompressor, header, datagram.slice_ref(packet))?))
        });
        match unpacked {
            Ok((header, packet)) => self.order(member, header, packet, now, delivered, owns),
            Err(Unknown::Context(flow)) => {
                self.counters.drops.unknown_context += 1;
                return Some(flow);
            }
            Err(Unknown::Malformed(_)) => self.counters.drops.malformed += 1,
        }
        None
    }

    /// Checks a packet and puts it in order.
    fn order(
        &mut self,
        member: usize,
        header: Header,
        packet: Bytes,
        now: Instant,
        delivered: &mut VecDeque<Incoming>,
        owns: impl FnOnce(IpAddr) -> bool,
    ) {
        let Ok(parsed) = ip::Packet::parse(&packet) else {
            self.counters.drops.malformed += 1;
            return;
        };
        self.counters.received.add(1, packet.len());
        if !owns(parsed.source()) {
            self.counters.drops.foreign_source += 1;
            return;
        }
        let Header { flow, checksum_omitted, retransmittable, sequence, behind, paths, .. } =
            header;
        let waits = Segment::of(&parsed) != Some(Segment::PureAck);
        let incoming = Incoming { packet, unsummed: checksum_omitted };
        let tag = Tag { flow, sequence, behind, paths, kept: retransmittable };
        let pass = &mut |packet| delivered.push_back(packet);
        self.resequencer.push(now, member, tag, (incoming, waits), pass);
    }

    /// Gives up gaps that were waited for too long.
    pub(crate) fn expire(&mut self, now: Instant, delivered: &mut VecDeque<Incoming>) {
        if self.resequencer.poll_timeout().is_some_and(|at| at <= now) {
            self.resequencer.expire(now, &mut |packet| delivered.push_back(packet));
        }
    }
}

/// The packet behind a header, as it was before it was compressed.
fn unpack(known: &mut Decompressor, header: Header, packet: Bytes) -> Result<Bytes, Unknown> {
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
