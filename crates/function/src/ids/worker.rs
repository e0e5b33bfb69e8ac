//! A worker: observations of one ring become flows, records, scores and verdicts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Receiver,
    },
    thread,
    time::Duration,
};

use hawser_bpf::nsh::{Observation, Observations};
use hawser_flowmeter::{FlowTable, Packet, Reason, Record, Tuple, features::NAMES};

use super::{
    block::{Comparison, Why},
    clock::Clock,
    entry::Entry,
    log::Log,
    models::{Models, Named},
    policy::{Accusation, Heard},
    verdicts::Verdicts,
};

/// Observations that are taken before time passes for the table, and a new model comes into force.
const BATCH: usize = 4096;
/// Pause when the ring is empty. A ring of 8 MiB holds 131 072 observations: 65 ms at 2 million packets a second.
const PAUSE: Duration = Duration::from_millis(1);

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) run: u64,
    pub(crate) workers: u64,
    pub(crate) clock: Clock,
    pub(crate) models: Arc<Models>,
    pub(crate) log: Option<Log<Entry>>,
    pub(crate) verdicts: Option<Arc<Verdicts>>,
    pub(crate) ended: Arc<AtomicBool>,
}

/// What one worker has seen; `Relaxed` counters for others to read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) packets: AtomicU64,
    pub(crate) reordered: AtomicU64,
    pub(crate) flows: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) active: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) malicious: AtomicU64,
}

/// A worker.
pub(crate) struct Worker {
    pub(crate) number: u64,
    /// The ring; `None` until a forwarder was found.
    pub(crate) observations: Option<Observations>,
    /// Rings of a forwarder that was found, or restarted.
    pub(crate) rings_to_come: Receiver<Observations>,
    pub(crate) table: FlowTable,
    pub(crate) shared: Shared,
    pub(crate) counters: Arc<Counters>,
}

impl Worker {
    /// Works until it is told to end; then the flows that go on have their last records.
    pub(crate) fn run(mut self) {
        let sink = Sink { number: self.number, shared: self.shared, counters: self.counters };
        while !sink.shared.ended.load(Ordering::Relaxed) {
            let named = sink.shared.models.current();
            let emit = &mut |record: Record| sink.take(&record, named.as_deref());
            let mut taken = 0;
            self.observations = self.rings_to_come.try_recv().ok().or(self.observations);
            for seen in self.observations.iter_mut().flatten().take(BATCH) {
                taken += 1;
                if let Some(packet) = packet(&seen) {
                    self.table.observe(sink.shared.clock.at(seen.time_ns), &packet, emit);
                }
            }
            if taken < BATCH {
                // With a full batch others wait in the ring, whose time this is not yet.
                self.table.advance(sink.shared.clock.now_us(), emit);
                thread::sleep(PAUSE);
            }
            sink.publish(&self.table);
        }
        let named = sink.shared.models.current();
        self.table.finish(&mut |record| sink.take(&record, named.as_deref()));
        sink.publish(&self.table);
    }
}

/// Where records go.
struct Sink {
    number: u64,
    shared: Shared,
    counters: Arc<Counters>,
}

impl Sink {
    fn take(&self, record: &Record, named: Option<&Named>) {
        let score = named.map(|named| named.model.score(&record.features));
        self.counters.records.fetch_add(1, Ordering::Relaxed);
        let flow = record.number * self.shared.workers + self.number;
        if record.reason == Reason::Window {
            self.hear(record);
        }
        if let (Some(named), Some(score)) = (named, score)
            && score >= named.model.threshold()
        {
            self.counters.malicious.fetch_add(1, Ordering::Relaxed);
            self.accuse(record, named, score, flow);
        }
        if let Some(log) = &self.shared.log {
            let model = named.map(|named| Arc::clone(&named.name));
            log.write(Entry { run: self.shared.run, flow, record: *record, score, model });
        }
    }

    /// Tells of the packets in a window. A flow that ended in it is left out; floods do not end.
    fn hear(&self, record: &Record) {
        let Some(verdicts) = &self.shared.verdicts else { return };
        let packets = record.packets();
        verdicts.hear(&Heard { tuple: record.tuple, packets, first_us: record.first });
    }

    fn accuse(&self, record: &Record, named: &Named, score: f64, flow: u64) {
        let Some(verdicts) = &self.shared.verdicts else { return };
        let accused = Accusation {
            tuple: record.tuple,
            is_begun: record.is_begun,
            is_over: matches!(record.reason, Reason::Closed | Reason::Idle | Reason::Ended),
            number: flow,
            flow: Entry::id(self.shared.run, flow),
            first_us: record.first,
            packets: record.packets().iter().sum(),
        };
        let decision = verdicts.accuse(accused, || why(record, named, score));
        tracing::debug!(?decision, source = %record.tuple.source, score, "a malicious flow");
    }

    fn publish(&self, table: &FlowTable) {
        let seen = table.counters();
        let Counters { packets, reordered, flows, evicted, active, .. } = &*self.counters;
        for (counter, value) in [
            (packets, seen.packets),
            (reordered, seen.reordered),
            (flows, seen.flows),
            (evicted, seen.evicted),
            (active, table.len() as u64),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }
}

fn why(record: &Record, named: &Named, score: f64) -> Why {
    let steps = named.model.explain(&record.features).into_iter();
    let features = NAMES.iter().zip(record.features);
    Why {
        by: named.name.to_string(),
        score: Some(score),
        threshold: Some(named.model.threshold()),
        reason: Some(record.reason.name().into()),
        branch: steps
            .map(|step| Comparison {
                feature: step.feature,
                value: step.value,
                threshold: step.threshold,
                is_above: step.is_above,
            })
            .collect(),
        features: features.map(|(name, value)| ((*name).into(), value.into())).collect(),
        flows: 1,
    }
}

/// The packet as the table counts it; `None` for one without addresses.
fn packet(seen: &Observation) -> Option<Packet> {
    let flow = &seen.flow;
    let (source_port, destination_port) = flow.ports();
    let tuple = Tuple {
        source: flow.source()?,
        destination: flow.destination()?,
        source_port,
        destination_port,
        protocol: flow.protocol(),
    };
    let Observation { length, header_length, flags, .. } = *seen;
    Some(Packet { tuple, length, header_length, dscp: flow.dscp(), flags })
}
