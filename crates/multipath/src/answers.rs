//! When a path answers, and what it means that it does not (docs/design/path-liveness.md).

use std::{
    cmp::Reverse,
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::filter::WindowedMin;

/// The other end is to hold back an acknowledgement no longer than this (`Requested Max Ack Delay`,
/// draft-ietf-quic-ack-frequency section 4). With the 25 ms of RFC 9000 section 18.2 a packet that goes alone
/// looks as if it had taken 25 ms of the path: so a path that was thought slow got single packets, and was
/// thought slow for ever.
pub const ACK_DELAY: Duration = Duration::from_millis(2);

/// Shortest silence that says something: a busy machine is late by less.
const LEAST_SILENCE: Duration = Duration::from_millis(60);

/// By how much an answer must be late where other paths have answered meanwhile: it is not the machine then.
const LEAST_LATE: Duration = Duration::from_millis(15);

/// Time over which it is known by how much answers are late, and by how many times that they are to be.
const LATE_SPAN: Duration = Duration::from_secs(2);
const LATE_TIMES: u32 = 2;

/// Packets that leave within this time count as one where it is asked how long they are under way.
const MOMENT: Duration = Duration::from_millis(1);

/// Moments that are known, at most: seconds, of which no path needs so many.
const MOMENTS: usize = 4096;

/// What the silence of a path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Nothing.
    Usual,
    /// It should have answered.
    Long,
    /// It carries nothing.
    Down,
}

/// The answers of one path.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// Smoothed round trip and the variation of single ones (RFC 9002 section 5.3).
    rtt: Option<(Duration, Duration)>,
    /// Since when one is awaited.
    waiting: Option<Instant>,
    /// Moments at which packets left that came after all that were acknowledged.
    left: VecDeque<Instant>,
    /// When the last one came; and the last one of all paths of its group.
    heard: Option<Instant>,
    group_heard: Option<Instant>,
    /// By how much the one that is being told is late, and the longest of that.
    late: Option<Duration>,
    latest: WindowedMin<Reverse<Duration>>,
    /// When the first one came after the path had been down.
    back: Option<Instant>,
}

impl Answers {
    pub(crate) const fn new() -> Self {
        Self {
            rtt: None,
            waiting: None,
            left: VecDeque::new(),
            heard: None,
            group_heard: None,
            late: None,
            latest: WindowedMin::new(LATE_SPAN),
            back: None,
        }
    }

