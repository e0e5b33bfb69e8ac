//! `hawserd function ipsec`: one end of an IPsec tunnel (RFC 4301, RFC 4303, RFC 3948).
//!
//! charon negotiates keys and tells them; packets are sealed and opened here. One thread reads the device,
//! seals, and sends; another receives, opens, and writes the device. Both kinds of messages have one port
//! at the other end, and here: a third thread takes charon's there.

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

/// Where charon sees the other end.
const PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Packets that wait in the device. The kernel's 500 are too few for bursts at some Gb/s.
const TUN_QUEUE: u32 = 4096;

/// Runs an end until it is told to stop, or the key exchange ends.
pub(crate) fn run(config: &Path, check: bool) -> Result<(), Failure> {
    let document = load(config, typed::<Document>)?;
    if check {
        return Ok(());
    }
    let listener = control::bind(Path::new(&document.control)).context("control API")?;
    let (ended, end) = mpsc::channel();
    let counters = Arc::new(Counters::default());
    let telling = carry(&document, &counters, &ended)?;
    let mut charon = Charon::start(&document.ike).context("setpriv (Debian package util-linux)")?;
    let associations = Arc::new(Associations::default());
    let (known, over) = (Arc::clone(&associations), Farewell(ended.clone()));
    let tell = move |event| {
        let _ = &over; // dropped with the log
        known.note(&event);
        telling.tell(event);
    };
    charon.read(tell).context("log of the key exchange")?;
    let router = api::router(Arc::new(Api::new(document, counters, associations)));
    let stop = move || {
        let _ = ended.send(End::Asked); // a process that ends already needs no word
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

/// Why an end has ended.
enum End {
    Asked,
    /// The key exchange's log is over.
    Log,
    /// No more packets can be carried.
    Packets(anyhow::Error),
}

/// Says that the log is over when it is dropped.
struct Farewell(Sender<End>);

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0.send(End::Log);
    }
}

/// To the two threads that carry packets.
struct Telling {
    outward: Sender<Event>,
    inward: Sender<Event>,
}

impl Telling {
    fn tell(&self, event: Event) {
        // A thread that has ended has said so.
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

/// Makes the device and the socket, and begins to carry packets.
fn carry(
    document: &Document,
    counters: &Arc<Counters>,
    ended: &Sender<End>,
) -> anyhow::Result<Telling> {
    let interface = &document.interface;
    let socket = Socket::open(document).with_context(|| format!("UDP port 4500 at {interface}"))?;
    let (socket, tun) = (Arc::new(socket), Arc::new(device(document)?));
    let Ike { port, peer_port, .. } = document.ike;
    let rekey = document.ike.rekey.as_ref().map(asking).transpose()?;
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
    Ok(Telling { outward, inward })
}

/// Begins to wait for when keys are to be renewed.
fn asking(rekey: &document::Rekey) -> anyhow::Result<Rekey> {
    let (ask, asked) = mpsc::channel();
    let command = rekey.command.clone();
    let serve = move || rekey::serve(&command, &asked);
    thread::Builder::new().name("rekey".into()).spawn(serve).context("thread")?;
    Ok(Rekey::new(rekey.after, ask))
}

/// Sends what charon has to say to the other end. What is lost it says again.
fn negotiate(ike: &UdpSocket, socket: &Socket) -> io::Result<()> {
    let mut message = vec![0; UDP_MAX_LEN];
    loop {
        match ike.recv(&mut message) {
            Ok(len) => {
                let _ = socket.send(message.get(..len).unwrap_or_default(), len, 0);
            }
            // It does not listen yet, or no more.
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
            let _ = ended.send(End::Packets(error)); // the process ends already
        }
    };
    thread::Builder::new().name(name.into()).spawn(work).context("thread")?;
    Ok(())
}

/// Makes the TUN device and brings it up.
fn device(document: &Document) -> anyhow::Result<Tun> {
    let name = &document.device;
    let what = || format!("TUN device {name}");
    let tun = Tun::open(name, Offload::Tcp).with_context(what)?;
    let index = routes::interface(name).with_context(what)?;
    trust(name).with_context(what)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        Routes::open().context("netlink")?.bring_up(index, document.mtu, TUN_QUEUE).await?;
        anyhow::Ok(())
    })?;
    Ok(tun)
}

/// Lets packets come by the device whose sender is reached another way, as rules may lead them.
fn trust(name: &str) -> io::Result<()> {
    let file = |of: &str| format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
    // The stricter of all and one is in force: 1 is strict, 2 is loose and stands above it.
    let strict = fs::read_to_string(file("all"))?.trim() != "0";
    fs::write(file(name), if strict { "2" } else { "0" })
}
