//! Opens senders and receivers on their ports.

use std::{io, path::Path};

use hawser_bpf::{
    generator::{Generator, Recording},
    layout::Control,
    meter::{self, Meter},
    port,
    reflector::Reflector,
};
use hawser_daemon::{
    config::{self, FieldError, Invalid},
    failure::Failure,
};
use hawser_netdev::{
    interface::{self, Interface},
    namespace::{self, within},
};
use serde_json::Value;

use crate::{
    capture::{self, CaptureFile},
    config::{Backend, Capture, Config, Port, Receive, Replay, Send, StreamFlows, Traffic},
    plan::{self, Plan, Planned},
    receiver::Receiver,
    receiver_packet::PacketReceiver,
    receiver_udp::UdpReceiver,
    receiver_xdp::XdpReceiver,
    schedule::Schedule,
    sender::Sender,
    sender_packet::PacketSender,
    sender_udp::UdpSender,
    sender_xdp::XdpSender,
};

/// Duplicate windows of all flows together, sequence numbers as a power of two: 16 MiB in the kernel.
const WINDOW_BITS_TOTAL: u32 = 26;
/// Ring buffer for captured frames until they are written, bytes: about 16 000 frames.
const CAPTURE_RING: u32 = 32 << 20;

/// Why a sender, receiver or reflector cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The configuration is impossible on this machine.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The machine lacks something.
    #[error("{0}")]
    Lacking(String),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl Error {
    /// The failure of the process; `path` is the configuration file.
    pub(super) fn at(self, path: &Path) -> Failure {
        match self {
            Self::Invalid(invalid) => config::Error::Invalid { path: path.into(), invalid }.into(),
            Self::Lacking(what) => Failure::Lacking(what),
            Self::Other(error) => error.into(),
        }
    }
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Invalid(Invalid { errors: vec![error] })
    }
}

impl From<hawser_bpf::Error> for Error {
    fn from(error: hawser_bpf::Error) -> Self {
        if error.is_denied() {
            return Self::Lacking("the right to load eBPF programs: run as root".into());
        }
        Self::Other(error.into())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Self::Lacking("the right to open raw sockets: run as root".into())
            }
            _ => Self::Other(error.into()),
        }
    }
}

/// Runs `open` in the namespace of a port, with the properties of its interface.
fn at_port<T: std::marker::Send>(
    port: &Port,
    place: &str,
    open: impl FnOnce(Interface) -> Result<T, Error> + std::marker::Send,
) -> Result<T, Error> {
    let opened = within(port.netns.as_deref(), || {
        let interface = interface::find(&port.interface).map_err(|error| {
            let place = format!("{place}.interface");
            FieldError::new(&place, port.interface.clone(), format!("an interface ({error})"))
        })?;
        open(interface)
    });
    opened.unwrap_or_else(|error| {
        let found = port.netns.clone().unwrap_or_default();
        let place = format!("{place}.netns");
        Err(FieldError::new(&place, found, format!("a network namespace ({error})")).into())
    })
}

/// The streams that a receiver counts.
pub(super) fn received_streams(config: &Config) -> Vec<StreamFlows> {
    let own = config.receive.as_ref().map(|receive| receive.streams.clone()).unwrap_or_default();
    if !own.is_empty() {
        return own;
    }
    match config.send.as_ref().map(|send| &send.traffic) {
        Some(Traffic::Streams(streams)) => {
            let flows =
                |s: &super::config::Stream| StreamFlows { name: s.name.clone(), flows: s.flows };
            streams.iter().map(flows).collect()
        }
        _ => vec![StreamFlows { name: "replay".into(), flows: 1 }],
    }
}

/// Opens the receiver, which counts frames from now on.
pub(super) fn receiver(config: &Config, receive: &Receive) -> Result<Box<dyn Receiver>, Error> {
    let streams = received_streams(config);
    let flows: u32 = streams.iter().map(|stream| stream.flows).sum();
    let per_flow = WINDOW_BITS_TOTAL.saturating_sub(flows.max(1).next_power_of_two().ilog2());
    let window_bits = receive.window_bits.unwrap_or(per_flow.clamp(10, 20));
    at_port(&receive.port, "receive.port", |interface| match receive.backend {
        Backend::Xdp => receiver_xdp(config, receive, interface, &streams, window_bits),
        Backend::Packet => {
            let capture = capture(receive.capture.as_ref())?;
            let run = config.run;
            Ok(Box::new(PacketReceiver::start(
                interface.index,
                run,
                &streams,
                window_bits,
                capture,
            )?))
        }
        Backend::Udp => {
            let ports = udp_ports(config, receive);
            Ok(Box::new(UdpReceiver::start(&ports, config.run, &streams, window_bits)?))
        }
    })
}

fn receiver_xdp(
    config: &Config,
    receive: &Receive,
    interface: Interface,
    streams: &[StreamFlows],
    window_bits: u32,
) -> Result<Box<dyn Receiver>, Error> {
    let of_flow: Vec<u32> = (0..)
        .zip(streams)
        .flat_map(|(index, stream)| std::iter::repeat_n(index, stream.flows as usize))
        .collect();
    let group_count = u32::try_from(streams.len()).unwrap_or(u32::MAX);
    let capture = receive.capture.as_ref();
    let mut meter = Meter::load(&meter::Plan {
        groups: &of_flow,
        group_count,
        run: config.run,
        window_bits,
        snap_length: capture.map_or(0, |capture| capture.snap_length),
        ring_bytes: if capture.is_some() { CAPTURE_RING } else { 4096 },
    })?;
    meter.attach(interface.index)?;
    Ok(Box::new(XdpReceiver::new(meter, group_count, self::capture(capture)?)))
}

