//! The MTU of a path group, and packets that are larger than a path takes
//! (docs/design/path-mtu.md).

use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_multipath::{Choice, Scheduler, State};
use hawser_wire::fragment::Fragment;

use super::state::Group;
use crate::path::Link;

/// A path that is down counts for this time: one that flaps is not to raise the MTU for a moment,
/// in which connections begin whose segments then do not fit.
const HOLD: Duration = Duration::from_secs(10);

/// A path for a packet, and whether that goes in fragments.
pub(super) struct Placed {
    pub(super) choice: Choice,
    pub(super) in_fragments: bool,
}

impl Group {
    /// Largest packet that goes whole over every path in use, bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu.mtu
    }

    /// The same, if the MTU of a path has been found.
    pub(crate) fn known_mtu(&self) -> Option<u16> {
        self.mtu.is_known.then_some(self.mtu.mtu)
    }

    /// Follows the MTU of the paths: the least of those that are not down.
    pub(crate) fn update_mtu(&mut self, now: Instant) {
        let takes_fragments = self.mtu.takes_fragments;
        for member in self.members.iter_mut() {
            let link = member.link.as_mut();
            if let Some(mtu) = link.and_then(|link| link.update_mtu(now, takes_fragments)) {
                member.mtu = Some((mtu, now));
            }
            let is_old = |(_, since): &mut (u16, Instant)| now.duration_since(*since) > HOLD;
            member.mtu.take_if(is_old);
        }
        let known = self.members.iter().filter_map(|member| member.mtu);
        if let Some(least) = known.map(|(mtu, _)| mtu).min() {
            (self.mtu.mtu, self.mtu.is_known) = (least, true);
        }
        self.reassembly.expire(now);
    }

    /// Whether a usable path takes a packet of this length whole.
    pub(crate) fn carries_whole(&self, len: usize) -> bool {
        let size = Link::wire_size(len as u64);
        Scheduler::max_packet(&self.views).is_some_and(|max| size <= max)
    }

    /// Chooses the path of a packet of `size` bytes, the first of `backlog`. One that no usable
    /// path takes whole goes in fragments where it would go if it were as small as needed.
    pub(super) fn place(
        &mut self,
        backlog: u64,
        size: u64,
        retransmittable: bool,
    ) -> Option<Placed> {
        if let Some(choice) = self.scheduler.next(&self.views, backlog, size, retransmittable) {
            return Some(Placed { choice, in_fragments: false });
        }
        let max = Scheduler::max_packet(&self.views).filter(|max| size > *max)?;
        if !self.mtu.takes_fragments {
            return None;
        }
        let choice = self.scheduler.next(&self.views, backlog, max, retransmittable)?;
        Some(Placed { choice: Choice { skip: 0, ..choice }, in_fragments: true })
    }

    /// Drops what no path takes, whole or in fragments, from the head of the queues; returns
    /// whether there was any.
    pub(super) fn drop_oversize(&mut self, now: Instant) -> bool {
        let Some(max) = Scheduler::max_packet(&self.views) else { return false };
        if self.mtu.takes_fragments {
            return false;
        }
        let is_oversize =
            |len: Option<u32>| len.is_some_and(|len| Link::wire_size(len.into()) > max);
        let gone = if is_oversize(self.retransmit_queue.head_len()) {
            self.counters.recovery.abandoned += 1;
            self.retransmit_queue.pop().map(|packet| (packet.flow, packet.sequence))
        } else if self.retransmit_queue.is_empty() && is_oversize(self.backlog.head_len()) {
            self.counters.drops.too_long += 1;
            self.backlog.take(now, 0, |_| true).map(|packet| (packet.flow, packet.sequence))
        } else {
            None
        };
        gone.inspect(|(flow, sequence)| self.sequencer.complete(*flow, *sequence)).is_some()
    }

    /// Takes a fragment; returns its datagram once that is whole.
    pub(super) fn reassemble(
        &mut self,
        now: Instant,
        member: usize,
        datagram: &[u8],
    ) -> Option<Bytes> {
        let Ok((fragment, contents)) = Fragment::parse(datagram)? else {
            self.counters.drops.malformed += 1;
            return None;
        };
        let whole = self.reassembly.push(now, member, fragment, contents);
        self.counters.sizes.incomplete = self.reassembly.expired();
        self.counters.sizes.reassembled += u64::from(whole.is_some());
        whole.map(Bytes::from)
    }
}

impl Link {
    /// Largest packet that the path takes whole, as far as it is to be reported; None while that is
    /// searched for, or the path is down.
    fn update_mtu(&mut self, now: Instant, takes_fragments: bool) -> Option<u16> {
        let current = self.connection.current_mtu();
        self.mtu.update(now, &self.connection.stats().path);
        let is_searching = self.mtu.is_searching(current);
        // A search goes on when the connection is asked for something to send.
        self.active |= is_searching;
        if self.path.get().state(now) == State::Down {
            return None;
        }
        // Without fragments, what does not fit now is not carried now.
        let found =
            if is_searching && !takes_fragments { Some(current) } else { self.mtu.confirmed() };
        found.map(crate::path::inner_mtu)
    }
}
