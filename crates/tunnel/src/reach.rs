//! What peers may reach here: hosts in the local prefixes, and services of the gateway itself.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use hawser_wire::{
    flow,
    icmpv6::ICMPV6,
    ip,
    ipv4::protocol::{ICMP, TCP, UDP},
    tcp,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixSet;

use crate::counters::PeerDrops;

/// Questions by UDP whose answers are let in: number, and time.
const MAX_QUESTIONS: usize = 256;
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// A service of the gateway itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Everything.
    Any,
    /// This protocol, and this port of it if it has ports; None: all.
    Protocol(u8, Option<u16>),
}

/// What peers may reach, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Prefixes behind this gateway. None: everything, addresses of the gateway included.
    pub local: Option<Vec<IpNet>>,
    /// Services on addresses of the gateway that lie in them.
    pub services: Vec<Service>,
}

/// Why a packet of a peer is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Its destination is not in a local prefix.
    NotLocal,
    /// Its destination is the gateway, and it is neither for an open service nor an answer.
    Service,
}

impl Denied {
    /// Counts a dropped packet.
    pub fn count(self, drops: &mut PeerDrops) {
        match self {
            Self::NotLocal => drops.not_local += 1,
            Self::Service => drops.closed_service += 1,
        }
    }
}

/// Decides what packets of peers may reach.
#[derive(Default)]
pub struct Reach {
    permissions: Permissions,
    v4: PrefixSet<Ipv4Net>,
    v6: PrefixSet<Ipv6Net>,
    /// The gateway's addresses, sorted.
    own: Vec<IpAddr>,
    /// Where the gateway itself has sent UDP packets lately.
    questions: Vec<Question>,
    /// The last destination that was found to be that of a local host.
    last: Option<IpAddr>,
}

/// A UDP packet of the gateway: addresses and ports, its own first.
#[derive(Clone, Copy)]
struct Question {
    own: (IpAddr, u16),
    peer: (IpAddr, u16),
    at: Instant,
}

impl Reach {
    /// Applies a configuration.
    pub fn set(&mut self, permissions: Permissions) {
        let (mut v4, mut v6) = (PrefixSet::new(), PrefixSet::new());
        for prefix in permissions.local.iter().flatten() {
            match prefix {
                IpNet::V4(net) => v4.insert(*net),
                IpNet::V6(net) => v6.insert(*net),
            };
        }
        (self.v4, self.v6, self.last, self.permissions) = (v4, v6, None, permissions);
    }

    /// Sets the addresses of the gateway, those for broadcast included.
    pub fn set_own(&mut self, own: impl IntoIterator<Item = IpAddr>) {
        self.own = own.into_iter().collect();
        self.own.sort_unstable();
        self.last = None;
    }

    /// Whether a packet of a peer may pass.
    pub fn check(&mut self, packet: &ip::Packet<'_>, now: Instant) -> Result<(), Denied> {
        if self.permissions.local.is_none() {
            return Ok(());
        }
        let destination = packet.destination();
        if self.last == Some(destination) {
            return Ok(());
        }
        if !self.is_local(destination) {
            return Err(Denied::NotLocal);
        }
        if !self.is_own(destination) {
            self.last = Some(destination);
            return Ok(());
        }
        if self.is_open(packet) || self.is_answer(packet, now) {
            return Ok(());
        }
        Err(Denied::Service)
    }

    /// Whether the TCP proxy may connect to a host for a peer.
    #[must_use]
    pub fn is_host(&self, address: IpAddr) -> bool {
        self.permissions.local.is_none() || self.is_local(address) && !self.is_own(address)
    }