fn capture(
    capture: Option<&Capture>,
) -> Result<Option<CaptureFile<io::BufWriter<std::fs::File>>>, Error> {
    let create = |capture: &Capture| {
        CaptureFile::create(&capture.file, capture.snap_length).map_err(|error| {
            let found = capture.file.display().to_string();
            FieldError::new("receive.capture.file", found, format!("a file to write ({error})"))
        })
    };
    Ok(capture.map(create).transpose()?)
}

/// Destination ports of UDP frames.
fn udp_ports(config: &Config, receive: &Receive) -> Vec<u16> {
    let ranges = match (receive.ports, config.send.as_ref().map(|send| &send.traffic)) {
        (Some(ports), _) => vec![ports],
        (None, Some(Traffic::Streams(streams))) => streams.iter().map(|s| s.target_port).collect(),
        (None, _) => Vec::new(),
    };
    let mut ports: Vec<u16> = ranges
        .iter()
        .flat_map(|range| (range.first..=u16::MAX).take(range.count as usize))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Opens the sender, which sends nothing yet.
pub(super) fn sender(
    config: &Config,
    send: &Send,
) -> Result<(Vec<Planned>, Box<dyn Sender>), Error> {
    at_port(&send.port, "send.port", |interface| match &send.traffic {
        Traffic::Streams(streams) => {
            let seen = plan::Interface { address: interface.address, mtu: interface.mtu };
            let plan = plan::plan(config, streams, send.catch_up_us, seen)?;
            let sender: Box<dyn Sender> = match send.backend {
                Backend::Xdp => Box::new(sender_xdp(config, send, interface, &plan)?),
                Backend::Packet => Box::new(PacketSender::open(interface.index, &plan)?),
                Backend::Udp => Box::new(UdpSender::open(&plan)?),
            };
            Ok((plan.streams, sender))
        }
        Traffic::Replay(replay) => replayer(config, send, interface, replay),
    })
}

fn sender_xdp(
    config: &Config,
    send: &Send,
    interface: Interface,
    plan: &Plan,
) -> Result<XdpSender, Error> {
    let generator = Generator::load(&plan.tables)?;
    let port = open_port(config, send, interface)?;
    let schedules = plan.streams.iter().map(|stream| stream.schedule).collect();
    let controls = plan.tables.streams.clone();
    Ok(XdpSender::new(generator, port, interface.index, schedules, controls))
}

fn open_port(config: &Config, send: &Send, interface: Interface) -> Result<port::Port, Error> {
    let namespace = u32::try_from(namespace::inode()?).unwrap_or_default();
    let mut port = port::Port::open(interface.index, namespace)?;
    let has_meter = config.receive.as_ref().is_some_and(|receive| {
        let (one, other) = (&receive.port, &send.port);
        receive.backend == Backend::Xdp
            && one.interface == other.interface
            && one.netns == other.netns
    });
    if !has_meter {
        port.pass(interface.index)?;
    }
    Ok(port)
}

fn replayer(
    config: &Config,
    send: &Send,
    interface: Interface,
    replay: &Replay,
) -> Result<(Vec<Planned>, Box<dyn Sender>), Error> {
    let wrong = |field: &str, found: Value, expected: String| {
        FieldError::new(&format!("send.traffic.replay.{field}"), found, expected)
    };
    let file = || replay.file.display().to_string();
    let frames = capture::read(&replay.file)
        .map_err(|error| wrong("file", file().into(), format!("a recording ({error})")))?;
    let longest = frames.iter().map(|frame| frame.length).max().unwrap_or_default();
    if longest > interface.mtu + 18 {
        let expected = format!("frames of at most {} bytes", interface.mtu + 18);
        return Err(wrong("file", longest.into(), expected).into());
    }
    let total = replay.times.saturating_mul(frames.len() as u64);
    let bytes: u64 = frames.iter().map(|frame| u64::from(frame.length)).sum();
    let mean_bits = 8.0 * bytes as f64 / frames.len() as f64;
    let amount = super::config::Amount::Frames(total);
    let schedule = Schedule::new(replay.rate, amount, 1, mean_bits);
    let stream = Control {
        flow_count: 1,
        pattern_length: u32::try_from(frames.len()).unwrap_or(u32::MAX),
        ..schedule.control(schedule.start, send.catch_up_us)
    };
    let planned = Planned { name: "replay".into(), schedule, flows: Vec::new() };
    let sender: Box<dyn Sender> = match send.backend {
        Backend::Xdp => {
            let generator = Generator::replay(&Recording { stream, frames })?;
            let port = open_port(config, send, interface)?;
            Box::new(XdpSender::new(generator, port, interface.index, vec![schedule], vec![stream]))
        }
        Backend::Packet => {
            Box::new(PacketSender::replay(interface.index, schedule, stream, frames)?)
        }
        Backend::Udp => {
            let expected = "xdp or packet: UDP sockets cannot send frames";
            return Err(FieldError::new("send.backend", "udp", expected).into());
        }
    };
    Ok((vec![planned], sender))
}

/// Opens a reflector on its port.
pub(super) fn reflector(port: &Port) -> Result<Reflector, Error> {
    at_port(port, "reflect", |interface| {
        let mut reflector = Reflector::load()?;
        reflector.attach(interface.index)?;
        Ok(reflector)
    })
}
