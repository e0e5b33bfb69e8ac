//! `hawserd function ipsec`: one end of an IPsec tunnel (RFC 4301, RFC 4303, RFC 3948).
//!
//! charon negotiates keys (IKEv2) and logs them; ESP is done here. One thread reads the TUN device, encrypts and
//! sends; another receives, decrypts and writes to the device. IKE and ESP share UDP port 4500 (RFC 3948): a third
//! thread relays charon's messages to it.

pub(crate) mod api;
mod charon;
mod counters;
pub(crate) mod document;
mod inward;
mod keys;
mod outward;
mod rekey;
mod socket;

use std::{
    fs,
    io::{self, ErrorKind},
    net::{Ipv4Addr, UdpSocket},
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
    inward::{Inside, Inward},
    keys::Event,
    outward::{Batch, Outward},
    rekey::Rekey,
    socket::{Socket, UDP_MAX_LEN},
};

/// Address at which charon sees the remote end.
const PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

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
    let threads = carry(&document, &counters, &ended)?;
    let mut charon = Charon::start(&document.ike).context("setpriv (Debian package util-linux)")?;
    let associations = Arc::new(Associations::default());
    let (known, guard) = (Arc::clone(&associations), LogGuard(ended.clone()));
    let handle = move |event| {
        let _ = &guard; // dropped with the log
        known.note(&event);
        threads.send(event);
    };
    charon.read(handle).context("log of the key exchange")?;
    let router = api::router(Arc::new(Api::new(document, counters, associations)));
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

/// Reports the end of charon's log when dropped.
struct LogGuard(Sender<End>);

impl Drop for LogGuard {
    fn drop(&mut self) {
        let _ = self.0.send(End::Log);
    }
}

/// Channels to the two threads that carry packets.
struct Threads {
    outward: Sender<Event>,
    inward: Sender<Event>,
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
            Event::Unusable(spi) => {
                let spi = format!("{spi:#010x}");
                tracing::error!(spi, "an association with other than AES-GCM and 32-bit numbers");
                Ok(())
            }
        };
    }
}

/// Creates the device and the socket, and starts the threads that carry packets.
fn carry(
    document: &Document,
    counters: &Arc<Counters>,
    ended: &Sender<End>,
) -> anyhow::Result<Threads> {
    let interface = &document.interface;
    let socket = Socket::open(document).with_context(|| format!("UDP port 4500 at {interface}"))?;
    let (socket, tun) = (Arc::new(socket), Arc::new(device(document)?));
    let Ike { port, peer_port, .. } = document.ike;
    let rekey = document.ike.rekey.as_ref().map(start_rekeying).transpose()?;
    let ike =
        UdpSocket::bind((PEER, peer_port)).with_context(|| format!("UDP {PEER}:{peer_port}"))?;
    ike.connect((Ipv4Addr::LOCALHOST, port)).context("key exchange")?;
    let ike = Arc::new(ike);
    let (outward, outward_events) = mpsc::channel();
    let (inward, inward_events) = mpsc::channel();
    let sealing = Outward {
        tun: Arc::clone(&tun),
        mtu: document.mtu,
        socket: Arc::clone(&socket),
        counters: Arc::clone(counters),
        events: outward_events,
        association: None,
        batch: Batch::default(),
        dscp: document.dscp,
        rekey,
    };
    let inside = Inside {
        tun,
        counters: Arc::clone(counters),
        associations: Inbounds::default(),
        ike: Arc::clone(&ike),
        join: Coalescer::default(),
    };
    let opening = Inward { socket: Arc::clone(&socket), events: inward_events, inside };
    spawn("seal", ended.clone(), || sealing.run().context("packets into the tunnel"))?;
    spawn("open", ended.clone(), || opening.run().context("packets out of the tunnel"))?;
    spawn("ike", ended.clone(), move || negotiate(&ike, &socket).context("key exchange"))?;
    Ok(Threads { outward, inward })
}

/// Starts the thread that runs the rekeying command.
fn start_rekeying(rekey: &document::Rekey) -> anyhow::Result<Rekey> {
    let (sender, requests) = mpsc::channel();
    let command = rekey.command.clone();
    let serve = move || rekey::serve(&command, &requests);
    thread::Builder::new().name("rekey".into()).spawn(serve).context("thread")?;
    Ok(Rekey::new(rekey.after, sender))
}

/// Relays charon's messages to the remote end. charon retransmits what is lost.
fn negotiate(ike: &UdpSocket, socket: &Socket) -> io::Result<()> {
    let mut message = vec![0; UDP_MAX_LEN];
    loop {
        match ike.recv(&mut message) {
            Ok(len) => {
                let _ = socket.send(message.get(..len).unwrap_or_default(), len, 0);
            }
            // charon is not listening yet, or has closed its socket.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
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
