//! Quotas of the TCP proxy: no client and no peer takes all connections.
//!
//! Beyond a first limit, new connections are not intercepted, so that they go as datagrams. What is
//! intercepted until the rules have changed is carried up to a second limit, and refused beyond it.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

/// First limit: where interception stops, and where it starts again.
struct Soft {
    stop: usize,
    start: usize,
}

/// All connections.
const MAX: usize = 4096;
const SOFT: Soft = Soft { stop: 3072, start: 2560 };

/// Those of one client.
const MAX_PER_CLIENT: usize = 1024;
const SOFT_PER_CLIENT: Soft = Soft { stop: 512, start: 384 };

/// Those that one peer has asked for.
const MAX_PER_PEER: usize = 3072;

/// Seconds for which connections to a peer that had no place for one go as datagrams.
const PEER_FULL: u8 = 10;

/// Who a connection counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    /// The client.
    pub(crate) client: IpAddr,
    /// The peer that has asked for it; None: the client is a host here.
    pub(crate) from: Option<u16>,
}

/// Counts of connections, and what is not to be intercepted.
#[derive(Default)]
pub(crate) struct Quotas {
    total: usize,
    clients: HashMap<IpAddr, usize>,
    peers: HashMap<u16, usize>,
    /// Whether new connections of all clients go as datagrams.
    pub(crate) is_full: bool,
    /// Clients whose new connections do.
    pub(crate) full_clients: BTreeSet<IpAddr>,
    /// Peers to which new connections do, and for how many seconds still.
    full_peers: HashMap<u16, u8>,
}

impl Quotas {
    /// Whether there is a place for a connection.
    pub(crate) fn admits(&self, party: Party) -> bool {
        let of_client = self.clients.get(&party.client).copied().unwrap_or(0);
        let of_peer = party.from.and_then(|peer| self.peers.get(&peer)).copied().unwrap_or(0);
        self.total < MAX && of_client < MAX_PER_CLIENT && of_peer < MAX_PER_PEER
    }

    /// A connection is there; returns whether what is intercepted changes.
    pub(crate) fn add(&mut self, party: Party) -> bool {
        self.total += 1;
        let of_client = self.clients.entry(party.client).or_default();
        *of_client += 1;
        let mut changed = false;
        if party.from.is_none() && *of_client >= SOFT_PER_CLIENT.stop {
            changed |= self.full_clients.insert(party.client);
        }
        if let Some(peer) = party.from {
            *self.peers.entry(peer).or_default() += 1;
        }
        if self.total >= SOFT.stop {
            changed |= !std::mem::replace(&mut self.is_full, true);
        }
        changed
    }

    /// A connection has ended; returns whether what is intercepted changes.
    pub(crate) fn remove(&mut self, party: Party) -> bool {
        self.total = self.total.saturating_sub(1);
        let mut changed = false;
        let left = less_one(&mut self.clients, &party.client);
        if left <= SOFT_PER_CLIENT.start {
            changed |= self.full_clients.remove(&party.client);
        }
        if let Some(peer) = party.from {
            less_one(&mut self.peers, &peer);
        }
        if self.total <= SOFT.start {
            changed |= std::mem::replace(&mut self.is_full, false);
        }
        changed
    }

    /// A peer had no place for a connection; returns whether what is intercepted changes.
    pub(crate) fn note_full(&mut self, peer: u16) -> bool {
        self.full_peers.insert(peer, PEER_FULL).is_none()
    }

    /// A second has passed; returns whether what is intercepted changes.
    pub(crate) fn second(&mut self) -> bool {
        let before = self.full_peers.len();
        self.full_peers.retain(|_, left| {
            *left = left.saturating_sub(1);
            *left > 0
        });
        self.full_peers.len() != before
    }

    /// Whether connections to a peer are intercepted.
    pub(crate) fn takes(&self, peer: u16) -> bool {
        !self.is_full && !self.full_peers.contains_key(&peer)
    }
}

/// Counts one less; returns how many are left.
fn less_one<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) -> usize {
    let Some(count) = counts.get_mut(key) else { return 0 };
    *count = count.saturating_sub(1);
    let left = *count;
    if left == 0 {
        counts.remove(key);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(number: u8) -> Party {
        Party { client: [10, 1, 0, number].into(), from: None }
    }

    /// Adds as many as are admitted, at most `number`; returns how many.
    fn fill(quotas: &mut Quotas, party: Party, number: usize) -> usize {
        let admitted = (0..number).take_while(|_| {
            let admitted = quotas.admits(party);
            if admitted {
                quotas.add(party);
            }
            admitted
        });
        admitted.count()
    }

    #[test]
    fn one_client_leaves_places_to_others() {
        let mut quotas = Quotas::default();
        assert_eq!(fill(&mut quotas, local(1), 511), 511);
        assert!(quotas.full_clients.is_empty());
        assert!(quotas.add(local(1)));
        assert!(quotas.full_clients.contains(&local(1).client) && quotas.takes(2));
        assert_eq!(fill(&mut quotas, local(1), 10_000), MAX_PER_CLIENT - 512);
        assert_eq!(fill(&mut quotas, local(2), 10), 10);
        let changes = (0..MAX_PER_CLIENT).filter(|_| quotas.remove(local(1))).count();
        assert_eq!((changes, quotas.full_clients.len()), (1, 0));
        assert!(quotas.clients.len() == 1 && quotas.total == 10);
    }

    #[test]
    fn one_peer_leaves_places_to_others() {
        let mut quotas = Quotas::default();
        let of_peer = |number| Party { client: [10, 2, 0, number].into(), from: Some(2) };
        let sum: usize = (0..10).map(|n| fill(&mut quotas, of_peer(n), 10_000)).sum();
        assert_eq!(sum, MAX_PER_PEER);
        assert!(quotas.full_clients.is_empty(), "they are clients of the peer");
        let other = Party { from: Some(3), ..of_peer(0) };
        assert!(!quotas.admits(other), "the same client");
        assert!(quotas.admits(Party { from: Some(3), ..of_peer(200) }));
        assert_eq!(fill(&mut quotas, local(1), 100), 100);
    }

    #[test]
    fn interception_stops_before_all_places_are_taken() {
        let mut quotas = Quotas::default();
        let many = (0..200).cycle().take(SOFT.stop).map(local);
        let changes = many.clone().filter(|party| quotas.add(*party)).count();
        assert!(changes == 1 && !quotas.takes(2) && quotas.admits(local(1)));
        let changes = many.clone().take(400).filter(|party| quotas.remove(*party)).count();
        assert!(changes == 0 && !quotas.takes(2), "not at once");
        let changes = many.skip(400).filter(|party| quotas.remove(*party)).count();
        assert!(changes == 1 && quotas.takes(2));
    }

    #[test]
    fn a_peer_that_is_full_is_asked_again_later() {
        let mut quotas = Quotas::default();
        assert!(quotas.note_full(2) && !quotas.note_full(2));
        assert!(!quotas.takes(2) && quotas.takes(3));
        let changes: Vec<_> = (0..PEER_FULL).map(|_| quotas.second()).collect();
        assert!(changes.iter().filter(|changed| **changed).count() == 1 && quotas.takes(2));
    }
}
