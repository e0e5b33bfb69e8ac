//! Packets: from the device to the paths, and from the paths to the device.

use std::{collections::BTreeMap, io, time::Instant};

use bytes::Bytes;
use hawser_multipath::{Decompressor, Tag, Unknown, flow as number_of};
use hawser_netdev::tun::Read;
use hawser_wire::{
    context::Restored,
    flow, ip,
    ipv4::protocol::TCP,
    join::{Checksum, Join},
    segment::Large,
    tcp::{self, Says},
    tunnel::{Form, HEADER_LEN, Header, flow_of_unknown_context, is_filler, unknown_context},
};
use quinn_proto::ConnectionHandle;

use super::{
    Quic,
    group::{Departure, Group, Incoming},
    link::Link,
    settings::INNER_MTU,
    socket::Socket,
};
use crate::{counters::TunCounters, placement::class, setup};

/// Bytes read from the device before others get their turn.
const READ_BUDGET: usize = 256 << 10;

/// Times that a connection may have something more to send after what it sent.
const ROUNDS: usize = 8;

/// Packets given to the paths before they are sent: four times as many as the kernel takes in one piece. At gigabits the
/// daemons need 3 % less time for a Gbit than with 64, of which every second piece is less than half full.
const BURST: usize = 4 * 44;

impl Quic {
    /// Reads packets from the device, cuts large ones, and lets them wait for a path.
    pub(super) fn forward(&mut self, now: Instant) -> io::Result<()> {
        let mut budget = READ_BUDGET;
        while budget > 0 {
            let mut space = std::mem::take(&mut self.read);
            let read = self.tun.read(&mut space);
            if let Ok(read) = &read {
                budget = budget.saturating_sub(read.len.max(64));
                let packet = space.get_mut(..read.len).unwrap_or_default();
                tcp::lower_segment_size(packet, setup::mtu(&self.config));
                self.sort(packet, read, now);
            }
            self.read = space;
            match read {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds out where a packet goes.
    fn sort(&mut self, bytes: &[u8], read: &Read, now: Instant) {
        let Ok(packet) = ip::Packet::parse(bytes) else {
            self.counters.drops.malformed += 1;
            return;
        };
        let large = read.segmentation.map(|cut| Large::new(bytes, cut));
        let packets = large.flatten().map_or(1, |large| large.count());
        self.counters.read.add(packets, bytes.len());
        let id = self.table.peer(packet.destination()).and_then(|index| self.ids.get(index));
        let Some(peer) = id.and_then(|id| self.peers.get_mut(id)) else {
            self.counters.drops.unknown_destination += 1;
            return;
        };
        let hash = flow::hash(&packet);
        let class = class(&packet, self.config.classifier.as_ref());
        let index = self.places.place(&*peer, hash, class, now);
        let Some(group) = peer.groups.values_mut().nth(index) else { return };
        let flow = number_of(hash);
        match large {
            None => {
                let kept = tcp::says(&packet) == Some(Says::More);
                let bytes = self.arena.join(&[&[0; HEADER_LEN], bytes]);
                group.enqueue(now, flow, false, kept, bytes);
            }
            Some(Some(large)) => {
                let kept = packet.protocol() == TCP;
                for number in 0..large.count() {
                    let [headers, payload] = large.parts(number);
                    let mut bytes = self.arena.join(&[&[0; HEADER_LEN], headers, payload]);
                    let segment = bytes.get_mut(HEADER_LEN..).unwrap_or_default();
                    let unsummed = large.complete_unsummed(number, segment);
                    group.enqueue(now, flow, unsummed, kept, bytes);
                }
            }
            Some(None) => self.counters.drops.malformed += 1,
        }
    }

    /// Takes packets out of the connections of a socket.
    pub(super) fn deliver(&mut self, number: usize, now: Instant) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        // Whose the last source was: mostly it is that of the next packet.
        let mut last = None;
        for link in socket.links.values_mut().filter(|link| link.active) {
            while let Some(datagram) = link.connection.datagrams().recv() {
                let Some(place) = link.place.filter(|_| link.up) else { continue };
                let Some(peer) = self.peers.get_mut(&place.peer) else { continue };
                let Some(group) = peer.groups.get_mut(&place.group) else { continue };
                let mut out =
                    Out { tun: &self.tun, join: &mut self.join, counters: &mut self.counters };
                let owns = |address| {
                    let owner = || self.table.peer(address).and_then(|index| self.ids.get(index));
                    let known = last.filter(|(known, _)| *known == address);
                    let (_, owner) = *last.insert(known.unwrap_or_else(|| (address, owner())));
                    owner == Some(&place.peer)
                };
                let member = usize::from(place.member);
                if let Some(flow) = take(group, member, &datagram, now, &mut out, owns) {
                    // Where there is no room for it, the next one will be answered.
                    link.give(Bytes::copy_from_slice(&unknown_context(flow)), None);
                }
            }
        }
        Out { tun: &self.tun, join: &mut self.join, counters: &mut self.counters }.flush();
    }

    /// Gives up packets that were waited for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        for group in self.peers.values_mut().flat_map(|peer| peer.groups.values_mut()) {
            if group.resequencer.poll_timeout().is_some_and(|at| at <= now) {
                let mut out =
                    Out { tun: &self.tun, join: &mut self.join, counters: &mut self.counters };
                group.resequencer.expire(now, &mut |incoming| out.write(&incoming));
                out.flush();
            }
        }
    }

