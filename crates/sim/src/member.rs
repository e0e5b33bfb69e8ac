//! One member path: its transport at both ends, modelled after QUIC, and the network in between.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use hawser_impair::{Channel, Instant as ChannelInstant, Loss, Profile, ValueError};
use hawser_multipath::{ACK_DELAY, Path, Retransmittable, SentPackets, State, Tag};

use crate::{
    environment::Link,
    events::{Nanos, nanos},
    flow::Acknowledged,
};

/// Bytes added to an inner packet: Ethernet, IPv4, UDP, QUIC, our header.
pub(crate) const OVERHEAD: u32 = 14 + 20 + 8 + 24 + 3 + 10;

/// Packets after which an ACK is sent at once (RFC 9000 section 13.2.2).
const ACK_EVERY: usize = 2;

/// Packet reordering threshold; the time threshold is 9/8 of an RTT (RFC 9002 section 6.1).
const PACKET_THRESHOLD: u64 = 3;

/// An inner packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) flow: usize,
    pub(crate) segment: u64,
    pub(crate) sent: Nanos,
}

/// A packet on the path; a probe if it has no inner packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) number: u64,
    pub(crate) inner: Option<(Tag, Inner)>,
}

/// What travels back.
pub(crate) enum Reply {
    /// Acknowledgement of these packets of the path.
    Ack(Vec<u64>),
    /// Acknowledgement of an inner flow.
    Inner(usize, Acknowledged),
}

/// The return direction: same delay and jitter, without queue and loss.
pub(crate) struct Return {
    pub(crate) channel: Channel<u64>,
    replies: BTreeMap<u64, Reply>,
    made: u64,
    /// When the channel is polled next.
    pub(crate) wake: Option<Nanos>,
}

impl Return {
    fn new(link: &Link, seed: u64) -> Result<Self, ValueError> {
        let there = link.profile()?;
        let delay = there.delay + Duration::from_micros(100);
        let profile = Profile { bottleneck: None, loss: Loss::None, delay, ..there };
        let channel = Channel::new(ChannelInstant::from_nanos(0), profile, seed);
        Ok(Self { channel, replies: BTreeMap::new(), made: 0, wake: None })
    }

    /// Sends a packet.
    pub(crate) fn send(&mut self, now: Nanos, reply: Reply) {
        self.made += 1;
        self.replies.insert(self.made, reply);
        // It takes all.
        let _ = self.channel.enqueue(ChannelInstant::from_nanos(now), 60, self.made);
    }

    pub(crate) fn receive(&mut self, now: Nanos) -> Option<Reply> {
        let departure = self.channel.pop_due(ChannelInstant::from_nanos(now))?;
        self.replies.remove(&departure.packet)
    }
}

/// One member path.
pub(crate) struct Member {
    pub(crate) path: Path,
    pub(crate) channel: Channel<Packet>,
    pub(crate) back: Return,
    next: u64,
    flight: VecDeque<Outstanding>,
    in_flight: u64,
    /// Retransmittable packets in flight, and outcomes of those that no longer are.
    sent_packets: SentPackets<u64, Inner>,
    pub(crate) outcomes: Outcomes,
    last_ack: Nanos,
    /// Packets received and not acknowledged yet.
    pub(crate) to_ack: Vec<u64>,
    /// When the channel is polled next.
    pub(crate) wake: Option<Nanos>,
    /// Whether all packets are dropped.
    pub(crate) cut: bool,
}

/// Outcomes of inner packets.
#[derive(Default)]
pub(crate) struct Outcomes {
    pub(crate) acked: Vec<Retransmittable<Inner>>,
    pub(crate) lost: Vec<Retransmittable<Inner>>,
}

struct Outstanding {
    number: u64,
    at: Nanos,
    bytes: u64,
    acked: bool,
}

