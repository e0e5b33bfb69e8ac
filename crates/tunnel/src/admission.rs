//! Which connection attempts of strangers are accepted: memory stays bounded, and peers find a place.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

/// Unauthenticated connections from which on an attempt has to prove its address first (RFC 9000
/// section 8.1.2). A peer then needs one round trip more.
const RETRY_FROM: usize = 32;

/// Unauthenticated connections from addresses that no peer is known to have.
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
    /// It becomes a connection instead of the pending one with this index.
    Replace(usize),
    /// Its address has to be proved first.
    Retry,
    /// Refused: too many from its address.
    TooManyFromSource,
    /// Refused: too many from strangers.
    TooMany,
}

/// Decides about an attempt, given the unauthenticated connections (`pending`) and the number of
/// paths from an address (`paths`): those configured, and those that have come from there before.
///
/// Whoever forges source addresses takes at most 32 places. Connections from addresses of peers are
/// counted apart, so that strangers cannot take their places, even from the same IPv6 network. A
/// peer whose address is new is a stranger: when all places are taken, it gets one of a source that
/// has several, and more than its own. It takes 64 real sources to keep it out.
#[must_use]
pub fn judge(
    attempt: Candidate,
    pending: impl Iterator<Item = Candidate>,
    paths: impl Fn(IpAddr) -> usize,
) -> Verdict {
    let Candidate { source, validated } = attempt;
    let pending: Vec<_> = pending.collect();
    if !validated {
        return if pending.len() >= RETRY_FROM { Verdict::Retry } else { Verdict::Accept };
    }
    let own = paths(source);
    let proved = pending.iter().enumerate().filter(|(_, known)| known.validated);
    if own > 0 {
        let same = proved.filter(|(_, known)| known.source == source).count();
        let all_taken = same >= own * MAX_PER_PATH;
        return if all_taken { Verdict::TooManyFromSource } else { Verdict::Accept };
    }
    let strangers: Vec<_> = proved
        .filter(|(_, known)| paths(known.source) == 0)
        .map(|(index, known)| (index, site(known.source)))
        .collect();
    let mut by_site = HashMap::new();
    for (_, site) in &strangers {
        *by_site.entry(*site).or_insert(0) += 1;
    }
    let from_site = by_site.get(&site(source)).copied().unwrap_or(0);
    if from_site >= MAX_PER_SOURCE {
        Verdict::TooManyFromSource
    } else if strangers.len() < MAX_STRANGERS {
        Verdict::Accept
    } else {
        let places = |site: &IpAddr| by_site.get(site).copied().unwrap_or(0);
        let most = strangers.iter().max_by_key(|(_, site)| places(site));
        let crowded = most.filter(|(_, site)| places(site) > from_site + 1);
        crowded.map_or(Verdict::TooMany, |(index, _)| Verdict::Replace(*index))
    }
}

/// An IPv4 address, or the /64 of an IPv6 address: whoever has one address there has all of them.
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
            match last {
                Verdict::Accept => open.push(attempt),
                Verdict::Replace(index) => open[index] = attempt,
                _ => {}
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
    fn few_sources_do_not_keep_out_a_peer_whose_address_is_new() {
        let many = (0..10_000).map(|number| (stranger(number % 20), true));
        let (open, last) = after(many.clone());
        assert_eq!((open.len(), last), (MAX_STRANGERS, Verdict::TooMany));
        let new = stranger(1 << 20);
        let (open, last) = after(many.clone().chain([(new, true)]));
        assert!(matches!(last, Verdict::Replace(_)));
        assert_eq!(open.len(), MAX_STRANGERS);
        let (open, _) = after(many.clone().chain([(new, true)]).chain(many));
        assert!(open.iter().any(|known| known.source == new), "and keeps it");
    }

    #[test]
    fn neighbours_in_the_network_of_a_peer_take_no_place_of_it() {
        let neighbour = |number: u128| Ipv6Addr::from_bits((0x2001_0db8 << 96) + number).into();
        let peers = [neighbour(1), neighbour(2)];
        let paths = |address: IpAddr| usize::from(peers.contains(&address));
        let attempt = |source| Candidate { source, validated: true };
        let strangers = (3..3 + MAX_PER_SOURCE as u128).map(neighbour);
        let open = strangers.chain([peers[1]; MAX_PER_PATH]).map(attempt);
        assert_eq!(judge(attempt(peers[0]), open.clone(), paths), Verdict::Accept);
        assert_eq!(judge(attempt(peers[1]), open, paths), Verdict::TooManyFromSource);
        let of_peer = [peers[1]; MAX_PER_SOURCE].into_iter().map(attempt);
        assert_eq!(judge(attempt(neighbour(9)), of_peer, paths), Verdict::Accept);
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
