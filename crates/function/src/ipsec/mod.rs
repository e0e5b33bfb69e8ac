//! `hawserd function ipsec`: one end of an IPsec tunnel (RFC 4301, RFC 4303, RFC 3948).
//!
//! charon negotiates keys (IKEv2) and logs them; ESP is done here. One thread reads the TUN device, encrypts and
//! sends; another receives, decrypts and writes to the device. IKE and ESP share UDP port 4500 (RFC 3948): a third
//! thread relays charon's messages to it, and reads charon's log before it relays them, so that an SA is known here
//! before the remote end uses it. The remote end may be behind a NAT that changes its port.

pub(crate) mod api;
mod charon;
mod counters;
pub(crate) mod document;
mod endpoint;
mod inward;
mod keys;
mod outward;
mod rekey;
mod relay;
mod selectors;
mod socket;

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread,
};

use anyhow::{Context, anyhow};
use hawser_daemon::{
    config::{load, typed},
    control,
    failure::Failure,
};
use hawser_esp::Inbounds;
use hawser_netdev::{
    routes::{self, Routes},
    tun::{Offload, Tun},
};
use hawser_wire::coalesce::Coalescer;
use tokio::runtime;

use self::{
    api::{Api, Associations},
    charon::Charon,
    counters::Counters,
    document::{Document, Ike},
    endpoint::Endpoint,
    inward::{Inside, Inward},
    keys::Event,
    outward::{Batch, Outward},
    rekey::Rekey,
    relay::{PEER, Relay},
    selectors::Selectors,
    socket::Socket,
};

/// Queue length of the TUN device, packets. The kernel's default of 500 overflows in bursts at some Gbit/s.
const TUN_QUEUE: u32 = 4096;

/// Runs one end until it is stopped or charon ends.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let document = load(config, typed::<Document>)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&document.control)).context("control API")?;
    let (ended, end) = mpsc::channel();
    let counters = Arc::new(Counters::default());
    let endpoint = Arc::new(Endpoint::new(document.remote));
    let threads = carry(&document, &endpoint, &counters, &ended)?;
    let mut charon = Charon::start(&document.ike).context("setpriv (Debian package util-linux)")?;
    let associations = Arc::new(Associations::default());
    exchange(&mut charon, threads, Arc::clone(&associations), ended.clone())?;
    let router = api::router(Arc::new(Api::new(document, counters, associations, endpoint)));
    let stop = move || {
        let _ = ended.send(End::Asked); // fails only if the process is ending already
    };
    let server = control::serve(listener, router, stop).context("control API")?;
    let why = end.recv().unwrap_or(End::Asked);
    server.stop();
    let result = match why {
        End::Asked => Ok(()),
        End::Log => {
            let how = charon.wait().context("key exchange")?;
            return Err(anyhow!("the key exchange has ended ({how})").into());
        }
        End::Packets(error) => Err(error.into()),
    };
    charon.stop().context("key exchange")?;
    result
}

/// Why the process ends.
enum End {
    Asked,
    /// charon has ended.
    Log,
    /// A thread that carries packets has failed.
    Packets(anyhow::Error),
}

/// Channels to the two threads that carry packets.
struct Threads {
    outward: Sender<Event>,
    inward: Sender<Event>,
    endpoint: Arc<Endpoint>,
    relay: Arc<Relay>,
    socket: Arc<Socket>,
}

impl Threads {
    fn send(&self, event: Event) {
        // Errors are ignored: a thread that has ended has reported why.
        let _ = match event {
            Event::Outbound(..) | Event::OutboundGone(_) => self.outward.send(event),
            Event::Inbound(..) | Event::InboundGone(_) => self.inward.send(event),
            Event::Flushed => {
                let _ = self.outward.send(Event::Flushed);
                self.inward.send(Event::Flushed)
            }
            Event::Heard(port) => {
                if let Some(outer) = self.relay.outer(port) {
                    self.endpoint.follow(outer);
                }
                Ok(())
            }
            Event::Unusable(spi) => {
                let spi = format!("{spi:#010x}");
                let why = "not AES-GCM with 32-bit numbers, or selectors that are not understood";
                tracing::error!(spi, "an association cannot be used: {why}");
                Ok(())
            }
        };
    }
}

