//! An intrusion detection sensor: what the kernel reports of packets becomes flows, records, scores and verdicts.
//!
//! ```text
//! ring --> worker: flow table, model --> record log
//!                            |
//!                            +--> policy --> firewalls' REST API
//! ```
//!
//! Nothing here holds a packet up: the program has forwarded it when a worker sees its observation.

pub(crate) mod api;
mod block;
mod client;
mod clock;
pub(crate) mod document;
mod entry;
mod forwarder;
mod log;
mod models;
mod policy;
mod random;
mod verdicts;
mod worker;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use hawser_bpf::nsh::Observations;
use hawser_daemon::config::FieldError;
use hawser_flowmeter::{FlowTable, Settings};
use schemars::JsonSchema;
use serde::Serialize;

use self::{
    clock::Clock,
    document::Ids,
    entry::Entry,
    forwarder::Forwarder,
    log::Log,
    models::Models,
    random::random,
    verdicts::Verdicts,
    worker::{Counters, Shared, Worker},
};

/// A sensor that works.
pub(crate) struct Sensor {
    models: Arc<Models>,
    log: Option<Log<Entry>>,
    verdicts: Option<Arc<Verdicts>>,
    forwarder: Option<Arc<Forwarder>>,
    counters: Vec<Arc<Counters>>,
    ended: Arc<AtomicBool>,
}

/// Threads whose end completes the record log.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

/// What was seen of flows.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Flows {
    /// Packets counted into a flow.
    packets: u64,
    /// Packets not counted, as they came after later ones of their flow.
    reordered: u64,
    /// Flows begun.
    begun: u64,
    /// Flows that go on.
    active: u64,
    /// Flows that had to make room for others; each has its record.
    evicted: u64,
    /// Records made.
    records: u64,
    /// Records that the model calls malicious.
    malicious: u64,
}

/// A sensor whose files are read, and found good.
pub(crate) struct Opened {
    ids: Ids,
    models: Arc<Models>,
}

impl Opened {
    /// Reads the files that a sensor needs.
    ///
    /// # Errors
    /// The field that is wrong.
    pub(crate) fn new(ids: &Ids) -> Result<Self, FieldError> {
        let models = Models::open(ids.model.as_deref())?;
        ids.verdicts.as_ref().map_or(Ok(()), Verdicts::check)?;
        Ok(Self { ids: ids.clone(), models })
    }

    /// Starts the threads; `rings` has one ring for each worker.
    ///
    /// # Errors
    /// The folder of records cannot be written, or there are no more threads.
    pub(crate) fn start(self, rings: Vec<Observations>) -> Result<(Sensor, Threads), FieldError> {
        let found = self.ids.records.as_ref().map(|records| records.folder.clone());
        Sensor::spawn(&self.ids, self.models, rings).map_err(|error| {
            let expected = format!("a folder that can be written, and threads ({error})");
            FieldError::new("ids.records.folder", found, expected)
        })
    }
}

impl Sensor {
    fn spawn(
        ids: &Ids,
        models: Arc<Models>,
        rings: Vec<Observations>,
    ) -> io::Result<(Self, Threads)> {
        let mut threads = Vec::new();
        let log = ids.records.as_ref().map(Log::open).transpose()?;
        let log = log.map(|(log, thread)| {
            threads.push(thread);
            log
        });
        let verdicts = ids.verdicts.as_ref().map(Verdicts::open).transpose()?;
        models.watch()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (forwarder, counters) = (None, Vec::new());
        let mut sensor = Self { models, log, verdicts, forwarder, counters, ended };
        let (run, clock) = (random()?, Clock::new());
        let (mut rings, mut ways) = (rings.into_iter(), Vec::new());
        for number in 0..ids.flows.workers.into() {
            let counters = Arc::new(Counters::default());
            sensor.counters.push(Arc::clone(&counters));
            let table = FlowTable::new(settings(&ids.flows, random()?));
            let shared = sensor.shared(run, ids.flows.workers.into(), clock);
            let (way, rings_to_come) = mpsc::channel();
            ways.push(way);
            let observations = rings.next();
            let worker = Worker { number, observations, rings_to_come, table, shared, counters };
            let thread = thread::Builder::new().name(format!("flows-{number}"));
            threads.insert(0, thread.spawn(move || worker.run())?);
        }
        if let Some(socket) = &ids.forwarder {
            let followed = Forwarder::follow(socket.into(), ways, Arc::clone(&sensor.ended));
            sensor.forwarder = Some(followed?);
        }
        Ok((sensor, Threads(threads)))
    }

    fn shared(&self, run: u64, workers: u64, clock: Clock) -> Shared {
        Shared {
            run,
            workers,
            clock,
            models: Arc::clone(&self.models),
            log: self.log.clone(),
            verdicts: self.verdicts.clone(),
            ended: Arc::clone(&self.ended),
        }
    }

    fn flows(&self) -> Flows {
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            self.counters.iter().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
        };
        Flows {
            packets: sum(|counters| &counters.packets),
            reordered: sum(|counters| &counters.reordered),
            begun: sum(|counters| &counters.flows),
            active: sum(|counters| &counters.active),
            evicted: sum(|counters| &counters.evicted),
            records: sum(|counters| &counters.records),
            malicious: sum(|counters| &counters.malicious),
        }
    }

    /// Ends the threads. Flows that go on have their last records in the log.
    pub(crate) fn stop(&mut self, Threads(threads): Threads) {
        self.ended.store(true, Ordering::Relaxed);
        self.models.stop();
        self.log = None; // the writer ends after the last of those who write
        for thread in threads {
            let _ = thread.join();
        }
        if let Some(verdicts) = &self.verdicts {
            verdicts.stop();
        }
    }
}

fn settings(flows: &document::Flows, seed: u64) -> Settings {
    Settings {
        capacity: flows.capacity,
        window: flows.window_ms * 1000,
        idle_timeout: flows.idle_s * 1_000_000,
        early_after: flows.early_ms * 1000,
        seed,
        ..Settings::default()
    }
}
