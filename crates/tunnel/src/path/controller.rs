//! Congestion control of a connection by the path model.

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

use super::{in_flight::InFlight, sizes::LARGEST};
use crate::config::Congestion;

/// A path model that the event loop and the connection share. Both are on one thread.
#[derive(Clone, Debug)]
pub(crate) struct SharedPath {
    model: Arc<Mutex<Path>>,
    gate: Arc<Gate>,
    congestion: Congestion,
    in_flight: InFlight,
}

/// Share of the window by which it may be exceeded by packets that carry acknowledgements.
const ACK_SHARE: u64 = 4;

/// Holds streams back that have been given more than the path may carry.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it does.
    on: AtomicBool,
    /// Whether acknowledgements are due. The connection sends none before what waits in it: two ends that
    /// both have a full window would wait for each other.
    due: AtomicBool,
    /// Whether it did since it was turned on.
    held: AtomicBool,
}

impl SharedPath {
    pub(crate) fn new(now: Instant, packet: u16, congestion: Congestion) -> Self {
        let model = Arc::new(Mutex::new(Path::new(now, packet)));
        Self { model, gate: Arc::default(), congestion, in_flight: InFlight::default() }
    }

    /// The controller that decides on the window, if it is not the model's own.
    fn standard(&self, now: Instant, packet: u16) -> Option<Box<dyn Controller>> {
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

    /// From now on the connection sends no more than the window takes; or as much as it has.
    pub(crate) fn hold(&self, on: bool) {
        self.gate.on.store(on, Relaxed);
        self.gate.held.store(false, Relaxed);
    }

    /// Says whether an acknowledgement is due: then a packet goes that carries it.
    pub(crate) fn set_ack_due(&self, due: bool) {
        self.gate.due.store(due, Relaxed);
    }

    /// Whether the connection has something that it was not allowed to send.
    pub(crate) fn held_back(&self) -> bool {
        self.gate.held.load(Relaxed)
    }

    /// Packets of so many bytes that the window takes, but at least one.
    pub(crate) fn free(&self, packet: u16) -> usize {
        let path = self.get();
        let room = path.window().saturating_sub(path.in_flight());
        usize::try_from(room / u64::from(packet)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether the window takes no more than one further packet.
    fn is_used_up(&self) -> bool {
        let path = self.get();
        path.in_flight() + 2 * u64::from(LARGEST) > path.window()
    }

    /// Whether streams are held back: the window takes no further packet.
    fn is_shut(&self) -> bool {
        if !self.gate.on.load(Relaxed) {
            return false;
        }
        let path = self.get();
        let due = self.gate.due.load(Relaxed);
        let acks = if due { (path.window() / ACK_SHARE).max(LARGEST.into()) } else { 0 };
        let shut = path.in_flight() + u64::from(LARGEST) > path.window() + acks;
        if shut {
            self.gate.held.store(true, Relaxed);
        }
        shut
    }
}

impl ControllerFactory for SharedPath {
    fn build(self: Arc<Self>, now: Instant, packet: u16) -> Box<dyn Controller> {
        self.get().set_packet(packet);
        let standard = self.standard(now, packet);
        let mut model =
            Model { path: Self::clone(&self), standard, used_up: false, acked: Vec::new() };
        model.standard(|_| {});
        Box::new(model)
    }
}

/// What the connection calls.
struct Model {
    path: SharedPath,
    /// What decides on the window, if not the path's model.
    standard: Option<Box<dyn Controller>>,
    /// Whether the window was before the acknowledgement that is being told. The connection does not know,
    /// for it sees another window.
    used_up: bool,
    /// Packets of the acknowledgement that is being told.
    acked: Vec<(Instant, u64)>,
}

impl Model {
    fn update(&mut self, change: impl FnOnce(&mut Path, &mut Vec<(Instant, u64)>)) {
        change(&mut self.path.get(), &mut self.acked);
    }

    /// Tells the controller that decides, if that is another, and takes over what it has decided.
    fn standard(&mut self, tell: impl FnOnce(&mut dyn Controller)) {
        if let Some(standard) = &mut self.standard {
            tell(standard.as_mut());
            self.path.get().set_window(standard.window());
        }
    }
}

impl Controller for Model {
    fn on_sent(&mut self, now: Instant, bytes: u64, last: u64) {
        self.standard(|standard| standard.on_sent(now, bytes, last));
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        if self.acked.is_empty() {
            self.used_up = self.path.is_used_up();
        }
        self.acked.push((sent, bytes));
        self.path.in_flight().acked(sent);
        let idle = !self.used_up;
        self.standard(|standard| standard.on_ack(now, sent, bytes, idle, rtt));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, last: Option<u64>) {
        let idle = !self.used_up;
        self.standard(|standard| standard.on_end_acks(now, in_flight, idle, last));
        self.update(|path, acked| {
            for (sent, bytes) in acked.drain(..) {
                path.on_ack(now, sent, bytes);
            }
            path.on_acks_end(now, in_flight);
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.standard(|standard| standard.on_congestion_event(now, sent, persistent, lost));
        self.update(|path, _| path.on_lost(now, sent, lost, persistent));
        // Marks of congestion (RFC 9000 section 13.4.2) are no loss.
        if lost > 0 {
            self.path.in_flight().lost(sent);
        }
    }

    fn on_mtu_update(&mut self, packet: u16) {
        self.standard(|standard| standard.on_mtu_update(packet));
        self.update(|path, _| path.set_packet(packet));
    }

    /// The scheduler gives the connection no more than the path's window has room for, and a little more
    /// of streams, which wait until packets are full. What there is room for is to go at once: a window
    /// like this one also turns off pacing, which would hold packets back that the scheduler takes to be on
    /// their way, and send them in bursts of ten.
    fn window(&self) -> u64 {
        if self.path.is_shut() { 0 } else { u64::MAX }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let standard = self.standard.as_ref().map(|standard| standard.clone_box());
        let path = self.path.clone();
        Box::new(Self { path, standard, used_up: self.used_up, acked: self.acked.clone() })
    }

    fn initial_window(&self) -> u64 {
        u64::MAX
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
