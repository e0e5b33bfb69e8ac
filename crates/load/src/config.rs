//! The configuration of a load: what is sent, and where it is counted.

use std::{net::IpAddr, path::PathBuf};

use hawser_daemon::config::{FieldError, Invalid, typed};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One trial of a load: a sender, a receiver, or both in one process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[serde(default)]
    pub(crate) control: Option<PathBuf>,
    /// Number of the run. Frames of another run are never counted.
    #[serde(default)]
    pub(crate) run: u16,
    /// What is sent.
    #[serde(default)]
    pub(crate) send: Option<Send>,
    /// Where it is counted.
    #[serde(default)]
    pub(crate) receive: Option<Receive>,
    /// Where it is sent back.
    #[serde(default)]
    pub(crate) reflect: Option<Port>,
    /// Between the last frame sent and the reading of the counters, milliseconds.
    #[serde(default = "default_drain")]
    #[schemars(range(max = 60_000))]
    pub(crate) drain_ms: u64,
}

fn default_drain() -> u64 {
    200
}

/// An interface.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// Its name.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) interface: String,
    /// Its network namespace, by name; that of the process where left out.
    #[serde(default)]
    pub(crate) netns: Option<String>,
}

/// How frames meet the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Backend {
    /// eBPF at the driver: XDP live frames out, an XDP program in.
    #[default]
    Xdp,
    /// Packet sockets.
    Packet,
    /// UDP sockets: the kernel writes the headers, so there are no tags and no outer header.
    Udp,
}

/// The sending side.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Send {
    /// Where frames leave.
    pub(crate) port: Port,
    /// How.
    #[serde(default)]
    pub(crate) backend: Backend,
    /// Core the sender is bound to.
    #[serde(default)]
    pub(crate) cpu: Option<usize>,
    /// Frames that are later than this are given up and counted as unsent, microseconds.
    #[serde(default = "default_catch_up")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) catch_up_us: u64,
    /// What is sent.
    pub(crate) traffic: Traffic,
}

fn default_catch_up() -> u64 {
    10_000
}

/// What is sent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Traffic {
    /// Frames that are made, and can be accounted for one by one.
    Streams(#[schemars(length(min = 1, max = 16))] Vec<Stream>),
    /// Frames of a recording, as they are.
    Replay(Replay),
}

/// Frames of a pcap or pcapng file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replay {
    /// The file.
    pub(crate) file: PathBuf,
    /// How often it is sent.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub(crate) times: u64,
    /// How fast.
    pub(crate) rate: Rate,
}

fn one() -> u64 {
    1
}

/// Frames of one kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stream {
    /// Its name in the result.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// Its Ethernet header.
    pub(crate) ethernet: Ethernet,
    /// A header around the packets.
    #[serde(default)]
    pub(crate) outer: Option<Outer>,
    /// Source addresses: flow i has the i-th, in a circle.
    pub(crate) source: Addresses,
    /// Destination addresses.
    pub(crate) target: Addresses,
    /// UDP source ports.
    pub(crate) source_port: Ports,
    /// UDP destination ports.
    pub(crate) target_port: Ports,
    /// Differentiated services code point.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub(crate) dscp: u8,
    /// TTL or hop limit.
    #[serde(default = "default_hop_limit")]
    #[schemars(range(min = 1))]
    pub(crate) hop_limit: u8,
    /// How many flows; frames take them in turn.
    #[serde(default = "one_flow")]
    #[schemars(range(min = 1, max = 65536))]
    pub(crate) flows: u32,
    /// Frame sizes.
    pub(crate) sizes: Sizes,
    /// What the sizes, and rates in bits, count.
    #[serde(default)]
    pub(crate) counted: Layer,
    /// How fast.
    pub(crate) rate: Rate,
    /// Frames sent back to back; the rate stays the same.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) burst: u64,
    /// How many.
    pub(crate) amount: Amount,
}

fn default_hop_limit() -> u8 {
    64
}

fn one_flow() -> u32 {
    1
}

/// An Ethernet header.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ethernet {
    /// Source; the interface's own where left out.
    #[serde(default)]
    pub(crate) source: Option<Mac>,
    /// Destination: of the next hop.
    pub(crate) destination: Mac,
    /// Tags from the outside in.
    #[serde(default)]
    #[schemars(length(max = 2))]
    pub(crate) tags: Vec<Vlan>,
}

/// An Ethernet address, written `02:00:00:00:00:01`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Mac(
    #[schemars(regex(pattern = r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$"))] pub(crate) String,
);

impl Mac {
    /// The address; zero where the text is none, which the schema excludes.
    pub(crate) fn octets(&self) -> [u8; 6] {
        let mut octets = [0; 6];
        for (octet, text) in octets.iter_mut().zip(self.0.split(':')) {
            *octet = u8::from_str_radix(text, 16).unwrap_or_default();
        }
        octets
    }
}

