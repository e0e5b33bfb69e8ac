//! A validated configuration of proxies: names resolved to numbers, headers encoded.

use std::{collections::HashMap, net::Ipv6Addr};

use hawser_bpf::srv6 as bpf;
use hawser_daemon::config::{FieldError, Invalid, typed};
use hawser_wire::{ipv6, srh};
use serde_json::{Value, json};

use super::{
    super::fields::{repeated, within},
    document::{Behaviour, Document, Encapsulation, NextHop, Port, Proxy},
};
use crate::plan::Interface;

/// A validated configuration.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The configuration as written.
    pub(crate) document: Document,
}

/// Parses a configuration. Reports all errors at once.
pub(crate) fn parse(value: &Value) -> Result<Plan, Invalid> {
    let document: Document = typed(value)?;
    let (ports, proxies) = (&document.ports, &document.proxies);
    let mut errors = repeated(ports.iter().map(|port| port.name.clone()), "ports", "name");
    let interfaces = ports.iter().map(|port| port.interface.clone());
    errors.extend(repeated(interfaces, "ports", "interface"));
    let segments = proxies.iter().map(|proxy| proxy.segment.to_string());
    errors.extend(repeated(segments, "proxies", "segment"));
    errors.extend(repeated(proxies.iter().map(|p| p.returns.clone()), "proxies", "returns"));
    let names = names(&document);
    for (at, proxy) in proxies.iter().enumerate() {
        let wrong = check(proxy, &names).into_iter();
        errors.extend(wrong.map(|error| within(&format!("proxies[{at}]"), error)));
    }
    errors.extend(check_trusted(&document));
    if errors.is_empty() { Ok(Plan { document }) } else { Err(Invalid { errors }) }
}

impl Plan {
    /// The proxies, for ports of these interfaces.
    pub(crate) fn proxies(&self, interfaces: &[Interface], indices: &[u32]) -> Vec<bpf::Proxy> {
        let (names, ports) = (names(&self.document), &self.document.ports);
        let next_hop = |next_hop: &NextHop| {
            let port = *names.get(next_hop.port.as_str())?;
            let Interface { mac: own_mac, frame_max } = *interfaces.get(port)?;
            let (port, mac) = (u32::try_from(port).ok()?, next_hop.mac.octets());
            Some(bpf::NextHop { port, frame_max, mac, own_mac })
        };
        let proxy = |proxy: &Proxy| {
            Some(bpf::Proxy {
                segment: proxy.segment,
                behaviour: behaviour(proxy)?,
                function: next_hop(&proxy.function)?,
                returns: *indices.get(*names.get(proxy.returns.as_str())?)?,
                returns_trusted: ports.get(*names.get(proxy.returns.as_str())?)?.trusted,
                onward: next_hop(&proxy.onward)?,
            })
        };
        self.document.proxies.iter().filter_map(proxy).collect()
    }
}

/// Without a trusted port no packet could enter a segment.
fn check_trusted(document: &Document) -> Option<FieldError> {
    let names: Vec<_> = document.ports.iter().map(|port| port.name.as_str()).collect();
    let expected = "`trusted: true` at the ports to the SR domain (RFC 8754 section 5.1)";
    let none = !document.ports.iter().any(|port| port.trusted);
    none.then(|| FieldError::new("ports", json!(names), expected))
}

impl Plan {
    /// Positions of ports that are not trusted and on which nothing returns.
    pub(crate) fn outside(&self) -> impl Iterator<Item = usize> {
        let returns = |port: &Port| self.document.proxies.iter().any(|p| p.returns == port.name);
        let ports = self.document.ports.iter().enumerate();
        ports.filter(move |(_, port)| !port.trusted && !returns(port)).map(|(at, _)| at)
    }
}

fn names(document: &Document) -> HashMap<&str, usize> {
    document.ports.iter().map(|port| port.name.as_str()).zip(0..).collect()
}

fn check(proxy: &Proxy, names: &HashMap<&str, usize>) -> Vec<FieldError> {
    let used = [
        ("function.port", &proxy.function.port),
        ("returns", &proxy.returns),
        ("onward.port", &proxy.onward.port),
    ];
    let unknown = used.into_iter().filter(|(_, name)| !names.contains_key(name.as_str()));
    let mut errors: Vec<_> = unknown
        .map(|(field, name)| FieldError::new(field, name.as_str(), "the name of a port"))
        .collect();
    if proxy.returns == proxy.onward.port {
        let expected = "another port than packets go on by";
        errors.push(FieldError::new("returns", proxy.returns.as_str(), expected));
    }
    match (&proxy.encapsulation, proxy.behaviour) {
        (None, Behaviour::Static) => {
            let expected = "what a static proxy puts in front of packets";
            errors.push(FieldError::new("encapsulation", Value::Null, expected));
        }
        (Some(found), Behaviour::Dynamic | Behaviour::Masquerading) => {
            let expected = "nothing: only a static proxy has this";
            errors.push(FieldError::new("encapsulation", json!(found), expected));
        }
        _ => {}
    }
    errors
}

