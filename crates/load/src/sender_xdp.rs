//! A sender with XDP live frames (`BPF_F_TEST_XDP_LIVE_FRAMES`).

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

/// Highest rate, frames/s, at which each frame is a system call and the sender sleeps in between: a call costs
/// 12 us, 6 % of a CPU at this rate. At higher rates one call sends all frames, and the program busy-waits
/// until a frame is due.
const SLEEP_RATE_MAX: f64 = 5_000.0;

/// Duration of a batch of runs at the intended rate, seconds. The kernel passes frames to the device after
/// each batch; a run without a frame takes 0.1 us, so frames wait for a fraction of this.
const BATCH_SECONDS: f64 = 8e-6;

/// Largest batch, runs. With 16 a frame took 6 % longer; 64 gained nothing and fill a veth ring of 256
/// entries sooner.
const BATCH_MAX: u32 = 32;

/// Runs of one call, about 350 s of busy-waiting. The kernel adds a batch to the count before it compares, so
/// `u32::MAX` would be skipped.
const RUNS_MAX: u32 = u32::MAX - 1024;

/// Interval at which progress is checked and a ramp is adjusted.
const WATCH_INTERVAL: Duration = Duration::from_millis(1);

/// A generator on its port.
pub(super) struct XdpSender {
    generator: Generator,
    port: port::Port,
    interface: u32,
    schedules: Vec<Schedule>,
    controls: Vec<Control>,
}

impl XdpSender {
    /// A sender for an open port.
    pub(super) fn new(
        generator: Generator,
        port: port::Port,
        interface: u32,
        schedules: Vec<Schedule>,
        controls: Vec<Control>,
    ) -> Self {
        Self { generator, port, interface, schedules, controls }
    }

    /// Highest rate of all streams together, frames/s; `None` if one has no rate.
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

    /// Sends with one call per frame, and sleeps in between.
    fn send_slowly(&self, stop: &Stop) -> anyhow::Result<()> {
        clock::minimise_timer_slack();
        // Of 1000 frames at 1000 frames/s, 1 was late by more than 0.5 ms, instead of 3 to 9.
        let _ = scheduling::realtime();
        let start = clock::now_ns();
        while let Some(due) = self.next_due()? {
            if stop.is_set() {
                break;
            }
            if due > clock::now_ns() {
                // Sleeps are short, so that the stop flag is checked.
                clock::sleep_until(due.min(clock::now_ns() + 100_000_000));
            }
            self.ramp(start)?;
            self.generator.run(self.interface, 1, 1)?;
        }
        Ok(())
    }

    /// Sends with one call, which a signal ends.
    fn send_fast(&self, stop: &Stop, rate: Option<f64>) -> anyhow::Result<()> {
        let target = interrupt::current_thread();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // saturates, never negative
        let batch =
            rate.map_or(BATCH_MAX, |rate| (rate * BATCH_SECONDS) as u32).clamp(1, BATCH_MAX);
        while self.next_due()?.is_some() && !stop.is_set() {
            let done = Stop::default();
            thread::scope(|scope| {
                let watch = scope.spawn(|| self.watch(stop, &done, target));
                let result = self.generator.run(self.interface, RUNS_MAX, batch);
                done.set();
                let watched = watch.join().unwrap_or_else(|_| anyhow::bail!("the watch panicked"));
                result.context("sending live frames")?;
                watched
            })?;
        }
        Ok(())
    }

    /// Interrupts the sending thread when the schedules are complete or `stop` is set.
    fn watch(&self, stop: &Stop, done: &Stop, target: interrupt::Target) -> anyhow::Result<()> {
        let start = clock::now_ns();
        while !done.is_set() {
            self.ramp(start)?;
            if stop.is_set() || self.next_due()?.is_none() {
                target.interrupt()?;
            }
            thread::sleep(WATCH_INTERVAL);
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
            Some(rate) if rate <= SLEEP_RATE_MAX => self.send_slowly(stop),
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
