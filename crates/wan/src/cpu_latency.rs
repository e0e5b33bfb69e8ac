//! Keeps CPUs out of idle states while packets are in flight, so that timers fire on time.

use std::time::Duration;

use hawser_impair::Instant;
use hawser_netdev::scheduling::CpuLatencyRequest;

/// Time after the last packet in flight for which the request stays, so that short gaps in the traffic do
/// not end it.
const LINGER: Duration = Duration::from_secs(1);

/// A CPU latency request that follows the traffic.
pub(crate) struct IdleGuard {
    /// `None` if the kernel does not grant it.
    request: Option<CpuLatencyRequest>,
    /// When the request ends; `None` if it is not active.
    ends: Option<Instant>,
}

impl IdleGuard {
    /// A guard with no active request.
    pub(crate) fn new() -> Self {
        let request = CpuLatencyRequest::open().inspect_err(|error| {
            tracing::warn!(%error, "CPUs may enter idle states: packets may be late when the machine is idle");
        });
        Self { request: request.ok(), ends: None }
    }

    /// Activates the request while packets are in flight, and for a while after. Returns when to call again,
    /// if no packets are in flight.
    pub(crate) fn update(&mut self, now: Instant, in_flight: bool) -> Option<Instant> {
        let ends = prolong(self.ends, now, in_flight);
        if ends.is_some() != self.ends.is_some()
            && let Some(request) = &mut self.request
        {
            // If the kernel fails, the lateness counters show the effect.
            let _ = request.set(ends.is_some());
        }
        self.ends = ends;
        ends.filter(|_| !in_flight)
    }
}

/// When a request now ends that was to end at `ends`; `None` if it is over.
fn prolong(ends: Option<Instant>, now: Instant, in_flight: bool) -> Option<Instant> {
    if in_flight { Some(now + LINGER) } else { ends.filter(|ends| *ends > now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_a_little_after_the_last_packet() {
        let mut guard = IdleGuard { request: None, ends: None };
        let start = Instant::from_nanos(1);
        let last = start + LINGER / 2;
        assert_eq!(guard.update(start, false), None, "no packet yet");
        assert_eq!(guard.update(start, true), None, "the packet's departure is earlier");
        assert_eq!(guard.update(last, true), None);
        assert_eq!(guard.update(start + LINGER, false), Some(last + LINGER));
        assert_eq!(guard.update(last + LINGER, false), None);
    }
}