    /// Sends what may be sent.
    pub(super) fn transmit(&mut self, now: Instant) {
        loop {
            let more = self.schedule(now);
            if !self.flush(now) && !more {
                return;
            }
        }
    }

    /// Gives waiting packets to the paths; whether there are more.
    fn schedule(&mut self, now: Instant) -> bool {
        let mut more = false;
        for group in self.peers.values_mut().flat_map(|peer| peer.groups.values_mut()) {
            if !std::mem::take(&mut group.active) || !group.has_work() {
                continue;
            }
            group.refresh(&mut self.sockets, now);
            group.adapt(now, Link::weight(INNER_MTU.into()));
            let messages_first = group.lane.goes_first();
            for messages in [messages_first, !messages_first] {
                group.active |= match (messages, &mut self.lane) {
                    (true, Some(lane)) => group.give_messages(lane, &mut self.sockets),
                    (true, None) => false,
                    (false, _) => give_packets(group, &mut self.sockets, now),
                };
            }
            more |= group.active;
        }
        more
    }

    /// Lets connections send what they have, and takes note of what has happened to them; whether packets that
    /// wait may go now.
    fn flush(&mut self, now: Instant) -> bool {
        let numbers: Vec<usize> = self.sockets.keys().copied().collect();
        for number in numbers {
            // What is taken note of may give a connection something to send.
            for _ in 0..ROUNDS {
                let handles = self.flush_socket(number, now);
                if handles.is_empty() {
                    break;
                }
                self.attend(number, &handles, now);
            }
        }
        let mut groups = self.peers.values().flat_map(|peer| peer.groups.values());
        groups.any(|group| group.active && group.has_work())
    }

    /// Lets the connections of a socket send; says which were active.
    fn flush_socket(&mut self, number: usize, now: Instant) -> Vec<ConnectionHandle> {
        let Some(socket) = self.sockets.get_mut(&number) else { return Vec::new() };
        let most = socket.max_batch();
        let mut links = std::mem::take(&mut socket.links);
        let mut handles = Vec::new();
        for (handle, link) in links.iter_mut().filter(|(_, link)| link.active) {
            link.active = false;
            handles.push(*handle);
            link.fill(now);
            link.flush(now, most, &mut self.train, |transmit, contents| {
                socket.send(transmit, contents)
            });
            if let Some(place) = link.place
                && let Some(peer) = self.peers.get_mut(&place.peer)
                && let Some(group) = peer.groups.get_mut(&place.group)
            {
                group.recover(now, link.news());
            }
        }
        socket.links = links;
        handles
    }
}

