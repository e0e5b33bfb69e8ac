//! A validated configuration: names resolved to numbers, text parsed.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
};

use hawser_bpf::{
    nsh as bpf,
    rules::{Match, Prefix, Set},
};
use hawser_daemon::config::{FieldError, Invalid, typed};
use hawser_wire::nsh::{self, Path, TlvRepr};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::{
    document::{self, Document, Flows, Metadata, Otherwise, Proxy, ServicePath},
    fields::{repeated, within},
    health::{Down, Verdict, check_functions, check_names},
    mac::Mac,
    rest::Rest,
};

/// What kind of node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Classifies and forwards.
    Sff,
    /// A function that only decrements the service index.
    Forwarder,
    /// A function that passes what its rules allow.
    Firewall,
    /// A function that observes flows.
    Ids,
}

/// Service headers, each with the position on a path that it contains.
type Headers = Vec<(Path, Vec<u8>)>;

/// A validated configuration.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The configuration as written.
    pub(crate) document: Document,
    /// Headers that rules refer to.
    pub(crate) headers: Headers,
    /// Rules, each with the index of its header.
    pub(crate) rules: Vec<(Match, u32)>,
}

/// Properties of a port's interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    /// Ethernet address.
    pub(crate) mac: [u8; 6],
    /// Largest frame, bytes.
    pub(crate) frame_max: u32,
}

/// Parses a configuration. Reports all errors at once.
pub(crate) fn parse(kind: Kind, value: &Value) -> Result<Plan, Invalid> {
    let document: Document = typed(value)?;
    let mut errors = repeated(document.ports.iter().map(|port| port.name.clone()), "ports", "name");
    let interfaces = document.ports.iter().map(|port| port.interface.clone());
    errors.extend(repeated(interfaces, "ports", "interface"));
    let names = Names::of(&document);
    errors.extend(names.check_ports(&document));
    errors.extend(names.check_hops(&document));
    if kind != Kind::Sff && !document.rules.is_empty() {
        errors.push(FieldError::new(
            "rules",
            json!(document.rules.len()),
            "none: only an sff has rules",
        ));
    }
    errors.extend(check_firewall(kind, &document));
    if document.ports.is_empty() && kind != Kind::Ids {
        errors.push(FieldError::new("ports", json!([]), "at least one port"));
    }
    errors.extend(check_ids(kind, &document));
    errors.extend(check_rings(kind, &document));
    errors.extend(check_proxies(kind, &document));
    errors.extend(trust::check(kind != Kind::Sff, &document));
    errors.extend(check_health(kind, &document));
    let (headers, rules) = names.rules(&document, &mut errors);
    if let Err(error) = Set::compile(&rules) {
        errors.push(FieldError::new("rules", json!(rules.len()), format!("fewer: {error}")));
    }
    if errors.is_empty() { Ok(Plan { document, headers, rules }) } else { Err(Invalid { errors }) }
}

impl Plan {
    /// Addresses from which VXLAN-GPE is accepted.
    pub(crate) fn forwarders(&self) -> BTreeSet<Ipv4Addr> {
        trust::forwarders(&self.document)
    }

    /// The forwarding entries, without instances that are down. A position whose instances are all down has no
    /// entry.
    pub(crate) fn hops(&self, interfaces: &[Interface], down: &Down) -> Vec<(Path, bpf::Hop)> {
        let names = Names::of(&self.document);
        let hops = self.document.hops.iter().filter_map(|hop| up(hop, down));
        hops.filter_map(|hop| Some((path_of(&hop), names.hop(&self.document, &hop, interfaces)?)))
            .collect()
    }

    /// The active rules: without those of paths that are bypassed.
    pub(crate) fn rules(&self, down: &Down) -> Vec<(Match, u32)> {
        let open = self.bypassed(down);
        let stays = |header: u32| {
            let path = usize::try_from(header).ok().and_then(|at| self.headers.get(at));
            path.is_none_or(|(path, _)| !open.contains(&path.spi))
        };
        self.rules.iter().filter(|(_, header)| stays(*header)).cloned().collect()
    }

    /// Identifiers of the paths that fail open and have a function that is down.
    pub(crate) fn bypassed(&self, down: &Down) -> BTreeSet<u32> {
        let open =
            |path: &&ServicePath| down.verdict(path.fail, &path.functions) == Verdict::Bypass;
        self.document.service_paths.iter().filter(open).map(|path| path.spi).collect()
    }

