//! A node: the loaded program on its ports, and its counters.

use std::{collections::HashMap, io, time::Duration};

use hawser_bpf::nsh::{
    self as bpf, Chain, Class, Count, Drops, Event, Events, Filter, Guard, Observations, Observed,
    Role, Sensor,
};
use hawser_daemon::config::{FieldError, Invalid};
use hawser_netdev::interface;
use hawser_wire::nsh::Path;

use super::{
    document::{Document, Firewall, GuardRules, Oam, Port, Rings, TraceRequest},
    error::Error,
    firewall::Rules,
    health::Down,
    plan::{Interface, Kind, Plan},
};

/// Length of an Ethernet header in bytes, which an interface's MTU does not include.
const ETHERNET_LEN: u32 = 14;
/// Flows at SFC-unaware functions at most; the least recently used is evicted.
const PROXIED_FLOWS: u32 = 65_536;
/// Index of the counters of packets that a function has processed.
const SERVED: u32 = 0;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    /// Packets that were looked up at a position of a path.
    Hop(Path),
    /// Packets that entered a path.
    Class(Path),
}

/// A node.
pub(crate) struct Node {
    chain: Chain,
    events: Option<Events>,
    interfaces: Vec<Interface>,
    indices: Vec<u32>,
    /// Indices of counters.
    counts: HashMap<Counted, u32>,
    /// Rules of a firewall.
    rules: Option<Rules>,
    plan: Plan,
    /// Functions and instances that are avoided.
    down: Down,
}

impl Node {
    /// Loads the program with the tables of a plan and attaches it to its ports.
    pub(crate) fn open(kind: Kind, plan: Plan) -> Result<Self, Error> {
        let serves = kind != Kind::Sff;
        let forwards_oam = plan.document.oam == Oam::Forward;
        let ports = plan.document.ports.iter().map(|port| port.interface.as_str());
        let (indices, interfaces) = find(ports)?;
        let guard = plan.document.firewall.as_ref().map(tracking);
        let flows = |port: &Port| port.proxy.is_some();
        let proxied = if plan.document.ports.iter().any(flows) { PROXIED_FLOWS } else { 0 };
        let sensor = sensor(&plan.document);
        let mut chain = Chain::load(Role { serves, forwards_oam, guard, proxied, sensor })?;
        for (number, index) in (0..).zip(&indices) {
            chain.add_port(number, *index)?;
        }
        let events = chain.take_events();
        let counts = HashMap::new();
        let rules = plan.document.firewall.as_ref().map(Rules::open).transpose()?;
        if let Some(rules) = &rules {
            rules.install(&mut chain)?;
        }
        let down = Down::default();
        let mut node =
            Self { chain, events, interfaces, indices, counts, rules, plan: plan.clone(), down };
        node.install(plan)?;
        for index in node.indices.clone() {
            node.chain.attach(index)?;
        }
        Ok(node)
    }

    /// The active plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Replaces the tables. Each table changes atomically.
    pub(crate) fn install(&mut self, plan: Plan) -> Result<(), Error> {
        self.forward(&plan)?;
        self.classify(&plan)?;
        self.plan = plan;
        Ok(())
    }

    /// Avoids functions and instances that are down.
    pub(crate) fn avoid(&mut self, down: Down) -> Result<(), Error> {
        let plan = self.plan.clone();
        let before = plan.bypassed(&self.down);
        self.down = down;
        self.forward(&plan)?;
        if plan.bypassed(&self.down) == before { Ok(()) } else { self.classify(&plan) }
    }

    fn forward(&mut self, plan: &Plan) -> Result<(), Error> {
        let hops = plan.hops(&self.interfaces, &self.down);
        let hops =
            hops.into_iter().map(|(path, hop)| Ok((path, hop, self.index(Counted::Hop(path))?)));
        let hops = hops.collect::<Result<Vec<_>, Error>>()?;
        let forwarders = plan.forwarders();
        self.chain.add_forwarders(&forwarders)?;
        self.chain.install(&hops)?;
        Ok(self.chain.keep_forwarders(&forwarders)?)
    }

    fn classify(&mut self, plan: &Plan) -> Result<(), Error> {
        let rules = plan.rules(&self.down);
        let classes = plan.headers.iter().map(|(path, header)| {
            Ok(Class { header: header.clone(), count: self.index(Counted::Class(*path))? })
        });
        let classes = classes.collect::<Result<Vec<_>, Error>>()?;
        if self.rules.is_none() {
            self.chain.classify(&classes, &rules)?;
        }
        let ports = plan.ports(&self.interfaces, !rules.is_empty());
        for (index, port) in self.indices.iter().zip(ports) {
            self.chain.set_port(*index, &port)?;
        }
        Ok(())
    }

    /// The rules of a firewall.
    pub(crate) fn rules(&self) -> Option<&GuardRules> {
        self.rules.as_ref().map(Rules::list)
    }

    /// Replaces and stores the rules of a firewall; `None` if the node is not a firewall.
    pub(crate) fn guard(&mut self, list: GuardRules) -> Result<Option<&GuardRules>, Error> {
        let Some(rules) = &mut self.rules else { return Ok(None) };
        rules.replace(&mut self.chain, list)?;
        Ok(Some(rules.list()))
    }

