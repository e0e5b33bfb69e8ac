//! Processors that stay awake while packets are under way, so that these go when they are due.

use std::time::Duration;

use hawser_impair::Instant;
use hawser_netdev::scheduling::Wakefulness;

/// After the last packet, so that a pause between two ends nothing.
const LINGER: Duration = Duration::from_secs(1);

/// Whether processors stay awake, and until when.
pub(crate) struct Vigil {
    /// None: the kernel does not grant it.
    wakefulness: Option<Wakefulness>,
    ends: Option<Instant>,
}

impl Vigil {
    /// Processors sleep as they did.
    pub(crate) fn new() -> Self {
        let wakefulness = Wakefulness::open().inspect_err(|error| {
            tracing::warn!(%error, "processors may sleep: packets may be late when the machine is idle");
        });
        Self { wakefulness: wakefulness.ok(), ends: None }
    }

    /// Keeps them awake while packets are under way and a little longer. Tells when to ask again
    /// where none are.
    pub(crate) fn keep(&mut self, now: Instant, under_way: bool) -> Option<Instant> {
        let ends = prolong(self.ends, now, under_way);
        if ends.is_some() != self.ends.is_some()
            && let Some(wakefulness) = &mut self.wakefulness
        {
            // Where the kernel does not do it, lateness tells what that costs.
            let _ = wakefulness.set(ends.is_some());
        }
        self.ends = ends;
        ends.filter(|_| !under_way)
    }
}

/// The end of a vigil that was to end then, if at all.
fn prolong(ends: Option<Instant>, now: Instant, under_way: bool) -> Option<Instant> {
    if under_way { Some(now + LINGER) } else { ends.filter(|ends| *ends > now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_a_little_after_the_last_packet() {
        let mut vigil = Vigil { wakefulness: None, ends: None };
        let start = Instant::from_nanos(1);
        let last = start + LINGER / 2;
        assert_eq!(vigil.keep(start, false), None, "nothing ever came");
        assert_eq!(vigil.keep(start, true), None, "the packet's departure is earlier");
        assert_eq!(vigil.keep(last, true), None);
        assert_eq!(vigil.keep(start + LINGER, false), Some(last + LINGER));
        assert_eq!(vigil.keep(last + LINGER, false), None);
    }
}
