//! A record as a line of JSON.

use std::{io::Write, sync::Arc};

use hawser_flowmeter::Record;

use super::log::Line;

/// Version of the line's format.
const SCHEMA: u32 = 1;

/// A record with its score.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The sensor's run: random, different after each start.
    pub(crate) run: u64,
    /// Number of the flow in this run.
    pub(crate) flow: u64,
    /// The record.
    pub(crate) record: Record,
    /// Probability that the flow is malicious; `None` without a model.
    pub(crate) score: Option<f64>,
    /// Name and version of the model.
    pub(crate) model: Option<Arc<str>>,
}

impl Entry {
    /// The identifier of a flow, which no flow of another run has.
    pub(crate) fn id(run: u64, flow: u64) -> String {
        format!("{run:016x}-{flow}")
    }

    fn try_write(&self, seq: u64, to: &mut Vec<u8>) -> std::io::Result<()> {
        let Record { tuple, reason, first, last, is_conversation, features, .. } = &self.record;
        let id = Self::id(self.run, self.flow);
        write!(to, "{{\"schema\":{SCHEMA},\"id\":\"{id}\",\"seq\":{seq}")?;
        write!(to, ",\"reason\":\"{}\",\"first_us\":{first},\"last_us\":{last}", reason.name())?;
        write!(to, ",\"srcip\":\"{}\",\"srcport\":{}", tuple.source, tuple.source_port)?;
        write!(to, ",\"dstip\":\"{}\",\"dstport\":{}", tuple.destination, tuple.destination_port)?;
        write!(to, ",\"proto\":{},\"is_conversation\":{is_conversation}", tuple.protocol)?;
        to.extend(b",\"features\":");
        serde_json::to_writer(&mut *to, &features[..])?;
        to.extend(b",\"score\":");
        serde_json::to_writer(&mut *to, &self.score)?;
        to.extend(b",\"model\":");
        serde_json::to_writer(&mut *to, &self.model.as_deref())?;
        to.push(b'}');
        Ok(())
    }
}

impl Line for Entry {
    fn write(&self, seq: u64, to: &mut Vec<u8>) {
        let _ = self.try_write(seq, to); // memory takes all
    }
}
