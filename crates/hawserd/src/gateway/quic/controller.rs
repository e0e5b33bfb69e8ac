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

/// Bytes beyond the window that the connection itself may send: probes and what keeps it alive pass
/// even where the window is full because the path is silent.
const SPARE: u64 = 16 << 10;

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
        let path = Self::clone(&self);
        let window = path.get().congestion().window();
        Box::new(Model { path, acked: Vec::new(), window })
    }
}

/// What the connection calls.
#[derive(Clone, Debug)]
struct Model {
    path: Shared,
    /// Packets of the acknowledgement that is being told.
    acked: Vec<(Instant, u64)>,
    window: u64,
}

impl Model {
    fn update(&mut self, change: impl FnOnce(&mut Path, &mut Vec<(Instant, u64)>)) {
        let mut path = self.path.get();
        change(&mut path, &mut self.acked);
        self.window = path.congestion().window();
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

    fn window(&self) -> u64 {
        self.window + SPARE
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