    /// Notes a packet to a peer, so that its answer may pass.
    pub fn note(&mut self, packet: &ip::Packet<'_>, now: Instant) {
        if packet.protocol() != UDP || self.permissions.local.is_none() {
            return;
        }
        if !self.is_own(packet.source()) {
            return;
        }
        let Some((own, peer)) = flow::ports_of(packet) else { return };
        let (own, peer) = ((packet.source(), own), (packet.destination(), peer));
        let question = Question { own, peer, at: now };
        if let Some(known) = self.questions.iter_mut().find(|q| (q.own, q.peer) == (own, peer)) {
            *known = question;
        } else if self.questions.len() < MAX_QUESTIONS {
            self.questions.push(question);
        } else if let Some(oldest) = self.questions.iter_mut().min_by_key(|q| q.at) {
            *oldest = question;
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.get_lpm(&v4.into()).is_some(),
            IpAddr::V6(v6) => self.v6.get_lpm(&v6.into()).is_some(),
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.binary_search(&address).is_ok()
    }

    /// Whether a packet is for an open service, echo and errors of ICMP among them.
    fn is_open(&self, packet: &ip::Packet<'_>) -> bool {
        let protocol = packet.protocol();
        let port = flow::ports_of(packet).map(|(_, to)| to);
        let matches = |service: &Service| match *service {
            Service::Any => true,
            Service::Protocol(open, None) => open == protocol,
            Service::Protocol(open, wanted) => open == protocol && port == wanted,
        };
        self.permissions.services.iter().any(matches) || is_icmp_for_hosts(packet)
    }

    /// Whether a packet belongs to an exchange that the gateway has begun. A TCP connection begins
    /// with a SYN, and nothing answers other segments of unknown connections but resets.
    fn is_answer(&self, packet: &ip::Packet<'_>, now: Instant) -> bool {
        let Some((from, to)) = flow::ports_of(packet) else { return false };
        match packet.protocol() {
            TCP => tcp::opens_connection(packet) == Some(false),
            UDP => {
                let (own, peer) = ((packet.destination(), to), (packet.source(), from));
                let mut known = self.questions.iter().filter(|q| (q.own, q.peer) == (own, peer));
                known.any(|q| now.saturating_duration_since(q.at) < ANSWER_TIME)
            }
            _ => false,
        }
    }
}

/// Echo, and errors, as every host takes them: no redirects, and nothing of neighbour discovery.
fn is_icmp_for_hosts(packet: &ip::Packet<'_>) -> bool {
    match packet {
        // Only a first fragment has a type; without it no later one is of use.
        ip::Packet::V4(v4) if v4.protocol() == ICMP => {
            v4.is_later_fragment() || matches!(v4.payload().first(), Some(0 | 3 | 8 | 11 | 12))
        }
        ip::Packet::V6(v6) if v6.next_header() == ICMPV6 => {
            matches!(v6.payload().first(), Some(1..=4 | 128 | 129))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: [u8; 4] = [10, 1, 0, 1];

    fn reach(services: &[Service]) -> Reach {
        let mut reach = Reach::default();
        let local = ["10.1.0.0/24", "2001:db8:1::/64"];
        let local = Some(local.iter().map(|text| text.parse().unwrap()).collect());
        reach.set(Permissions { local, services: services.to_vec() });
        let own = ["10.1.0.1", "10.1.0.255", "192.0.2.1", "2001:db8:1::1"];
        reach.set_own(own.iter().map(|text| text.parse().unwrap()));
        reach
    }

    /// A packet of IPv4 with this payload.
    fn packet(protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let len = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
        let mut bytes = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        bytes.extend(from.iter().chain(&to).chain(payload));
        bytes
    }

    fn transport(from: u16, to: u16, flags: u8) -> Vec<u8> {
        let mut bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn check(reach: &mut Reach, bytes: &[u8]) -> Result<(), Denied> {
        reach.check(&ip::Packet::parse(bytes).unwrap(), Instant::now())
    }

    const PEER: [u8; 4] = [10, 2, 0, 9];

    #[test]
    fn peers_reach_hosts_in_local_prefixes_only() {
        let mut reach = reach(&[]);
        let syn = transport(4000, 22, 2);
        let mut to = |to| check(&mut reach, &packet(TCP, PEER, to, &syn));
        assert_eq!(to([10, 1, 0, 7]), Ok(()));
        assert_eq!(to([10, 1, 0, 7]), Ok(()), "from the cache");
        for outside in [[10, 9, 0, 1], [192, 0, 2, 1], [8, 8, 8, 8], [127, 0, 0, 1], [224, 0, 0, 5]]
        {
            assert_eq!(to(outside), Err(Denied::NotLocal), "{outside:?}");
        }
        assert_eq!(to(OWN), Err(Denied::Service));
        assert_eq!(to([10, 1, 0, 255]), Err(Denied::Service), "broadcast");
    }

    #[test]
    fn everything_passes_without_local_prefixes() {
        let mut reach = Reach::default();
        reach.set_own([IpAddr::from(OWN)]);
        assert_eq!(check(&mut reach, &packet(TCP, PEER, OWN, &transport(1, 22, 2))), Ok(()));
        assert!(reach.is_host(OWN.into()));
    }

    #[test]
    fn only_open_services_of_the_gateway_answer() {
        let open = [Service::Protocol(TCP, Some(179)), Service::Protocol(UDP, None)];
        let mut reach = reach(&open);
        let mut syn = |protocol, port| {
            check(&mut reach, &packet(protocol, PEER, OWN, &transport(4000, port, 2)))
        };
        assert_eq!(syn(TCP, 179), Ok(()));
        assert_eq!(syn(UDP, 53), Ok(()));
        assert_eq!(syn(TCP, 22), Err(Denied::Service));
        assert_eq!(syn(47, 179), Err(Denied::Service), "GRE");
    }

    #[test]
    fn echoes_and_errors_pass_but_no_redirects() {
        let mut reach = reach(&[]);
        for (kind, allowed) in [(8, true), (0, true), (3, true), (5, false), (13, false)] {
            let icmp = packet(ICMP, PEER, OWN, &[kind, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(check(&mut reach, &icmp).is_ok(), allowed, "{kind}");
        }
    }

    #[test]
    fn answers_to_the_gateway_pass_and_new_connections_do_not() {
        let mut reach = reach(&[]);
        for (flags, allowed) in [(0x02, false), (0x12, true), (0x10, true), (0xc2, false)] {
            let segment = packet(TCP, PEER, OWN, &transport(443, 40000, flags));
            assert_eq!(check(&mut reach, &segment).is_ok(), allowed, "{flags:x}");
        }
        let now = Instant::now();
        let answer = packet(UDP, PEER, OWN, &transport(53, 40000, 0));
        let parsed = ip::Packet::parse(&answer).unwrap();
        assert_eq!(reach.check(&parsed, now), Err(Denied::Service));
        for port in 0..1000 {
            let question = packet(UDP, OWN, PEER, &transport(39_001 + port, 53, 0));
            reach.note(&ip::Packet::parse(&question).unwrap(), now);
        }
        assert_eq!(reach.questions.len(), MAX_QUESTIONS);
        assert_eq!(reach.check(&parsed, now + ANSWER_TIME / 2), Ok(()));
        assert_eq!(reach.check(&parsed, now + ANSWER_TIME), Err(Denied::Service));
    }

    #[test]
    fn the_proxy_connects_to_local_hosts_only() {
        let reach = reach(&[Service::Any]);
        for (address, allowed) in
            [("10.1.0.7", true), ("10.1.0.1", false), ("10.9.0.1", false), ("2001:db8:1::1", false)]
        {
            assert_eq!(reach.is_host(address.parse().unwrap()), allowed, "{address}");
        }
    }

    proptest! {
        /// Whatever a peer sends, a packet that passes is for a local prefix.
        #[test]
        fn nothing_passes_but_to_local_prefixes(to in any::<[u8; 4]>(), near: bool, protocol: u8, payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let to = if near { [10, 1, 0, to[3]] } else { to };
            let bytes = packet(protocol, PEER, to, &payload);
            let mut reach = reach(&[]);
            let passes = check(&mut reach, &bytes).is_ok();
            prop_assert!(!passes || to[..3] == [10, 1, 0]);
            let is_known = matches!(protocol, ICMP | TCP);
            prop_assert!(!passes || !reach.is_own(to.into()) || is_known, "{protocol}");
        }
    }
}
