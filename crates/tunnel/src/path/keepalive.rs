//! Keepalives: a peer that has been silent is asked for an acknowledgement (docs/design/path-liveness.md, Idle paths).

use std::time::{Duration, Instant};

use hawser_multipath::State;
use quinn_proto::{ConnectionEvent, FrameStats};

use super::{Link, link::frames_of};

/// Time without a packet of the peer after which it is asked.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// Interval at which it is asked until it answers; on an idle path at least its PTO.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

impl Link {
    /// Passes a datagram to the connection.
    pub(crate) fn handle_event(&mut self, event: ConnectionEvent) {
        self.connection.handle_event(event);
        (self.active, self.heard.arrived) = (true, true);
    }

    /// Sends a PING to a silent peer, to learn whether it is there, or back.
    pub(crate) fn keep_alive(&mut self, now: Instant) {
        if std::mem::take(&mut self.heard.arrived) {
            self.heard.note(received(&self.connection.stats().frame_rx), now);
        }
        if now.saturating_duration_since(self.heard.asked) >= self.ping_interval(now) {
            self.heard.asked = now;
            self.path.get().on_ping(now);
            self.connection.ping();
            self.active = true;
        }
    }

    /// Time between two PINGs.
    fn ping_interval(&self, now: Instant) -> Duration {
        let path = self.path.get();
        if matches!(path.state(now), State::Degraded | State::Down) {
            PROBE_INTERVAL
        } else if path.is_asked() {
            path.pto().unwrap_or_default().max(PROBE_INTERVAL)
        } else if now.saturating_duration_since(self.heard.at) >= KEEPALIVE {
            KEEPALIVE
        } else {
            Duration::MAX
        }
    }
}

/// Frames of which at least one is in every packet of an idle path, and in nearly all of others.
fn received(stats: &FrameStats) -> u64 {
    frames_of(stats) + stats.acks + stats.ping
}