    /// The ports, with what they do with frames on no path. `classify`: whether any rule is active.
    pub(crate) fn ports(&self, interfaces: &[Interface], classify: bool) -> Vec<bpf::Port> {
        let names = Names::of(&self.document);
        let ports = self.document.ports.iter().zip(interfaces).zip(1..);
        ports
            .map(|((port, interface), number)| bpf::Port {
                classify: classify.then_some(number),
                otherwise: match &port.otherwise {
                    Otherwise::Pass => bpf::Otherwise::Pass,
                    Otherwise::Drop => bpf::Otherwise::Drop,
                    Otherwise::Port(name) => bpf::Otherwise::Port(names.number(name).unwrap_or(0)),
                },
                address: port.address,
                mac: interface.mac,
                proxy: NonZeroU16::new(number).filter(|_| port.proxy == Some(Proxy::Flows)),
                trusted: port.trusted,
                mirror: port.mirror,
            })
            .collect()
    }
}

fn check_firewall(kind: Kind, document: &Document) -> Option<FieldError> {
    match (&document.firewall, kind == Kind::Firewall) {
        (Some(firewall), true) => firewall.rest.as_ref().and_then(Rest::check),
        (None, true) => Some(FieldError::new("firewall", Value::Null, "the firewall's settings")),
        (Some(firewall), false) => {
            Some(FieldError::new("firewall", json!(firewall), "nothing: only a firewall has this"))
        }
        _ => None,
    }
}

fn check_ids(kind: Kind, document: &Document) -> Vec<FieldError> {
    let mirrors = document.ports.iter().enumerate().filter(|(_, port)| port.mirror);
    match (&document.ids, kind == Kind::Ids) {
        (Some(ids), true) => {
            let is_misplaced = ids.forwarder.is_some() != document.ports.is_empty();
            let expected = "ports, or `ids.forwarder` and no port";
            let misplaced = || FieldError::new("ports", json!(document.ports.len()), expected);
            ids.check().into_iter().chain(is_misplaced.then(misplaced)).collect()
        }
        (None, true) => vec![FieldError::new("ids", Value::Null, "the sensor's settings")],
        (Some(ids), false) => {
            vec![FieldError::new("ids", json!(ids), "nothing: only intrusion detection has this")]
        }
        (None, false) => mirrors
            .map(|(at, _)| {
                let place = format!("ports[{at}].mirror");
                FieldError::new(&place, true, "false: only intrusion detection has mirror ports")
            })
            .collect(),
    }
}

fn check_rings(kind: Kind, document: &Document) -> Option<FieldError> {
    let rings = document.sensor.as_ref()?;
    if kind != Kind::Sff {
        return Some(FieldError::new("sensor", json!(rings), "nothing: only an sff has this"));
    }
    let place = "sensor.ring_bytes";
    (!rings.ring_bytes.is_power_of_two())
        .then(|| FieldError::new(place, rings.ring_bytes, "a power of two"))
}

fn check_proxies(kind: Kind, document: &Document) -> Option<FieldError> {
    let at = document.ports.iter().position(|port| port.proxy.is_some())?;
    let place = format!("ports[{at}].proxy");
    (kind != Kind::Sff).then(|| FieldError::new(&place, Value::Null, "none: only an sff has this"))
}

fn check_health(kind: Kind, document: &Document) -> Vec<FieldError> {
    let Document { functions, service_paths: paths, hops, .. } = document;
    let mut errors = check_functions(functions);
    if kind != Kind::Sff {
        for (field, count) in [("functions", functions.len()), ("service_paths", paths.len())] {
            if count > 0 {
                errors.push(FieldError::new(field, json!(count), "none: only an sff has these"));
            }
        }
    }
    errors.extend(repeated(paths.iter().map(|path| path.spi.to_string()), "service_paths", "spi"));
    for (at, path) in paths.iter().enumerate() {
        errors.extend(check_names(functions, &path.functions, &format!("service_paths[{at}]")));
    }
    let instances = functions.iter().flat_map(|function| &function.instances);
    let known: BTreeSet<_> = instances.map(|instance| instance.name.as_str()).collect();
    for (at, hop) in hops.iter().enumerate() {
        for (number, target) in hop.to.iter().enumerate() {
            let name = target.instance.as_deref().filter(|name| !known.contains(name));
            errors.extend(name.map(|name| {
                let place = format!("hops[{at}].to[{number}].instance");
                FieldError::new(&place, name, "the name of an instance of a function")
            }));
        }
    }
    errors
}

/// The entry without instances that are down; `None` if none is left.
fn up(hop: &document::Hop, down: &Down) -> Option<document::Hop> {
    let is_up = |target: &document::Target| {
        !target.instance.as_deref().is_some_and(|name| down.instance(name))
    };
    let to: Vec<_> = hop.to.iter().filter(|target| is_up(target)).cloned().collect();
    (hop.end.is_some() || !to.is_empty()).then(|| document::Hop { to, ..hop.clone() })
}

