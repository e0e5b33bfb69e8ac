//! The configuration of a trial: what is sent, and where it is counted.

use std::{net::IpAddr, path::PathBuf};

use hawser_daemon::{
    config::{FieldError, Invalid, typed},
    renamed::{Renamed, accept_old_names},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One trial: a sender, a receiver, a reflector, or several of them in one process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[serde(default)]
    pub(crate) control: Option<PathBuf>,
    /// Number of the run. Frames of another run are not counted.
    #[serde(default)]
    pub(crate) run: u16,
    /// Sender.
    #[serde(default)]
    pub(crate) send: Option<Send>,
    /// Receiver.
    #[serde(default)]
    pub(crate) receive: Option<Receive>,
    /// Interface at which frames are reflected to their source.
    #[serde(default)]
    pub(crate) reflect: Option<Port>,
    /// Time between the last frame sent and the reading of the counters, milliseconds.
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
    /// Name of its network namespace; that of the process if left out.
    #[serde(default)]
    pub(crate) netns: Option<String>,
}

/// How frames are sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Backend {
    /// XDP: live frames to send, a program to receive.
    #[default]
    Xdp,
    /// Packet sockets.
    Packet,
    /// UDP sockets: the kernel builds the headers, so tags and outer headers are impossible.
    Udp,
}

/// Sender.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Send {
    /// Interface that sends.
    pub(crate) port: Port,
    /// How frames are sent.
    #[serde(default)]
    pub(crate) backend: Backend,
    /// CPU to which the sender is pinned.
    #[serde(default)]
    pub(crate) cpu: Option<usize>,
    /// Frames that are later than this are skipped and counted as `unsent`, microseconds.
    #[serde(default = "default_catch_up")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) catch_up_us: u64,
    /// The frames.
    pub(crate) traffic: Traffic,
}

fn default_catch_up() -> u64 {
    10_000
}

/// The frames to send.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Traffic {
    /// Generated frames, each of which is accounted for.
    Streams(#[schemars(length(min = 1, max = 16))] Vec<Stream>),
    /// Frames of a recording, unchanged.
    Replay(Replay),
}

/// Frames of a pcap or pcapng file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replay {
    /// The file.
    pub(crate) file: PathBuf,
    /// Number of repetitions.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub(crate) times: u64,
    /// Rate.
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
    /// Outer header.
    #[serde(default)]
    pub(crate) outer: Option<Outer>,
    /// Source addresses: flow i has address i modulo their number.
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
    /// Number of flows, which are used in turn.
    #[serde(default = "one_flow")]
    #[schemars(range(min = 1, max = 65536))]
    pub(crate) flows: u32,
    /// Frame sizes.
    pub(crate) sizes: Sizes,
    /// Layer whose bytes sizes, and rates in bit/s, count.
    #[serde(default)]
    pub(crate) counted: Layer,
    /// Rate.
    pub(crate) rate: Rate,
    /// Frames sent back to back. It does not change the rate.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) burst: u64,
    /// Number of frames, or duration.
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
    /// Source address; that of the interface if left out.
    #[serde(default)]
    pub(crate) source: Option<Mac>,
    /// Destination address: that of the next hop.
    pub(crate) destination: Mac,
    /// Tags, outermost first.
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
    /// The address. The schema ensures that the text is valid.
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

/// An outer header.
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

/// The service path header of a network service header.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nsh {
    /// Service path identifier.
    #[schemars(range(max = 16_777_215))]
    pub(crate) spi: u32,
    /// Service index.
    pub(crate) si: u8,
}

/// An outer IPv6 header with a segment routing header.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Srv6 {
    /// Source address.
    pub(crate) source: std::net::Ipv6Addr,
    /// Segments in the order of the path.
    #[schemars(length(min = 1, max = 4))]
    pub(crate) segments: Vec<std::net::Ipv6Addr>,
}

/// An outer VXLAN header.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vxlan {
    /// Source address of the tunnel.
    #[schemars(schema_with = "address_schema")]
    pub(crate) source: IpAddr,
    /// Destination address of the tunnel.
    #[schemars(schema_with = "address_schema")]
    pub(crate) target: IpAddr,
    /// VXLAN network identifier.
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

/// A range of consecutive addresses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Addresses {
    /// First address.
    #[schemars(schema_with = "address_schema")]
    pub(crate) first: IpAddr,
    /// Number of addresses.
    #[serde(default = "one_flow")]
    #[schemars(range(min = 1, max = 65536))]
    pub(crate) count: u32,
}

/// Schema of an address of either IP version, for which JSON Schema has no format.
fn address_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
}

