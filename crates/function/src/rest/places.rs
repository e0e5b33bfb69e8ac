//! Places of connections: limited in all, and a source, so that none takes all of them.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Connections at most.
pub(super) const MAX: usize = 128;

/// Connections at most from one IPv4 address, or one /64 of IPv6.
pub(super) const MAX_PER_SOURCE: usize = 16;

/// The places that are taken, by source.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A place, free again when dropped.
pub(super) struct Place {
    places: Places,
    source: IpAddr,
}

impl Places {
    /// Takes a place; `None` if there is none for this source.
    pub(super) fn take(&self, source: IpAddr) -> Option<Place> {
        let source = site(source);
        let mut held = self.held();
        if held.values().sum::<usize>() >= MAX {
            return None;
        }
        let own = held.entry(source).or_default();
        if *own >= MAX_PER_SOURCE {
            return None;
        }
        *own += 1;
        Some(Place { places: self.clone(), source })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        if let Some(own) = held.get_mut(&self.source) {
            *own -= 1;
        }
        held.retain(|_, own| *own > 0);
    }
}

/// An IPv4 address, or the /64 of an IPv6 address: whoever has one address there has all of them.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_takes_all_places() {
        let places = Places::default();
        let of = |source: &str| places.take(source.parse().unwrap());
        let mut taken: Vec<_> = (0..100).filter_map(|_| of("192.0.2.1")).collect();
        assert_eq!(taken.len(), MAX_PER_SOURCE);
        assert!(of("::ffff:192.0.2.1").is_none(), "the same address");
        taken.extend((0..100).filter_map(|n| of(&format!("2001:db8::{n}"))));
        assert_eq!(taken.len(), 2 * MAX_PER_SOURCE, "one network");
        assert!(of("192.0.2.2").is_some());
        taken.pop();
        assert!(of("2001:db8::1").is_some());
        taken.clear();
        assert!(places.held().is_empty());
        let all: Vec<_> =
            (0..1000).filter_map(|n| of(&format!("10.0.{}.{}", n / 250, n % 250))).collect();
        assert_eq!(all.len(), MAX);
    }
}
