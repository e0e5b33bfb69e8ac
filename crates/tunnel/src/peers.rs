//! The other branches and their path groups, as every transport has them: brought in line with a configuration,
//! found by address, and chosen for flows.

use std::{net::IpAddr, time::Instant};

use hawser_wire::label::wide;

use crate::{
    config::{self, Class, Placement},
    placement::{PathGroup, Places},
    table::Table,
};

/// Numbers that peers have.
const IDS: usize = wide::BRANCH_MAX as usize + 1;

/// Another branch.
pub struct Peer<G> {
    /// As configured.
    pub config: config::Peer,
    /// Whether we make the connections, because our number is the lower one.
    pub we_connect: bool,
    /// Path groups to it, in the configuration's order.
    pub groups: Vec<G>,
}

impl<G: PathGroup> Peer<G> {
    /// Whether one of its paths leads to this address.
    #[must_use]
    pub fn has_remote(&self, address: IpAddr) -> bool {
        let mut paths = self.config.groups.iter().flat_map(|group| &group.paths);
        paths.any(|path| path.remote == address)
    }

    /// The group with a number.
    #[must_use]
    pub fn group(&self, id: u8) -> Option<&G> {
        self.groups.iter().find(|group| group.config().id == id)
    }

    /// The group with a number.
    pub fn group_mut(&mut self, id: u8) -> Option<&mut G> {
        self.groups.iter_mut().find(|group| group.config().id == id)
    }

    fn is(&self, other: &config::Peer) -> bool {
        (&self.config.branch, self.config.id) == (&other.branch, other.id)
    }

    fn same_group(&self, group: &config::Group) -> Option<usize> {
        self.groups.iter().position(|known| known.config() == group)
    }
}

/// All peers.
pub struct Peers<G> {
    list: Vec<Peer<G>>,
    /// Place in `list` by the peer's number.
    by_id: Box<[Option<u16>]>,
    table: Table,
    places: Places,
}

impl<G: PathGroup> Peers<G> {
    /// None yet.
    #[must_use]
    pub fn new(policy: Placement, now: Instant) -> Self {
        Self {
            list: Vec::new(),
            by_id: vec![None; IDS].into_boxed_slice(),
            table: Table::default(),
            places: Places::new(policy, now),
        }
    }

    /// Brings the path groups in line with a configuration: those that are the same in both stay, `open` makes
    /// the others. Returns those that are no longer wanted, with their peer's number.
    ///
    /// # Errors
    /// The first of `open`; then nothing has changed.
    pub fn reconcile<E>(
        &mut self,
        own: u16,
        wanted: &[config::Peer],
        mut open: impl FnMut(&config::Peer, &config::Group) -> Result<G, E>,
    ) -> Result<Vec<(u16, G)>, E> {
        let mut opened = Vec::new();
        for peer in wanted {
            let known = self.list.iter().find(|known| known.is(peer));
            for group in &peer.groups {
                if known.and_then(|known| known.same_group(group)).is_none() {
                    opened.push(open(peer, group)?);
                }
            }
        }
        Ok(self.replace(own, wanted, opened))
    }

    fn replace(&mut self, own: u16, wanted: &[config::Peer], opened: Vec<G>) -> Vec<(u16, G)> {
        let mut opened = opened.into_iter();
        let mut old = std::mem::take(&mut self.list);
        for peer in wanted {
            let mut known = old.iter_mut().find(|known| known.is(peer));
            let mut groups = Vec::with_capacity(peer.groups.len());
            for group in &peer.groups {
                let same = known.as_mut().and_then(|known| {
                    known.same_group(group).map(|index| known.groups.swap_remove(index))
                });
                groups.extend(same.or_else(|| opened.next()));
            }
            self.list.push(Peer { config: peer.clone(), we_connect: own < peer.id, groups });
        }
        self.table = Table::new(wanted.iter());
        self.by_id.fill(None);
        for (place, peer) in (0..).zip(&self.list) {
            if let Some(entry) = self.by_id.get_mut(usize::from(peer.config.id)) {
                *entry = Some(place);
            }
        }
        let of = |peer: Peer<G>| peer.groups.into_iter().map(move |group| (peer.config.id, group));
        old.into_iter().flat_map(of).collect()
    }

    /// Changes how flows are placed from now on.
    pub fn set_policy(&mut self, policy: Placement) {
        self.places.set_policy(policy);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All, in the configuration's order.
    pub fn iter(&self) -> impl Iterator<Item = &Peer<G>> + Clone {
        self.list.iter()
    }

    /// All, in the configuration's order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer<G>> {
        self.list.iter_mut()
    }

    /// The path groups of all.
    pub fn groups_mut(&mut self) -> impl Iterator<Item = &mut G> {
        self.list.iter_mut().flat_map(|peer| &mut peer.groups)
    }

    /// The peer at a place in the configuration's order.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Peer<G>> {
        self.list.get(place)
    }

    /// The peer at a place in the configuration's order.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Peer<G>> {
        self.list.get_mut(place)
    }

    /// Where the peer stands behind which an address is.
    #[must_use]
    pub fn behind(&self, address: IpAddr) -> Option<usize> {
        self.table.peer(address)
    }

    /// The peer with a number.
    #[must_use]
    pub fn by_id(&self, id: u16) -> Option<&Peer<G>> {
        let place = self.by_id.get(usize::from(id)).copied().flatten()?;
        self.list.get(usize::from(place))
    }

    /// The peer with a number.
    pub fn by_id_mut(&mut self, id: u16) -> Option<&mut Peer<G>> {
        let place = self.by_id.get(usize::from(id)).copied().flatten()?;
        self.list.get_mut(usize::from(place))
    }

    /// A path group, by the numbers of its peer and its own.
    pub fn group_mut(&mut self, peer: u16, group: u8) -> Option<&mut G> {
        self.by_id_mut(peer)?.group_mut(group)
    }

    /// The place among the groups of the peer at `place` of the one that carries a packet of a flow.
    pub fn choose(&mut self, place: usize, hash: u64, class: Class, now: Instant) -> Option<usize> {
        let peer = self.list.get(place)?;
        Some(self.places.place(peer.config.id, &peer.groups, hash, class, now))
    }

    /// Flows of this branch on a group.
    #[must_use]
    pub fn flows(&self, peer: u16, group: u8) -> u32 {
        self.places.flows(peer, group)
    }

    /// A path group and the place of its peer, with the table of what is behind whom.
    pub fn group_and_table(&mut self, peer: u16, group: u8) -> Option<(usize, &mut G, &Table)> {
        let place = usize::from(self.by_id.get(usize::from(peer)).copied().flatten()?);
        Some((place, self.list.get_mut(place)?.group_mut(group)?, &self.table))
    }

    /// The peer at a place, with the table of what is behind whom.
    pub fn peer_and_table(&mut self, place: usize) -> Option<(&mut Peer<G>, &Table)> {
        Some((self.list.get_mut(place)?, &self.table))
    }

    /// Forgets flows that ended; to be called once in each `period`.
    pub fn sweep(&mut self, now: Instant, period: std::time::Duration) {
        self.places.sweep(now, period);
    }
}
