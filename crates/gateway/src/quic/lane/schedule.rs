//! Which message goes next, and on which path.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{Lane, MEMORY_UNSENT, parcels::Parcel};
use crate::quic::{
    group::Group,
    link::Link,
    settings::{INNER_MTU, LARGEST},
    socket::Socket,
};

/// Bytes of a connection that fill a packet.
pub(super) const FULL: usize = 1440;

/// Bytes of a packet that every path takes: messages are cut to fit.
const LEAST_PACKET: u64 = 1200;

/// Time that a message may take on its path, and its length in packets at most.
const MESSAGE_TIME: Duration = Duration::from_millis(4);
const MESSAGE_PACKETS: usize = 16;

/// Messages given to paths before they are sent.
const BURST: usize = 64;

/// Connections whose bytes are counted to see whether slow paths are worth it.
const COUNTED: usize = 32;

/// Bytes that stand in the kernel for a connection that was not read to the end.
const IN_KERNEL: u64 = 1 << 20;

impl Group {
    /// Whether messages wait or are under way: then a path gets a packet more than it may send, so that
    /// all that it sends are full.
    pub(in crate::quic) fn leeway(&self, sockets: &mut BTreeMap<usize, Socket>) -> u64 {
        let busy = |(socket, handle): (usize, quinn_proto::ConnectionHandle)| {
            let link = sockets.get_mut(&socket).and_then(|s| s.links.get_mut(&handle));
            link.is_some_and(|link| link.parcels.are_under_way())
        };
        let used = !self.lane.is_idle() || self.links().into_iter().any(busy);
        if used { Link::weight(INNER_MTU.into()) } else { 0 }
    }

    /// Gives messages to the paths; whether there may be more.
    pub(in crate::quic) fn give_messages(
        &mut self,
        lane: &mut Lane,
        sockets: &mut BTreeMap<usize, Socket>,
    ) -> bool {
        let mut given = false;
        for _ in 0..BURST {
            if self.lane.is_idle() {
                break;
            }
            let backlog = self.backlog_of(lane);
            let Some(choice) = self.scheduler.next(&self.views, backlog, LEAST_PACKET, false)
            else {
                break;
            };
            let Some((parcel, data)) = self.next_message(lane, choice.path) else { continue };
            let weight = Link::weight(parcel.len() as u64);
            let place = self.members.get(choice.path).and_then(|member| member.link);
            let link = place.and_then(|(socket, handle)| {
                sockets.get_mut(&socket).and_then(|s| s.links.get_mut(&handle))
            });
            let Some(link) = link else {
                self.lane.first.push_front(parcel);
                break;
            };
            let len = parcel.len();
            if let Err(parcel) = link.give_parcel(parcel) {
                self.lane.first.push_front(parcel);
                if let Some(view) = self.views.get_mut(choice.path) {
                    view.room = 0;
                }
                continue;
            }
            self.lane.counters.sent_bytes += data;
            self.lane.lead -= i64::try_from(weight).unwrap_or(i64::MAX);
            self.note(choice.path, weight, len);
            given = true;
        }
        given
    }

    /// Bytes that wait, about.
    fn backlog_of(&self, lane: &Lane) -> u64 {
        let first: u64 = self.lane.first.iter().take(COUNTED).map(|p| p.len() as u64).sum();
        let flows = self.lane.turn.iter().take(COUNTED).filter_map(|slot| lane.flows.get(*slot));
        let bytes = flows.flatten().map(|flow| {
            let unread = if flow.readable { IN_KERNEL } else { 0 };
            (flow.unsent() as u64 + unread).min(flow.outbound.room())
        });
        (first + bytes.sum::<u64>()).max(1)
    }

    /// The next message for a path, and how many bytes of a connection it carries.
    fn next_message(&mut self, lane: &mut Lane, path: usize) -> Option<(Parcel, u64)> {
        if let Some(parcel) = self.lane.first.pop_front() {
            return Some((parcel, 0));
        }
        let view = self.views.get(path)?;
        let worth = usize::try_from(view.rate.bytes(MESSAGE_TIME)).unwrap_or(FULL);
        let packets = (worth / usize::from(LARGEST)).clamp(1, MESSAGE_PACKETS);
        let slot = self.lane.turn.pop_front()?;
        let left = MEMORY_UNSENT.saturating_sub(lane.unsent);
        let flow = lane.flows.get_mut(slot)?.as_mut()?;
        let before = flow.unsent() as u64;
        flow.fill(&mut lane.scratch, left);
        let message = flow.next(packets * FULL);
        lane.unsent = (lane.unsent + flow.unsent() as u64).saturating_sub(before);
        let (failed, may_send) = (flow.failed.is_some(), flow.may_send());
        flow.queued = message.is_some() && may_send;
        if flow.queued {
            self.lane.turn.push_back(slot);
        }
        if failed || message.as_ref().is_some_and(|(_, last)| *last) {
            lane.dirty.push(slot);
        }
        let (parcel, _) = message?;
        let data = parcel.payload_len() as u64;
        Some((parcel, data))
    }

    /// Notes the paths' state; `now` they may be given so many bytes more than they may send.
    pub(in crate::quic) fn refresh(&mut self, sockets: &mut BTreeMap<usize, Socket>, now: Instant) {
        let leeway = self.leeway(sockets);
        self.views.clear();
        self.resend_time = Duration::ZERO;
        let last_heard = self.heard;
        for member in &self.members {
            let link = member.link.and_then(|(socket, handle)| {
                sockets.get_mut(&socket).and_then(|s| s.links.get_mut(&handle))
            });
            if let Some(link) = &link {
                let mut path = link.path.get();
                path.note_group_heard(last_heard);
                self.heard = self.heard.max(path.heard());
                self.resend_time = self.resend_time.max(path.resend_time().unwrap_or_default());
            }
            let view = link.map_or(crate::quic::link::DARK, |link| link.view(now, leeway));
            self.views.push(view);
        }
    }
}
