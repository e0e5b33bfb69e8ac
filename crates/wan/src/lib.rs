//! Role `wan`: a WAN emulator in user space, which forwards frames between pairs of interfaces with delay,
//! jitter, loss, duplication, reordering and rate limits.
#![forbid(unsafe_code)]

mod api;
mod classify;
mod clock;
mod counters;
mod cpu_latency;
mod document;
mod emulator;
mod event_loop;
mod plan;
mod pool;
mod port;

use std::{
    io,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use anyhow::Context;
use hawser_daemon::{config::load, control, failure::Failure, schema};
use hawser_netdev::{poll::Waker, scheduling};
use rustix::thread::set_current_timer_slack;

use self::{
    api::{Api, Command, Handle},
    emulator::Emulator,
};

/// Schemas of this role.
pub const SCHEMAS: &[schema::Entry] = &[
    ("wan-config", schema::of::<document::Document>),
    ("wan-counters", schema::of::<counters::Counters>),
    ("wan-queues", schema::of::<counters::Queues>),
    ("wan-status", schema::of::<api::Status>),
];

const EXAMPLES: &str = "\
Examples:
  hawserd wan --config wan.json --check   check the configuration and exit
  hawserd wan --config wan.json           run until SIGTERM
  curl --unix-socket wan.sock http://wan/v1/counters
  curl --unix-socket wan.sock -X PATCH -H 'content-type: application/json' \\
       -d '{\"delay_us\": 70000}' http://wan/v1/paths/p1
";

/// Emulates a WAN: delay, jitter, loss, duplication, reordering and rate between pairs of interfaces.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Configuration file (JSON; `hawserd schema wan-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
}

/// Runs the emulator until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (document, plan) = load(&args.config, plan::parse)?;
    if args.check {
        return Ok(());
    }
    let emulator = Emulator::open(&plan).map_err(refused)?;
    let listener = control::bind(Path::new(&document.control)).context("control API")?;
    let waker = Waker::new().context("eventfd")?;
    let (commands, received) = mpsc::channel();
    let handle = Handle::new(commands, waker.clone());
    let (stop, realtime) = (handle.clone(), Arc::new(AtomicBool::new(false)));
    let api = Api::new(handle, document, Arc::clone(&realtime));
    let server = control::serve(listener, api::router(api), move || stop.send(Command::Stop))
        .context("control API")?;
    // After the API's thread was started, so that it does not inherit the priority.
    realtime.store(take_priority(), Ordering::Relaxed);
    let result = event_loop::run(emulator, &received, &waker);
    server.stop();
    Ok(result.context("event loop")?)
}

/// Minimises the wake-up latency of the calling thread. Returns whether the kernel grants real-time
/// priority; without it, the lateness counters show the effect.
fn take_priority() -> bool {
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::warn!(%error, "cannot reduce the timer slack");
    }
    let granted = scheduling::realtime();
    if let Err(error) = &granted {
        tracing::warn!(%error, "no real-time priority: packets may be late when the machine is busy");
    }
    granted.is_ok()
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::Lacking(format!("CAP_NET_RAW ({error})")),
        _ => anyhow::Error::from(error).into(),
    }
}
