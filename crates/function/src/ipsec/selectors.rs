//! Traffic selectors of a child SA (RFC 4301 section 4.4.1.1, RFC 7296 section 2.9), read from charon's log.

use std::{fs, net::Ipv4Addr, ops::RangeInclusive};

use hawser_wire::ipv4;

const ICMP: u8 = ipv4::protocol::ICMP;
/// Protocols whose header begins with source and destination port (IANA): TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [ipv4::protocol::TCP, ipv4::protocol::UDP, 33, 132, 136];
const ANY_PORT: RangeInclusive<u16> = 0..=u16::MAX;

/// Which packets an SA may carry: between an address at this end and one at the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selectors {
    local: Vec<Selector>,
    remote: Vec<Selector>,
}

/// One selector. IPv6 selectors are not kept, since no IPv6 packet is carried.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selector {
    addresses: RangeInclusive<Ipv4Addr>,
    protocol: Option<u8>,
    /// Ports, or type and code of ICMP as one number (RFC 7296 section 3.13.1).
    ports: RangeInclusive<u16>,
}

/// Names of protocols and services, by which charon logs numbers.
#[derive(Default)]
pub(super) struct Names {
    protocols: String,
    services: String,
}

impl Names {
    /// The names of this machine. A file that does not exist has none, for charon either.
    pub(super) fn of_machine() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Self { protocols: read("/etc/protocols"), services: read("/etc/services") }
    }

    /// A protocol's number. The file has lines like `tcp 6 TCP # transmission control protocol`.
    fn protocol(&self, text: &str) -> Option<u8> {
        text.parse().ok().or_else(|| entry(&self.protocols, text, |number| number.parse().ok()))
    }

    /// The number of a port of a protocol, which is named as charon names it. The file has lines like `http 80/tcp www`.
    fn port(&self, text: &str, protocol: &str) -> Option<u16> {
        let port = |field: &str| {
            let (number, of) = field.split_once('/')?;
            let any = protocol.parse::<u8>().is_ok(); // charon then takes the first name
            if any || of == protocol { number.parse().ok() } else { None }
        };
        text.parse().ok().or_else(|| entry(&self.services, text, port))
    }
}

/// The second field of the first line that begins with `name` and parses.
fn entry<T>(file: &str, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    file.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        if fields.next()? == name { fields.next().and_then(&parse) } else { None }
    })
}

impl Selectors {
    /// Reads selectors of this end and of the other: `10.0.0.0/24 === 10.1.0.1..10.1.0.9[tcp/80]`. `None` if one is
    /// not understood.
    pub(super) fn parse(text: &str, names: &Names) -> Option<Self> {
        let (local, remote) = text.split_once("===")?;
        Some(Self { local: list(local, names)?, remote: list(remote, names)? })
    }

    /// Whether a packet may come out of the tunnel (RFC 4301 section 5.2).
    pub(super) fn allow_inward(&self, packet: &ipv4::Packet<'_>) -> bool {
        allow(&self.remote, &self.local, packet)
    }

    /// Whether a packet may go into the tunnel (RFC 4301 section 5.1).
    pub(super) fn allow_outward(&self, packet: &ipv4::Packet<'_>) -> bool {
        allow(&self.local, &self.remote, packet)
    }
}

fn allow(sources: &[Selector], destinations: &[Selector], packet: &ipv4::Packet<'_>) -> bool {
    let ports = ports(packet);
    let (source, destination) = (ports.map(|ports| ports.0), ports.map(|ports| ports.1));
    let protocol = packet.protocol();
    sources.iter().any(|each| each.allows(packet.source(), protocol, source))
        && destinations.iter().any(|each| each.allows(packet.destination(), protocol, destination))
}

/// Source and destination port. `None` for protocols without ports, and for fragments other than the first.
fn ports(packet: &ipv4::Packet<'_>) -> Option<(u16, u16)> {
    let payload = packet.payload();
    match packet.protocol() {
        _ if packet.is_later_fragment() => None,
        ICMP => payload.first_chunk().map(|kind| u16::from_be_bytes(*kind)).map(|one| (one, one)),
        protocol if WITH_PORTS.contains(&protocol) => payload
            .first_chunk()
            .map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))),
        _ => None,
    }
}

