//! Flows, gateways, paths, and the clock that drives them.

use std::time::{Duration, Instant};

use hawser_impair::{Instant as ChannelInstant, ValueError};
use hawser_multipath::{
    ACK_DELAY, Backlog, Path, Policy, Resequencer, ResequencerCounters, RetransmitQueue,
    Retransmittable, Scheduler, Sequencer, Tag, View,
};

use crate::{
    environment::Link,
    events::{Events, Nanos, nanos},
    flow::{Flow, Kind, PACKET, Receiver, SEGMENT},
    member::{Inner, Member, OVERHEAD, Outcomes, Reply},
};

/// Limit of the sending gateway's queue, bytes.
const BACKLOG: u64 = 1_000_000;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The paths.
    pub links: &'a [Link],
    /// Scheduling policy.
    pub policy: Policy,
    /// Kind of the flows.
    pub kind: Kind,
    /// Number of flows.
    pub flows: usize,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether the gateway retransmits what paths lose.
    pub retransmits: bool,
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Payload delivered in order, Mbit/s.
    pub goodput_mbps: f64,
    /// Counters of the resequencer.
    pub resequencer: ResequencerCounters,
    /// Retransmissions by the gateway.
    pub retransmitted: u64,
}

#[derive(Clone, Copy)]
enum Event {
    Flow(usize),
    Channel(usize),
    AckTimer(usize),
    Return(usize),
    Probe(usize),
    Expire,
}

/// A running simulation.
pub struct World {
    epoch: Instant,
    now: Nanos,
    events: Events<Event>,
    members: Vec<Member>,
    scheduler: Scheduler,
    sequencer: Sequencer,
    backlog: Backlog<(u16, u32, Inner)>,
    recovery: RetransmitQueue<Inner>,
    retransmits: bool,
    retransmitted: u64,
    resequencer: Resequencer<Inner>,
    flows: Vec<Flow>,
    receivers: Vec<Receiver>,
    sent: u64,
    released: Vec<Inner>,
    expire_at: Option<Nanos>,
    delivered_mark: u64,
    views: Vec<View>,
}