    /// Smoothed round trip.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(smoothed, _)| smoothed)
    }

    /// Variation of the round trip.
    pub(crate) fn jitter(&self) -> Duration {
        self.rtt.map_or(Duration::ZERO, |(_, variation)| variation)
    }

    /// When the last one came.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// When a path of the group, this or another, last answered.
    pub(crate) fn note_group_heard(&mut self, at: Option<Instant>) {
        self.group_heard = self.group_heard.max(at);
    }

    /// Whether a packet that left then may have been lost because the path was down.
    pub(crate) fn was_down(&self, sent: Instant) -> bool {
        self.back.is_some_and(|back| sent < back)
    }

    /// A packet left.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        self.waiting.get_or_insert(now);
        let is_new = self.left.back().is_none_or(|last| now >= *last + MOMENT);
        if is_new && self.left.len() < MOMENTS {
            self.left.push_back(now);
        }
    }

    /// A packet was acknowledged; whether that tells how long a round trip takes. The first acknowledgement after the
    /// path was down does not: it may be about packets from before.
    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant) -> bool {
        if self.late.is_none() {
            // By what others say: a busy machine is late on all paths.
            let group_heard = self.group_heard.unwrap_or(now);
            self.late = self.expected().map(|at| group_heard.saturating_duration_since(at));
        }
        while self.left.pop_front_if(|left| *left <= sent).is_some() {}
        if self.is_down(now) {
            return false;
        }
        let rtt = now.saturating_duration_since(sent);
        self.rtt = Some(match self.rtt {
            None => (rtt, rtt / 2),
            Some((smoothed, variation)) => {
                ((smoothed * 7 + rtt) / 8, (variation * 3 + smoothed.abs_diff(rtt)) / 4)
            }
        });
        true
    }

    /// All packets of one acknowledgement were told; whether more are under way.
    pub(crate) fn on_acks_end(&mut self, now: Instant, more: bool) {
        let late = self.late.take();
        if self.is_down(now) {
            self.back = Some(now);
        } else if let Some(late) = late {
            self.latest.note(now, Reverse(late));
        }
        self.heard = Some(now);
        self.waiting = more.then_some(now);
        if !more {
            self.left.clear();
        }
    }

    /// What its silence says; none before it answered for the first time.
    pub(crate) fn silence(&self, now: Instant) -> Option<Silence> {
        let patience = self.patience()?;
        let alone = self.group_heard.zip(self.overdue()).is_some_and(|(heard, due)| heard > due);
        Some(match self.waited(now) {
            waited if waited > patience * 2 => Silence::Down,
            waited if waited > patience || alone => Silence::Long,
            _ => Silence::Usual,
        })
    }

    /// When its silence will next say something, if it stays silent; none where it says all, or nothing is awaited.
    pub(crate) fn silent_at(&self, now: Instant) -> Option<Instant> {
        let patience = self.patience()?;
        let at = [self.overdue(), self.waiting.map(|since| since + patience)];
        at.into_iter().flatten().filter(|at| *at >= now).min()
    }

    fn is_down(&self, now: Instant) -> bool {
        self.silence(now) == Some(Silence::Down)
    }

    /// How long an answer has been awaited.
    fn waited(&self, now: Instant) -> Duration {
        self.waiting.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// When the next one is expected: a round trip after the packet that has been under way for longest.
    fn expected(&self) -> Option<Instant> {
        let (waiting, rtt) = self.waiting.zip(self.rtt())?;
        let oldest = self.left.front().map_or(waiting, |left| waiting.min(*left));
        Some(waiting.max(oldest + rtt))
    }

    /// When it is overdue: later than the round trip varies, and than answers were of late.
    fn overdue(&self) -> Option<Instant> {
        let latest = self.latest.get().map_or(Duration::ZERO, |Reverse(late)| late * LATE_TIMES);
        let varies = self.jitter() * 4 + ACK_DELAY;
        Some(self.expected()? + varies.max(latest).max(LEAST_LATE))
    }

    /// How long one may take on any machine (RFC 9002 section 6.2.1); none before the first.
    fn patience(&self) -> Option<Duration> {
        let (rtt, variation) = self.rtt.filter(|_| self.heard.is_some())?;
        Some((rtt + variation * 4 + ACK_DELAY).max(LEAST_SILENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A packet every millisecond, acknowledged after 20 ms; the last ones at 80 ms.
    fn busy(start: Instant) -> Answers {
        let mut answers = Answers::new();
        for n in 0..=80 {
            answers.on_sent(start + ms(n));
            if let Some(sent) = n.checked_sub(20) {
                answers.on_ack(start + ms(n), start + ms(sent));
                answers.on_acks_end(start + ms(n), true);
            }
        }
        answers
    }

    #[test]
    fn silence_says_more_where_others_answer() {
        let start = Instant::now();
        let mut answers = busy(start);
        let mut silence = |now, heard| {
            answers.note_group_heard(Some(start + ms(heard)));
            answers.silence(start + ms(now)).unwrap()
        };
        assert_eq!(silence(135, 90), Silence::Usual, "nobody answers: the machine may be late");
        assert_eq!(silence(95, 95), Silence::Usual, "its answer may still come");
        assert_eq!(silence(97, 97), Silence::Long);
        assert_eq!((silence(141, 97), silence(201, 97)), (Silence::Long, Silence::Down));
    }

    #[test]
    fn it_is_known_when_to_look_again() {
        let start = Instant::now();
        let answers = busy(start);
        let next = |at| answers.silent_at(start + ms(at)).map(|at| at - start);
        assert_eq!([80, 97, 141].map(next), [Some(ms(96)), Some(ms(140)), None]);
    }

    #[test]
    fn an_answer_is_due_a_round_trip_after_what_it_is_about() {
        let start = Instant::now();
        let mut answers = busy(start);
        for sent in 61..=80 {
            answers.on_ack(start + ms(sent + 20), start + ms(sent));
            answers.on_acks_end(start + ms(sent + 20), sent < 80);
        }
        answers.on_sent(start + ms(200));
        let due = answers.silent_at(start + ms(200)).unwrap() - start;
        assert!((ms(235)..ms(236)).contains(&due), "{due:?}");
    }
}