impl Selector {
    fn allows(&self, address: Ipv4Addr, protocol: u8, port: Option<u16>) -> bool {
        self.addresses.contains(&address)
            && self.protocol.is_none_or(|only| only == protocol)
            && port.map_or(self.ports == ANY_PORT, |port| self.ports.contains(&port))
    }

    /// `10.0.0.0/24`, `10.0.0.1..10.0.0.9`, each also with `[tcp]`, `[tcp/80]`, `[udp/100-200]` or `[icmp/8(0)]`.
    fn parse(text: &str, names: &Names) -> Option<Self> {
        let (addresses, rest) = match text.split_once('[') {
            Some((addresses, rest)) => (addresses, Some(rest.strip_suffix(']')?)),
            None => (text, None),
        };
        let addresses = range(addresses)?;
        let Some(rest) = rest else {
            return Some(Self { addresses, protocol: None, ports: ANY_PORT });
        };
        let (protocol, ports) = match rest.split_once('/') {
            Some((protocol, ports)) => (protocol, Some(ports)),
            None => (rest, None),
        };
        let number = names.protocol(protocol)?;
        let ports = match ports {
            None => ANY_PORT,
            Some(types) if number == ICMP => icmp_range(types)?,
            Some(ports) => port_range(ports, protocol, names)?,
        };
        Some(Self { addresses, protocol: Some(number), ports })
    }
}

fn list(text: &str, names: &Names) -> Option<Vec<Selector>> {
    let ipv4 = text.split_whitespace().filter(|each| !each.contains(':'));
    ipv4.map(|each| Selector::parse(each, names)).collect()
}

fn range(text: &str) -> Option<RangeInclusive<Ipv4Addr>> {
    if let Some((first, last)) = text.split_once("..") {
        return Some(first.parse().ok()?..=last.parse().ok()?);
    }
    let network: ipnet::Ipv4Net = text.parse().ok()?;
    Some(network.network()..=network.broadcast())
}

fn icmp_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(icmp(first)?..=icmp(last)?)
}

