//! ICMP errors: about packets too big for a port, and about packets that were rewritten.

use std::collections::HashMap;

use hawser_bpf::switch::{Event, Output};
use hawser_netdev::raw;
use hawser_wire::{
    checksum::Sum,
    icmpv4, icmpv6,
    ip::Packet,
    rewrite::{self, Place, Tuple},
};

/// Entries of the return direction: what they write, and their output.
pub(super) type Returns = HashMap<Tuple, (Tuple, Output)>;

/// Sends the ICMP error for an event, while the budget lasts.
pub(super) fn answer(event: Event<'_>, returns: &Returns, budget: &mut u32) {
    if *budget == 0 {
        return;
    }
    let Some(packet) = compose(event, returns) else { return };
    *budget -= 1;
    if let Err(error) = raw::send(&packet) {
        tracing::debug!(%error, "ICMP error");
    }
}

fn compose(event: Event<'_>, returns: &Returns) -> Option<Vec<u8>> {
    match event {
        Event::TooBig { mtu, packet } => {
            let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            match Packet::parse_quoted(packet).ok()? {
                Packet::V4(packet) => icmpv4::fragmentation_needed(&packet, mtu),
                Packet::V6(packet) => icmpv6::packet_too_big(&packet, mtu),
            }
        }
        Event::IcmpError { packet } => translate(packet, returns),
    }
}

/// Translates an error about a rewritten packet into one about the packet as received.
fn translate(bytes: &[u8], returns: &Returns) -> Option<Vec<u8>> {
    let error = Packet::parse_captured(bytes).ok()?; // behind it there may be padding
    if !has_right_checksums(&error) {
        return None;
    }
    Place::ALL.into_iter().find_map(|place| {
        let key = Tuple::of_reply_to_quoted(&error, place)?;
        let (write, output) = returns.get(&key).copied()?;
        let from = if output == Output::Agent { error.source() } else { write.source };
        rewrite::rewrite_error(&error, write, from)
    })
}

