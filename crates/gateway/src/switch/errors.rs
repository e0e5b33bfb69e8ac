//! ICMP errors: about packets too big for a port, and about packets that were rewritten.

use std::collections::HashMap;

use hawser_bpf::switch::{Event, Output};
use hawser_netdev::raw;
use hawser_wire::{
    checksum::Sum,
    icmpv4,
    ipv4::Packet,
    rewrite::{self, Place, Tuple},
};

/// Entries of the return direction: what they write, and their output.
pub(super) type Returns = HashMap<Tuple, (Tuple, Output)>;

/// Offset of the total length in an IPv4 header (RFC 791 section 3.1).
const TOTAL_LENGTH: usize = 2;

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
            let packet = Packet::parse_quoted(packet).ok()?;
            icmpv4::fragmentation_needed(&packet, u16::try_from(mtu).unwrap_or(u16::MAX))
        }
        Event::IcmpError { packet } => translate(packet, returns),
    }
}

/// Translates an error about a rewritten packet into one about the packet as received.
fn translate(bytes: &[u8], returns: &Returns) -> Option<Vec<u8>> {
    let total = usize::from(u16::from_be_bytes(*bytes.get(TOTAL_LENGTH..)?.first_chunk()?));
    let error = Packet::parse(bytes.get(..total)?).ok()?; // behind it there may be padding
    let sums = [error.bytes().get(..error.header_len())?, error.payload()];
    if sums.iter().any(|bytes| Sum::default().bytes(bytes).finish() != [0, 0]) {
        return None;
    }
    Place::ALL.into_iter().find_map(|place| {
        let key = Tuple::of_reply_to_quoted(&error, place)?;
        let (write, output) = returns.get(&key).copied()?;
        let from = if output == Output::Agent { error.source() } else { write.source };
        rewrite::rewrite_error(&error, write, from)
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hawser_wire::{
        ipv4::{Repr, protocol},
        rewrite::Ports,
    };
    use proptest::prelude::*;

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
    const NEXT: Ipv4Addr = Ipv4Addr::new(198, 18, 5, 2);
    const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 2);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

    fn returns() -> Returns {
        let tuple = |source, destination, ports| Tuple { source, destination, ports };
        let narrow = |source, port| tuple(source, OWN, Ports::Source(port));
        let wide = Ports::Both { source: 0x1084, destination: 0x1041 };
        Returns::from([
            (narrow(NEXT, 0x2114), (narrow(FAR, 0x2004), Output::Agent)),
            (tuple(NEXT, OWN, wide), (tuple(FAR, OWN, wide), Output::Agent)),
        ])
    }

    fn packet(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let repr = Repr { source, destination, protocol, ttl: 60 };
        [&repr.emit(payload.len()).unwrap()[..], payload].concat()
    }

    fn error(destination_port: u16) -> Vec<u8> {
        let [high, low] = destination_port.to_be_bytes();
        let sent = packet(OWN, NEXT, protocol::TCP, &[0x90, 1, high, low, 0, 0, 0, 7]);
        let mut message = [&[3, 4, 0, 0, 0, 0, 5, 120][..], &sent].concat();
        let sum = Sum::default().bytes(&message).finish();
        message[2..4].copy_from_slice(&sum);
        packet(ROUTER, OWN, protocol::ICMP, &message)
    }

    #[test]
    fn an_icmp_error_is_translated_for_the_agent() {
        let padded = [&error(0x2114)[..], &[0; 6]].concat();
        let answer = compose(Event::IcmpError { packet: &padded }, &returns()).unwrap();
        let answer = Packet::parse(&answer).unwrap();
        assert_eq!((answer.source(), answer.destination()), (ROUTER, OWN));
        let quoted = Packet::parse(&answer.payload()[8..]).unwrap();
        assert_eq!((quoted.source(), quoted.destination()), (OWN, FAR));
        assert_eq!(quoted.payload()[..4], [0x90, 1, 0x20, 0x04]);
    }

    #[test]
    fn an_icmp_error_about_a_wide_label_keeps_its_ports() {
        let header = [0x10, 0x41, 0x10, 0x84, 0, 8, 0, 0];
        let message = |protocol| {
            let sent = packet(OWN, NEXT, protocol, &header);
            let mut message = [&[3, 4, 0, 0, 0, 0, 5, 120][..], &sent].concat();
            let sum = Sum::default().bytes(&message).finish();
            message[2..4].copy_from_slice(&sum);
            packet(ROUTER, OWN, protocol::ICMP, &message)
        };
        let answer = message(protocol::UDP);
        let answer = compose(Event::IcmpError { packet: &answer }, &returns()).unwrap();
        let answer = Packet::parse(&answer).unwrap();
        let quoted = Packet::parse(&answer.payload()[8..]).unwrap();
        assert_eq!((quoted.source(), quoted.destination()), (OWN, FAR));
        assert_eq!(quoted.payload(), header);
        let tcp = message(protocol::TCP);
        assert_eq!(compose(Event::IcmpError { packet: &tcp }, &returns()), None);
    }

    #[test]
    fn foreign_and_damaged_icmp_errors_are_ignored() {
        assert_eq!(compose(Event::IcmpError { packet: &error(0x2124) }, &returns()), None);
        let mut damaged = error(0x2114);
        damaged[27] ^= 1;
        assert_eq!(compose(Event::IcmpError { packet: &damaged }, &returns()), None);
    }

    #[test]
    fn a_packet_that_is_too_big_causes_an_icmp_error() {
        let sent = packet(OWN, NEXT, protocol::TCP, &[0; 1400]);
        let event = Event::TooBig { mtu: 1400, packet: &sent[..600] };
        let answer = compose(event, &returns()).unwrap();
        let answer = Packet::parse(&answer).unwrap();
        assert_eq!((answer.source(), answer.destination()), (NEXT, OWN));
        assert_eq!(answer.payload()[..8][4..], [0, 0, 5, 120]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, mtu: u32) {
            let _ = compose(Event::IcmpError { packet: &bytes }, &returns());
            let _ = compose(Event::TooBig { mtu, packet: &bytes }, &returns());
        }
    }
}
