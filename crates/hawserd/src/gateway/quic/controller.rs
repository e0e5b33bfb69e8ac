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
    congestion::{Controller, ControllerFactory},
};

use super::settings::LARGEST;

/// A path model that the event loop and the connection share. Both are on one thread.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Path>>, Arc<Gate>);

/// Holds streams back that have been given more than the path may carry.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it does.
    on: AtomicBool,
    /// Whether it did since it was turned on.
    held: AtomicBool,
}

impl Shared {
    pub(super) fn new(now: Instant, packet: u16) -> Self {
        Self(Arc::new(Mutex::new(Path::new(now, packet))), Arc::default())
    }

    pub(super) fn get(&self) -> MutexGuard<'_, Path> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the connection sends no more than the window takes; or as much as it has.
    pub(super) fn hold(&self, on: bool) {
        self.1.on.store(on, Relaxed);
        self.1.held.store(false, Relaxed);
    }

    /// Whether the connection has something that it was not allowed to send.
    pub(super) fn held_back(&self) -> bool {
        self.1.held.load(Relaxed)
    }

    /// Packets of so many bytes that the window takes, but at least one.
    pub(super) fn free(&self, packet: u16) -> usize {
        let path = self.get();
        let room = path.congestion().window().saturating_sub(path.in_flight());
        usize::try_from(room / u64::from(packet)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether the window takes no further packet.
    fn is_shut(&self) -> bool {
        if !self.1.on.load(Relaxed) {
            return false;
        }
        let path = self.get();
        let shut = path.in_flight() + u64::from(LARGEST) > path.congestion().window();
        if shut {
            self.1.held.store(true, Relaxed);
        }
        shut
    }
}

impl ControllerFactory for Shared {
    fn build(self: Arc<Self>, _: Instant, packet: u16) -> Box<dyn Controller> {
        self.get().set_packet(packet);
        Box::new(Model { path: Self::clone(&self), acked: Vec::new() })
    }
}

/// What the connection calls.
#[derive(Clone, Debug)]
struct Model {
    path: Shared,
    /// Packets of the acknowledgement that is being told.
    acked: Vec<(Instant, u64)>,
}

impl Model {
    fn update(&mut self, change: impl FnOnce(&mut Path, &mut Vec<(Instant, u64)>)) {
        change(&mut self.path.get(), &mut self.acked);
    }
}

impl Controller for Model {
    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, _: &RttEstimator) {
        self.acked.push((sent, bytes));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.update(|path, acked| {
            for (sent, bytes) in acked.drain(..) {
                path.on_ack(now, sent, bytes);
            }
            path.on_acks_end(now, in_flight);
        });
    }

    fn on_congestion_event(&mut self, now: Instant, _: Instant, persistent: bool, lost: u64) {
        self.update(|path, _| path.on_lost(now, lost, persistent));
    }

    fn on_mtu_update(&mut self, packet: u16) {
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
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        u64::MAX
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