fn path_of(hop: &document::Hop) -> Path {
    Path { spi: hop.spi, si: hop.si }
}

/// Port numbers by name, from 0.
struct Names<'a>(HashMap<&'a str, u32>);

impl<'a> Names<'a> {
    fn of(document: &'a Document) -> Self {
        Self(document.ports.iter().map(|port| port.name.as_str()).zip(0..).collect())
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }

    fn unknown(&self, place: &str, name: &str) -> Option<FieldError> {
        let missing = || FieldError::new(place, name, "the name of a port");
        self.number(name).is_none().then(missing)
    }

    fn check_ports(&self, document: &Document) -> Vec<FieldError> {
        let ports = document.ports.iter().enumerate();
        ports
            .filter_map(|(at, port)| match &port.otherwise {
                Otherwise::Port(name) => {
                    self.check_otherwise(document, &format!("ports[{at}].otherwise.port"), name)
                }
                _ => None,
            })
            .collect()
    }

    fn check_otherwise(&self, document: &Document, place: &str, name: &str) -> Option<FieldError> {
        let Some(port) = self.port(document, name) else { return self.unknown(place, name) };
        port.queued.then(|| FieldError::new(place, name, "a port that is not queued"))
    }

    fn check_hops(&self, document: &Document) -> Vec<FieldError> {
        let mut seen = HashMap::new();
        let mut errors = Vec::new();
        for (at, hop) in document.hops.iter().enumerate() {
            let place = format!("hops[{at}]");
            if let Some(first) = seen.insert((hop.spi, hop.si), at) {
                let expected = format!("another path or index than hops[{first}]");
                errors.push(FieldError::new(
                    &place,
                    json!({"spi": hop.spi, "si": hop.si}),
                    expected,
                ));
            }
            if hop.to.is_empty() == hop.end.is_none() {
                errors.push(FieldError::new(&place, json!(hop), "either `to` or `end`"));
            }
            if let Some(end) = &hop.end {
                errors.extend(self.unknown(&format!("{place}.end.port"), &end.port));
            }
            for (number, target) in hop.to.iter().enumerate() {
                errors.extend(self.check_target(
                    document,
                    &format!("{place}.to[{number}]"),
                    target,
                ));
            }
        }
        errors
    }

    fn check_target(
        &self,
        document: &Document,
        place: &str,
        target: &document::Target,
    ) -> Option<FieldError> {
        let Some(port) = self.port(document, &target.port) else {
            return self.unknown(&format!("{place}.port"), &target.port);
        };
        let expected = match (&target.vxlan_gpe, port.address) {
            (Some(_), None) => "a port with an address, which the tunnel needs",
            (None, _) if port.queued => "a port that is not queued, or vxlan_gpe",
            (Some(_), _) if port.proxy.is_some() => "a port without proxy, or no vxlan_gpe",
            _ if target.back.is_some() && port.proxy != Some(Proxy::Flows) => {
                return Some(FieldError::new(
                    &format!("{place}.back"),
                    json!(target.back),
                    "nothing, or a port with proxy: flows",
                ));
            }
            _ => return None,
        };
        Some(FieldError::new(&format!("{place}.port"), target.port.as_str(), expected))
    }

