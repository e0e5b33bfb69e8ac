//! Service chains with network service headers (NSH, RFC 8300): classifier, SFF, SFC proxy and function at the
//! XDP hooks of ports.

mod entries;
mod layout;
mod sensor;

use std::{collections::BTreeSet, mem, net::Ipv4Addr, os::fd::AsFd, time::Duration};

use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, HashMap, Map, MapData, PerCpuArray, RingBuf, xdp::DevMap},
};
use hawser_wire::nsh::Path;

use self::layout::{RawClass, RawFilter, RawHop, RawPort};
pub use self::{
    entries::{Class, Encapsulation, End, Filter, Hop, Otherwise, Port, Proxy, Target},
    layout::{HEADER_MAX, TARGETS_MAX},
    sensor::{Observation, Observations, Observed},
};
use crate::{
    codes::nsh as codes,
    drops::causes,
    flow::Flow,
    lasting,
    meter::sum,
    object::{self, Error, object},
    rule_tables::RuleTables,
    rules,
};
pub use crate::{count::Count, object::Verdict};

const PROGRAM: &str = "nsh";
/// Number of counters. Index 0 is the function's; the caller assigns the others.
pub const COUNTS: u32 = codes::NSH_COUNTS;
/// Classes at most.
pub const CLASSES_MAX: u32 = codes::NSH_CLASSES;
/// Ports at most.
pub const PORTS_MAX: u32 = codes::NSH_PORTS;
/// Rings of a sensor at most.
pub const RINGS_MAX: u32 = codes::NSH_RINGS;
/// Names of their maps.
const RINGS: [&str; RINGS_MAX as usize] = ["ring_0", "ring_1", "ring_2", "ring_3"];
/// Addresses of forwarders at most.
pub const FORWARDERS_MAX: u32 = codes::NSH_FORWARDERS;

/// What the program does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// It is a service function and decrements the service index.
    pub serves: bool,
    /// OAM packets are forwarded instead of dropped (RFC 8300 section 2.2).
    pub forwards_oam: bool,
    /// The function is a firewall.
    pub guard: Option<Guard>,
    /// Flows of the SFC proxy at most, with about three entries each; 0 without SFC-unaware functions.
    pub proxied: u32,
    /// Packets are observed.
    pub sensor: Option<Sensor>,
}

/// Rings that lead observations to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// How many, at most [`RINGS_MAX`]: both directions of a flow are in the same one.
    pub rings: u32,
    /// Size of each, bytes: a power of two, at least a page.
    pub bytes: u32,
}

/// Connection tracking of a firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Established flows at most, and a quarter of it, but at least 1024, that are not established; the least recently
    /// used is evicted. 0: stateless, rules apply to each packet.
    pub flows: u32,
    /// Idle time after which a flow expires.
    pub idle: Duration,
    /// The same of established TCP connections.
    pub tcp_idle: Duration,
    /// TCP connections may begin in mid-stream.
    pub picks_up: bool,
}

/// Opening flows at least.
const OPENING_MIN: u32 = 1024;
/// Datagrams whose fragments a firewall knows at most.
const FRAGMENTS: u32 = 16_384;

/// Action of a firewall rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packet passes.
    Allow,
    /// The packet is dropped.
    Deny,
}

impl Action {
    fn code(self) -> u32 {
        match self {
            Self::Allow => codes::ACTION_ALLOW,
            Self::Deny => codes::ACTION_DENY,
        }
    }
}