/// A range of consecutive ports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ports {
    /// First port.
    #[schemars(range(min = 1))]
    pub(crate) first: u16,
    /// Number of ports.
    #[serde(default = "one_flow")]
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) count: u32,
}

/// Frame sizes, bytes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sizes {
    /// One size.
    Fixed(u32),
    /// A repeated sequence of the letters of RFC 6985, whose sizes include the frame check sequence.
    Imix(Imix),
    /// Sizes with weights, spread evenly.
    Weighted(#[schemars(length(min = 1, max = 256))] Vec<Weight>),
}

/// An IMIX genome (RFC 6985).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Imix {
    /// Letters `a` to `j`, `z` (the MTU), and capital letters for custom sizes.
    #[schemars(regex(pattern = r"^[a-jzA-Z]{1,4096}$"))]
    pub(crate) genome: String,
    /// Sizes of capital letters.
    #[serde(default)]
    pub(crate) custom: std::collections::BTreeMap<char, u32>,
    /// Size of the letter `z`.
    #[serde(default = "default_mtu_frame")]
    pub(crate) z: u32,
}

fn default_mtu_frame() -> u32 {
    1518
}

/// A size with its weight.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weight {
    /// Size, bytes.
    pub(crate) size: u32,
    /// Relative frequency.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) weight: u32,
}

/// Layer whose bytes are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layer {
    /// The frame without frame check sequence.
    #[default]
    Frame,
    /// The frame with frame check sequence, as in RFC 2544.
    Fcs,
    /// The innermost IP packet.
    Ip,
}

/// Rate at which frames are sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rate {
    /// Frames per second, evenly spaced.
    FramesPerS(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1e9))] f64),
    /// Bits per second of the counted layer, evenly spaced.
    BitsPerS(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1e12))] f64),
    /// A linear change over the duration, frames per second.
    Ramp(Ramp),
    /// As fast as possible.
    Max,
}

/// A rate that changes linearly.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ramp {
    /// Rate at the start.
    #[schemars(range(min = 1.0, max = 1e9))]
    pub(crate) from: f64,
    /// Rate at the end.
    #[schemars(range(min = 1.0, max = 1e9))]
    pub(crate) to: f64,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Amount {
    /// Number of frames.
    Frames(#[schemars(range(min = 1))] u64),
    /// Duration in seconds. Not for the rate `max`.
    Seconds(#[schemars(extend("exclusiveMinimum" = 0), range(max = 1e6))] f64),
}

/// Receiver.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receive {
    /// Interface that receives.
    pub(crate) port: Port,
    /// How frames are received.
    #[serde(default)]
    pub(crate) backend: Backend,
    /// The sender's streams, in its order. May be left out if `send` is given.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) streams: Vec<StreamFlows>,
    /// Window in which duplicates are recognised: frames of a flow, as a power of two.
    #[serde(default)]
    #[schemars(range(min = 5, max = 24))]
    pub(crate) window_bits: Option<u32>,
    /// UDP ports to listen on, for the backend `udp`. May be left out if `send` is given.
    #[serde(default)]
    pub(crate) ports: Option<Ports>,
    /// Write received frames to a file.
    #[serde(default)]
    pub(crate) capture: Option<Capture>,
}

/// A stream and its flows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamFlows {
    /// Name of the stream.
    pub(crate) name: String,
    /// Number of its flows.
    #[schemars(range(min = 1, max = 65536))]
    pub(crate) flows: u32,
}

/// A pcap file of received frames.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capture {
    /// The file.
    pub(crate) file: PathBuf,
    /// Bytes captured of each frame.
    #[serde(default = "default_snap")]
    #[schemars(range(min = 1, max = 2048))]
    pub(crate) snap_length: u32,
}

fn default_snap() -> u32 {
    2048
}

/// Old names of fields, accepted in this version.
const RENAMED: [Renamed; 1] = [Renamed { object: "receive", old: "groups", new: "streams" }];

/// Parses a configuration, and checks what the schema cannot express.
pub(crate) fn parse(value: &Value) -> Result<Config, Invalid> {
    let config: Config = typed(&accept_old_names(value, &RENAMED))?;
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
    if receive.streams.is_empty() && send.is_none() {
        let expected = "the flows of each stream, as nothing is sent here";
        errors.push(FieldError::new("receive.streams", Value::Null, expected));
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
            "neither tags nor an outer header: UDP sockets cannot send them",
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_old_name_is_accepted() {
        let with = |name: &str| {
            let receive = json!({"port": {"interface": "e"}, name: [{"name": "s", "flows": 3}]});
            parse(&json!({"version": 1, "receive": receive})).unwrap()
        };
        assert_eq!(with("groups").receive.unwrap().streams[0].flows, 3);
        assert_eq!(json!(with("groups")), json!(with("streams")));
    }
}
