//! Trains of packets that measure a path: both ends, as state machines without a clock
//! (docs/design/path-program.md, Trains between gateways).

use std::time::{Duration, Instant};

use hawser_wire::train::{Arrival, MAX_ARRIVALS, MAX_FRAMES, Message};

/// Frames later than this are not sent: sent at once they would be a burst of their own.
const CATCH_UP: Duration = Duration::from_millis(2);

/// Longest train.
const MAX_DURATION: Duration = Duration::from_secs(2);

/// Time for the peer's answer, from the end of the train.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Least interval of requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Reports that answer a request.
const REPORTS: usize = 16;

/// Reports of a train, in terms of those that are needed: requests and reports may be lost.
const REPORTS_PER_NEEDED: usize = 4;

/// Time for which arrivals are kept from the last one on.
const KEPT: Duration = Duration::from_secs(10);

/// Shortest and longest frame, bytes, with its Ethernet header.
const SIZES: std::ops::RangeInclusive<u16> = 128..=9230;

/// A train: frames in two streams that begin together. The fill builds a queue, which the body keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    size: u16,
    body: Stream,
    fill: Stream,
}

/// Frames at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    frames: u16,
    rate_bps: u64,
}

impl Stream {
    /// When a frame is due, from the first on.
    fn due(self, number: u16, size: u16) -> Duration {
        let bits = 8 * u64::from(size) * u64::from(number);
        Duration::from_nanos(bits.saturating_mul(1_000_000_000) / self.rate_bps.max(1))
    }

    fn next(self, sent: u16, size: u16) -> Option<Duration> {
        (sent < self.frames).then(|| self.due(sent, size))
    }
}

impl Train {
    /// A train of frames of `size` bytes, from the Ethernet header to the end of the payload; of
    /// body and fill the number of frames, and the rate in bit/s.
    ///
    /// # Errors
    /// The field that is out of range, and what it may be.
    pub fn new(
        size: u16,
        body: (u16, u64),
        fill: (u16, u64),
    ) -> Result<Self, (&'static str, &'static str)> {
        let [body, fill] = [body, fill].map(|(frames, rate_bps)| Stream { frames, rate_bps });
        let this = Self { size, body, fill };
        if !SIZES.contains(&size) {
            return Err(("size", "128 to 9230 bytes"));
        }
        if body.frames == 0 || this.frames() > u32::from(MAX_FRAMES) {
            return Err(("frames", "1 to 50000 with those of the fill"));
        }
        let lasts = |stream: Stream| stream.due(stream.frames, size);
        if body.rate_bps == 0 || lasts(body) > MAX_DURATION {
            return Err(("rate_bps", "so much that the train takes at most 2 s"));
        }
        if fill.frames > 0 && (fill.rate_bps == 0 || lasts(fill) > MAX_DURATION) {
            return Err(("fill_rate_bps", "so much that the train takes at most 2 s"));
        }
        Ok(this)
    }

    fn frames(&self) -> u32 {
        u32::from(self.body.frames) + u32::from(self.fill.frames)
    }

    /// What is sent at most, bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        8 * u64::from(self.size) * u64::from(self.frames())
    }

    pub(super) fn size(&self) -> u16 {
        self.size
    }
}

/// What became of a train. Frames that the sender had no time for are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Bytes of a frame as sent, with its Ethernet header: those asked for, or what the path takes.
    pub size: u16,
    /// When each frame was sent, microseconds since the connection began here.
    pub sent_us: Vec<u64>,
    /// When it arrived, microseconds since the connection began at the peer; None if it was lost.
    pub received_us: Vec<Option<u64>>,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct Sender {
    train: Train,
    number: u32,
    /// When the connection began, and the train.
    epoch: Instant,
    start: Instant,
    /// Interval of requests.
    interval: Duration,
    /// Frames of body and fill that are no more due.
    done: (u16, u16),
    /// By the number of the frame, microseconds since the connection began.
    sent: Vec<Option<u64>>,
    received: Vec<Option<u64>>,
    /// Frames have been sent: the rest is to ask what has arrived.
    asking: Option<Asking>,
}

#[derive(Debug)]
struct Asking {
    end: Instant,
    /// When to ask again.
    next: Instant,
    /// Arrivals known when that was asked last, and now.
    asked: usize,
    known: usize,
    complete: bool,
}

