//! Maps addresses to peers by longest prefix match.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use crate::config::Peer;

/// Prefixes of all peers.
#[derive(Default)]
pub struct PrefixTable {
    v4: PrefixMap<Ipv4Net, usize>,
    v6: PrefixMap<Ipv6Net, usize>,
}

impl PrefixTable {
    /// A table of these peers, identified by their index.
    pub(crate) fn new<'a>(peers: impl Iterator<Item = &'a Peer>) -> Self {
        let mut table = Self::default();
        for (index, peer) in peers.enumerate() {
            for prefix in &peer.prefixes {
                match prefix {
                    IpNet::V4(net) => table.v4.insert(*net, index),
                    IpNet::V6(net) => table.v6.insert(*net, index),
                };
            }
        }
        table
    }

    /// Index of the peer whose prefix contains an address.
    #[must_use]
    pub fn peer(&self, address: IpAddr) -> Option<usize> {
        let found = match address {
            IpAddr::V4(v4) => self.v4.get_lpm(&Ipv4Net::from(v4)).map(|(_, index)| index),
            IpAddr::V6(v6) => self.v6.get_lpm(&Ipv6Net::from(v6)).map(|(_, index)| index),
        };
        found.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let peer = |id, prefixes: &[&str]| Peer {
            branch: format!("b{id}"),
            id,
            prefixes: prefixes.iter().map(|text| text.parse().unwrap()).collect(),
            groups: vec![],
        };
        let peers = [peer(2, &["10.0.0.0/8", "2001:db8::/32"]), peer(3, &["10.3.0.0/16"])];
        let table = PrefixTable::new(peers.iter());
        let find = |text: &str| table.peer(text.parse().unwrap());
        assert_eq!(find("10.3.255.1"), Some(1));
        assert_eq!(find("10.4.0.1"), Some(0));
        assert_eq!(find("11.0.0.1"), None);
        assert_eq!(find("2001:db8:1::1"), Some(0));
        assert_eq!(find("::1"), None);
    }
}
