//! Chooses the next packet or message and its member path.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hawser_multipath::{Retransmittable, State, Tag, View};
use hawser_wire::tunnel::{HEADER_LEN, Header};

use super::{
    mtu::Placed,
    state::{Group, Outgoing},
};
use crate::{
    config::{Class, Otherwise},
    limits::Limits,
    path::{INNER_MTU, Link, MAX_DATAGRAM, NO_CONNECTION, Stored},
    proxy::{FULL_PACKET, Proxy, Stream},
};

/// Urgent packets up to this length, bytes, are sent twice: speech, keystrokes, acknowledgements.
const MAX_DUPLICATED: usize = 300;

/// Packets scheduled before the connections send: four GSO batches. At gigabit rates the daemons
/// need 3 % less CPU per Gbit than with 64, where every second batch was less than half full.
const PACKETS_PER_TURN: usize = 4 * 44;

/// Messages scheduled before the connections send.
const MESSAGES_PER_TURN: usize = 64;

/// Packet size, bytes, that every path takes; messages are cut to fit.
const MIN_PACKET: u64 = 1200;

/// Maximum duration of a message on its path, and its maximum length in packets.
const MESSAGE_TIME: Duration = Duration::from_millis(4);
const MESSAGE_PACKETS: usize = 16;

/// A packet to be sent on a path.
struct Departure {
    path: usize,
    datagram: Bytes,
    /// Whether it goes in fragments.
    in_fragments: bool,
    /// What is kept of it until it is acknowledged.
    stored: Option<Retransmittable<Stored>>,
}

impl Group {
    /// Hands queued packets and messages to the paths; returns whether more may follow.
    pub(crate) fn schedule<S: Stream>(
        &mut self,
        mut proxy: Option<&mut Proxy<S>>,
        limits: &mut Limits,
        now: Instant,
    ) -> bool {
        if !std::mem::take(&mut self.active) || !self.has_work() {
            return false;
        }
        self.refresh(now);
        self.update_limits(now, Link::wire_size(INNER_MTU.into()));
        let messages_first = self.proxy.goes_first();
        for messages in [messages_first, !messages_first] {
            self.active |= match (messages, &mut proxy) {
                (true, Some(proxy)) => self.schedule_messages(proxy, limits, now),
                (true, None) => false,
                (false, _) => self.schedule_packets(limits, now),
            };
        }
        self.active
    }

    /// Updates the scheduler's view of each path.
    fn refresh(&mut self, now: Instant) {
        let leeway = self.leeway();
        self.views.clear();
        self.max_retransmission_delay = Duration::ZERO;
        let last_heard = self.last_ack;
        for member in self.members.iter_mut() {
            if let Some(link) = &member.link {
                let mut path = link.path.get();
                path.note_group_ack(last_heard);
                self.last_ack = self.last_ack.max(path.last_ack());
                self.max_retransmission_delay = self
                    .max_retransmission_delay
                    .max(path.max_retransmission_delay().unwrap_or_default());
            }
            let view = member.link.as_mut().map(|link| link.view(now, leeway));
            let view = view.unwrap_or(NO_CONNECTION);
            let state = match member.state(&view) {
                State::Standby if self.config.otherwise == Otherwise::Drop => State::Down,
                state => state,
            };
            self.views.push(View { state, ..view });
        }
    }

    /// Bytes that a path may be given beyond its window: one packet while messages wait or are in
    /// flight, so that it sends full packets.
    fn leeway(&self) -> u64 {
        let used = !self.proxy.is_idle() || self.links().any(|link| link.messages.has_unacked());
        if used { Link::wire_size(INNER_MTU.into()) } else { 0 }
    }

    /// Hands queued packets to the paths; returns whether there were any.
    fn schedule_packets(&mut self, limits: &mut Limits, now: Instant) -> bool {
        let mut given = false;
        for _ in 0..PACKETS_PER_TURN {
            let Some(copies) = self.next(limits, now) else {
                if self.drop_oversize(now) {
                    continue;
                }
                break;
            };
            for Departure { path, datagram, in_fragments, stored } in copies.into_iter().flatten() {
                let link = self.members.link_mut(path);
                let name = stored.as_ref().map(|packet| (packet.flow, packet.sequence));
                let send = |link: &mut Link| {
                    if in_fragments {
                        link.send_fragments(&datagram, stored.as_ref())
                    } else {
                        link.send(datagram, stored)
                    }
                };
                self.counters.sizes.sent_in_fragments += u64::from(in_fragments);
                if !link.is_some_and(send) {
                    self.counters.drops.send_failed += 1;
                    if let Some((flow, sequence)) = name {
                        self.sequencer.complete(flow, sequence);
                    }
                }
            }
            given = true;
        }
        given
    }

    /// The next packet and its path, and a duplicate on another path if it is small and urgent.
    /// Retransmissions go first.
    fn next(&mut self, limits: &mut Limits, now: Instant) -> Option<[Option<Departure>; 2]> {
        if !self.retransmit_queue.is_empty() {
            return self.retransmit(now);
        }
        if !limits.admits(now, self.backlog.peek()?.class) {
            return None;
        }
        let head = Link::wire_size(self.backlog.head_len()?.into());
        let stored = self.backlog.peek().is_some_and(|packet| packet.retransmittable);
        let Placed { choice, in_fragments } = self.place(self.backlog.bytes(), head, stored)?;
        let largest = self.views.get(choice.path).map_or(0, |view| view.max_packet);
        let fits = |len: u32| in_fragments || Link::wire_size(len.into()) <= largest;
        let packet = self.backlog.take(now, choice.skip, fits)?;
        let len = packet.bytes.len() - HEADER_LEN;
        let size = Link::wire_size(len as u64);
        self.counters.sent.add(1, len + packet.saved);
        limits.take(now, packet.class, (len + packet.saved) as u64);
        self.count_sent(choice.path, size, len);
        self.proxy.note_packet(size);
        let other = if self.config.class == Class::I && len <= MAX_DUPLICATED {
            self.scheduler.duplicate_path(&self.views, size, choice.path)
        } else {
            None
        };
        let copy = other.map(|path| self.duplicate(now, path, size, &packet));
        let first_sent = packet.retransmittable.then_some(now);
        let departure = self.finalize(now, choice.path, packet, first_sent);
        Some([Some(Departure { in_fragments, ..departure }), copy])
    }