impl Sender {
    pub(super) fn new(
        number: u32,
        train: Train,
        (epoch, rtt): (Instant, Duration),
        now: Instant,
    ) -> Self {
        Self {
            train,
            number,
            epoch,
            start: now,
            interval: (2 * rtt).max(REQUEST_INTERVAL),
            done: (0, 0),
            sent: Vec::new(),
            received: Vec::new(),
            asking: None,
        }
    }

    /// When the next frame is due.
    fn next_frame(&self) -> Option<Duration> {
        let size = self.train.size;
        let ((body, fill), train) = (self.done, self.train);
        let due = [train.body.next(body, size), train.fill.next(fill, size)];
        due.into_iter().flatten().min()
    }

    /// The next message that is due: a frame, or a request when all have been sent.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Message> {
        while let Some(due) = self.next_frame() {
            let elapsed = now.saturating_duration_since(self.start);
            if due > elapsed {
                return None;
            }
            let is_body = self.train.body.next(self.done.0, self.train.size) == Some(due);
            if is_body {
                self.done.0 += 1;
            } else {
                self.done.1 += 1;
            }
            let late = elapsed > due + CATCH_UP;
            let number = u16::try_from(self.sent.len()).ok()?;
            let sent_us = (!late).then(|| micros(now.saturating_duration_since(self.epoch)));
            self.sent.push(sent_us);
            self.received.push(None);
            if sent_us.is_some() {
                return Some(Message::Frame { train: self.number, number });
            }
        }
        let asking = self.asking.get_or_insert(Asking {
            end: now + ANSWER_TIME,
            next: now,
            asked: 0,
            known: 0,
            complete: false,
        });
        if asking.complete || now < asking.next || now >= asking.end {
            return None;
        }
        (asking.next, asking.asked) = (now + self.interval, asking.known);
        let first = u16::try_from(asking.known).unwrap_or(u16::MAX);
        Some(Message::Request { train: self.number, first })
    }

    /// A report has come.
    pub(super) fn take(
        &mut self,
        (train, first, total): (u32, u16, u16),
        (origin_us, arrivals): (u64, &[Arrival]),
        now: Instant,
    ) {
        let Some(asking) = &mut self.asking else { return };
        let expected = train == self.number && usize::from(first) == asking.known;
        if !expected || asking.complete || usize::from(total) > self.sent.len() {
            return;
        }
        for Arrival { number, time_us } in arrivals {
            let number = usize::from(*number);
            if self.sent.get(number).is_some_and(Option::is_some)
                && let Some(received) = self.received.get_mut(number)
            {
                received.get_or_insert(origin_us.saturating_add((*time_us).into()));
            }
        }
        asking.known += arrivals.len();
        asking.complete = asking.known >= usize::from(total);
        if asking.known >= asking.asked + REPORTS * MAX_ARRIVALS {
            asking.next = now;
        }
    }

    /// When [`Self::poll`], or [`Self::is_over`], is due.
    pub(super) fn poll_timeout(&self) -> Instant {
        match (&self.asking, self.next_frame()) {
            (Some(asking), _) => asking.next.min(asking.end),
            (None, due) => self.start + due.unwrap_or_default(),
        }
    }

    /// Whether the answer is complete, or none is to be expected any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.complete || now >= asking.end)
    }

    /// What became of the train, whose frames had `size` bytes; None if the peer did not answer.
    pub(super) fn observed(self, size: u16) -> Option<Observed> {
        self.asking.filter(|asking| asking.complete)?;
        let pairs = self.sent.into_iter().zip(self.received);
        let pairs = pairs.filter_map(|(sent, received)| Some((sent?, received)));
        let (sent_us, received_us) = pairs.unzip();
        Some(Observed { size, sent_us, received_us })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The receiving end: arrivals of the newest train.
#[derive(Debug)]
pub(super) struct Receiver {
    train: u32,
    /// Time of the first arrival, from when the connection began.
    origin: Duration,
    first: Instant,
    last: Instant,
    arrivals: Vec<Arrival>,
    reports: usize,
}

impl Receiver {
    /// Takes a frame that arrived at this time on a connection that began at `epoch`. One of another
    /// train ends the one before.
    pub(super) fn take(
        this: &mut Option<Self>,
        (train, number): (u32, u16),
        (epoch, at): (Instant, Instant),
    ) {
        let origin = at.saturating_duration_since(epoch);
        let new = Self { train, origin, first: at, last: at, arrivals: Vec::new(), reports: 0 };
        let receiver = match this {
            Some(receiver) if receiver.train == train => receiver,
            _ => this.insert(new),
        };
        if receiver.arrivals.len() < usize::from(MAX_FRAMES) {
            let since = at.saturating_duration_since(receiver.first);
            let time_us = u32::try_from(since.as_micros()).unwrap_or(u32::MAX);
            receiver.arrivals.push(Arrival { number, time_us });
        }
        receiver.last = receiver.last.max(at);
    }

    /// The reports that answer a request. Of a train of which nothing came, there is nothing to tell.
    pub(super) fn reports(this: &mut Option<Self>, train: u32, first: u16) -> Vec<Message> {
        let arrivals = Vec::new();
        let nothing = Message::Report { train, first: 0, total: 0, origin_us: 0, arrivals };
        let Some(receiver) = this.as_mut().filter(|receiver| receiver.train == train) else {
            return vec![nothing];
        };
        let needed = receiver.arrivals.len().div_ceil(MAX_ARRIVALS);
        let allowed = (REPORTS_PER_NEEDED * needed + REPORTS).saturating_sub(receiver.reports);
        let total = u16::try_from(receiver.arrivals.len()).unwrap_or(MAX_FRAMES);
        let rest = receiver.arrivals.get(usize::from(first)..).unwrap_or_default();
        let chunks = rest.chunks(MAX_ARRIVALS).take(REPORTS.min(allowed));
        let (mut next, origin_us) = (first, micros(receiver.origin));
        let reports = chunks.map(|arrivals| {
            let first = next;
            next = next.saturating_add(u16::try_from(arrivals.len()).unwrap_or(u16::MAX));
            Message::Report { train, first, total, origin_us, arrivals: arrivals.to_vec() }
        });
        let reports: Vec<_> = reports.collect();
        receiver.reports += reports.len();
        reports
    }

    /// Forgets arrivals that nobody has asked for.
    pub(super) fn expire(this: &mut Option<Self>, now: Instant) {
        this.take_if(|receiver| now.saturating_duration_since(receiver.last) > KEPT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn train(frames: u16, fill: u16) -> Train {
        Train::new(1500, (frames, 12_000_000), (fill, 24_000_000)).unwrap()
    }

    /// What a message becomes on its way.
    #[derive(Clone, Copy, Debug)]
    struct Way {
        /// Delay of the message, and of a copy of it.
        delay_us: u32,
        copy_us: Option<u32>,
        lost: bool,
    }

    /// Runs a train between both ends on virtual time, asking the sender at intervals of `step`;
    /// returns what became of it, and the time that took.
    fn run(
        train: Train,
        step: Duration,
        mut way: impl FnMut(bool) -> Way,
    ) -> (Option<Observed>, Duration) {
        let start = Instant::now();
        let epochs = [start, start + 3 * MS];
        let mut sender = Sender::new(7, train, (epochs[0], 20 * MS), start);
        let (mut receiver, mut now) = (None, start);
        // Time of arrival, whether at the receiver, message.
        let mut coming: Vec<(Instant, bool, Message)> = Vec::new();
        loop {
            let mut send = |message: Message, to_receiver: bool, at: Instant| {
                let Way { delay_us, copy_us, lost } = way(to_receiver);
                let times = [(!lost).then_some(delay_us), copy_us.filter(|_| !lost)];
                let times = times.into_iter().flatten();
                times
                    .map(|us| (at + Duration::from_micros(us.into()), to_receiver, message.clone()))
                    .collect::<Vec<_>>()
            };
            while let Some(message) = sender.poll(now) {
                coming.extend(send(message, true, now));
            }
            coming.sort_by_key(|(at, ..)| *at);
            let count = coming.partition_point(|(at, ..)| *at <= now);
            let arrived: Vec<_> = coming.drain(..count).collect();
            for (at, at_receiver, message) in arrived {
                assert_eq!(Message::parse(&message.emit()), Some(Ok(message.clone())));
                match message {
                    Message::Frame { train, number } if at_receiver => {
                        Receiver::take(&mut receiver, (train, number), (epochs[1], at));
                    }
                    Message::Request { train, first } if at_receiver => {
                        for report in Receiver::reports(&mut receiver, train, first) {
                            coming.extend(send(report, false, at));
                        }
                    }
                    Message::Report { train, first, total, origin_us, arrivals }
                        if !at_receiver =>
                    {
                        sender.take((train, first, total), (origin_us, &arrivals), now);
                    }
                    other => panic!("{other:?} at the wrong end"),
                }
            }
            if sender.is_over(now) {
                return (sender.observed(1500), now - start);
            }
            now = (now + step).max(sender.poll_timeout().min(now + 50 * MS));
        }
    }

    fn clean(delay_us: u32) -> Way {
        Way { delay_us, copy_us: None, lost: false }
    }

    #[test]
    fn frames_are_timed_at_both_ends() {
        let (observed, took) = run(train(20, 10), Duration::from_micros(1), |_| clean(10_000));
        let Observed { size, sent_us, received_us } = observed.unwrap();
        assert_eq!((size, sent_us.len()), (1500, 30));
        // The body has a frame each millisecond, the fill two.
        assert!(
            sent_us.iter().zip([0, 0, 500, 1000, 1000, 1500]).all(|(at, due)| at.abs_diff(due) < 5)
        );
        for (sent, received) in sent_us.iter().zip(&received_us) {
            // The receiver's clock began 3 ms later, and the way takes 10 ms.
            assert!(received.unwrap().abs_diff(*sent + 7_000) < 5);
        }
        assert!(took < 200 * MS, "{took:?}");
    }

    #[test]
    fn a_train_of_which_nothing_comes_is_known_to_be_lost() {
        let (observed, _) = run(train(20, 0), 100 * Duration::from_micros(1), |to_receiver| Way {
            lost: false,
            ..clean(if to_receiver { 5_000 } else { 1_000 })
        });
        assert!(observed.unwrap().received_us.iter().all(Option::is_some));
        let mut sent = 0;
        let (observed, _) = run(train(20, 0), 100 * Duration::from_micros(1), |to_receiver| {
            sent += usize::from(to_receiver);
            Way { lost: to_receiver && sent <= 20, ..clean(5_000) }
        });
        assert_eq!(observed.unwrap().received_us, vec![None; 20]);
    }

    #[test]
    fn without_an_answer_a_train_is_over_in_time() {
        let (observed, took) = run(train(20, 0), MS, |_| Way { lost: true, ..clean(0) });
        assert_eq!(observed, None);
        assert!(took >= ANSWER_TIME && took < ANSWER_TIME + 100 * MS, "{took:?}");
    }

    #[test]
    fn frames_for_which_there_was_no_time_are_left_out() {
        // Asked only every 20 ms, the sender sends those of the last 2 ms.
        let (observed, _) = run(train(100, 0), 20 * MS, |_| clean(1_000));
        let observed = observed.unwrap();
        assert!((10..40).contains(&observed.sent_us.len()), "{}", observed.sent_us.len());
        assert!(observed.received_us.iter().all(Option::is_some));
    }

    #[test]
    fn long_trains_are_reported_in_parts() {
        let train = Train::new(1500, (20_000, 1_000_000_000), (10_000, 2_000_000_000)).unwrap();
        let (observed, took) = run(train, 20 * Duration::from_micros(1), |_| clean(10_000));
        let observed = observed.unwrap();
        assert_eq!(observed.sent_us.len(), 30_000);
        assert!(observed.received_us.iter().all(Option::is_some));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn trains_that_are_none_are_refused() {
        let field = |size, body, fill| Train::new(size, body, fill).unwrap_err().0;
        assert_eq!(field(0, (1, 1), (0, 0)), "size");
        assert_eq!(field(1500, (0, 1_000_000), (0, 0)), "frames");
        assert_eq!(field(1500, (50_000, u64::MAX), (1, u64::MAX)), "frames");
        assert_eq!(field(1500, (1, 0), (0, 0)), "rate_bps");
        assert_eq!(field(1500, (1000, 1_000_000), (0, 0)), "rate_bps");
        assert_eq!(field(1500, (10, 1_000_000), (10, 1)), "fill_rate_bps");
        assert_eq!(train(20, 10).bits(), 30 * 12_000);
    }

    #[test]
    fn requests_are_answered_a_bounded_number_of_times() {
        let mut receiver = None;
        let now = Instant::now();
        for number in 0..1000 {
            Receiver::take(&mut receiver, (7, number), (now, now));
        }
        let reports: usize =
            (0..10_000).map(|_| Receiver::reports(&mut receiver, 7, 0).len()).sum();
        assert_eq!(reports, REPORTS_PER_NEEDED * 1000_usize.div_ceil(MAX_ARRIVALS) + REPORTS);
        assert_eq!(Receiver::reports(&mut receiver, 8, 0).len(), 1, "nothing came of that train");
        assert_eq!(Receiver::reports(&mut receiver, 7, u16::MAX), []);
    }

    #[test]
    fn what_a_receiver_keeps_is_bounded() {
        let (mut receiver, now) = (None, Instant::now());
        for round in 0..3_u32 {
            for number in 0..MAX_FRAMES {
                Receiver::take(&mut receiver, (7, number), (now, now + round * MS));
            }
        }
        assert_eq!(receiver.as_ref().unwrap().arrivals.len(), usize::from(MAX_FRAMES));
        Receiver::take(&mut receiver, (8, 0), (now, now));
        assert_eq!(receiver.as_ref().unwrap().arrivals.len(), 1, "a new train ends the one before");
        Receiver::expire(&mut receiver, now + KEPT);
        assert!(receiver.is_some());
        Receiver::expire(&mut receiver, now + KEPT + 1000 * MS);
        assert!(receiver.is_none());
    }

    fn any_way() -> impl Strategy<Value = Way> {
        (
            0..60_000_u32,
            proptest::option::weighted(0.2, 0..60_000_u32),
            proptest::bool::weighted(0.2),
        )
            .prop_map(|(delay_us, copy_us, lost)| Way { delay_us, copy_us, lost })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However messages are lost, overtake each other or come twice, every time told is one at
        /// which that frame arrived, and the train is over within its time.
        #[test]
        fn what_is_observed_is_what_came(ways in proptest::collection::vec(any_way(), 1..200), frames in 1..300_u16, fill in 0..100_u16, step_us in 50..3000_u64) {
            let (mut turn, mut came) = (0, 0);
            let (observed, took) = run(train(frames, fill), Duration::from_micros(step_us), |to_receiver| {
                turn += 1;
                let way = ways[turn % ways.len()];
                came += usize::from(to_receiver && !way.lost);
                way
            });
            prop_assert!(took <= MAX_DURATION + ANSWER_TIME + 100 * MS);
            if let Some(Observed { sent_us, received_us, .. }) = observed {
                prop_assert_eq!(sent_us.len(), received_us.len());
                prop_assert!(sent_us.len() <= usize::from(frames + fill));
                prop_assert!(sent_us.is_sorted());
                prop_assert!(received_us.iter().flatten().count() <= came);
            }
        }

        /// Reports that nobody asked for, and that tell of frames which were never sent, change nothing.
        #[test]
        fn forged_reports_do_no_harm(reports in proptest::collection::vec((any::<u32>(), any::<u16>(), any::<u16>(), proptest::collection::vec(any::<(u16, u32)>(), 0..20)), 0..20), early: bool) {
            let start = Instant::now();
            let mut sender = Sender::new(7, train(10, 0), (start, 20 * MS), start);
            let mut now = start;
            while sender.asking.is_none() && !early {
                now += MS;
                while sender.poll(now).is_some() {}
            }
            for (train, first, total, arrivals) in reports {
                let arrivals: Vec<_> = arrivals.into_iter().map(|(number, time_us)| Arrival { number, time_us }).collect();
                sender.take((train % 8, first % 4, total % 12), (u64::MAX, &arrivals), now);
                sender.take((train, first, total), (0, &arrivals), now);
                prop_assert!(sender.received.len() == sender.sent.len());
            }
            prop_assert!(sender.sent.len() <= 10);
        }
    }
}