fn behaviour(proxy: &Proxy) -> Option<bpf::Behaviour> {
    Some(match (proxy.behaviour, &proxy.encapsulation) {
        (Behaviour::Static, encapsulation) => {
            let known = encapsulation.as_ref()?;
            let (ipv4, ipv6) = (&known.segments, &known.segments_ipv6);
            let ipv6 = if ipv6.is_empty() { ipv4 } else { ipv6 };
            bpf::Behaviour::Static { headers: [headers(known, ipv4)?, headers(known, ipv6)?] }
        }
        (Behaviour::Dynamic, _) => bpf::Behaviour::Dynamic,
        (Behaviour::Masquerading, _) => bpf::Behaviour::Masquerading,
    })
}

/// The encoded headers, with lengths and the inner next header left zero.
fn headers(encapsulation: &Encapsulation, segments: &[Ipv6Addr]) -> Option<Vec<u8>> {
    let destination = *segments.first()?;
    let srh = srh::Repr::at_source(0, segments.to_vec())?.emit()?;
    let Encapsulation { source, hop_limit, .. } = *encapsulation;
    let ip = ipv6::Repr { source, destination, next_header: srh::NEXT_HEADER, hop_limit };
    Some([&ip.emit(0)?[..], &srh].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let next_hop = |port| json!({"port": port, "mac": "02:00:00:00:00:0a"});
        json!({
            "version": 1,
            "control": "proxy.sock",
            "ports": [
                {"name": "net", "interface": "f0", "trusted": true},
                {"name": "left", "interface": "p0"},
                {"name": "right", "interface": "p1"},
            ],
            "proxies": [
                {
                    "segment": "5f00::1", "behaviour": "static", "function": next_hop("left"),
                    "returns": "right", "onward": next_hop("net"),
                    "encapsulation": {"source": "fd00::1", "segments": ["5f00::2", "5f00::3"]},
                },
                {
                    "segment": "5f00::4", "behaviour": "dynamic", "function": next_hop("right"),
                    "returns": "left", "onward": next_hop("net"),
                },
            ],
        })
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut document = document();
        change(&mut document);
        let invalid = parse(&document).unwrap_err();
        invalid.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_become_numbers_and_segments_headers() {
        let plan = parse(&document()).unwrap();
        let interface = |last| Interface { mac: [2, 0, 0, 0, 0, last], frame_max: 1514 };
        let proxies = plan.proxies(&[interface(1), interface(2), interface(3)], &[7, 8, 9]);
        assert_eq!((proxies[0].function.port, proxies[0].function.own_mac[5]), (1, 2));
        assert_eq!((proxies[0].returns, proxies[1].returns), (9, 8));
        let bpf::Behaviour::Static { headers } = &proxies[0].behaviour else { panic!("static") };
        let [headers, others] = headers;
        assert_eq!(headers, others);
        assert_eq!(headers[7], 64);
        let header = srh::Header::parse(&headers[40..]).unwrap();
        assert_eq!(header.next_segment(), Some("5f00::3".parse().unwrap()));
        assert_eq!(headers[24..40], "5f00::2".parse::<Ipv6Addr>().unwrap().octets());
        assert!(headers.len() <= bpf::HEADERS_MAX);
    }

    #[test]
    fn ten_segments_have_room() {
        let (segments, source): (Vec<_>, _) =
            ((0..10).map(Ipv6Addr::from).collect(), Ipv6Addr::LOCALHOST);
        let segments_ipv6 = Vec::new();
        let found =
            Encapsulation { source, segments: segments.clone(), segments_ipv6, hop_limit: 1 };
        assert_eq!(headers(&found, &segments).unwrap().len(), bpf::HEADERS_MAX);
    }

    #[test]
    fn each_mistake_has_its_place() {
        for (found, expected) in [
            (
                errors(|d| d["proxies"][0]["returns"] = json!("x")),
                "proxies[0].returns: found \"x\"",
            ),
            (errors(|d| d["proxies"][1]["returns"] = json!("right")), "proxies[1].returns"),
            (errors(|d| d["proxies"][1]["returns"] = json!("net")), "proxies[1].returns"),
            (errors(|d| d["proxies"][1]["segment"] = json!("5f00::1")), "proxies[1].segment"),
            (errors(|d| d["proxies"][1]["segment"] = json!("5f00")), "proxies[1].segment"),
            (
                errors(|d| d["proxies"][1]["behaviour"] = json!("static")),
                "proxies[1].encapsulation: found nothing",
            ),
            (
                errors(|d| d["proxies"][0]["behaviour"] = json!("masquerading")),
                "proxies[0].encapsulation",
            ),
            (
                errors(|d| d["proxies"][0]["encapsulation"]["segments"] = json!([])),
                "proxies[0].encapsulation.segments",
            ),
            (errors(|d| d["proxies"][0]["onward"]["port"] = json!("x")), "proxies[0].onward.port"),
            (errors(|d| d["ports"][1]["interface"] = json!("f0")), "ports[1].interface"),
            (
                errors(|d| d["ports"][0]["trusted"] = json!(false)),
                "ports: found [\"net\",\"left\",\"right\"], expected `trusted: true`",
            ),
        ] {
            assert!(found.iter().any(|error| error.starts_with(expected)), "{expected}: {found:?}");
        }
    }
}