causes! {
    /// Truncated, or a header is invalid.
    malformed,
    /// Version is not 0.
    version,
    /// MD type is neither 1 nor 2.
    md_type,
    /// Header length contradicts the MD type.
    length,
    /// OAM packet, which is not forwarded here.
    oam,
    /// Payload that cannot leave the path here.
    next_protocol,
    /// No entry for path and index.
    no_hop,
    /// Service index exhausted.
    index,
    /// TTL exhausted.
    ttl,
    /// Larger than the egress port's frames.
    too_big,
    /// On no path, at a port where only packets on paths pass.
    unclassified,
    /// No headroom in front of the packet, or the port is gone.
    failed,
    /// Denied by a firewall rule.
    denied,
    /// Fragment at a firewall, of a datagram whose first fragment was not allowed, or that overlaps it.
    fragment,
    /// From an SFC-unaware function, of a flow that was not sent there.
    unknown_flow,
    /// From an SFC-unaware function with changed addresses that fit flows of several paths.
    several_paths,
    /// With an NSH, from a port that is not trusted (RFC 8300 section 8).
    untrusted_nsh,
    /// VXLAN-GPE from a port that is not trusted.
    untrusted_vxlan_gpe,
    /// With a segment routing header, from a port that is not trusted (RFC 8754 section 5.1).
    untrusted_srh,
    /// VXLAN-GPE from an address that is no forwarder's.
    unknown_forwarder,
    /// May be IP or one of these, but behind more headers than are parsed.
    opaque,
    /// At a firewall, neither IP nor ARP.
    not_ip,
    /// At a firewall, a TCP segment that fits no connection.
    tcp_state,
}

/// What happened to a traced packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It was forwarded along its path.
    Forwarded,
    /// It left its path.
    Ended,
    /// It was put on a path.
    Classified,
    /// The function processed it and returned it.
    Served,
    /// It was dropped for the cause of this name.
    Dropped(&'static str),
}

/// A trace event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What happened.
    pub step: Step,
    /// Position on its path on arrival.
    pub path: Path,
    /// Index of the ingress interface.
    pub interface: u32,
    /// Number of the egress port, if it was forwarded or left its path.
    pub port: u32,
    /// Length of the frame, bytes.
    pub length: u32,
    /// The inner flow.
    pub flow: Flow,
}

/// The loaded program. It is detached from its ports when dropped.
pub struct Chain {
    object: Ebpf,
    in_force: ArrayOfMaps<MapData, Hops>,
    devices: DevMap<MapData>,
    ports: HashMap<MapData, u32, RawPort>,
    forwarders: HashMap<MapData, [u8; 4], u8>,
    classes: Array<MapData, RawClass>,
    rules: RuleTables,
    counts: PerCpuArray<MapData, Count>,
    drops: PerCpuArray<MapData, u64>,
    filter: Array<MapData, RawFilter>,
    events: Option<RingBuf<MapData>>,
    observed: PerCpuArray<MapData, u64>,
    ring_ids: Vec<u32>,
    observations: Vec<Observations>,
    /// Whether the program outlives the process.
    lasts: bool,
    /// Interfaces with a program that does.
    attached: Vec<u32>,
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.detach();
    }
}

type Hops = HashMap<MapData, u32, RawHop>;

impl Chain {
    /// Loads the program without attaching it.
    pub fn load(role: Role) -> Result<Self, Error> {
        let guard = role.guard.unwrap_or_default();
        let stateful = guard.flows > 0;
        let ns = |idle: Duration| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        let idle_ns = if stateful { ns(guard.idle) } else { 0 };
        let opening = if stateful { (guard.flows / 4).max(OPENING_MIN) } else { 1 };
        let fragments = if role.guard.is_some() { FRAGMENTS } else { 1 };
        let rings = role.sensor.map_or(0, |sensor| sensor.rings.min(RINGS_MAX));
        let mut loader = object::loader();
        for ring in RINGS.iter().take(rings as usize) {
            loader.map_max_entries(ring, role.sensor.map_or(0, |sensor| sensor.bytes));
        }
        let mut object = loader
            .override_global("rings", &rings, true)
            .override_global("guards", &u8::from(role.guard.is_some()), true)
            .override_global("idle_ns", &idle_ns, true)
            .override_global("tcp_idle_ns", &ns(guard.tcp_idle), true)
            .override_global("picks_up", &u8::from(guard.picks_up), true)
            .map_max_entries("states", opening)
            .map_max_entries("established", guard.flows.max(1))
            .map_max_entries("fragments", fragments)
            .override_global("proxies", &u8::from(role.proxied > 0), true)
            .map_max_entries("proxied", role.proxied.saturating_mul(3).max(1))
            .override_global("serves", &u8::from(role.serves), true)
            .override_global("forwards_oam", &u8::from(role.forwards_oam), true)
            .load(object!("nsh/nsh"))?;
        object::xdp(&mut object, PROGRAM)?.load()?;
        let (ring_ids, observations) = open_rings(&mut object, rings)?;
        Ok(Self {
            in_force: object::map(&mut object, "in_force")?.try_into()?,
            devices: object::map(&mut object, "devices")?.try_into()?,
            ports: object::map(&mut object, "ports")?.try_into()?,
            forwarders: object::map(&mut object, "forwarders")?.try_into()?,
            classes: object::array(&mut object, "classes")?,
            rules: RuleTables::open(&mut object)?,
            counts: object::per_cpu(&mut object, "counts")?,
            drops: object::per_cpu(&mut object, "drops")?,
            filter: object::array(&mut object, "filter")?,
            events: Some(object::ring(&mut object, "events")?),
            observed: object::per_cpu(&mut object, "observed")?,
            ring_ids,
            observations,
            lasts: rings > 0 && role.serves,
            attached: Vec::new(),
            object,
        })
    }

