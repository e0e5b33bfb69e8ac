//! Service chains by network service headers (RFC 8300): classifier, forwarder and function at the XDP
//! hooks of ports.

mod entries;
mod layout;

use std::time::Duration;

use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, HashMap, MapData, PerCpuArray, RingBuf, xdp::DevMap},
    programs::xdp::XdpLinkId,
};
use hawser_wire::nsh::Path;

use self::layout::{RawClass, RawFilter, RawHop, RawPort};
pub use self::{
    entries::{Bare, Class, Encapsulation, End, Filter, Hop, Otherwise, Port, Target},
    layout::{HEADER_MAX, TARGETS_MAX},
};
use crate::{
    codes::nsh as codes,
    drops::causes,
    flow::Flow,
    meter::sum,
    object::{self, Error, object},
    rule_tables::RuleTables,
    rules,
};
pub use crate::{count::Count, object::Verdict};

const PROGRAM: &str = "nsh";
/// Counters there are: index 0 is the function's own, the others are the user's to give out.
pub const COUNTS: u32 = codes::NSH_COUNTS;
/// Classes there may be.
pub const CLASSES_MAX: u32 = codes::NSH_CLASSES;
/// Ports there may be.
pub const PORTS_MAX: u32 = codes::NSH_PORTS;

/// What the program is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// A function, which counts the service index down.
    pub serves: bool,
    /// Whether packets for operation and maintenance go on instead of being dropped (RFC 8300 section
    /// 2.2).
    pub forwards_oam: bool,
    /// A firewall among functions.
    pub guard: Option<Guard>,
    /// Flows remembered that go to functions without headers, about three entries each; 0: there are no
    /// such functions.
    pub proxied: u32,
}

/// What a firewall remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Flows that are remembered; the one that rested longest makes room. 0: none, each packet is for
    /// the rules.
    pub flows: u32,
    /// How long a flow may rest until it is forgotten.
    pub idle: Duration,
}

/// What a rule of a firewall asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packet goes on.
    Allow,
    /// It is dropped.
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
    /// Shorter than its headers say, or a header is wrong.
    malformed,
    /// Not version 0.
    version,
    /// Neither MD type 1 nor 2.
    md_type,
    /// Header length is not that of the MD type.
    length,
    /// For operation and maintenance, which is not forwarded here.
    oam,
    /// Carries nothing that can leave the path here.
    next_protocol,
    /// No entry for path and index.
    no_hop,
    /// Service index used up.
    index,
    /// Time to live used up.
    ttl,
    /// Longer than the port takes that it would leave by.
    too_big,
    /// On no path, where only packets on paths may pass.
    unclassified,
    /// No room in front of the packet, or the port is gone.
    failed,
    /// By a rule of the firewall.
    denied,
    /// Shows no ports, which rules of the firewall may look at.
    fragment,
    /// Came back from a function without headers, of a flow that never went there.
    unknown_flow,
    /// Came back with other addresses, and flows of several paths are like it.
    several_paths,
}

/// What happened to a packet that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It went on along its path.
    Forwarded,
    /// It left its path.
    Ended,
    /// It was put on a path.
    Classified,
    /// It was sent back, served.
    Served,
    /// It was dropped for the cause of this name.
    Dropped(&'static str),
}

/// One thing that happened to a packet that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What.
    pub step: Step,
    /// Where on its path it was.
    pub path: Path,
    /// Index of the interface it came in by.
    pub interface: u32,
    /// Number of the port it went to, where it was forwarded or left.
    pub port: u32,
    /// Length of the frame, bytes.
    pub length: u32,
    /// The flow inside.
    pub flow: Flow,
}

/// A loaded program. It leaves its ports when dropped.
pub struct Chain {
    object: Ebpf,
    in_force: ArrayOfMaps<MapData, Hops>,
    devices: DevMap<MapData>,
    ports: HashMap<MapData, u32, RawPort>,
    classes: Array<MapData, RawClass>,
    rules: RuleTables,
    counts: PerCpuArray<MapData, Count>,
    drops: PerCpuArray<MapData, u64>,
    filter: Array<MapData, RawFilter>,
    events: Option<RingBuf<MapData>>,
}

type Hops = HashMap<MapData, u32, RawHop>;

