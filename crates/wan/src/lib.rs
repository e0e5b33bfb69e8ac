//! Role `wan`: delay, jitter, loss and more between pairs of interfaces, in user space.
#![forbid(unsafe_code)]

mod api;
mod classify;
mod clock;
mod counters;
mod document;
mod emulator;
mod event_loop;
mod plan;
mod pool;
mod port;
mod vigil;

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
    ("wan-status", schema::of::<api::Status>),
];

const EXAMPLES: &str = "\
Examples:
  hawserd wan --config wan.json --check   say whether the configuration is good, and end
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
    /// Only say whether the configuration is good
    #[arg(long)]
    check: bool,
}

/// Runs the emulator until it is told to stop.
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
    // After the API's thread was made, so that it does not inherit the priority.
    realtime.store(take_priority(), Ordering::Relaxed);
    let result = event_loop::run(emulator, &received, &waker);
    server.stop();
    Ok(result.context("event loop")?)
}

/// Wakes the calling thread as soon as its timer or a packet is due. Tells whether the kernel grants
/// it a place before ordinary threads; without it, lateness tells what that costs.
fn take_priority() -> bool {
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::warn!(%error, "timer slack stays as it is");
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