    /// Makes an interface a port of this number.
    pub fn add_port(&mut self, number: u32, interface: u32) -> Result<(), Error> {
        object::add_port(&mut self.devices, number, interface)
    }

    /// Attaches the program to an interface. That of a sensor stays there if the process dies, and takes the place of
    /// the one before: packets pass meanwhile.
    pub fn attach(&mut self, interface: u32) -> Result<(), Error> {
        if self.lasts {
            let program = object::xdp(&mut self.object, PROGRAM)?;
            lasting::attach(interface, program.fd()?.as_fd())?;
            self.attached.push(interface);
        } else {
            object::attach(&mut self.object, PROGRAM, interface)?;
        }
        Ok(())
    }

    /// Detaches a program that would outlive the process.
    pub fn detach(&mut self) {
        for interface in mem::take(&mut self.attached) {
            let program = object::xdp(&mut self.object, PROGRAM).ok();
            if let Some(fd) = program.as_ref().and_then(|program| program.fd().ok()) {
                let _ = lasting::detach(interface, fd.as_fd()); // the interface may be gone
            }
        }
    }

    /// Configures the port of an interface.
    pub fn set_port(&mut self, interface: u32, port: &Port) -> Result<(), Error> {
        Ok(self.ports.insert(interface, RawPort::from(port), 0)?)
    }

    /// Accepts VXLAN-GPE from these addresses, at most [`FORWARDERS_MAX`], too.
    pub fn add_forwarders(&mut self, addresses: &BTreeSet<Ipv4Addr>) -> Result<(), Error> {
        let mut new = addresses.iter();
        new.try_for_each(|address| Ok(self.forwarders.insert(address.octets(), 1, 0)?))
    }

    /// Accepts VXLAN-GPE from no other addresses than these.
    pub fn keep_forwarders(&mut self, addresses: &BTreeSet<Ipv4Addr>) -> Result<(), Error> {
        let known: Vec<_> = self.forwarders.keys().collect::<Result<_, _>>()?;
        let gone = known.iter().filter(|octets| !addresses.contains(&Ipv4Addr::from(**octets)));
        gone.into_iter().try_for_each(|octets| Ok(self.forwarders.remove(octets)?))
    }

    /// Replaces all forwarding entries atomically; each comes with the index of its counters.
    pub fn install(&mut self, hops: &[(Path, Hop, u32)]) -> Result<(), Error> {
        let mut set = Hops::create(object::entries(hops.len())?, 0)?;
        for (path, hop, count) in hops {
            set.insert(layout::place(*path), RawHop::new(hop, *count), 0)?;
        }
        Ok(self.in_force.set(0, &set, 0)?)
    }

    /// Replaces the classification rules atomically; each refers to a class by its index.
    pub fn classify(
        &mut self,
        classes: &[Class],
        rules: &[(rules::Match, u32)],
    ) -> Result<(), Error> {
        let first = self.rules.spare() * CLASSES_MAX;
        for (number, class) in (first..first + CLASSES_MAX).zip(classes) {
            let raw = RawClass::new(&class.header, class.count);
            self.classes.set(number, raw.ok_or(Error::Absent("room for that header"))?, 0)?;
        }
        let placed: Vec<_> =
            rules.iter().map(|(what, class)| (what.clone(), first + class)).collect();
        let set = rules::Set::compile(&placed).map_err(Error::Rules)?;
        self.rules.install(&set)
    }