    fn port<'d>(&self, document: &'d Document, name: &str) -> Option<&'d document::Port> {
        document.ports.get(self.number(name)? as usize)
    }

    fn hop(
        &self,
        document: &Document,
        hop: &document::Hop,
        interfaces: &[Interface],
    ) -> Option<bpf::Hop> {
        let Some(end) = &hop.end else {
            let targets = hop.to.iter().map(|target| self.target(document, target, interfaces));
            return targets.collect::<Option<_>>().map(bpf::Hop::Forward);
        };
        let port = self.number(&end.port)?;
        let interface = interfaces.get(port as usize)?;
        Some(bpf::Hop::End(bpf::End {
            port,
            frame_max: interface.frame_max,
            mac: end.mac.as_ref().map(Mac::octets),
            own_mac: interface.mac,
            queued: document.ports.get(port as usize)?.queued,
        }))
    }

    fn target(
        &self,
        document: &Document,
        target: &document::Target,
        interfaces: &[Interface],
    ) -> Option<bpf::Target> {
        let port = self.number(&target.port)?;
        let interface = interfaces.get(port as usize)?;
        let encapsulation = match target.vxlan_gpe {
            None => bpf::Encapsulation::Ethernet,
            Some(tunnel) => bpf::Encapsulation::VxlanGpe {
                local: self.port(document, &target.port)?.address?,
                remote: tunnel.remote,
                vni: tunnel.vni,
            },
        };
        Some(bpf::Target {
            port,
            frame_max: interface.frame_max,
            mac: target.mac.octets(),
            own_mac: interface.mac,
            encapsulation,
            queued: document.ports.get(port as usize)?.queued,
            proxy: self.port(document, &target.port)?.proxy.map(|proxy| match proxy {
                Proxy::Flows => {
                    let place = |place: document::Place| Path { spi: place.spi, si: place.si };
                    bpf::Proxy::Flows { back: target.back.map(place) }
                }
                Proxy::Rules => bpf::Proxy::Rules,
            }),
        })
    }

    /// The headers that rules refer to, without duplicates, and the rules with their indices.
    fn rules(
        &self,
        document: &Document,
        errors: &mut Vec<FieldError>,
    ) -> (Headers, Vec<(Match, u32)>) {
        let mut known: HashMap<(Path, Option<Metadata>), u32> = HashMap::new();
        let (mut headers, mut rules) = (Vec::new(), Vec::new());
        for (at, rule) in document.rules.iter().enumerate() {
            let place = format!("rules[{at}]");
            let path = Path { spi: rule.spi, si: rule.si };
            let header = *known.entry((path, rule.metadata.clone())).or_insert_with(|| {
                headers.push((path, header(path, rule.metadata.as_ref(), &place, errors)));
                u32::try_from(headers.len() - 1).unwrap_or(u32::MAX)
            });
            match self.rule(rule) {
                Ok(what) => rules.push((what, header)),
                Err(error) => errors.push(within(&place, error)),
            }
        }
        if headers.len() > bpf::CLASSES_MAX as usize {
            let expected = format!("at most {} different paths and metadata", bpf::CLASSES_MAX);
            errors.push(FieldError::new("rules", json!(headers.len()), expected));
        }
        (headers, rules)
    }

    fn rule(&self, rule: &document::Rule) -> Result<Match, FieldError> {
        let port = rule.port.as_deref().map(|name| {
            let number = self.number(name).and_then(|number| u16::try_from(number + 1).ok());
            number.ok_or_else(|| FieldError::new("port", name, "the name of a port"))
        });
        Ok(Match { port: port.transpose()?, ..to_match(&rule.flows)? })
    }
}

/// The packets that a rule matches.
pub(crate) fn to_match(flows: &Flows) -> Result<Match, FieldError> {
    let ports = |field, range: Option<(u16, u16)>| match range {
        Some((first, last)) if first > last => {
            Err(FieldError::new(field, json!([first, last]), "first and last port, in this order"))
        }
        range => Ok(range.map_or(0..=u16::MAX, |(first, last)| first..=last)),
    };
    Ok(Match {
        source: prefix("source", flows.source.as_deref())?,
        destination: prefix("destination", flows.destination.as_deref())?,
        source_ports: ports("source_ports", flows.source_ports)?,
        destination_ports: ports("destination_ports", flows.destination_ports)?,
        protocol: flows.protocol,
        dscp: flows.dscp,
        port: None,
    })
}

fn prefix(field: &str, text: Option<&str>) -> Result<Prefix, FieldError> {
    let Some(text) = text else { return Ok(Prefix::ANY) };
    let host = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let prefix = text.parse::<IpNet>().ok().or_else(host);
    let prefix =
        prefix.ok_or_else(|| FieldError::new(field, text, "a prefix such as 10.1.0.0/24"))?;
    Ok(Prefix::new(prefix.network(), prefix.prefix_len()))
}

fn header(
    path: Path,
    metadata: Option<&Metadata>,
    place: &str,
    errors: &mut Vec<FieldError>,
) -> Vec<u8> {
    let context = metadata.map_or(nsh::Metadata::Fixed([0; nsh::CONTEXT_LEN]), self::metadata);
    let bytes =
        nsh::Repr::initial(path, context).emit().filter(|bytes| bytes.len() <= bpf::HEADER_MAX);
    bytes.unwrap_or_else(|| {
        let expected = format!("a header of at most {} bytes", bpf::HEADER_MAX);
        errors.push(FieldError::new(&format!("{place}.metadata"), json!(metadata), expected));
        Vec::new()
    })
}

fn metadata(metadata: &Metadata) -> nsh::Metadata {
    match metadata {
        Metadata::Fixed(digits) => {
            nsh::Metadata::Fixed(bytes(digits).try_into().unwrap_or_default())
        }
        Metadata::Variable(tlvs) => {
            let tlv = |tlv: &document::Tlv| TlvRepr {
                class: tlv.class,
                kind: tlv.kind,
                data: bytes(&tlv.data),
            };
            nsh::Metadata::Variable(tlvs.iter().map(tlv).collect())
        }
    }
}

/// The schema lets only pairs of hexadecimal digits through.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

mod trust;

#[cfg(test)]
mod tests;