/// An IEEE 802.1Q tag.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vlan {
    /// VLAN identifier.
    #[schemars(range(min = 1, max = 4094))]
    pub(crate) id: u16,
    /// Priority code point.
    #[serde(default)]
    #[schemars(range(max = 7))]
    pub(crate) priority: u8,
    /// Whether it is an IEEE 802.1ad service tag.
    #[serde(default)]
    pub(crate) service: bool,
}

/// A header around the packets.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outer {
    /// Segment routing over IPv6 (RFC 8986 section 5.1, H.Encaps).
    Srv6(Srv6),
    /// VXLAN (RFC 7348).
    Vxlan(Vxlan),
    /// A network service header of MD type 1 behind the Ethernet header (RFC 8300).
    Nsh(Nsh),
}

/// A place on a service path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nsh {
    /// Service path identifier.
    #[schemars(range(max = 16_777_215))]
    pub(crate) spi: u32,
    /// Service index.
    pub(crate) si: u8,
}

/// A segment list around the packets.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Srv6 {
    /// Source address.
    pub(crate) source: std::net::Ipv6Addr,
    /// Segments in the order of the path.
    #[schemars(length(min = 1, max = 4))]
    pub(crate) segments: Vec<std::net::Ipv6Addr>,
}

/// A VXLAN header around the frames.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vxlan {
    /// Source address of the tunnel.
    #[schemars(schema_with = "address_schema")]
    pub(crate) source: IpAddr,
    /// Destination address of the tunnel.
    #[schemars(schema_with = "address_schema")]
    pub(crate) target: IpAddr,
    /// Network identifier.
    #[schemars(range(max = 16_777_215))]
    pub(crate) vni: u32,
    /// The inner Ethernet header.
    pub(crate) ethernet: InnerEthernet,
}

/// The Ethernet header inside a tunnel.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InnerEthernet {
    /// Source.
    pub(crate) source: Mac,
    /// Destination.
    pub(crate) destination: Mac,
}

/// Consecutive addresses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Addresses {
    /// The first.
    #[schemars(schema_with = "address_schema")]
    pub(crate) first: IpAddr,
    /// How many.
    #[serde(default = "one_flow")]
    #[schemars(range(min = 1, max = 65536))]
    pub(crate) count: u32,
}

/// An address of either version: JSON Schema knows no format of both.
fn address_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
}

/// Consecutive ports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ports {
    /// The first.
    #[schemars(range(min = 1))]
    pub(crate) first: u16,
    /// How many.
    #[serde(default = "one_flow")]
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) count: u32,
}

/// Which sizes frames have.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sizes {
    /// One.
    Fixed(u32),
    /// A repeated sequence by the letters of RFC 6985, which count the frame check sequence.
    Imix(Imix),
    /// Sizes with weights, spread evenly.
    Weighted(#[schemars(length(min = 1, max = 256))] Vec<Weight>),
}

/// An IMIX genome (RFC 6985).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Imix {
    /// Letters `a` to `j`, `z`, and capital ones for sizes of one's own.
    #[schemars(regex(pattern = r"^[a-jzA-Z]{1,4096}$"))]
    pub(crate) genome: String,
    /// Sizes of the capital letters.
    #[serde(default)]
    pub(crate) custom: std::collections::BTreeMap<char, u32>,
    /// Size of the letter `z`.
    #[serde(default = "default_mtu_frame")]
    pub(crate) z: u32,
}

fn default_mtu_frame() -> u32 {
    1518
}

/// A size and how often it comes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weight {
    /// Bytes.
    pub(crate) size: u32,
    /// In proportion to the others.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) weight: u32,
}

/// What a size counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layer {
    /// The frame without frame check sequence, as software sees it.
    #[default]
    Frame,
    /// The frame with frame check sequence, as RFC 2544 counts.
    Fcs,
    /// The innermost IP packet.
    Ip,
}

/// How fast frames are sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rate {
    /// Frames a second, evenly spaced.
    FramesPerS(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1e9))] f64),
    /// Bits a second of what is counted, evenly spaced.
    BitsPerS(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1e12))] f64),
    /// From one rate to another over the duration, frames a second.
    Ramp(Ramp),
    /// As fast as possible.
    Max,
}

/// A rate that changes evenly.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ramp {
    /// At the start.
    #[schemars(range(min = 1.0, max = 1e9))]
    pub(crate) from: f64,
    /// At the end.
    #[schemars(range(min = 1.0, max = 1e9))]
    pub(crate) to: f64,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Amount {
    /// Frames.
    Frames(#[schemars(range(min = 1))] u64),
    /// Seconds; a stream without a rate needs frames.
    Seconds(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1e6))] f64),
}

