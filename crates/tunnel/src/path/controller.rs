//! Connects quinn's congestion control to the path model.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use hawser_multipath::Path;
use quinn_proto::{
    RttEstimator,
    congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig},
};

use super::{in_flight::InFlight, probes::Probes, sizes::MAX_DATAGRAM};
use crate::config::Congestion;

/// Path model shared by event loop and connection, both on one thread.
#[derive(Clone, Debug)]
pub(crate) struct SharedPath {
    model: Arc<Mutex<Path>>,
    gate: Arc<Gate>,
    congestion: Congestion,
    in_flight: InFlight,
    probes: Probes,
}

/// Packets carrying due acknowledgements may exceed the window by this fraction of it (1/n).
const ACK_OVERSHOOT: u64 = 4;

/// Holds streams back while they have been given more than the window allows.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it is enabled.
    enabled: AtomicBool,
    /// Whether acknowledgements are due. The connection sends them behind its queued data: two ends
    /// that both have full windows would wait for each other.
    ack_due: AtomicBool,
    /// Whether it has blocked anything since it was enabled.
    blocked: AtomicBool,
}

impl SharedPath {
    pub(crate) fn new(now: Instant, packet: u16, congestion: Congestion) -> Self {
        let model = Arc::new(Mutex::new(Path::new(now, packet)));
        let (in_flight, probes) = (InFlight::default(), Probes::default());
        Self { model, gate: Arc::default(), congestion, in_flight, probes }
    }

    /// quinn's controller, if the configuration selects one instead of the path model's.
    fn controller(&self, now: Instant, packet: u16) -> Option<Box<dyn Controller>> {
        match self.congestion {
            Congestion::Delay => None,
            Congestion::Cubic => Some(Arc::new(CubicConfig::default()).build(now, packet)),
            Congestion::Bbr => Some(Arc::new(BbrConfig::default()).build(now, packet)),
        }
    }

    pub(crate) fn get(&self) -> MutexGuard<'_, Path> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Retransmittable packets in flight.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Frames of trains in flight.
    pub(crate) fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Limits the connection to the window, or lets it send whatever it has.
    pub(crate) fn gate_streams(&self, on: bool) {
        self.gate.enabled.store(on, Relaxed);
        self.gate.blocked.store(false, Relaxed);
    }

    /// Whether an acknowledgement is due: then a packet that carries it may be sent.
    pub(crate) fn set_ack_due(&self, due: bool) {
        self.gate.ack_due.store(due, Relaxed);
    }

    /// Whether the connection has data that it was not allowed to send.
    pub(crate) fn is_blocked(&self) -> bool {
        self.gate.blocked.load(Relaxed)
    }

    /// Packets of this size that fit the window, but at least one.
    pub(crate) fn packets_available(&self, packet: u16) -> usize {
        let path = self.get();
        let room = path.window().saturating_sub(path.in_flight());
        usize::try_from(room / u64::from(packet)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether at most one further packet fits the window.
    fn is_window_full(&self) -> bool {
        let path = self.get();
        path.in_flight() + 2 * u64::from(MAX_DATAGRAM) > path.window()
    }

    /// Whether streams are held back: no further packet fits the window.
    fn is_gated(&self) -> bool {
        if !self.gate.enabled.load(Relaxed) {
            return false;
        }
        let path = self.get();
        let due = self.gate.ack_due.load(Relaxed);
        let acks = if due { (path.window() / ACK_OVERSHOOT).max(MAX_DATAGRAM.into()) } else { 0 };
        let shut = path.in_flight() + u64::from(MAX_DATAGRAM) > path.window() + acks;
        if shut {
            self.gate.blocked.store(true, Relaxed);
        }
        shut
    }
}

impl ControllerFactory for SharedPath {
    fn build(self: Arc<Self>, now: Instant, packet: u16) -> Box<dyn Controller> {
        self.get().set_packet_size(packet);
        let controller = self.controller(now, packet);
        let mut model =
            Model { path: Self::clone(&self), controller, window_full: false, acked: Vec::new() };
        model.controller(|_| {});
        Box::new(model)
    }
}

/// Controller that the connection calls.
struct Model {
    path: SharedPath,
    /// Controller that sets the window, if it is not the path model's.
    controller: Option<Box<dyn Controller>>,
    /// Whether the window was full before the ACK frame being reported. The connection cannot tell,
    /// since it is given another window.
    window_full: bool,
    /// Packets of the ACK frame being reported: send time and bytes.
    acked: Vec<(Instant, u64)>,
}

impl Model {
    fn update(&mut self, change: impl FnOnce(&mut Path, &mut Vec<(Instant, u64)>)) {
        change(&mut self.path.get(), &mut self.acked);
    }

    fn on_lost(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.controller(|controller| controller.on_congestion_event(now, sent, persistent, lost));
        self.update(|path, _| path.on_lost(now, sent, lost, persistent));
    }

    /// Calls the external controller, if there is one, and takes its window.
    fn controller(&mut self, tell: impl FnOnce(&mut dyn Controller)) {
        if let Some(controller) = &mut self.controller {
            tell(controller.as_mut());
            self.path.get().set_window(controller.window());
        }
    }
}

impl Controller for Model {
    fn on_sent(&mut self, now: Instant, bytes: u64, last: u64) {
        self.controller(|controller| controller.on_sent(now, bytes, last));
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        if self.path.probes().acked(sent) {
            self.path.in_flight().acked(sent);
            return;
        }
        if self.acked.is_empty() {
            self.window_full = self.path.is_window_full();
        }
        self.acked.push((sent, bytes));
        self.path.in_flight().acked(sent);
        let idle = !self.window_full;
        self.controller(|controller| controller.on_ack(now, sent, bytes, idle, rtt));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, last: Option<u64>) {
        let idle = !self.window_full;
        let in_flight = in_flight.saturating_sub(self.path.probes().bytes());
        self.controller(|controller| controller.on_end_acks(now, in_flight, idle, last));
        self.update(|path, acked| {
            for (sent, bytes) in acked.drain(..) {
                path.on_ack(now, sent, bytes);
            }
            path.on_end_acks(now, in_flight);
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        // An ECN mark (RFC 9000 section 13.4.2) is not a loss.
        if lost > 0 {
            self.path.in_flight().lost(sent);
        }
        let probes = self.path.probes().lost(sent).min(lost);
        if probes == 0 || probes < lost {
            self.on_lost(now, sent, persistent, lost - probes);
        }
    }

    fn on_mtu_update(&mut self, packet: u16) {
        self.controller(|controller| controller.on_mtu_update(packet));
        self.update(|path, _| path.set_packet_size(packet));
    }

    /// The scheduler limits what a connection is given: the window's worth of packets, and slightly
    /// more of streams so that packets are full. The connection must send that at once. An infinite
    /// window also disables quinn's pacer, which would hold back packets that the scheduler counts
    /// as in flight and send them in bursts of ten.
    fn window(&self) -> u64 {
        if self.path.is_gated() { 0 } else { u64::MAX }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let controller = self.controller.as_ref().map(|controller| controller.clone_box());
        let path = self.path.clone();
        Box::new(Self {
            path,
            controller,
            window_full: self.window_full,
            acked: self.acked.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        u64::MAX
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