    /// The next retransmission where it arrives first, and a duplicate of it on another path.
    fn retransmit(&mut self, now: Instant) -> Option<[Option<Departure>; 2]> {
        let size = Link::wire_size(self.retransmit_queue.head_len()?.into());
        let Placed { choice, in_fragments } = self.place(1, size, true)?;
        let Retransmittable { flow, sequence, len, first_sent, item } =
            self.retransmit_queue.pop()?;
        self.counters.recovery.retransmitted += 1;
        self.count_sent(choice.path, size, len as usize);
        self.proxy.note_packet(size);
        let copied = self.retransmit_queue.may_duplicate();
        let other =
            copied.then(|| self.scheduler.duplicate_path(&self.views, size, choice.path)).flatten();
        let bytes = BytesMut::from(item.datagram.as_ref());
        let Stored { form, checksum_omitted, .. } = item;
        let packet = Outgoing {
            bytes,
            flow,
            class: self.config.class,
            sequence,
            form,
            saved: 0,
            checksum_omitted,
            retransmittable: true,
        };
        self.counters.recovery.duplicated += u64::from(other.is_some());
        let copy = other.map(|path| self.duplicate(now, path, size, &packet));
        let departure = self.finalize(now, choice.path, packet, Some(first_sent));
        Some([Some(Departure { in_fragments, ..departure }), copy])
    }

    /// A duplicate of a packet, for another path.
    fn duplicate(&mut self, now: Instant, path: usize, size: u64, packet: &Outgoing) -> Departure {
        self.count_sent(path, size, packet.bytes.len() - HEADER_LEN);
        let bytes = BytesMut::from(packet.bytes.as_ref());
        self.finalize(now, path, Outgoing { bytes, ..*packet }, None)
    }

    /// Writes the header of a packet for a path; it is kept if it has a time of first transmission.
    fn finalize(
        &mut self,
        now: Instant,
        path: usize,
        packet: Outgoing,
        first_sent: Option<Instant>,
    ) -> Departure {
        let Outgoing { mut bytes, flow, sequence, form, checksum_omitted, retransmittable, .. } =
            packet;
        let Tag { behind, paths, .. } =
            self.sequencer.tag(now, flow, sequence, path, retransmittable);
        let header =
            Header { flow, form, checksum_omitted, retransmittable, sequence, behind, paths };
        if let Some(place) = bytes.get_mut(..HEADER_LEN) {
            place.copy_from_slice(&header.emit());
        }
        let datagram = bytes.freeze();
        let stored = first_sent.map(|first_sent| {
            let len = u32::try_from(datagram.len() - HEADER_LEN).unwrap_or(u32::MAX);
            let item =
                Stored { datagram: datagram.clone(), form, checksum_omitted, fragments: None };
            Retransmittable { flow, sequence, len, first_sent, item }
        });
        Departure { path, datagram, in_fragments: false, stored }
    }

    /// Accounts for a packet given to a path.
    fn count_sent(&mut self, path: usize, size: u64, len: usize) {
        if let Some(view) = self.views.get_mut(path) {
            view.sent(size);
        }
        if let Some(member) = self.members.get_mut(path) {
            member.assigned += len as u64;
        }
    }

    /// Hands messages of the TCP proxy to the paths; returns whether more may follow.
    fn schedule_messages<S: Stream>(
        &mut self,
        proxy: &mut Proxy<S>,
        limits: &mut Limits,
        now: Instant,
    ) -> bool {
        let mut given = false;
        for _ in 0..MESSAGES_PER_TURN {
            if self.proxy.is_idle() {
                break;
            }
            let backlog = proxy.backlog(&self.proxy);
            let Some(choice) = self.scheduler.next(&self.views, backlog, MIN_PACKET, false) else {
                break;
            };
            let packets = self.message_packets(choice.path);
            if !proxy.turn_to_admitted(&mut self.proxy, limits, now) {
                break;
            }
            let Some((message, data)) = proxy.next_message(&mut self.proxy, packets) else {
                continue;
            };
            let Some(link) = self.members.link_mut(choice.path) else {
                self.proxy.priority.push_front(message);
                break;
            };
            let len = message.len();
            if let Err(message) = link.send_message(message) {
                self.proxy.priority.push_front(message);
                if let Some(view) = self.views.get_mut(choice.path) {
                    view.available_window = 0;
                }
                continue;
            }
            limits.take(now, data.class, data.bytes);
            let weight = Link::wire_size(len as u64);
            self.proxy.note_message(weight, data.bytes);
            self.count_sent(choice.path, weight, len);
            given = true;
        }
        given
    }

    /// Maximum length of a message on a path, packets.
    fn message_packets(&self, path: usize) -> usize {
        let rate = self.views.get(path).map(|view| view.rate.bytes(MESSAGE_TIME));
        let bytes = rate.map_or(FULL_PACKET, |bytes| usize::try_from(bytes).unwrap_or(FULL_PACKET));
        (bytes / usize::from(MAX_DATAGRAM)).clamp(1, MESSAGE_PACKETS)
    }
}