/// The receiving side.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receive {
    /// Where frames come in.
    pub(crate) port: Port,
    /// How.
    #[serde(default)]
    pub(crate) backend: Backend,
    /// Flows of each stream of the sender, in its order. May be left out where `send` is there.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) groups: Vec<Group>,
    /// How far apart a frame and its copy may be, as a power of two of frames of a flow.
    #[serde(default)]
    #[schemars(range(min = 5, max = 24))]
    pub(crate) window_bits: Option<u32>,
    /// UDP ports to listen on, for the backend `udp`. May be left out where `send` is there.
    #[serde(default)]
    pub(crate) ports: Option<Ports>,
    /// Keep frames in a file.
    #[serde(default)]
    pub(crate) capture: Option<Capture>,
}

/// The flows of a stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// Name of the stream.
    pub(crate) name: String,
    /// How many flows it has.
    #[schemars(range(min = 1, max = 65536))]
    pub(crate) flows: u32,
}

/// Frames into a pcap file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capture {
    /// The file.
    pub(crate) file: PathBuf,
    /// Bytes kept of each frame.
    #[serde(default = "default_snap")]
    #[schemars(range(min = 1, max = 2048))]
    pub(crate) snap_length: u32,
}

fn default_snap() -> u32 {
    2048
}

/// Reads a configuration and checks what a schema cannot say.
pub(crate) fn parse(value: &Value) -> Result<Config, Invalid> {
    let config: Config = typed(value)?;
    let mut errors = Vec::new();
    if config.send.is_none() && config.receive.is_none() && config.reflect.is_none() {
        errors.push(FieldError::new("", Value::Null, "send, receive or reflect"));
    }
    if let Some(receive) = &config.receive {
        check_receive(receive, config.send.as_ref(), &mut errors);
    }
    if let Some(Traffic::Streams(streams)) = config.send.as_ref().map(|send| &send.traffic) {
        let udp = config.send.as_ref().is_some_and(|send| send.backend == Backend::Udp);
        for (index, stream) in streams.iter().enumerate() {
            check_stream(&format!("send.traffic.streams[{index}]"), stream, udp, &mut errors);
        }
    }
    if errors.is_empty() { Ok(config) } else { Err(Invalid { errors }) }
}

fn check_receive(receive: &Receive, send: Option<&Send>, errors: &mut Vec<FieldError>) {
    if receive.groups.is_empty() && send.is_none() {
        let expected = "the flows of each stream, as nothing is sent here";
        errors.push(FieldError::new("receive.groups", Value::Null, expected));
    }
    if receive.backend == Backend::Udp && receive.ports.is_none() && send.is_none() {
        let expected = "ports to listen on, as nothing is sent here";
        errors.push(FieldError::new("receive.ports", Value::Null, expected));
    }
    if receive.backend == Backend::Udp && receive.capture.is_some() {
        let expected = "nothing: UDP sockets do not see frames";
        errors.push(FieldError::new("receive.capture", "", expected));
    }
}

fn check_stream(place: &str, stream: &Stream, udp: bool, errors: &mut Vec<FieldError>) {
    let mut wrong = |field: &str, found: Value, expected: &str| {
        errors.push(FieldError::new(&format!("{place}.{field}"), found, expected));
    };
    if stream.source.first.is_ipv4() != stream.target.first.is_ipv4() {
        let found = stream.target.first.to_string().into();
        wrong("target.first", found, "an address of the same version as the source");
    }
    if udp && (stream.outer.is_some() || !stream.ethernet.tags.is_empty()) {
        wrong(
            "outer",
            Value::Null,
            "neither tags nor an outer header: UDP sockets cannot write them",
        );
    }
    if let Some(Outer::Vxlan(vxlan)) = &stream.outer
        && vxlan.source.is_ipv4() != vxlan.target.is_ipv4()
    {
        let found = vxlan.target.to_string().into();
        wrong("outer.vxlan.target", found, "an address of the same version as the source");
    }
    for (field, ports) in [("source_port", stream.source_port), ("target_port", stream.target_port)]
    {
        if u32::from(ports.first) + ports.count > 65_536 {
            wrong(&format!("{field}.count"), ports.count.into(), "ports up to 65535");
        }
    }
    if let (Rate::Max | Rate::Ramp(_), amount) = (stream.rate, stream.amount)
        && matches!(
            (stream.rate, amount),
            (Rate::Max, Amount::Seconds(_)) | (Rate::Ramp(_), Amount::Frames(_))
        )
    {
        let expected = match stream.rate {
            Rate::Max => "frames, as the rate is max",
            _ => "seconds, as the rate is a ramp",
        };
        wrong("amount", serde_json::to_value(amount).unwrap_or_default(), expected);
    }
}
