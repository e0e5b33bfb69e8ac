//! The five values that name a flow.

use std::{
    hash::{BuildHasher, Hasher},
    net::IpAddr,
};

use hawser_wire::flow::mix;

/// Addresses, ports and protocol, in the direction of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port; 0 for a protocol without ports.
    pub source_port: u16,
    /// Destination port; 0 for a protocol without ports.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
}

impl Tuple {
    /// The tuple of packets in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// The same for both directions: the lower end point comes first.
    pub(crate) fn canonical(self) -> Self {
        if (self.source, self.source_port) <= (self.destination, self.destination_port) {
            self
        } else {
            self.reversed()
        }
    }
}

/// Hashes tuples with a seed that a sender of packets does not know, so that it cannot choose collisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl BuildHasher for Seeded {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

/// State of a hash: each number is mixed into it.
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.0 = mix(self.0, u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_one_canonical_tuple() {
        let tuple = Tuple {
            source: "192.0.2.9".parse().unwrap(),
            destination: "192.0.2.1".parse().unwrap(),
            source_port: 40000,
            destination_port: 443,
            protocol: 6,
        };
        assert_eq!(tuple.canonical(), tuple.reversed().canonical());
        assert_eq!(tuple.canonical(), tuple.reversed());
    }

    #[test]
    fn another_seed_gives_other_hashes() {
        let number = 7_u64;
        assert_ne!(Seeded(1).hash_one(number), Seeded(2).hash_one(number));
    }
}