/// Gives waiting packets to the paths; whether there were any.
fn give_packets(group: &mut Group, sockets: &mut BTreeMap<usize, Socket>, now: Instant) -> bool {
    let mut given = false;
    for _ in 0..BURST {
        let Some(copies) = group.next(now, Link::weight) else { break };
        for Departure { path, datagram, kept } in copies.into_iter().flatten() {
            let place = group.members.get(path).and_then(|member| member.link);
            let link = place.and_then(|(socket, handle)| {
                sockets.get_mut(&socket).and_then(|s| s.links.get_mut(&handle))
            });
            let name = kept.as_ref().map(|packet| (packet.flow, packet.sequence));
            if !link.is_some_and(|link| link.give(datagram, kept)) {
                group.counters.drops.send_failed += 1;
                if let Some((flow, sequence)) = name {
                    group.sequencer.settle(flow, sequence);
                }
            }
        }
        given = true;
    }
    given
}

/// The way out of the tunnel: segments of a flow that come one after the other are joined.
struct Out<'a> {
    tun: &'a hawser_netdev::tun::Tun,
    join: &'a mut Join,
    counters: &'a mut TunCounters,
}

impl Out<'_> {
    fn write(&mut self, incoming: &Incoming) {
        let Incoming { packet, unsummed } = incoming;
        let checksum = if *unsummed { Checksum::LeftOut } else { Checksum::Unknown };
        if !self.join.push(packet, checksum) {
            self.flush();
            self.join.push(packet, checksum);
        }
    }

    fn flush(&mut self) {
        let parts = self.join.parts();
        let Some((packet, cut)) = self.join.finish() else { return };
        if self.tun.write(packet, cut).is_ok() {
            self.counters.written.add(parts, packet.len());
        } else {
            self.counters.drops.write_failed += 1;
        }
        self.join.clear();
    }
}

/// Takes a datagram from a path. Gives back the flow of which no context is known here: the peer is to be told.
fn take(
    group: &mut Group,
    member: usize,
    datagram: &Bytes,
    now: Instant,
    out: &mut Out<'_>,
    owns: impl FnOnce(std::net::IpAddr) -> bool,
) -> Option<u16> {
    if is_filler(datagram) {
        return None;
    }
    if let Some(flow) = flow_of_unknown_context(datagram) {
        if let Some(compressor) = &mut group.compressor {
            compressor.forget(flow);
        }
        return None;
    }
    let unpacked = Header::parse(datagram).map_err(Unknown::Malformed);
    let unpacked = unpacked.and_then(|(header, packet)| {
        Ok((header, unpack(&mut group.decompressor, header, datagram.slice_ref(packet))?))
    });
    let (header, packet) = match unpacked {
        Ok(unpacked) => unpacked,
        Err(Unknown::Context(flow)) => {
            group.counters.drops.unknown_context += 1;
            return Some(flow);
        }
        Err(Unknown::Malformed(_)) => {
            group.counters.drops.malformed += 1;
            return None;
        }
    };
    let Ok(parsed) = ip::Packet::parse(&packet) else {
        group.counters.drops.malformed += 1;
        return None;
    };
    group.counters.received.add(1, packet.len());
    if !owns(parsed.source()) {
        group.counters.drops.foreign_source += 1;
        return None;
    }
    let Header { flow, unsummed, kept, sequence, behind, paths, .. } = header;
    let waits = tcp::says(&parsed) != Some(Says::Received);
    let incoming = Incoming { packet, unsummed };
    let tag = Tag { flow, sequence, behind, paths, kept };
    group.resequencer.push(now, member, tag, (incoming, waits), &mut |packet| out.write(&packet));
    None
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
