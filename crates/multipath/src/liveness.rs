//! Path liveness: whether a path's acknowledgements are overdue (docs/design/path-liveness.md).

use std::{
    cmp::Reverse,
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::filter::WindowedMin;

/// Acknowledgement delay asked of the peer (`Requested Max Ack Delay`,
/// draft-ietf-quic-ack-frequency section 4). With the 25 ms of RFC 9000 section 18.2, a lone packet
/// looks as if it had occupied the path for 25 ms: a path once measured slow got lone packets, and
/// stayed slow.
pub const ACK_DELAY: Duration = Duration::from_millis(2);

/// Minimum probe timeout: a busy host is late by less.
const MIN_PTO: Duration = Duration::from_millis(60);

/// Minimum lateness of an acknowledgement at which a path is overdue while other paths answer, so
/// that the host is not the cause.
const MIN_LATENESS: Duration = Duration::from_millis(15);

/// Time within which one of several PINGs is acknowledged, at least, and as a number of probe timeouts: then the path is
/// down though nothing else is in flight. Lost PINGs are repeated within it (RFC 9002 section 6.2).
const MIN_PING_TIMEOUT: Duration = Duration::from_millis(750);
const PING_TIMEOUT_PTOS: u32 = 4;

/// PINGs without an answer that take a path down: a host that was stopped has sent fewer in that time.
const MIN_PINGS: u32 = 3;

/// Time for which the maximum lateness is remembered, and the factor on it.
const LATENESS_WINDOW: Duration = Duration::from_secs(2);
const LATENESS_FACTOR: u32 = 2;

/// Packets sent within this time share one entry of [`AckMonitor::send_times`].
const SEND_TIME_RESOLUTION: Duration = Duration::from_millis(1);

/// Entries of [`AckMonitor::send_times`]: four seconds of a busy path.
const MAX_SEND_TIMES: usize = 4096;

/// What the absence of acknowledgements means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Nothing is overdue.
    Normal,
    /// An acknowledgement should have arrived.
    Overdue,
    /// None arrived for two probe timeouts, or for several PINGs.
    Down,
}

/// Acknowledgements of one path.
#[derive(Clone, Debug)]
pub(crate) struct AckMonitor {
    /// Smoothed RTT and its variation (RFC 9002 section 5.3).
    rtt: Option<(Duration, Duration)>,
    /// Since when an acknowledgement is awaited; none if nothing is in flight.
    awaiting_since: Option<Instant>,
    /// PINGs since the last acknowledgement: when the first was sent, and how many were.
    asked: Option<(Instant, u32)>,
    /// When the newest packet was sent, and when the newest one that is acknowledged: that may be a PING.
    newest: (Option<Instant>, Option<Instant>),
    /// Send times later than that of the last packet acknowledged.
    send_times: VecDeque<Instant>,
    /// When the last acknowledgement arrived, here and on any path of the group.
    last_ack: Option<Instant>,
    group_last_ack: Option<Instant>,
    /// Least RTT of the ACK frame that is being reported: that of its largest packet, the only one
    /// that makes a sample (RFC 9002 section 5.1). Others may have waited for an ACK that was lost.
    batch_rtt: Option<Duration>,
    /// Lateness of the ACK frame that is being reported, and the recent maximum.
    lateness: Option<Duration>,
    max_lateness: WindowedMin<Reverse<Duration>>,
    /// When the first acknowledgement arrived after the path was down.
    revived_at: Option<Instant>,
}

impl AckMonitor {
    pub(crate) const fn new() -> Self {
        Self {
            rtt: None,
            awaiting_since: None,
            asked: None,
            newest: (None, None),
            send_times: VecDeque::new(),
            last_ack: None,
            group_last_ack: None,
            batch_rtt: None,
            lateness: None,
            max_lateness: WindowedMin::new(LATENESS_WINDOW),
            revived_at: None,
        }
    }