impl World {
    /// A simulation at its start. Results do not depend on `epoch`.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn new(epoch: Instant, setup: &Setup<'_>) -> Result<Self, ValueError> {
        let numbered = setup.links.iter().zip(1..);
        let members = numbered
            .map(|(link, number)| Member::new(epoch, link, setup.seed.wrapping_mul(31) + number))
            .collect::<Result<Vec<_>, _>>()?;
        let mut world = Self {
            epoch,
            now: 0,
            events: Events::new(),
            members,
            scheduler: Scheduler::new(setup.policy),
            sequencer: Sequencer::default(),
            backlog: Backlog::new(BACKLOG),
            recovery: RetransmitQueue::default(),
            retransmits: setup.retransmits,
            retransmitted: 0,
            resequencer: Resequencer::new(8192),
            flows: (0..setup.flows).map(|_| Flow::new(setup.kind)).collect(),
            receivers: (0..setup.flows).map(|_| Receiver::default()).collect(),
            sent: 0,
            released: Vec::new(),
            expire_at: None,
            delivered_mark: 0,
            views: Vec::new(),
        };
        world.begin();
        Ok(world)
    }

    /// Probes measure the paths; flows start one after the other.
    fn begin(&mut self) {
        for number in 0..self.members.len() {
            self.probe(number);
        }
        for flow in 0..self.flows.len() {
            let after = Duration::from_millis(1000 + 50 * flow as u64);
            self.events.add(nanos(after), Event::Flow(flow));
        }
    }

    /// Makes a path drop everything, or work again.
    pub fn cut(&mut self, path: usize, cut: bool) {
        if let Some(member) = self.members.get_mut(path) {
            member.cut = cut;
        }
    }

    /// The scheduler's view of each path now.
    #[must_use]
    pub fn views(&self) -> Vec<View> {
        let now = self.instant();
        self.members.iter().map(|member| member.path.view(now, 0, 0)).collect()
    }

    /// Bytes queued in the sending gateway.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.backlog.bytes()
    }

    /// Bytes sent on each path so far.
    #[must_use]
    pub fn shares(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.path.totals().sent).collect()
    }

    /// Runs for `span` and returns the result of that time.
    pub fn run(&mut self, span: Duration) -> Outcome {
        let end = self.now + nanos(span);
        while let Some((at, event)) = self.events.next(end) {
            self.now = at;
            self.dispatch(event);
        }
        self.now = end;
        let delivered: u64 = self.receivers.iter().map(|receiver| receiver.delivered).sum();
        let bytes = delivered - std::mem::replace(&mut self.delivered_mark, delivered);
        Outcome {
            goodput_mbps: bytes as f64 * 8.0 / span.as_secs_f64() / 1e6,
            resequencer: self.resequencer.counters(),
            retransmitted: self.retransmitted,
        }
    }

    fn instant(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.now)
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Flow(flow) => self.flow_timer(flow),
            Event::Channel(number) => self.channel(number),
            Event::AckTimer(number) => self.acknowledge(number),
            Event::Return(number) => self.receive_reply(number),
            Event::Probe(number) => {
                if self
                    .members
                    .get(number)
                    .and_then(Member::probe_at)
                    .is_some_and(|at| at <= self.now)
                {
                    self.probe(number);
                }
                self.arm_probe(number);
                self.pump();
            }
            Event::Expire => {
                self.expire_at = None;
                let now = self.instant();
                self.resequencer.expire(now, &mut |inner| self.released.push(inner));
                self.deliver();
            }
        }
    }

    fn flow_timer(&mut self, number: usize) {
        let Some(flow) = self.flows.get_mut(number) else { return };
        flow.on_timeout(self.now);
        self.enqueue_segments(number);
        self.pump();
        self.events.add(self.now + 20_000_000, Event::Flow(number));
    }

    /// Passes the segments that a flow may send to the gateway.
    fn enqueue_segments(&mut self, number: usize) {
        let now = self.instant();
        let Some(flow) = self.flows.get_mut(number) else { return };
        let bucket = u16::try_from(number).unwrap_or(0);
        while let Some(segment) = flow.poll(self.now, &mut self.sent) {
            if self.backlog.admit(PACKET).is_ok() {
                let sequence = self.sequencer.next_sequence(bucket);
                let inner = Inner { flow: number, segment, sent: self.now };
                self.backlog.push(now, PACKET, (bucket, sequence, inner));
            }
        }
    }

    /// Sends what the windows allow.
    fn pump(&mut self) {
        let (now, size) = (self.instant(), u64::from(PACKET + OVERHEAD));
        let heard = self.members.iter().filter_map(|member| member.path.last_ack()).max();
        self.members.iter_mut().for_each(|member| member.path.note_group_ack(heard));
        let mut views = std::mem::take(&mut self.views);
        views.clear();
        views.extend(self.members.iter().map(|member| member.path.view(now, 0, size)));
        let spread = self.scheduler.spread(&views, size);
        let delay = views.iter().map(|view| view.delay).max().unwrap_or_default();
        self.backlog.set_target(spread, delay * 2, self.recovery.had_recent_loss(now));
        let times = self.members.iter().filter_map(|member| member.path.max_retransmission_delay());
        self.resequencer.set_min_wait(spread, times.max().unwrap_or_default());
        self.recover();
        while let Some(([path, copy], packet)) = self.next(&views, size) {
            for (path, retransmittable) in [(path, self.retransmits), (copy, false)] {
                let Some(path) = path else { continue };
                let (flow, sequence) = (packet.flow, packet.sequence);
                let tag = self.sequencer.tag(now, flow, sequence, path, self.retransmits);
                if let Some(view) = views.get_mut(path) {
                    view.sent(size);
                }
                let tag = Tag { retransmittable, ..tag };
                self.send(path, Some((tag, packet.clone())), PACKET + OVERHEAD);
            }
        }
        self.views = views;
    }

    /// The next packet, its path, and the path of a duplicate. Retransmissions go first.
    fn next(
        &mut self,
        views: &[View],
        size: u64,
    ) -> Option<([Option<usize>; 2], Retransmittable<Inner>)> {
        if !self.recovery.is_empty() {
            let path = self.scheduler.next(views, 1, size, self.retransmits)?.path;
            self.retransmitted += 1;
            let packet = self.recovery.pop()?;
            let copied = self.recovery.may_duplicate();
            let copy = copied.then(|| self.scheduler.duplicate_path(views, size, path)).flatten();
            return Some(([Some(path), copy], packet));
        }
        let backlog = Some(self.backlog.bytes()).filter(|bytes| *bytes > 0)?;
        let choice = self.scheduler.next(views, backlog, size, self.retransmits)?;
        let first_sent = self.instant();
        let (flow, sequence, item) = self.backlog.take(first_sent, choice.skip, |_| true)?;
        Some((
            [Some(choice.path), None],
            Retransmittable { flow, sequence, len: PACKET, first_sent, item },
        ))
    }

    /// Fills a new path with padding.
    fn send_padding(&mut self, number: usize) {
        let (now, size) = (self.instant(), PACKET + OVERHEAD);
        let available_window = |path: &Path| path.view(now, 0, 0).available_window >= size.into();
        let new = |member: &Member| member.path.wants_padding() && available_window(&member.path);
        while self.members.get(number).is_some_and(new) {
            self.send(number, None, size);
        }
    }

    /// Applies the outcomes of packets.
    fn recover(&mut self) {
        let now = self.instant();
        for member in &mut self.members {
            member.retransmit_if_silent(now);
            let Outcomes { acked, lost } = std::mem::take(&mut member.outcomes);
            let given_up = lost.into_iter().filter_map(|packet| self.recovery.push(now, packet));
            for packet in given_up.chain(acked) {
                self.sequencer.complete(packet.flow, packet.sequence);
            }
        }
    }

    fn probe(&mut self, number: usize) {
        self.send(number, None, 60);
        self.arm_probe(number);
    }

    fn arm_probe(&mut self, number: usize) {
        if let Some(at) = self.members.get(number).and_then(Member::probe_at) {
            self.events.add(at.max(self.now + 1_000_000), Event::Probe(number));
        }
    }

    fn send(&mut self, number: usize, inner: Option<(Tag, Retransmittable<Inner>)>, bytes: u32) {
        let (epoch, now) = (self.epoch, self.now);
        let Some(member) = self.members.get_mut(number) else { return };
        let arms = member.path.in_flight() == 0 && inner.is_some();
        member.send(epoch, now, inner, bytes);
        self.arm_channel(number);
        if arms {
            self.arm_probe(number);
        }
    }

    fn arm_channel(&mut self, number: usize) {
        let Some(member) = self.members.get_mut(number) else { return };
        let Some(at) = member.channel.poll_timeout().map(ChannelInstant::as_nanos) else { return };
        if member.wake.is_none_or(|wake| at < wake) {
            member.wake = Some(at);
            self.events.add(at.max(self.now), Event::Channel(number));
        }
    }

    /// Packets arrive from a path.
    fn channel(&mut self, number: usize) {
        let now = self.instant();
        let Some(member) = self.members.get_mut(number) else { return };
        member.wake = None;
        let mut at_once = false;
        let was_empty = member.to_ack.is_empty();
        while let Some(departure) = member.channel.pop_due(ChannelInstant::from_nanos(self.now)) {
            let packet = departure.packet;
            at_once |= member.received(packet.number);
            if let Some((tag, inner)) = packet.inner {
                self.resequencer
                    .push(now, number, tag, (inner, true), &mut |inner| self.released.push(inner));
            }
        }
        if at_once {
            self.acknowledge(number);
        } else if was_empty {
            self.events.add(self.now + nanos(ACK_DELAY), Event::AckTimer(number));
        }
        self.arm_channel(number);
        self.deliver();
    }

    fn acknowledge(&mut self, number: usize) {
        let Some(member) = self.members.get_mut(number) else { return };
        let numbers = std::mem::take(&mut member.to_ack);
        if !numbers.is_empty() && !member.cut {
            member.back.send(self.now, Reply::Ack(numbers));
            self.arm_return(number);
        }
    }

    fn arm_return(&mut self, number: usize) {
        let Some(back) = self.members.get_mut(number).map(|member| &mut member.back) else {
            return;
        };
        let Some(at) = back.channel.poll_timeout().map(ChannelInstant::as_nanos) else { return };
        if back.wake.is_none_or(|wake| at < wake) {
            back.wake = Some(at);
            self.events.add(at.max(self.now), Event::Return(number));
        }
    }

    /// Replies arrive on a path.
    fn receive_reply(&mut self, number: usize) {
        let (epoch, now) = (self.epoch, self.now);
        if let Some(member) = self.members.get_mut(number) {
            member.back.wake = None;
        }
        while let Some(reply) = self.members.get_mut(number).and_then(|m| m.back.receive(now)) {
            match reply {
                Reply::Ack(numbers) => {
                    if let Some(member) = self.members.get_mut(number) {
                        member.on_ack(epoch, now, &numbers);
                    }
                    self.send_padding(number);
                }
                Reply::Inner(number, acknowledged) => {
                    if let Some(flow) = self.flows.get_mut(number) {
                        flow.on_ack(now, acknowledged);
                    }
                    self.enqueue_segments(number);
                }
            }
            self.pump();
        }
        self.arm_return(number);
    }

    /// Delivers what the resequencer has released.
    fn deliver(&mut self) {
        let backs =
            self.members.iter().map(|member| member.path.congestion().base_rtt()).enumerate();
        let back = backs.min_by_key(|(_, base)| *base).map_or(0, |(number, _)| number);
        for inner in std::mem::take(&mut self.released) {
            let Some(receiver) = self.receivers.get_mut(inner.flow) else { continue };
            let acknowledged = receiver.on_segment(inner.segment, inner.sent);
            if let Some(member) = self.members.get_mut(back) {
                member.back.send(self.now, Reply::Inner(inner.flow, acknowledged));
            }
        }
        self.arm_return(back);
        let timeout = self.resequencer.poll_timeout();
        let at = timeout.map(|at| nanos(at.saturating_duration_since(self.epoch)).max(self.now));
        if let Some(at) = at.filter(|at| self.expire_at.is_none_or(|known| *at < known)) {
            self.expire_at = Some(at);
            self.events.add(at, Event::Expire);
        }
    }
}

/// Fraction of a link's rate left for payload.
#[must_use]
pub fn payload_share() -> f64 {
    SEGMENT as f64 / f64::from(PACKET + OVERHEAD)
}
