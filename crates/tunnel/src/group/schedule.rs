//! Which packet or message is sent next, and on which member path.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hawser_multipath::{Kept, Tag};
use hawser_wire::tunnel::{HEADER_LEN, Header};

use super::state::{Group, Outgoing};
use crate::{
    config::Class,
    path::{INNER_MTU, LARGEST, Link, NO_CONNECTION, Stored},
    proxy::{FULL, Proxy, Stream},
};

/// Urgent packets of at most so many bytes are sent twice: speech, keys, acknowledgements.
const SMALL: usize = 300;

/// Packets given to the paths before they are sent: four times as many as the kernel takes in one piece. At gigabits the
/// daemons need 3 % less time for a Gbit than with 64, of which every second piece is less than half full.
const PACKETS: usize = 4 * 44;

/// Messages given to the paths before they are sent.
const MESSAGES: usize = 64;

/// Bytes of a packet that every path takes: messages are cut to fit.
const LEAST_PACKET: u64 = 1200;

/// Time that a message may take on its path, and its length in packets at most.
const MESSAGE_TIME: Duration = Duration::from_millis(4);
const MESSAGE_PACKETS: usize = 16;

/// A packet that goes on a path.
struct Departure {
    path: usize,
    datagram: Bytes,
    /// What is stored of it.
    stored: Option<Kept<Stored>>,
}

impl Group {
    /// Gives what waits to the paths; whether there may be more.
    pub(crate) fn schedule<S: Stream>(
        &mut self,
        mut proxy: Option<&mut Proxy<S>>,
        now: Instant,
    ) -> bool {
        if !std::mem::take(&mut self.active) || !self.has_work() {
            return false;
        }
        self.refresh(now);
        self.adapt(now, Link::weight(INNER_MTU.into()));
        let messages_first = self.proxy.goes_first();
        for messages in [messages_first, !messages_first] {
            self.active |= match (messages, &mut proxy) {
                (true, Some(proxy)) => self.give_messages(proxy),
                (true, None) => false,
                (false, _) => self.give_packets(now),
            };
        }
        self.active
    }

    /// Takes note of the paths' state.
    fn refresh(&mut self, now: Instant) {
        let leeway = self.leeway();
        self.views.clear();
        self.resend_time = Duration::ZERO;
        let last_heard = self.heard;
        for member in &mut self.members {
            if let Some(link) = &member.link {
                let mut path = link.path.get();
                path.note_group_heard(last_heard);
                self.heard = self.heard.max(path.heard());
                self.resend_time = self.resend_time.max(path.resend_time().unwrap_or_default());
            }
            let view = member.link.as_mut().map(|link| link.view(now, leeway));
            self.views.push(view.unwrap_or(NO_CONNECTION));
        }
    }

    /// Bytes that a path is given more than it may send: a packet where messages wait or are in flight, so that
    /// all that it sends are full.
    fn leeway(&self) -> u64 {
        let used = !self.proxy.is_idle() || self.links().any(|link| link.messages.has_unacked());
        if used { Link::weight(INNER_MTU.into()) } else { 0 }
    }

    /// Gives waiting packets to the paths; whether there were any.
    fn give_packets(&mut self, now: Instant) -> bool {
        let mut given = false;
        for _ in 0..PACKETS {
            let Some(copies) = self.next(now) else { break };
            for Departure { path, datagram, stored } in copies.into_iter().flatten() {
                let link = self.members.get_mut(path).and_then(|member| member.link.as_mut());
                let name = stored.as_ref().map(|packet| (packet.flow, packet.sequence));
                if !link.is_some_and(|link| link.send(datagram, stored)) {
                    self.counters.drops.send_failed += 1;
                    if let Some((flow, sequence)) = name {
                        self.sequencer.settle(flow, sequence);
                    }
                }
            }
            given = true;
        }
        given
    }

    /// The next packet, complete, and the path it goes on; and where it is small and urgent, a copy on
    /// another path. What a path has lost goes first.
    fn next(&mut self, now: Instant) -> Option<[Option<Departure>; 2]> {
        if !self.lost.is_empty() {
            return self.retransmit(now);
        }
        let head = Link::weight(self.backlog.head()?.into());
        let stored = self.backlog.peek().is_some_and(|packet| packet.retransmittable);
        let choice = self.scheduler.next(&self.views, self.backlog.bytes(), head, stored)?;
        let largest = self.views.get(choice.path).map_or(0, |view| view.largest);
        let fits = |len: u32| Link::weight(len.into()) <= largest;
        let packet = self.backlog.take(now, choice.skip, fits)?;
        let len = packet.bytes.len() - HEADER_LEN;
        let size = Link::weight(len as u64);
        self.counters.sent.add(1, len + packet.saved);
        self.note(choice.path, size, len);
        self.proxy.note_packet(size);
        let other = if self.config.class == Class::I && len <= SMALL {
            self.scheduler.copy(&self.views, size, choice.path)
        } else {
            None
        };
        let copy = other.map(|path| self.copy(now, path, size, &packet));
        let since = packet.retransmittable.then_some(now);
        Some([Some(self.depart(now, choice.path, packet, since)), copy])
    }

