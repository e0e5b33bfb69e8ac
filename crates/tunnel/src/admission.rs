//! Which connection attempts of strangers are accepted: memory stays bounded, and peers find a place.

use std::net::{IpAddr, Ipv6Addr};

/// Unauthenticated connections from which on an attempt has to prove its address first (RFC 9000
/// section 8.1.2). A peer then needs one round trip more.
const RETRY_FROM: usize = 32;

/// Unauthenticated connections from addresses that no peer is configured with.
const MAX_STRANGERS: usize = 64;

/// Unauthenticated connections from one such address.
const MAX_PER_SOURCE: usize = 8;

/// The same from an address of peers: for each path from there. A peer may try again before its
/// last attempt has ended here.
const MAX_PER_PATH: usize = 4;

/// An unauthenticated connection, or an attempt to open one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its source address.
    pub source: IpAddr,
    /// Whether it has proved that address.
    pub validated: bool,
}

/// What happens to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It becomes a connection.
    Accept,
    /// Its address has to be proved first.
    Retry,
    /// Refused: too many from its address.
    TooManyFromSource,
    /// Refused: too many from strangers.
    TooMany,
}

/// What happens to an attempt beside the unauthenticated connections that `pending` lists; `paths`
/// is the number of configured paths from an address.
///
/// Whoever forges source addresses takes at most 32 places. The places
/// of configured peers are counted apart, so that strangers cannot take them.
#[must_use]
pub fn judge(
    attempt: Candidate,
    pending: impl Iterator<Item = Candidate>,
    paths: impl Fn(IpAddr) -> usize,
) -> Verdict {
    let source = site(attempt.source);
    let (mut all, mut from_source, mut strangers) = (0, 0, 0);
    for known in pending {
        all += 1;
        if known.validated {
            from_source += usize::from(site(known.source) == source);
            strangers += usize::from(paths(known.source) == 0);
        }
    }
    if !attempt.validated {
        return if all >= RETRY_FROM { Verdict::Retry } else { Verdict::Accept };
    }
    match paths(attempt.source) {
        0 if from_source >= MAX_PER_SOURCE => Verdict::TooManyFromSource,
        0 if strangers >= MAX_STRANGERS => Verdict::TooMany,
        0 => Verdict::Accept,
        own if from_source >= own * MAX_PER_PATH => Verdict::TooManyFromSource,
        _ => Verdict::Accept,
    }
}

/// An address as far as it tells sources apart: whoever has one IPv6 address has a /64.
fn site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts what `attempts` may open; returns what is open at the end, and the last verdict.
    fn after(attempts: impl Iterator<Item = (IpAddr, bool)>) -> (Vec<Candidate>, Verdict) {
        let mut open = Vec::new();
        let mut last = Verdict::Accept;
        for (source, validated) in attempts {
            let attempt = Candidate { source, validated };
            last = judge(attempt, open.iter().copied(), paths);
            if last == Verdict::Accept {
                open.push(attempt);
            }
        }
        (open, last)
    }

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 2));

    fn paths(address: IpAddr) -> usize {
        if address == PEER { 2 } else { 0 }
    }

    fn stranger(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn who_forges_addresses_takes_few_places_and_none_of_a_peer() {
        let forged = (0..100_000).map(|number| (stranger(number), false));
        let (open, last) = after(forged.clone().chain([(PEER, false)]));
        assert_eq!((open.len(), last), (RETRY_FROM, Verdict::Retry));
        let (_, last) = after(forged.chain([(PEER, true)]));
        assert_eq!(last, Verdict::Accept);
    }

    #[test]
    fn who_has_many_addresses_takes_no_place_of_a_peer() {
        let many = (0..10_000).map(|number| (stranger(number), true));
        let (open, last) = after(many.clone());
        assert_eq!((open.len(), last), (MAX_STRANGERS, Verdict::TooMany));
        let (_, last) = after(many.chain([(PEER, true)]));
        assert_eq!(last, Verdict::Accept);
    }

    #[test]
    fn one_source_takes_few_places() {
        let (open, last) = after((0..100).map(|_| (stranger(1), true)));
        assert_eq!((open.len(), last), (MAX_PER_SOURCE, Verdict::TooManyFromSource));
        let (open, last) = after((0..100).map(|_| (PEER, true)));
        assert_eq!((open.len(), last), (2 * MAX_PER_PATH, Verdict::TooManyFromSource));
        let house = |number: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + number));
        let (open, last) = after((0..100).map(|number| (house(number), true)));
        assert_eq!((open.len(), last), (MAX_PER_SOURCE, Verdict::TooManyFromSource));
    }
}