/// Creates the device and the socket, and starts the threads that carry packets.
fn carry(
    document: &Document,
    endpoint: &Arc<Endpoint>,
    counters: &Arc<Counters>,
    ended: &Sender<End>,
) -> anyhow::Result<Threads> {
    let interface = &document.interface;
    let socket = Socket::open(document, Arc::clone(endpoint));
    let socket = socket.with_context(|| format!("UDP port 4500 at {interface}"))?;
    let (socket, tun) = (Arc::new(socket), Arc::new(device(document)?));
    let rekey = document.ike.rekey.as_ref().map(start_rekeying).transpose()?;
    let Ike { peer_port, .. } = document.ike;
    let relay = Relay::open(&document.ike, Arc::clone(endpoint));
    let relay = Arc::new(relay.with_context(|| format!("UDP {PEER}:{peer_port}"))?);
    let (outward, outward_events) = mpsc::channel();
    let (inward, inward_events) = mpsc::channel();
    let sealing = Outward {
        tun: Arc::clone(&tun),
        mtu: document.mtu,
        socket: Arc::clone(&socket),
        counters: Arc::clone(counters),
        events: outward_events,
        association: None,
        selectors: Selectors::default(),
        batch: Batch::default(),
        dscp: document.dscp,
        rekey,
    };
    let inside = Inside {
        tun,
        counters: Arc::clone(counters),
        events: inward_events,
        associations: Inbounds::default(),
        endpoint: Arc::clone(endpoint),
        relay: Arc::clone(&relay),
        join: Coalescer::default(),
    };
    let opening = Inward { socket: Arc::clone(&socket), inside };
    spawn("seal", ended.clone(), || sealing.run().context("packets into the tunnel"))?;
    spawn("open", ended.clone(), || opening.run().context("packets out of the tunnel"))?;
    Ok(Threads { outward, inward, endpoint: Arc::clone(endpoint), relay, socket })
}

/// Starts the thread that reads charon's log and relays its messages.
fn exchange(
    charon: &mut Charon,
    threads: Threads,
    associations: Arc<Associations>,
    ended: Sender<End>,
) -> anyhow::Result<()> {
    let log = charon.log().context("log of the key exchange")?;
    let (relay, socket) = (Arc::clone(&threads.relay), Arc::clone(&threads.socket));
    let handle = move |event| {
        associations.note(&event);
        threads.send(event);
    };
    let send = move |to, message: &[u8]| {
        let _ = socket.send_to(to, message, message.len(), 0); // charon retransmits it
    };
    let after = ended.clone();
    spawn("ike", ended, move || {
        relay.run(log, handle, send).context("key exchange")?;
        let _ = after.send(End::Log); // fails only if the process is ending already
        Ok(())
    })
}

/// Starts the thread that runs the rekeying command.
fn start_rekeying(rekey: &document::Rekey) -> anyhow::Result<Rekey> {
    let (sender, requests) = mpsc::channel();
    let command = rekey.command.clone();
    let serve = move || rekey::serve(&command, &requests);
    thread::Builder::new().name("rekey".into()).spawn(serve).context("thread")?;
    Ok(Rekey::new(rekey.after, sender))
}

fn spawn(
    name: &str,
    ended: Sender<End>,
    work: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let work = move || {
        if let Err(error) = work() {
            let _ = ended.send(End::Packets(error)); // fails only if the process is ending already
        }
    };
    thread::Builder::new().name(name.into()).spawn(work).context("thread")?;
    Ok(())
}

/// Creates the TUN device and brings it up.
fn device(document: &Document) -> anyhow::Result<Tun> {
    let name = &document.device;
    let what = || format!("TUN device {name}");
    let tun = Tun::open(name, Offload::Tcp).with_context(what)?;
    let index = routes::interface(name).with_context(what)?;
    relax_reverse_path_filter(name).with_context(what)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        Routes::open().context("netlink")?.bring_up(index, document.mtu, TUN_QUEUE).await?;
        anyhow::Ok(())
    })?;
    Ok(tun)
}

/// Accepts packets on the device whose source is routed elsewhere, as routing rules may do (RFC 3704).
fn relax_reverse_path_filter(name: &str) -> io::Result<()> {
    let file = |of: &str| format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
    // The kernel uses the greater value of `all` and the interface: 1 is strict, 2 loose.
    let strict = fs::read_to_string(file("all"))?.trim() != "0";
    fs::write(file(name), if strict { "2" } else { "0" })
}
