//! Pacing in user space, with the rules of the eBPF generator (`pacing.h`), for the other backends.

use hawser_bpf::layout::{Control, Progress};

use crate::schedule::Schedule;

/// A stream's position in its schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    schedule: Schedule,
    control: Control,
    /// The position.
    pub(super) progress: Progress,
    started_ns: Option<u64>,
}

/// A frame that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Index of its flow in the stream.
    pub(super) flow: u32,
    /// Its index in the pattern of shapes.
    pub(super) pattern: u32,
}

impl Pacer {
    /// A pacer at the start of its schedule.
    pub(super) fn new(schedule: Schedule, control: Control) -> Self {
        Self { schedule, control, progress: Progress::default(), started_ns: None }
    }

    /// Whether the schedule is complete.
    pub(super) fn is_done(&self) -> bool {
        self.progress.position >= self.control.limit
    }

    /// When the next frame is due; `None` if the schedule is complete.
    pub(super) fn next_ns(&self) -> Option<u64> {
        (!self.is_done()).then_some(self.progress.due_ns)
    }

    /// The next frame, if it is due. Frames that are later than allowed are skipped first.
    pub(super) fn next(&mut self, now: u64) -> Option<Due> {
        self.ramp(now);
        let (control, progress) = (self.control, &mut self.progress);
        let unpaced = control.interval_ns == 0 && control.interval_fraction == 0;
        if !unpaced && progress.due_ns == 0 {
            progress.due_ns = now;
        }
        if progress.due_ns > now {
            return None;
        }
        if !unpaced && now - progress.due_ns > control.catch_up_ns {
            self.skip_late(now);
        }
        if self.is_done() {
            return None;
        }
        let due = Due { flow: self.progress.flow, pattern: self.progress.pattern };
        self.advance(1);
        if !unpaced {
            self.schedule_next();
        }
        Some(due)
    }

    /// Records that a frame was sent.
    pub(super) fn sent(&mut self, now: u64) {
        if self.progress.sent == 0 {
            self.progress.first_ns = now;
        }
        self.progress.last_ns = now;
        self.progress.sent += 1;
    }

    fn ramp(&mut self, now: u64) {
        let started = *self.started_ns.get_or_insert(now);
        if self.schedule.is_ramp() {
            let rate = self.schedule.rate_at((now - started) as f64 / 1e9);
            let control = self.schedule.control(rate, 0);
            self.control.interval_ns = control.interval_ns;
            self.control.interval_fraction = control.interval_fraction;
        }
    }

    /// Skips frames whose due time has passed. Intervals are in units of 2^-16 ns: whole nanoseconds have an
    /// error of 1 % at 10 million frames/s.
    fn skip_late(&mut self, now: u64) {
        let interval = self.control.interval_ns << 16 | self.control.interval_fraction >> 16;
        let times = ((now - self.progress.due_ns) << 16) / interval.max(1);
        let left = self.control.limit - self.progress.position;
        let frames = times.saturating_mul(self.control.burst).min(left);
        self.advance(frames);
        self.progress.unsent += frames;
        self.progress.due_ns += (times * interval) >> 16;
    }

    fn advance(&mut self, frames: u64) {
        let advance = |index: u32, length: u32| {
            let next = (u64::from(index) + frames) % u64::from(length.max(1));
            u32::try_from(next).unwrap_or_default()
        };
        self.progress.position += frames;
        self.progress.flow = advance(self.progress.flow, self.control.flow_count);
        self.progress.pattern = advance(self.progress.pattern, self.control.pattern_length);
    }

    fn schedule_next(&mut self) {
        let (control, progress) = (&self.control, &mut self.progress);
        progress.burst_done += 1;
        if progress.burst_done < control.burst {
            return;
        }
        progress.burst_done = 0;
        progress.due_fraction += control.interval_fraction;
        progress.due_ns += control.interval_ns + (progress.due_fraction >> 32);
        progress.due_fraction &= 0xffff_ffff;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Amount, Rate};

    fn pacer(rate: f64, frames: u64, burst: u64, catch_up_us: u64) -> Pacer {
        let schedule = Schedule::new(Rate::FramesPerS(rate), Amount::Frames(frames), burst, 480.0);
        let control = schedule.control(schedule.start, catch_up_us);
        Pacer::new(schedule, Control { flow_count: 3, pattern_length: 2, ..control })
    }

    proptest! {
        #[test]
        fn no_frame_is_early_or_forgotten(
            rate in 100.0..1e7f64, frames in 1u64..2000, burst in 1u64..20,
            steps in prop::collection::vec(0u64..200_000, 1..200),
        ) {
            let mut pacer = pacer(rate, frames, burst, 50);
            let (start, mut now, mut sent) = (1_000, 1_000, 0u64);
            for step in steps {
                while let Some(due) = pacer.next(now) {
                    prop_assert!(due.flow < 3 && due.pattern < 2);
                    pacer.sent(now);
                    sent += 1;
                }
                let due = (now - start) as f64 * rate / 1e9 + burst as f64;
                prop_assert!(pacer.progress.position as f64 <= due + 1.0);
                now += step;
            }
            prop_assert_eq!(pacer.progress.position, sent + pacer.progress.unsent);
            prop_assert!(pacer.progress.position <= frames);
        }

        #[test]
        fn the_rate_is_kept(rate in 1000.0..1e6f64) {
            let mut pacer = pacer(rate, u64::MAX, 1, 1_000_000);
            let mut sent = 0;
            for now in (1..1_000_000_001u64).step_by(100_000) {
                while pacer.next(now).is_some() {
                    sent += 1;
                }
            }
            prop_assert!((f64::from(sent) - rate).abs() < rate * 0.001 + 1.5, "{sent} of {rate}");
        }
    }
}