fn port_range(text: &str, protocol: &str, names: &Names) -> Option<RangeInclusive<u16>> {
    if let Some(port) = names.port(text, protocol) {
        return Some(port..=port); // names of services contain hyphens
    }
    let (first, last) = text.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Type and code of ICMP, `3(4)` or, if the code is 0, `3`.
fn icmp(text: &str) -> Option<u16> {
    let (kind, code) = match text.split_once('(') {
        Some((kind, code)) => (kind, code.strip_suffix(')')?),
        None => (text, "0"),
    };
    Some(u16::from_be_bytes([kind.parse().ok()?, code.parse().ok()?]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> Names {
        Names {
            protocols: "# numbers\nip 0 IP\nicmp 1 ICMP\ntcp\t6\tTCP # text\nudp 17 UDP\n".into(),
            services: "http\t81/udp\nhttp\t80/tcp www\nhttp-alt 8080/tcp\ndomain 53/udp\nbroken\n"
                .into(),
        }
    }

    fn selectors(text: &str) -> Selectors {
        Selectors::parse(text, &names()).unwrap()
    }

    /// A packet with two bytes of flags and fragment offset, and the start of its payload.
    fn packet(source: &str, destination: &str, protocol: u8, part: u16, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        let repr = ipv4::Repr { source, destination, protocol, ttl: 9 };
        let mut bytes = repr.emit(payload.len()).unwrap().to_vec();
        bytes[6..8].copy_from_slice(&part.to_be_bytes());
        [&bytes, payload].concat()
    }

    fn inward(text: &str, bytes: &[u8]) -> bool {
        selectors(text).allow_inward(&ipv4::Packet::parse(bytes).unwrap())
    }

    #[test]
    fn both_addresses_count_in_both_directions() {
        let text = "10.0.0.0/24 10.9.0.1/32 === 10.1.0.5..10.1.0.9 ";
        for (source, destination, expected) in [
            ("10.1.0.5", "10.0.0.255", true),
            ("10.1.0.9", "10.9.0.1", true),
            ("10.1.0.4", "10.0.0.1", false),
            ("10.1.0.10", "10.0.0.1", false),
            ("10.1.0.5", "10.0.1.0", false),
            ("10.0.0.1", "10.1.0.5", false),
        ] {
            let bytes = packet(source, destination, 99, 0, &[]);
            assert_eq!(inward(text, &bytes), expected, "{source} {destination}");
            let back = packet(destination, source, 99, 0, &[]);
            let parsed = ipv4::Packet::parse(&back).unwrap();
            assert_eq!(selectors(text).allow_outward(&parsed), expected, "{source} {destination}");
        }
    }

    #[test]
    fn protocol_and_ports_count() {
        let (to, from) = ("10.0.0.1", "10.1.0.1");
        let ports = |protocol, source: u16, destination: u16| {
            let both = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            packet(from, to, protocol, 0, &both)
        };
        let web = "10.0.0.0/8[tcp/http] === 10.0.0.0/8[tcp]";
        assert!(inward(web, &ports(6, 5000, 80)));
        assert!(!inward(web, &ports(6, 80, 81)) && !inward(web, &ports(17, 5000, 80)));
        assert!(inward("0.0.0.0/0[6/http-alt] === 0.0.0.0/0", &ports(6, 1, 8080)));
        let range = "0.0.0.0/0[udp/100-200] === 0.0.0.0/0[udp/domain]";
        assert!(inward(range, &ports(17, 53, 100)) && inward(range, &ports(17, 53, 200)));
        assert!(!inward(range, &ports(17, 53, 99)) && !inward(range, &ports(17, 54, 100)));
        let echo = "0.0.0.0/0[icmp/8] === 0.0.0.0/0[icmp/8-8(255)]";
        assert!(inward(echo, &packet(from, to, 1, 0, &[8, 0])));
        assert!(!inward(echo, &packet(from, to, 1, 0, &[8, 1])));
        assert!(!inward(echo, &packet(from, to, 1, 0, &[0, 0])));
    }

    #[test]
    fn a_packet_without_ports_needs_a_selector_for_any() {
        let (to, from) = ("10.0.0.1", "10.1.0.1");
        let web = "10.0.0.0/8[tcp/80] === 10.0.0.0/8";
        let later = packet(from, to, 6, 100, &[0, 80, 0, 80]);
        assert!(!inward(web, &later), "a later fragment has no ports");
        assert!(inward("10.0.0.0/8[tcp] === 10.0.0.0/8", &later));
        assert!(!inward(web, &packet(from, to, 6, 0, &[0, 80, 0])), "too short");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "",
            "10.0.0.0/8",
            "10.0.0.0/8 === 10.0.0.0/33",
            "10.0.0.0/8 === dynamic",
            "10.0.0.0/8[tcp === 10.0.0.0/8",
            "10.0.0.0/8[sctp] === 10.0.0.0/8",
            "10.0.0.0/8[tcp/OPAQUE] === 10.0.0.0/8",
            "10.0.0.0/8[tcp/unheard-of] === 10.0.0.0/8",
            "10.0.0.0/8[udp/broken] === 10.0.0.0/8",
        ] {
            assert_eq!(Selectors::parse(text, &names()), None, "{text}");
        }
        let none = selectors("fd00::/8 === ::/0");
        assert_eq!(none, Selectors::default(), "IPv6 alone allows no IPv4 packet");
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        let bytes = packet("10.0.0.1", "10.0.0.2", 6, 0, &[0; 20]);
        let packet = ipv4::Packet::parse(&bytes).unwrap();
        assert!(!Selectors::default().allow_inward(&packet));
        assert!(selectors("0.0.0.0/0 === 0.0.0.0/0").allow_inward(&packet));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9./\\[\\]=a-z() -]{0,80}") {
            let _ = Selectors::parse(&text, &names());
        }
    }
}
