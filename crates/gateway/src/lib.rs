//! Role `gateway`: the multipath agent (MPA) between a branch's TUN device and the other branches.
#![forbid(unsafe_code)]

mod agent;
mod api;
mod breakout;
mod causes;
mod classify;
mod command;
mod config;
mod locate;
mod nft;
mod setup;
mod status;
mod switch;
mod trains;
mod transport;
mod wan_filter;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use hawser_daemon::{config::load, control, failure::Failure, schema};
use hawser_netdev::{mptcp::Tuning, scheduling, tun::Tun};
use hawser_tls::Identity;

use self::{
    agent::Agent,
    breakout::Follower,
    command::{Command, Inbox, Mailbox, mailbox},
    config::{Config, Kind},
    switch::Switch,
    transport::{ipip::Ipip, mptcp::Mptcp, quic::Quic},
    wan_filter::WanFilter,
};

/// Schemas of this role.
pub const SCHEMAS: &[schema::Entry] = &[
    ("gateway-config", schema::of::<config::Document>),
    ("gateway-status", schema::of::<status::Status>),
    ("gateway-counters", schema::of::<status::Counters>),
    ("gateway-train-request", schema::of::<trains::Document>),
    ("gateway-train", schema::of::<trains::Answer>),
];

const EXAMPLES: &str = "\
Examples:
  hawserd gateway --config gw1.json --check   check the configuration and exit
  hawserd gateway --config gw1.json           run until SIGTERM
  curl --unix-socket gw1.sock http://gw/v1/status";

/// Carries IP packets to other branches over Multipath TCP, QUIC or IP in IP.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Configuration file (JSON; `hawserd schema gateway-config` describes it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
}

/// Runs the gateway until it is told to stop.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (config, identity) = load(&args.config, |value| {
        let config = config::parse(value)?;
        let identity = setup::identity(&config)?;
        Ok((config, identity))
    })?;
    if args.check {
        return Ok(());
    }
    serve(&config, identity.as_ref())
}

/// Socket options of the `mptcp` transport (measurement in docs/design/mptcp.md).
const TUNING: Tuning = Tuning { congestion: "cubic", keepalive: Duration::from_secs(5) };

fn serve(config: &Config, identity: Option<&Identity>) -> Result<(), Failure> {
    let listener = control::bind(&config.document.control).context("control socket")?;
    let tun = setup::open_tun(config)?;
    let (mailbox, inbox) = mailbox().context("eventfd")?;
    let current = Arc::new(Mutex::new(config.clone()));
    let filter = WanFilter::start(config).context("WAN filter")?;
    let switch = Switch::start(config).inspect_err(|_| filter.stop())?;
    let follower = Follower::start(Arc::clone(&current)).context("local breakout")?;
    let guards = (switch.clone(), filter.clone());
    let router = api::router(mailbox.clone(), Arc::clone(&current), guards);
    let result = carry(config, identity, (tun, mailbox, inbox), (listener, router));
    drop(follower);
    switch.stop();
    filter.stop();
    let last = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Err(error) = runtime()?.block_on(setup::unset_network(&last)) {
        tracing::warn!(error = format!("{error:#}"), "local breakout");
    }
    result
}

/// Runs event loop and control API until told to stop.
fn carry(
    config: &Config,
    identity: Option<&Identity>,
    (tun, mailbox, inbox): (Tun, Mailbox, Inbox),
    (listener, router): (control::Listener, axum::Router),
) -> Result<(), Failure> {
    let engine = Engine::start(config, identity, tun, inbox)?;
    let stop = move || {
        mailbox.send(Command::Stop);
    };
    let server = control::serve(listener, router, stop).context("control API")?;
    if let Err(error) = scheduling::prefer() {
        tracing::info!(%error, "cannot raise the priority of the packet thread: CAP_SYS_NICE is missing");
    }
    let result = engine.run();
    server.stop();
    Ok(result.context("event loop")?)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("tokio")
}

/// The agent with one of the transports.
enum Engine {
    Mptcp(Box<Agent<Mptcp>>),
    Ipip(Box<Agent<Ipip>>),
    Quic(Box<Agent<Quic>>),
}

impl Engine {
    /// Takes over the device, brings it up and adds the routes.
    fn start(
        config: &Config,
        identity: Option<&Identity>,
        tun: Tun,
        inbox: Inbox,
    ) -> Result<Self, Failure> {
        let ends = (tun, inbox);
        let (engine, mtu) = match config.document.transport.kind {
            Kind::Mptcp => {
                let make = |host: &_| Mptcp::new(host, TUNING);
                let agent = Agent::new(config, identity, ends, make).map_err(lacking_mptcp)?;
                let mtu = agent.mtu();
                (Self::Mptcp(Box::new(agent)), mtu)
            }
            Kind::Quic => {
                let (own, session) = (identity.context("transport.tls")?, session()?);
                let make = |host: &_| Quic::new(host, config, own, session);
                let agent = Agent::new(config, identity, ends, make).map_err(lacking)?;
                let mtu = agent.mtu();
                (Self::Quic(Box::new(agent)), mtu)
            }
            Kind::Ipip => {
                let make = |host: &_| Ok(Ipip::new(host));
                let agent = Agent::new(config, identity, ends, make);
                let agent = agent.map_err(anyhow::Error::from)?;
                let mtu = agent.mtu();
                (Self::Ipip(Box::new(agent)), mtu)
            }
        };
        runtime()?.block_on(setup::set_network(config, mtu))?;
        Ok(engine)
    }

    fn run(self) -> std::io::Result<()> {
        match self {
            Self::Mptcp(agent) => agent.run(),
            Self::Ipip(agent) => agent.run(),
            Self::Quic(agent) => agent.run(),
        }
    }
}

/// A random session number (getrandom(2)).
fn session() -> Result<[u8; 16], Failure> {
    let mut session = [0; 16];
    rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())
        .context("getrandom")?;
    Ok(session)
}

/// An unsupported operation means that the kernel lacks a feature.
fn lacking(error: std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::Unsupported => Failure::Lacking(error.to_string()),
        _ => Failure::Other(error.into()),
    }
}

/// A kernel without Multipath TCP fails when the first socket is created.
fn lacking_mptcp(error: std::io::Error) -> Failure {
    match lacking(error) {
        Failure::Lacking(what) => {
            Failure::Lacking(format!("Multipath TCP (sysctl net.mptcp.enabled): {what}"))
        }
        other => other,
    }
}
