//! Role `function`: nodes on service paths (RFC 7665).
#![forbid(unsafe_code)]

mod api;
mod classifier;
mod crypto;
mod document;
mod error;
mod fields;
mod firewall;
mod health;
mod ids;
mod ipsec;
mod mac;
mod node;
mod plan;
mod report;
mod rest;
mod srv6;
mod watched;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use anyhow::Context;
use clap::Subcommand;
use hawser_daemon::{config::load, control, failure::Failure, schema};

use self::{
    api::Api,
    error::Error,
    health::Monitor,
    ids::{Opened, Sensor, Threads, api::Served},
    node::Node,
    plan::Kind,
};

/// Schemas of this role.
pub const SCHEMAS: &[schema::Entry] = &[
    ("classifier-config", schema::of::<classifier::document::Document>),
    ("classifier-counters", schema::of::<classifier::api::Counters>),
    ("firewall-rules", schema::of::<document::GuardRules>),
    ("function-config", schema::of::<document::Document>),
    ("function-counters", schema::of::<report::Counters>),
    ("function-sensor", schema::of::<report::Sensing>),
    ("function-status", schema::of::<api::Status>),
    ("function-trace", schema::of::<report::Trace>),
    ("function-trace-request", schema::of::<document::TraceRequest>),
    ("ids-blocks", schema::of::<ids::api::Blocks>),
    ("ids-status", schema::of::<ids::api::Status>),
    ("ids-verdict", schema::of::<ids::api::Verdict>),
    ("ipsec-config", schema::of::<ipsec::document::Document>),
    ("ipsec-counters", schema::of::<ipsec::api::Report>),
    ("srv6-proxy-config", schema::of::<srv6::document::Document>),
    ("srv6-proxy-counters", schema::of::<srv6::api::Counters>),
];

const EXAMPLES: &str = "\
Examples:
  hawserd function sff --config sff.json --check   validate the configuration and exit
  hawserd function sff --config sff.json           run until SIGTERM
  hawserd function forwarder --config f1.json
  curl --unix-socket sff.sock http://sff/v1/counters
  curl --unix-socket sff.sock -X PUT -H 'content-type: application/json' \\
       -d '{\"events\": 20, \"spi\": 1}' http://sff/v1/trace
  curl --unix-socket sff.sock http://sff/v1/trace
  hawserd function firewall --config fw.json
  hawserd function ids --config ids.json
  curl --unix-socket ids.sock http://ids/v1/blocks
  curl --cacert ca.pem -H 'authorization: Bearer TOKEN' -H 'content-type: application/json' -X POST \\
       -d '{\"source\": \"10.9.0.0/16\", \"action\": \"deny\"}' https://192.0.2.7:8443/v1/rules
";

/// Service function chaining: classifiers, forwarders (NSH), proxies and functions.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Service function forwarder: classifies flows into paths and forwards them from function to function
    Sff(File),
    /// A function that only decrements the service index and returns or forwards the packet
    Forwarder(File),
    /// A function that passes the packets its rules allow; rules are set through a REST API
    Firewall(File),
    /// A function that observes flows, and blocks malicious ones at a firewall
    Ids(File),
    /// Maintains the kernel's routing rules of chains according to the health of their functions
    Classifier(ClassifierFile),
    /// One end of an IPsec tunnel: strongSwan negotiates keys, this process encrypts and decrypts packets
    Ipsec(IpsecFile),
    /// SRv6 service proxies for SR-unaware functions (End.AS, End.AD, End.AM)
    #[command(name = "srv6-proxy")]
    Srv6Proxy(Srv6File),
}

#[derive(clap::Args)]
struct ClassifierFile {
    /// Configuration file (JSON; `hawserd schema classifier-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only validate the configuration
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct IpsecFile {
    /// Configuration file (JSON; `hawserd schema ipsec-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only validate the configuration
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct Srv6File {
    /// Configuration file (JSON; `hawserd schema srv6-proxy-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only validate the configuration
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct File {
    /// Configuration file (JSON; `hawserd schema function-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only validate the configuration
    #[arg(long)]
    check: bool,
}

impl Kind {
    /// Its name in the control API.
    fn role(self) -> &'static str {
        match self {
            Self::Sff => "sff",
            Self::Forwarder => "forwarder",
            Self::Firewall => "firewall",
            Self::Ids => "ids",
        }
    }
}

/// Runs a node until stopped. The eBPF program forwards its packets.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (kind, file) = match &args.command {
        Command::Sff(file) => (Kind::Sff, file),
        Command::Forwarder(file) => (Kind::Forwarder, file),
        Command::Firewall(file) => (Kind::Firewall, file),
        Command::Ids(file) => (Kind::Ids, file),
        Command::Classifier(file) => return classifier::run(&file.config, file.check),
        Command::Ipsec(file) => return ipsec::run(&file.config, file.check),
        Command::Srv6Proxy(file) => return srv6::run(&file.config, file.check),
    };
    let plan = load(&file.config, |value| plan::parse(kind, value))?;
    if file.check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&plan.document.control)).context("control API")?;
    let rest = plan.document.firewall.as_ref().and_then(|firewall| firewall.rest.as_ref());
    let rest = rest.map(rest::Api::open).transpose();
    let rest = rest.map_err(|error| Error::from(error).into_failure(&file.config))?;
    let sensor = plan.document.ids.as_ref().map(Opened::new).transpose();
    let sensor = sensor.map_err(|error| Error::from(error).into_failure(&file.config))?;
    let mut node = Node::open(kind, plan).map_err(|error| error.into_failure(&file.config))?;
    let sensor = sensor.map(|opened| opened.start(node.take_observations())).transpose();
    let sensor = sensor.map_err(|error| Error::from(error).into_failure(&file.config))?;
    let monitor = Monitor::new(&node.plan().document.functions);
    let api = Api::new(kind, node, monitor.clone());
    let updated = Arc::clone(&api);
    monitor.start(move || updated.avoid_down()).context("health checks")?;
    if kind == Kind::Firewall {
        let expiring = Arc::clone(&api);
        let expiry = thread::Builder::new().name("expiry".into());
        expiry.spawn(move || expiring.expire_rules()).context("expiry of rules")?;
    }
    let serving = rest.map(|rest| rest.serve(api::rules_router(Arc::clone(&api))));
    serving.transpose().context("REST API")?;
    Ok(serve(listener, &api, sensor)?)
}

/// Serves the control API until a signal, and ends the sensor.
fn serve(
    listener: control::Listener,
    api: &Arc<Api>,
    sensor: Option<(Sensor, Threads)>,
) -> anyhow::Result<()> {
    let (stop, stopped) = mpsc::channel();
    let mut router = api::router(Arc::clone(api)).merge(api::rules_router(Arc::clone(api)));
    let sensor = sensor.map(|(sensor, threads)| (Served::new(Arc::clone(api), sensor), threads));
    if let Some((served, _)) = &sensor {
        router = router.merge(ids::api::router(Arc::clone(served)));
    }
    let ends = move || {
        let _ = stop.send(()); // fails only if the process is ending already
    };
    let server = control::serve(listener, router, ends).context("control API")?;
    let _ = stopped.recv(); // an error means that the thread has ended, which ends the process, too
    server.stop();
    api.close();
    if let Some((served, threads)) = sensor {
        served.stop(threads);
    }
    Ok(())
}
