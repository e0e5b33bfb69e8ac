//! Role `flows`: writes the flow records of a capture, scored by a model if one is given.
#![forbid(unsafe_code)]

mod records;

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use hawser_daemon::{
    capture::{self, Captured, DataLink},
    config,
    failure::Failure,
};
use hawser_flowmeter::{Counters, FlowTable, Packet, Record, Settings, features::NAMES};
use hawser_trees::Model;
use hawser_wire::ethernet::{self, ethertype};

use crate::records::Records;

const EXAMPLES: &str = "\
Examples:
  hawserd flows trace.pcap > flows.csv               a line a flow, with flowtbag's features
  hawserd flows trace.pcapng --records all           also early records and windows of 2 s, as a sensor has them
  hawserd flows trace.pcap --model tree.json -o f.csv   with the probability that each is malicious
";

/// Writes the flows of a capture as CSV: addresses, times, features, score.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Capture file (pcap or pcapng, Ethernet or IP)
    capture: PathBuf,
    /// Score each record with this model (JSON, as `hawser ids train` writes it)
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Records to write
    #[arg(long, value_enum, default_value = "last")]
    records: Which,
    /// Age at which a flow of few packets has its early record, milliseconds; 0: it has none. Give that of the
    /// sensors (`early_ms`, 50 by default) whose records a model is to judge
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    early_ms: u64,
    /// Flows held at once; more evict others
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    capacity: u32,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Which records of a flow are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The last one of each flow
    Last,
    /// Also those after 8, 16 and 32 packets, at an age of `--early-ms`, and of each window of 2 s
    All,
}

/// Writes the flows of a capture.
pub fn run(args: &Args) -> Result<(), Failure> {
    let model = args.model.as_deref().map(model).transpose()?;
    let Some(path) = &args.output else {
        return write(args, Records::new(BufWriter::new(io::stdout().lock()), model));
    };
    let unfinished = path.with_extension("unfinished");
    let file = File::create(&unfinished).with_context(|| unfinished.display().to_string())?;
    let written = write(args, Records::new(BufWriter::new(file), model));
    let kept = match &written {
        Ok(()) => fs::rename(&unfinished, path),
        Err(_) => fs::remove_file(&unfinished),
    };
    written?;
    Ok(kept.with_context(|| path.display().to_string())?)
}

fn model(path: &Path) -> Result<Model, config::Error> {
    let failed = |source| config::Error::Read { path: path.into(), source };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > hawser_trees::SIZE_MAX as u64 {
        return Err(failed(io::Error::other(format!(
            "found {length} bytes, expected at most 64 MiB"
        ))));
    }
    let bytes = fs::read(path).map_err(failed)?;
    Model::parse(&bytes, &NAMES).map_err(|refused| failed(io::Error::other(refused)))
}

fn write<W: Write>(args: &Args, mut records: Records<W>) -> Result<(), Failure> {
    let mut table = FlowTable::new(Settings {
        capacity: args.capacity,
        early_after: args.early_ms * 1000,
        seed: seed().context("randomness")?,
        ..Settings::default()
    });
    let mut emit = |record: Record| {
        if args.records == Which::All || record.reason.is_last() {
            records.write(&record);
        }
    };
    let mut ignored = 0_u64;
    let read: Result<(), capture::Error> = capture::read(&args.capture, |captured| {
        match flow_packet(&captured) {
            Some((time, packet)) => table.observe(time, &packet, &mut emit),
            None => ignored += 1,
        }
        Ok(())
    });
    read.map_err(|error| config::Error::Read {
        path: args.capture.clone(),
        source: io::Error::other(error),
    })?;
    table.finish(&mut emit);
    report(table.counters(), ignored);
    match records.finish() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()), // as `head` leaves it
        written => Ok(written.context("output")?),
    }
}

/// Time in microseconds and packet of a frame that has both.
fn flow_packet(captured: &Captured<'_>) -> Option<(u64, Packet)> {
    let time = u64::try_from(captured.time?.as_micros()).ok()?;
    Some((time, Packet::parse(ip_packet(captured)?).ok()?))
}

/// The IP packet in a frame. Frames of unknown link layers have none.
fn ip_packet<'a>(captured: &Captured<'a>) -> Option<&'a [u8]> {
    match captured.link {
        DataLink::ETHERNET => {
            let frame = ethernet::Frame::parse(captured.data)?;
            matches!(frame.ethertype(), ethertype::IPV4 | ethertype::IPV6).then(|| frame.payload())
        }
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Some(captured.data),
        _ => None,
    }
}

/// What was read, for people.
#[allow(clippy::print_stderr)] // standard output has the records
fn report(counters: Counters, ignored: u64) {
    let Counters { packets, reordered, flows, evicted } = counters;
    eprintln!(
        "{flows} flows of {packets} packets; not counted: {reordered} older than the one before in \
         their flow, {ignored} not IP or without a time; {evicted} flows evicted"
    );
}

/// A seed that senders of packets do not know.
fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