    /// Smoothed RTT.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(smoothed, _)| smoothed)
    }

    /// RTT variation.
    pub(crate) fn jitter(&self) -> Duration {
        self.rtt.map_or(Duration::ZERO, |(_, variation)| variation)
    }

    /// When the last acknowledgement arrived.
    pub(crate) fn last_ack(&self) -> Option<Instant> {
        self.last_ack
    }

    /// Reports the latest acknowledgement on any path of the group.
    pub(crate) fn note_group_ack(&mut self, at: Option<Instant>) {
        self.group_last_ack = self.group_last_ack.max(at);
    }

    /// Whether a packet was sent before the path came back.
    pub(crate) fn sent_while_down(&self, sent: Instant) -> bool {
        self.revived_at.is_some_and(|back| sent < back)
    }

    /// A packet was sent.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        self.awaiting_since.get_or_insert(now);
        self.newest.0 = Some(now);
        let is_new = self.send_times.back().is_none_or(|last| now >= *last + SEND_TIME_RESOLUTION);
        if is_new && self.send_times.len() < MAX_SEND_TIMES {
            self.send_times.push_back(now);
        }
    }

    /// A PING is sent.
    pub(crate) fn on_ping(&mut self, now: Instant) {
        let (_, times) = self.asked.get_or_insert((now, 0));
        *times = times.saturating_add(1);
    }

    /// Whether a PING has had no answer yet.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// A packet was acknowledged; returns whether its RTT is valid. The first acknowledgement after
    /// an outage is not: it may belong to a packet sent before.
    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant) -> bool {
        if self.lateness.is_none() {
            // Measured against other paths' acknowledgements: a busy host is late on all paths.
            let group_last_ack = self.group_last_ack.unwrap_or(now);
            self.lateness =
                self.expected_ack().map(|at| group_last_ack.saturating_duration_since(at));
        }
        self.newest.1 = self.newest.1.max(Some(sent));
        while self.send_times.pop_front_if(|sent_at| *sent_at <= sent).is_some() {}
        if self.is_down(now) {
            return false;
        }
        let rtt = now.saturating_duration_since(sent);
        self.batch_rtt = Some(self.batch_rtt.map_or(rtt, |least| least.min(rtt)));
        true
    }

    /// Adds a sample to the smoothed RTT and its variation.
    fn smooth(&mut self, rtt: Duration) {
        self.rtt = Some(match self.rtt {
            None => (rtt, rtt / 2),
            Some((smoothed, variation)) => {
                ((smoothed * 7 + rtt) / 8, (variation * 3 + smoothed.abs_diff(rtt)) / 4)
            }
        });
    }

    /// All packets of one ACK frame have been reported. If anything remains in flight, another acknowledgement is awaited,
    /// unless all packets are older than what has been acknowledged, and lost if they are not here.
    pub(crate) fn on_end_acks(&mut self, now: Instant, in_flight: bool) {
        let more = in_flight && self.newest.0 >= self.newest.1;
        if let Some(rtt) = self.batch_rtt.take() {
            self.smooth(rtt);
        }
        let late = self.lateness.take();
        if self.is_down(now) {
            self.revived_at = Some(now);
        } else if let Some(late) = late {
            self.max_lateness.note(now, Reverse(late));
        }
        (self.last_ack, self.asked) = (Some(now), None);
        self.awaiting_since = more.then_some(now);
        if !more {
            self.send_times.clear();
        }
    }

    /// What the current silence means; none before the first acknowledgement.
    pub(crate) fn silence(&self, now: Instant) -> Option<Silence> {
        let pto = self.pto()?;
        let alone =
            self.group_last_ack.zip(self.overdue_at()).is_some_and(|(heard, due)| heard > due);
        Some(match self.waiting_time(now) {
            waited if waited > pto * 2 || self.pings_failed(now) => Silence::Down,
            waited if waited > pto || alone => Silence::Overdue,
            _ => Silence::Normal,
        })
    }

    /// When [`Self::silence`] changes next without an acknowledgement; none if it cannot change.
    pub(crate) fn next_check(&self, now: Instant) -> Option<Instant> {
        let pto = self.pto()?;
        let awaited = self.awaiting_since.map(|since| since + pto);
        let at = [self.overdue_at(), awaited, self.ping_deadline()];
        at.into_iter().flatten().filter(|at| *at >= now).min()
    }

    /// When PINGs have been unanswered for too long.
    fn ping_deadline(&self) -> Option<Instant> {
        let (since, _) = self.asked?;
        Some(since + (self.pto()? * PING_TIMEOUT_PTOS).max(MIN_PING_TIMEOUT))
    }

    fn pings_failed(&self, now: Instant) -> bool {
        let enough = self.asked.is_some_and(|(_, times)| times >= MIN_PINGS);
        enough && self.ping_deadline().is_some_and(|at| now > at)
    }

    fn is_down(&self, now: Instant) -> bool {
        self.silence(now) == Some(Silence::Down)
    }

    /// How long an acknowledgement has been awaited.
    fn waiting_time(&self, now: Instant) -> Duration {
        self.awaiting_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// When the next acknowledgement is expected: one RTT after the oldest packet in flight was
    /// sent.
    fn expected_ack(&self) -> Option<Instant> {
        let (waiting, rtt) = self.awaiting_since.zip(self.rtt())?;
        let oldest = self.send_times.front().map_or(waiting, |sent_at| waiting.min(*sent_at));
        Some(waiting.max(oldest + rtt))
    }

    /// When it is overdue: later than RTT variation and recent lateness explain.
    fn overdue_at(&self) -> Option<Instant> {
        let max_lateness =
            self.max_lateness.get().map_or(Duration::ZERO, |Reverse(late)| late * LATENESS_FACTOR);
        let varies = self.jitter() * 4 + ACK_DELAY;
        Some(self.expected_ack()? + varies.max(max_lateness).max(MIN_LATENESS))
    }

    /// Probe timeout (RFC 9002 section 6.2.1); none before the first acknowledgement.
    pub(crate) fn pto(&self) -> Option<Duration> {
        let (rtt, variation) = self.rtt.filter(|_| self.last_ack.is_some())?;
        Some((rtt + variation * 4 + ACK_DELAY).max(MIN_PTO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A packet every millisecond, acknowledged after 20 ms; the last acknowledgement at 80 ms.
    fn busy(start: Instant) -> AckMonitor {
        let mut monitor = AckMonitor::new();
        for n in 0..=80 {
            monitor.on_sent(start + ms(n));
            if let Some(sent) = n.checked_sub(20) {
                monitor.on_ack(start + ms(n), start + ms(sent));
                monitor.on_end_acks(start + ms(n), true);
            }
        }
        monitor
    }

    #[test]
    fn a_path_is_overdue_sooner_while_others_answer() {
        let start = Instant::now();
        let mut monitor = busy(start);
        let mut silence = |now, heard| {
            monitor.note_group_ack(Some(start + ms(heard)));
            monitor.silence(start + ms(now)).unwrap()
        };
        assert_eq!(silence(135, 90), Silence::Normal, "nobody monitor: the machine may be late");
        assert_eq!(silence(95, 95), Silence::Normal, "its answer may still come");
        assert_eq!(silence(97, 97), Silence::Overdue);
        assert_eq!((silence(141, 97), silence(201, 97)), (Silence::Overdue, Silence::Down));
    }

    #[test]
    fn the_next_check_is_known() {
        let start = Instant::now();
        let monitor = busy(start);
        let next = |at| monitor.next_check(start + ms(at)).map(|at| at - start);
        assert_eq!([80, 97, 141].map(next), [Some(ms(96)), Some(ms(140)), None]);
    }

    #[test]
    fn an_ack_is_expected_one_rtt_after_its_packet() {
        let start = Instant::now();
        let mut monitor = busy(start);
        for sent in 61..=80 {
            monitor.on_ack(start + ms(sent + 20), start + ms(sent));
            monitor.on_end_acks(start + ms(sent + 20), sent < 80);
        }
        monitor.on_sent(start + ms(200));
        let due = monitor.next_check(start + ms(200)).unwrap() - start;
        assert!((ms(235)..ms(236)).contains(&due), "{due:?}");
    }

    /// Each packet that had waited for it made a sample: a path whose RTT was 20 ms was left out
    /// for minutes as one of 300 ms.
    #[test]
    fn an_ack_that_was_lost_does_not_count_as_delay() {
        let start = Instant::now();
        let mut monitor = busy(start);
        for sent in (81..=90).chain([380]) {
            monitor.on_sent(start + ms(sent));
        }
        for sent in (81..=90).chain([380]) {
            monitor.on_ack(start + ms(400), start + ms(sent));
        }
        monitor.on_end_acks(start + ms(400), false);
        assert_eq!((monitor.rtt(), monitor.jitter()), (Some(ms(20)), Duration::ZERO));
    }
}