impl Chain {
    /// Loads the program. It stands on no port yet.
    pub fn load(role: Role) -> Result<Self, Error> {
        let (flows, idle) = role.guard.map_or((0, Duration::ZERO), |g| (g.flows, g.idle));
        let idle_ns =
            if flows == 0 { 0 } else { u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX) };
        let mut object = object::loader()
            .override_global("guards", &u8::from(role.guard.is_some()), true)
            .override_global("idle_ns", &idle_ns, true)
            .map_max_entries("states", flows.max(1))
            .override_global("proxies", &u8::from(role.proxied > 0), true)
            .map_max_entries("proxied", role.proxied.saturating_mul(3).max(1))
            .override_global("serves", &u8::from(role.serves), true)
            .override_global("forwards_oam", &u8::from(role.forwards_oam), true)
            .load(object!("nsh/nsh"))?;
        object::xdp(&mut object, PROGRAM)?.load()?;
        Ok(Self {
            in_force: object::map(&mut object, "in_force")?.try_into()?,
            devices: object::map(&mut object, "devices")?.try_into()?,
            ports: object::map(&mut object, "ports")?.try_into()?,
            classes: object::array(&mut object, "classes")?,
            rules: RuleTables::open(&mut object)?,
            counts: object::per_cpu(&mut object, "counts")?,
            drops: object::per_cpu(&mut object, "drops")?,
            filter: object::array(&mut object, "filter")?,
            events: Some(object::ring(&mut object, "events")?),
            object,
        })
    }

    /// Makes an interface a port of this number.
    pub fn add_port(&mut self, number: u32, interface: u32) -> Result<(), Error> {
        object::add_port(&mut self.devices, number, interface)
    }

    /// Puts the program on an interface.
    pub fn attach(&mut self, interface: u32) -> Result<XdpLinkId, Error> {
        object::attach(&mut self.object, PROGRAM, interface)
    }

    /// Says what happens to frames that are on no path, at an interface.
    pub fn set_port(&mut self, interface: u32, port: &Port) -> Result<(), Error> {
        Ok(self.ports.insert(interface, RawPort::from(port), 0)?)
    }

    /// Puts entries in force, each with the index of its counters, all between two packets.
    pub fn install(&mut self, hops: &[(Path, Hop, u32)]) -> Result<(), Error> {
        let mut set = Hops::create(object::entries(hops.len())?, 0)?;
        for (path, hop, count) in hops {
            set.insert(layout::place(*path), RawHop::new(hop, *count), 0)?;
        }
        Ok(self.in_force.set(0, &set, 0)?)
    }

    /// Puts rules in force between two packets; each names a class by its place.
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

    /// Puts rules of a firewall in force between two packets; the last word is for what none matches.
    pub fn guard(&mut self, rules: &[(rules::Match, Action)], last: Action) -> Result<(), Error> {
        let all = rules.iter().cloned().chain([(rules::Match::default(), last)]);
        let all: Vec<_> = all.map(|(what, action)| (what, action.code())).collect();
        let set = rules::Set::compile(&all).map_err(Error::Rules)?;
        self.rules.install(&set)
    }

    /// What was counted under an index: frames as they came in, and their bytes.
    pub fn count(&self, index: u32) -> Result<Count, Error> {
        sum(&self.counts, index, Count::merge)
    }

    /// Packets that were dropped.
    pub fn drops(&self) -> Result<Drops, Error> {
        let mut causes = 0..;
        Drops::read(|| sum(&self.drops, causes.next().unwrap_or_default(), |a, b| a + b))
    }

    /// Begins to trace.
    pub fn trace(&mut self, filter: &Filter) -> Result<(), Error> {
        Ok(self.filter.set(0, RawFilter::from(filter), 0)?)
    }

    /// Takes the ring of events, once.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take().map(Events)
    }

    /// Runs the program on a frame (`BPF_PROG_RUN`), as if it came in by the loopback: what it would do.
    pub fn run(&self, frame: &[u8]) -> Result<(Verdict, Vec<u8>), Error> {
        object::run(&self.object, PROGRAM, frame)
    }
}

/// The ring of events.
pub struct Events(RingBuf<MapData>);

impl Iterator for Events {
    type Item = Event;

    /// None where there is nothing now; more may come.
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