    /// A packet that a path has lost, and the path on which it arrives first; and a copy of it on another.
    fn retransmit(&mut self, now: Instant) -> Option<[Option<Departure>; 2]> {
        let size = Link::weight(self.lost.head()?.into());
        let choice = self.scheduler.next(&self.views, 1, size, true)?;
        let Kept { flow, sequence, len, since, item } = self.lost.take()?;
        self.counters.recovery.resent += 1;
        self.note(choice.path, size, len as usize);
        self.proxy.note_packet(size);
        let copied = self.lost.is_short();
        let other = copied.then(|| self.scheduler.copy(&self.views, size, choice.path)).flatten();
        let bytes = BytesMut::from(item.datagram.as_ref());
        let Stored { form, unsummed, .. } = item;
        let packet =
            Outgoing { bytes, flow, sequence, form, saved: 0, unsummed, retransmittable: true };
        self.counters.recovery.copied += u64::from(other.is_some());
        let copy = other.map(|path| self.copy(now, path, size, &packet));
        Some([Some(self.depart(now, choice.path, packet, Some(since))), copy])
    }

    /// A copy of a packet, which goes on another path.
    fn copy(&mut self, now: Instant, path: usize, size: u64, packet: &Outgoing) -> Departure {
        self.note(path, size, packet.bytes.len() - HEADER_LEN);
        let bytes = BytesMut::from(packet.bytes.as_ref());
        self.depart(now, path, Outgoing { bytes, ..*packet }, None)
    }

    /// Completes a packet that goes on a path; it is stored where it is known since when.
    fn depart(
        &mut self,
        now: Instant,
        path: usize,
        packet: Outgoing,
        since: Option<Instant>,
    ) -> Departure {
        let Outgoing { mut bytes, flow, sequence, form, unsummed, retransmittable, .. } = packet;
        let kept = retransmittable;
        let Tag { behind, paths, .. } = self.sequencer.tag(now, flow, sequence, path, kept);
        let checksum_omitted = unsummed;
        let header =
            Header { flow, form, checksum_omitted, retransmittable, sequence, behind, paths };
        if let Some(place) = bytes.get_mut(..HEADER_LEN) {
            place.copy_from_slice(&header.emit());
        }
        let datagram = bytes.freeze();
        let stored = since.map(|since| {
            let len = u32::try_from(datagram.len() - HEADER_LEN).unwrap_or(u32::MAX);
            let item = Stored { datagram: datagram.clone(), form, unsummed };
            Kept { flow, sequence, len, since, item }
        });
        Departure { path, datagram, stored }
    }

    /// Counts a packet that goes on a path.
    fn note(&mut self, path: usize, size: u64, len: usize) {
        if let Some(view) = self.views.get_mut(path) {
            view.sent(size);
        }
        if let Some(member) = self.members.get_mut(path) {
            member.given += len as u64;
        }
    }

    /// Gives messages to the paths; whether there may be more.
    fn give_messages<S: Stream>(&mut self, proxy: &mut Proxy<S>) -> bool {
        let mut given = false;
        for _ in 0..MESSAGES {
            if self.proxy.is_idle() {
                break;
            }
            let backlog = proxy.backlog(&self.proxy);
            let Some(choice) = self.scheduler.next(&self.views, backlog, LEAST_PACKET, false)
            else {
                break;
            };
            let packets = self.message_packets(choice.path);
            let Some((message, data)) = proxy.next_message(&mut self.proxy, packets) else {
                continue;
            };
            let link = self.members.get_mut(choice.path).and_then(|member| member.link.as_mut());
            let Some(link) = link else {
                self.proxy.first.push_front(message);
                break;
            };
            let len = message.len();
            if let Err(message) = link.send_message(message) {
                self.proxy.first.push_front(message);
                if let Some(view) = self.views.get_mut(choice.path) {
                    view.room = 0;
                }
                continue;
            }
            let weight = Link::weight(len as u64);
            self.proxy.note_message(weight, data);
            self.note(choice.path, weight, len);
            given = true;
        }
        given
    }

    /// Packets' worth of data that a message may have on a path.
    fn message_packets(&self, path: usize) -> usize {
        let rate = self.views.get(path).map(|view| view.rate.bytes(MESSAGE_TIME));
        let bytes = rate.map_or(FULL, |bytes| usize::try_from(bytes).unwrap_or(FULL));
        (bytes / usize::from(LARGEST)).clamp(1, MESSAGE_PACKETS)
    }
}