/// Whether an ICMP error is as it was sent; one that was cut short is not.
fn has_right_checksums(error: &Packet<'_>) -> bool {
    match error {
        Packet::V4(error) => {
            let header = error.bytes().get(..error.header_len());
            let sums = [header.unwrap_or_default(), error.payload()];
            sums.iter().all(|bytes| Sum::default().bytes(bytes).finish() == [0, 0])
        }
        Packet::V6(error) => {
            icmpv6::checksum(error.source(), error.destination(), error.payload()) == [0, 0]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use hawser_wire::{
        ipv4::{self, protocol},
        ipv6,
        rewrite::Ports,
    };
    use proptest::prelude::*;

    use super::*;

    /// Addresses of one version of IP.
    #[derive(Clone, Copy)]
    struct Hosts {
        own: IpAddr,
        next: IpAddr,
        far: IpAddr,
        router: IpAddr,
    }

    fn hosts() -> [Hosts; 2] {
        let v4 = |a, b| IpAddr::from([198, 18, a, b]);
        let v6 = |n| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
        [
            Hosts { own: v4(1, 2), next: v4(5, 2), far: v4(3, 2), router: v4(0, 1) },
            Hosts { own: v6(2), next: v6(5), far: v6(3), router: v6(1) },
        ]
    }

    fn returns() -> Returns {
        let wide = Ports::Both { source: 0x1084, destination: 0x1041 };
        hosts()
            .into_iter()
            .flat_map(|Hosts { own, next, far, .. }| {
                let tuple = |source, ports| Tuple { source, destination: own, ports };
                let narrow = |source, port| tuple(source, Ports::Source(port));
                [
                    (narrow(next, 0x2114), (narrow(far, 0x2004), Output::Agent)),
                    (tuple(next, wide), (tuple(far, wide), Output::Agent)),
                ]
            })
            .collect()
    }

    fn packet(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let repr = ipv4::Repr { source, destination, protocol, ttl: 60 };
                repr.emit(payload.len()).unwrap().to_vec()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let next_header = protocol;
                let repr = ipv6::Repr { source, destination, next_header, hop_limit: 60 };
                repr.emit(payload.len()).unwrap().to_vec()
            }
            _ => unreachable!("of one version"),
        };
        [&header[..], payload].concat()
    }

    /// The error of the router that a packet from here to the next gateway was too big.
    fn error(hosts: Hosts, protocol: u8, header: [u8; 8]) -> Vec<u8> {
        let Hosts { own, next, router, .. } = hosts;
        let sent = packet(own, next, protocol, &header);
        let message = |head: [u8; 2]| [&head[..], &[0, 0, 0, 0, 5, 120], &sent].concat();
        let (icmp, mut message) = match own {
            IpAddr::V4(_) => (protocol::ICMP, message([3, 4])),
            IpAddr::V6(_) => (icmpv6::ICMPV6, message([2, 0])),
        };
        let sum = match (router, own) {
            (IpAddr::V6(router), IpAddr::V6(own)) => icmpv6::checksum(router, own, &message),
            _ => Sum::default().bytes(&message).finish(),
        };
        message[2..4].copy_from_slice(&sum);
        packet(router, own, icmp, &message)
    }

    fn narrow(destination_port: u16) -> [u8; 8] {
        let [high, low] = destination_port.to_be_bytes();
        [0x90, 1, high, low, 0, 0, 0, 7]
    }

    #[test]
    fn an_icmp_error_is_translated_for_the_agent() {
        for hosts in hosts() {
            let padded = [&error(hosts, protocol::TCP, narrow(0x2114))[..], &[0; 6]].concat();
            let answer = compose(Event::IcmpError { packet: &padded }, &returns()).unwrap();
            let answer = Packet::parse(&answer).unwrap();
            assert_eq!((answer.source(), answer.destination()), (hosts.router, hosts.own));
            assert!(has_right_checksums(&answer));
            let quoted = Packet::parse(&answer.payload()[8..]).unwrap();
            assert_eq!((quoted.source(), quoted.destination()), (hosts.own, hosts.far));
            assert_eq!(quoted.payload()[..4], [0x90, 1, 0x20, 0x04]);
        }
    }

    #[test]
    fn an_icmp_error_about_a_wide_label_keeps_its_ports() {
        let header = [0x10, 0x41, 0x10, 0x84, 0, 8, 0, 0];
        for hosts in hosts() {
            let answer = error(hosts, protocol::UDP, header);
            let answer = compose(Event::IcmpError { packet: &answer }, &returns()).unwrap();
            let answer = Packet::parse(&answer).unwrap();
            let quoted = Packet::parse(&answer.payload()[8..]).unwrap();
            assert_eq!((quoted.source(), quoted.destination()), (hosts.own, hosts.far));
            assert_eq!(quoted.payload(), header);
            let tcp = error(hosts, protocol::TCP, header);
            assert_eq!(compose(Event::IcmpError { packet: &tcp }, &returns()), None);
        }
    }

    #[test]
    fn foreign_and_damaged_icmp_errors_are_ignored() {
        for hosts in hosts() {
            let answer = |packet: &[u8]| compose(Event::IcmpError { packet }, &returns());
            assert_eq!(answer(&error(hosts, protocol::TCP, narrow(0x2124))), None);
            let mut damaged = error(hosts, protocol::TCP, narrow(0x2114));
            assert!(answer(&damaged).is_some());
            assert_eq!(answer(&damaged[..damaged.len() - 2]), None, "cut short");
            let last = damaged.len() - 1;
            damaged[last] ^= 1;
            assert_eq!(answer(&damaged), None);
        }
    }

    #[test]
    fn a_packet_that_is_too_big_causes_an_icmp_error() {
        for Hosts { own, next, .. } in hosts() {
            let sent = packet(own, next, protocol::TCP, &[0; 1400]);
            let event = Event::TooBig { mtu: 1400, packet: &sent[..600] };
            let answer = compose(event, &returns()).unwrap();
            let answer = Packet::parse(&answer).unwrap();
            assert_eq!((answer.source(), answer.destination()), (next, own));
            assert_eq!(answer.payload()[..8][4..], [0, 0, 5, 120]);
            assert!(has_right_checksums(&answer));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, version in 4..7_u8, mtu: u32) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | 5;
            }
            let _ = compose(Event::IcmpError { packet: &bytes }, &returns());
            let _ = compose(Event::TooBig { mtu, packet: &bytes }, &returns());
        }
    }
}