    /// Replaces the firewall rules atomically; `last` is the action for packets that match none.
    pub fn guard(&mut self, rules: &[(rules::Match, Action)], last: Action) -> Result<(), Error> {
        let all = rules.iter().cloned().chain([(rules::Match::default(), last)]);
        let all: Vec<_> = all.map(|(what, action)| (what, action.code())).collect();
        let set = rules::Set::compile(&all).map_err(Error::Rules)?;
        self.rules.install(&set)
    }

    /// Counters of an index: frames and their bytes on arrival.
    pub fn count(&self, index: u32) -> Result<Count, Error> {
        sum(&self.counts, index, Count::merge)
    }

    /// Dropped packets.
    pub fn drops(&self) -> Result<Drops, Error> {
        let mut causes = 0..;
        Drops::read(|| sum(&self.drops, causes.next().unwrap_or_default(), |a, b| a + b))
    }

    /// Starts a trace.
    pub fn trace(&mut self, filter: &Filter) -> Result<(), Error> {
        Ok(self.filter.set(0, RawFilter::from(filter), 0)?)
    }

    /// Takes the ring of events, once.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take().map(Events)
    }

    /// Takes the rings of observations, once.
    pub fn take_observations(&mut self) -> Vec<Observations> {
        mem::take(&mut self.observations)
    }

    /// Numbers of these rings in the kernel, by which another process can open them.
    #[must_use]
    pub fn rings(&self) -> &[u32] {
        &self.ring_ids
    }

    /// What became of the packets at the sensor.
    pub fn observed(&self) -> Result<Observed, Error> {
        let count = |kind| sum(&self.observed, kind, |a, b| a + b);
        Ok(Observed {
            packets: count(codes::OBSERVED_PACKETS)?,
            lost: count(codes::OBSERVED_LOST)?,
            other: count(codes::OBSERVED_OTHER)?,
        })
    }

    /// Runs the program on a frame (`BPF_PROG_RUN`) with the loopback interface as ingress.
    pub fn run(&self, frame: &[u8]) -> Result<(Verdict, Vec<u8>), Error> {
        object::run(&self.object, PROGRAM, frame)
    }
}

/// The rings in use, with their numbers in the kernel.
fn open_rings(object: &mut Ebpf, rings: u32) -> Result<(Vec<u32>, Vec<Observations>), Error> {
    let rings = RINGS.iter().take(rings as usize).map(|ring| {
        let map = object::map(object, ring)?;
        Ok((ring_id(&map)?, Observations(map.try_into()?)))
    });
    rings.collect()
}

/// The number of a ring in the kernel.
fn ring_id(map: &Map) -> Result<u32, Error> {
    match map {
        Map::RingBuf(data) => Ok(data.info()?.id()),
        _ => Err(Error::Absent("ring of observations")),
    }
}

/// The ring buffer of trace events.
pub struct Events(RingBuf<MapData>);

impl Iterator for Events {
    type Item = Event;

    /// `None` if there is no event now; later calls may return more.
    fn next(&mut self) -> Option<Event> {
        let (time_ns, fields, flow) = layout::parse_event(&self.0.next()?)?;
        let [step, cause, path, interface, port, length] = fields;
        let step = match step {
            codes::STEP_FORWARDED => Step::Forwarded,
            codes::STEP_ENDED => Step::Ended,
            codes::STEP_CLASSIFIED => Step::Classified,
            codes::STEP_SERVED => Step::Served,
            _ => Step::Dropped(Drops::NAMES.get(cause as usize).copied().unwrap_or("failed")),
        };
        let [_, a, b, c] = (path >> 8).to_be_bytes();
        let path = Path { spi: u32::from_be_bytes([0, a, b, c]), si: path.to_be_bytes()[3] };
        Some(Event { time_ns, step, path, interface, port, length, flow })
    }
}