impl Member {
    pub(crate) fn new(
        epoch: std::time::Instant,
        link: &Link,
        seed: u64,
    ) -> Result<Self, ValueError> {
        let channel = Channel::new(ChannelInstant::from_nanos(0), link.profile()?, seed);
        Ok(Self {
            path: Path::new(epoch, 1500),
            channel,
            back: Return::new(link, !seed)?,
            next: 0,
            flight: VecDeque::new(),
            in_flight: 0,
            sent_packets: SentPackets::default(),
            outcomes: Outcomes::default(),
            last_ack: 0,
            to_ack: Vec::new(),
            wake: None,
            cut: false,
        })
    }

    /// Sends a packet.
    pub(crate) fn send(
        &mut self,
        epoch: std::time::Instant,
        now: Nanos,
        inner: Option<(Tag, Retransmittable<Inner>)>,
        bytes: u32,
    ) {
        let number = self.next;
        self.next += 1;
        let inner = inner.map(|(tag, packet)| {
            let item = packet.item;
            if tag.retransmittable {
                self.sent_packets.sent(number, packet, |_| {});
            }
            (tag, item)
        });
        self.flight.push_back(Outstanding { number, at: now, bytes: bytes.into(), acked: false });
        self.in_flight += u64::from(bytes);
        self.path.on_sent(epoch + Duration::from_nanos(now), bytes.into());
        if !self.cut {
            // Tail drop: what the queue does not take is lost.
            let _ = self.channel.enqueue(
                ChannelInstant::from_nanos(now),
                bytes,
                Packet { number, inner },
            );
        }
    }

    /// A packet arrived; returns whether to acknowledge at once.
    pub(crate) fn received(&mut self, number: u64) -> bool {
        self.to_ack.push(number);
        self.to_ack.len() >= ACK_EVERY
    }

    /// An acknowledgement arrived.
    pub(crate) fn on_ack(&mut self, epoch: std::time::Instant, now: Nanos, numbers: &[u64]) {
        let at = |nanos| epoch + Duration::from_nanos(nanos);
        let largest = numbers.iter().copied().max().unwrap_or(0);
        self.last_ack = now;
        for entry in &mut self.flight {
            if entry.number > largest {
                break;
            }
            if !entry.acked && numbers.contains(&entry.number) {
                entry.acked = true;
                self.in_flight -= entry.bytes;
                self.path.on_ack(at(now), at(entry.at), entry.bytes);
                self.sent_packets.acked(entry.number, |packet| self.outcomes.acked.push(packet));
            }
        }
        self.lose(epoch, now, largest);
        self.path.on_end_acks(at(now), self.in_flight);
    }

    fn lose(&mut self, epoch: std::time::Instant, now: Nanos, largest: u64) {
        let (mut lost, mut sent) = (0, now);
        let late = nanos(self.path.rtt().unwrap_or_default() * 9 / 8);
        let is_lost = |entry: &Outstanding| {
            entry.number + PACKET_THRESHOLD <= largest
                || (entry.number < largest && entry.at + late <= now)
        };
        while let Some(entry) = self.flight.pop_front_if(|entry| entry.acked || is_lost(entry)) {
            if !entry.acked {
                lost += entry.bytes;
                sent = entry.at;
            }
            self.sent_packets.lost(entry.number, |packet| self.outcomes.lost.push(packet));
        }
        if lost > 0 {
            self.in_flight -= lost;
            let at = |nanos| epoch + Duration::from_nanos(nanos);
            self.path.on_lost(at(now), at(sent), lost, false);
        }
    }

    /// Declares everything in flight on a silent path lost.
    pub(crate) fn retransmit_if_silent(&mut self, now: std::time::Instant) {
        if matches!(self.path.state(now), State::Degraded | State::Down) {
            self.outcomes.lost.extend(self.sent_packets.take_all());
        }
    }

    /// When the probe timeout expires (RFC 9002 section 6.2).
    pub(crate) fn probe_at(&self) -> Option<Nanos> {
        let last = self.flight.back()?.at.max(self.last_ack);
        let rtt = self.path.rtt().unwrap_or(Duration::from_millis(333));
        let wait = rtt + self.path.jitter() * 4 + ACK_DELAY;
        Some(last + nanos(wait))
    }
}
