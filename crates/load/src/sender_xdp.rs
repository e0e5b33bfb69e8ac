//! Sends with XDP live frames.

use std::{thread, time::Duration};

use anyhow::Context;
use hawser_bpf::{
    generator::Generator,
    interrupt,
    layout::{Control, RUN_SHIFT},
    port,
};
use hawser_netdev::scheduling;

use crate::{
    clock,
    schedule::Schedule,
    sender::{FlowTally, SendTally, Sender, Stop},
};

/// Up to this many frames a second each frame is a system call of its own, and the sender sleeps in
/// between: a call costs 12 us, which at this rate is 6 % of a core. Above, one call sends all, and the
/// program turns in circles until a frame is due.
const SLEEP_MAX: f64 = 5_000.0;

/// The kernel hands frames to the device after each batch of runs. A run without a frame takes 0.1 us,
/// so frames wait for a fraction of this, which a batch is at the asked rate.
const BATCH_SECONDS: f64 = 8e-6;

/// Greatest batch: 16 take 6 % longer, 64 gain nothing and fill a veth pair's ring of 256 sooner.
const BATCH_MAX: u32 = 32;

/// Runs of one call when the end is not known beforehand: 350 s of turning in circles. The kernel adds a
/// batch to the count before it compares, so the greatest number there is would be passed by.
const RUNS_MAX: u32 = u32::MAX - 1024;

/// Between looks at the progress, and steps of a ramp.
const WATCH: Duration = Duration::from_millis(1);

/// A generator on its port.
pub(super) struct XdpSender {
    generator: Generator,
    port: port::Port,
    interface: u32,
    schedules: Vec<Schedule>,
    controls: Vec<Control>,
}

impl XdpSender {
    /// A sender whose port is ready.
    pub(super) fn new(
        generator: Generator,
        port: port::Port,
        interface: u32,
        schedules: Vec<Schedule>,
        controls: Vec<Control>,
    ) -> Self {
        Self { generator, port, interface, schedules, controls }
    }

    /// Frames a second of all streams at their fastest; none where one has no rate.
    fn rate(&self) -> Option<f64> {
        self.schedules.iter().map(|s| s.start.zip(s.end).map(|(a, b)| a.max(b))).sum()
    }

    fn next_due(&self) -> anyhow::Result<Option<u64>> {
        let mut next = None;
        for (stream, schedule) in (0..).zip(&self.schedules) {
            let progress = self.generator.progress(stream)?;
            if progress.position < schedule.frames {
                next = Some(next.map_or(progress.due_ns, |next: u64| next.min(progress.due_ns)));
            }
        }
        Ok(next)
    }

    /// One call a frame, sleeping in between.
    fn send_slowly(&self, stop: &Stop) -> anyhow::Result<()> {
        clock::sharpen_timers();
        // Of 1000 frames at 1000 a second 1 is late by more than 0.5 ms, instead of 3 to 9.
        let _ = scheduling::realtime();
        let start = clock::now_ns();
        while let Some(due) = self.next_due()? {
            if stop.told() {
                break;
            }
            if due > clock::now_ns() {
                // short sleeps, so that being told to stop is noticed
                clock::sleep_until(due.min(clock::now_ns() + 100_000_000));
            }
            self.ramp(start)?;
            self.generator.run(self.interface, 1, 1)?;
        }
        Ok(())
    }

    /// One call for all, ended by a signal.
    fn send_fast(&self, stop: &Stop, rate: Option<f64>) -> anyhow::Result<()> {
        let target = interrupt::current_thread();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // saturates, never negative
        let batch =
            rate.map_or(BATCH_MAX, |rate| (rate * BATCH_SECONDS) as u32).clamp(1, BATCH_MAX);
        while self.next_due()?.is_some() && !stop.told() {
            let done = Stop::default();
            thread::scope(|scope| {
                let watch = scope.spawn(|| self.watch(stop, &done, target));
                let result = self.generator.run(self.interface, RUNS_MAX, batch);
                done.tell();
                let watched = watch.join().unwrap_or_else(|_| anyhow::bail!("the watch panicked"));
                result.context("sending live frames")?;
                watched
            })?;
        }
        Ok(())
    }

    /// Interrupts the sending thread when all is sent or it is told to stop.
    fn watch(&self, stop: &Stop, done: &Stop, target: interrupt::Target) -> anyhow::Result<()> {
        let start = clock::now_ns();
        while !done.told() {
            self.ramp(start)?;
            if stop.told() || self.next_due()?.is_none() {
                target.interrupt()?;
            }
            thread::sleep(WATCH);
        }
        Ok(())
    }

    fn ramp(&self, start: u64) -> anyhow::Result<()> {
        let seconds = (clock::now_ns() - start) as f64 / 1e9;
        for ((stream, schedule), base) in (0..).zip(&self.schedules).zip(&self.controls) {
            if schedule.is_ramp() {
                let now = schedule.control(schedule.rate_at(seconds), 0);
                let (interval_ns, interval_fraction) = (now.interval_ns, now.interval_fraction);
                self.generator.set(stream, &Control { interval_ns, interval_fraction, ..*base })?;
            }
        }
        Ok(())
    }
}

impl Sender for XdpSender {
    fn run(&self, stop: &Stop) -> anyhow::Result<()> {
        match self.rate() {
            Some(rate) if rate <= SLEEP_MAX => self.send_slowly(stop),
            rate => self.send_fast(stop, rate),
        }
    }

    fn tally(&self) -> anyhow::Result<SendTally> {
        let streams = (0..).zip(&self.schedules).map(|(stream, _)| self.generator.progress(stream));
        let flows = self.generator.flows()?.into_iter().map(|flow| FlowTally {
            frames: flow.sequence & ((1 << RUN_SHIFT) - 1),
            bytes: flow.bytes,
        });
        Ok(SendTally {
            streams: streams.collect::<Result<_, _>>()?,
            flows: flows.collect(),
            refused: self.port.refused()?,
        })
    }
}
