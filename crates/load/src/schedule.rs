//! Schedules: the due times of a stream's frames.

use hawser_bpf::layout::Control;

use crate::config::{Amount, Ramp, Rate};

/// The schedule of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    /// Rate at the start, frames/s; `None`: as fast as possible.
    pub(super) start: Option<f64>,
    /// Rate at the end, frames/s.
    pub(super) end: Option<f64>,
    /// Duration, seconds; `None` without a rate.
    pub(super) seconds: Option<f64>,
    /// Number of frames.
    pub(super) frames: u64,
    /// Frames per due time.
    pub(super) burst: u64,
}

impl Schedule {
    /// The schedule for a rate. `mean_bits` is the mean size, in bits, that rates in bit/s count.
    pub(super) fn new(rate: Rate, amount: Amount, burst: u64, mean_bits: f64) -> Self {
        let (start, end) = match rate {
            Rate::FramesPerS(frames) => (Some(frames), Some(frames)),
            Rate::BitsPerS(bits) => (Some(bits / mean_bits), Some(bits / mean_bits)),
            Rate::Ramp(Ramp { from, to }) => (Some(from), Some(to)),
            Rate::Max => (None, None),
        };
        let mean = start.zip(end).map(|(start, end)| f64::midpoint(start, end));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // saturates, never negative
        let (frames, seconds) = match (amount, mean) {
            (Amount::Frames(frames), _) => (frames, mean.map(|mean| frames as f64 / mean)),
            (Amount::Seconds(seconds), Some(mean)) => {
                ((seconds * mean).round().max(1.0) as u64, Some(seconds))
            }
            (Amount::Seconds(_), None) => (0, None),
        };
        Self { start, end, seconds, frames, burst }
    }

    /// Whether the rate changes.
    pub(super) fn is_ramp(&self) -> bool {
        self.start != self.end
    }

    /// The rate after `seconds`, frames/s.
    pub(super) fn rate_at(&self, seconds: f64) -> Option<f64> {
        let (start, end, all) = (self.start?, self.end?, self.seconds?);
        Some(start + (end - start) * (seconds / all).clamp(0.0, 1.0))
    }

    /// The generator's control structure for a rate. The plan sets its tables.
    pub(super) fn control(&self, rate: Option<f64>, catch_up_us: u64) -> Control {
        let interval = rate.map_or(0.0, |rate| self.burst as f64 * 1e9 / rate);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // saturates, never negative
        let (whole, fraction) = (interval as u64, (interval.fract() * 4_294_967_296.0) as u64);
        Control {
            interval_ns: whole,
            interval_fraction: fraction,
            burst: self.burst,
            limit: self.frames,
            catch_up_ns: catch_up_us.saturating_mul(1000),
            ..Control::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_frames() {
        let schedule = Schedule::new(Rate::BitsPerS(8e6), Amount::Seconds(2.0), 1, 8000.0);
        assert_eq!((schedule.start, schedule.frames), (Some(1000.0), 2000));
    }

    #[test]
    fn intervals_keep_their_fraction() {
        let schedule = Schedule::new(Rate::FramesPerS(3e6), Amount::Frames(10), 1, 480.0);
        let control = schedule.control(schedule.start, 1);
        let interval =
            control.interval_ns as f64 + control.interval_fraction as f64 / 2f64.powi(32);
        assert!((interval - 1e9 / 3e6).abs() < 1e-6, "{interval}");
    }

    #[test]
    fn a_ramp_sends_the_area_under_it() {
        let ramp = Rate::Ramp(Ramp { from: 1000.0, to: 3000.0 });
        let schedule = Schedule::new(ramp, Amount::Seconds(10.0), 1, 480.0);
        assert_eq!(schedule.frames, 20_000);
        assert_eq!(schedule.rate_at(5.0), Some(2000.0));
        assert_eq!(schedule.rate_at(50.0), Some(3000.0));
    }
}