    /// Removes the firewall rules whose end has come.
    pub(crate) fn expire(&mut self) -> Result<(), Error> {
        let Some(rules) = self.rules.as_mut().filter(|rules| rules.has_expired()) else {
            return Ok(());
        };
        rules.replace(&mut self.chain, rules.list().clone())
    }

    fn index(&mut self, what: Counted) -> Result<u32, Error> {
        let next = u32::try_from(self.counts.len() + 1).unwrap_or(bpf::COUNTS);
        if let Some(known) = self.counts.get(&what) {
            return Ok(*known);
        }
        if next >= bpf::COUNTS {
            let expected = "fewer different positions and classes since the daemon started";
            return Err(Invalid { errors: vec![FieldError::new("hops", next, expected)] }.into());
        }
        self.counts.insert(what, next);
        Ok(next)
    }

    /// The counters of each position and class of the active plan.
    pub(crate) fn counts(&self) -> Result<Vec<(Counted, Count)>, Error> {
        let hops = self.plan.document.hops.iter();
        let hops = hops.map(|hop| Counted::Hop(Path { spi: hop.spi, si: hop.si }));
        let mut classes: Vec<_> = self.plan.headers.iter().map(|(path, _)| *path).collect();
        classes.sort_unstable();
        classes.dedup();
        let all = hops.chain(classes.into_iter().map(Counted::Class));
        let known = all.filter_map(|what| Some((what, *self.counts.get(&what)?)));
        known.map(|(what, index)| Ok((what, self.chain.count(index)?))).collect()
    }

    /// Packets that the function has processed.
    pub(crate) fn served(&self) -> Result<Count, Error> {
        Ok(self.chain.count(SERVED)?)
    }

    /// Frees the ports of a program that would outlive the process.
    pub(crate) fn close(&mut self) {
        self.chain.detach();
    }

    /// Takes the rings of the sensor, once.
    pub(crate) fn take_observations(&mut self) -> Vec<Observations> {
        self.chain.take_observations()
    }

    /// Numbers of the sensor's rings in the kernel.
    pub(crate) fn rings(&self) -> &[u32] {
        self.chain.rings()
    }

    /// What became of the packets at the sensor.
    pub(crate) fn observed(&self) -> Result<Observed, Error> {
        Ok(self.chain.observed()?)
    }

    /// Packets dropped, by cause.
    pub(crate) fn drops(&self) -> Result<Drops, Error> {
        Ok(self.chain.drops()?)
    }

    /// Starts a trace; earlier events are discarded.
    pub(crate) fn trace(&mut self, request: &TraceRequest) -> Result<(), Error> {
        while self.events.as_mut().is_some_and(|events| events.next().is_some()) {}
        let TraceRequest { events, spi, source, destination } = *request;
        Ok(self.chain.trace(&Filter { events, spi, source, destination })?)
    }

    /// Events since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        self.events.as_mut().into_iter().flatten().collect()
    }

    /// Names of the ingress port and, if there is one, the egress port of an event.
    pub(crate) fn port_names(&self, event: &Event) -> (String, Option<String>) {
        let ports = &self.plan.document.ports;
        let came = self.indices.iter().position(|index| *index == event.interface);
        let name =
            |at: Option<usize>| at.and_then(|at| ports.get(at)).map(|port| port.name.clone());
        let leaves = matches!(event.step, bpf::Step::Forwarded | bpf::Step::Ended);
        let gone = leaves.then(|| name(usize::try_from(event.port).ok())).flatten();
        (name(came).unwrap_or_default(), gone)
    }
}

/// The rings of a sensor: its own, or those of one in another process.
fn sensor(document: &Document) -> Option<Sensor> {
    let own = document.ids.as_ref().filter(|ids| ids.forwarder.is_none());
    let own = own.map(|ids| Sensor { rings: ids.flows.workers, bytes: ids.flows.ring_bytes });
    let other = |rings: &Rings| Sensor { rings: rings.workers, bytes: rings.ring_bytes };
    own.or_else(|| document.sensor.as_ref().map(other))
}

fn tracking(firewall: &Firewall) -> Guard {
    firewall.remember.map_or_else(Guard::default, |remember| Guard {
        flows: remember.flows,
        idle: Duration::from_secs(remember.idle_s.into()),
        tcp_idle: Duration::from_secs(remember.tcp_idle_s.into()),
        picks_up: remember.pick_up,
    })
}

/// Indices and properties of the ports' interfaces.
pub(crate) fn find<'a>(
    ports: impl Iterator<Item = &'a str>,
) -> Result<(Vec<u32>, Vec<Interface>), Invalid> {
    let (mut found, mut errors) = ((Vec::new(), Vec::new()), Vec::new());
    for (at, port) in ports.enumerate() {
        match interface::find(port) {
            Ok(known) => {
                found.0.push(known.index);
                found.1.push(Interface { mac: known.address, frame_max: known.mtu + ETHERNET_LEN });
            }
            Err(error) => errors.push(missing(at, port, &error)),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(Invalid { errors }) }
}

fn missing(at: usize, name: &str, error: &io::Error) -> FieldError {
    let place = format!("ports[{at}].interface");
    FieldError::new(&place, name, format!("an interface of this network namespace ({error})"))
}
