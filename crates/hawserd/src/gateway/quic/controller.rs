//! Congestion control of a connection by the path model.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use hawser_multipath::Path;
use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory},
};

/// A path model that the event loop and the connection share. Both are on one thread.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Path>>);

impl Shared {
    pub(super) fn new(now: Instant, packet: u16) -> Self {
        Self(Arc::new(Mutex::new(Path::new(now, packet))))
    }

    pub(super) fn get(&self) -> MutexGuard<'_, Path> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The scheduler gives the connection no more than the path's window has room for. What it has is to
    /// go at once: a window like this one also turns off pacing, which would hold packets back that the
    /// scheduler takes to be on their way, and send them in bursts of ten.
    fn window(&self) -> u64 {
        u64::MAX
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
