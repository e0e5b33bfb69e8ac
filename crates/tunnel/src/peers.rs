//! Other branches and their path groups, for every transport: reconciled with a configuration,
//! looked up by address, and chosen for flows.

use std::{collections::HashMap, net::IpAddr, time::Instant};

use hawser_wire::label::wide;

use crate::{
    config::{self, Class, Placement},
    placement::{FlowPlacement, PathGroup},
    table::PrefixTable,
};

/// Another branch.
pub struct Peer<G> {
    /// Its configuration.
    pub config: config::Peer,
    /// Whether this side connects, because its number is the lower one.
    pub we_connect: bool,
    /// Path groups to it, in the order of the configuration.
    pub groups: Vec<G>,
}

impl<G: PathGroup> Peer<G> {
    /// Whether one of its paths has this remote address.
    #[must_use]
    pub fn has_remote(&self, address: IpAddr) -> bool {
        let mut paths = self.config.groups.iter().flat_map(|group| &group.paths);
        paths.any(|path| path.remote == Some(address))
    }

    /// The group with this number.
    #[must_use]
    pub fn group(&self, id: u8) -> Option<&G> {
        self.groups.iter().find(|group| group.config().id == id)
    }

    /// The group with this number.
    pub fn group_mut(&mut self, id: u8) -> Option<&mut G> {
        self.groups.iter_mut().find(|group| group.config().id == id)
    }

    fn is(&self, other: &config::Peer) -> bool {
        (&self.config.branch, self.config.id) == (&other.branch, other.id)
    }

    fn same_group(&self, group: &config::Group) -> Option<usize> {
        self.groups.iter().position(|known| known.config().is_same_as(group))
    }
}

/// All peers.
pub struct Peers<G> {
    list: Vec<Peer<G>>,
    /// Index in `list` by the peer's number.
    by_id: Box<[Option<u16>]>,
    table: PrefixTable,
    /// Number of paths by their remote address.
    remotes: HashMap<IpAddr, usize>,
    /// From where peers have come last on paths without a remote address, by peer, group and path.
    seen: HashMap<(u16, u8, u8), IpAddr>,
    placement: FlowPlacement,
}

impl<G: PathGroup> Peers<G> {
    /// No peers yet.
    #[must_use]
    pub fn new(policy: Placement, now: Instant) -> Self {
        Self {
            list: Vec::new(),
            by_id: vec![None; wide::BRANCHES].into_boxed_slice(),
            table: PrefixTable::default(),
            remotes: HashMap::new(),
            seen: HashMap::new(),
            placement: FlowPlacement::new(policy, now),
        }
    }

    /// Reconciles the path groups with a configuration: groups that are the same in both stay and
    /// take over the addresses of their paths, `open` creates the others. Returns groups that are no longer wanted, with their peer's
    /// number.
    ///
    /// # Errors
    /// The first error of `open`; nothing has changed then.
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
                let same = same.map(|mut same| {
                    same.set_config(group);
                    same
                });
                groups.extend(same.or_else(|| opened.next()));
            }
            self.list.push(Peer { config: peer.clone(), we_connect: own < peer.id, groups });
        }
        self.table = PrefixTable::new(wanted.iter());
        let by_id = |id| wanted.iter().find(|peer| peer.id == id);
        self.seen.retain(|place, _| by_id(place.0).is_some_and(|peer| is_unknown(peer, *place)));
        self.count_remotes();
        self.by_id.fill(None);
        for (place, peer) in (0..).zip(&self.list) {
            if let Some(entry) = self.by_id.get_mut(usize::from(peer.config.id)) {
                *entry = Some(place);
            }
        }
        let of = |peer: Peer<G>| peer.groups.into_iter().map(move |group| (peer.config.id, group));
        old.into_iter().flat_map(of).collect()
    }

    fn count_remotes(&mut self) {
        let groups = self.list.iter().flat_map(|peer| &peer.config.groups);
        let paths = groups.flat_map(|group| &group.paths);
        let remote = |path: &config::Path| path.remote.or(path.reflexive.map(|told| told.ip()));
        let configured = paths.filter_map(remote);
        self.remotes.clear();
        for remote in configured.chain(self.seen.values().copied()) {
            *self.remotes.entry(remote).or_default() += 1;
        }
    }

    /// A peer has been authenticated on a path, coming from this address.
    pub fn note_remote(&mut self, peer: u16, group: u8, path: u8, address: IpAddr) {
        let place = (peer, group, path);
        let known = self.by_id(peer).is_some_and(|peer| is_unknown(&peer.config, place));
        if known && self.seen.insert(place, address) != Some(address) {
            self.count_remotes();
        }
    }

    /// Number of paths with this remote address, be it configured or where the peer came from last.
    #[must_use]
    pub fn paths_from(&self, remote: IpAddr) -> usize {
        self.remotes.get(&remote).copied().unwrap_or(0)
    }

    /// Changes the placement of new flows.
    pub fn set_policy(&mut self, policy: Placement) {
        self.placement.set_policy(policy);
    }

    /// Number of peers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no peers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All peers, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Peer<G>> + Clone {
        self.list.iter()
    }

    /// All peers, in the order of the configuration.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer<G>> {
        self.list.iter_mut()
    }

    /// Path groups of all peers.
    pub fn groups_mut(&mut self) -> impl Iterator<Item = &mut G> {
        self.list.iter_mut().flat_map(|peer| &mut peer.groups)
    }

    /// The peer with this index.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Peer<G>> {
        self.list.get(place)
    }

    /// The peer with this index.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Peer<G>> {
        self.list.get_mut(place)
    }

    /// Index of the peer whose prefix contains an address.
    #[must_use]
    pub fn index_by_address(&self, address: IpAddr) -> Option<usize> {
        self.table.peer(address)
    }

    /// The peer with this number.
    #[must_use]
    pub fn by_id(&self, id: u16) -> Option<&Peer<G>> {
        let place = self.by_id.get(usize::from(id)).copied().flatten()?;
        self.list.get(usize::from(place))
    }

    /// The peer with this number.
    pub fn by_id_mut(&mut self, id: u16) -> Option<&mut Peer<G>> {
        let place = self.by_id.get(usize::from(id)).copied().flatten()?;
        self.list.get_mut(usize::from(place))
    }

    /// A path group, by the number of its peer and its own.
    pub fn group_mut(&mut self, peer: u16, group: u8) -> Option<&mut G> {
        self.by_id_mut(peer)?.group_mut(group)
    }

    /// Index of the path group that carries a packet of a flow, among those of the peer at `place`.
    pub fn choose(&mut self, place: usize, hash: u64, class: Class, now: Instant) -> Option<usize> {
        let peer = self.list.get(place)?;
        Some(self.placement.place(peer.config.id, &peer.groups, hash, class, now))
    }

    /// Flows of this branch on a group.
    #[must_use]
    pub fn flows(&self, peer: u16, group: u8) -> u32 {
        self.placement.flows(peer, group)
    }

    /// A path group and its peer's index, with the prefix table.
    pub fn group_and_table(
        &mut self,
        peer: u16,
        group: u8,
    ) -> Option<(usize, &mut G, &PrefixTable)> {
        let place = usize::from(self.by_id.get(usize::from(peer)).copied().flatten()?);
        Some((place, self.list.get_mut(place)?.group_mut(group)?, &self.table))
    }

    /// The peer with this index, with the prefix table.
    pub fn peer_and_table(&mut self, place: usize) -> Option<(&mut Peer<G>, &PrefixTable)> {
        Some((self.list.get_mut(place)?, &self.table))
    }

    /// Expires idle flows, and notes what groups have carried; call it once every `period`.
    pub fn sweep(&mut self, now: Instant, period: std::time::Duration) {
        self.placement.sweep(now, period);
        if let Some(passed) = self.placement.measurement_due(now) {
            for peer in &self.list {
                self.placement.measure(peer.config.id, &peer.groups, passed);
            }
        }
    }
}

/// Whether a path of a peer has no remote address in the configuration.
fn is_unknown(peer: &config::Peer, (_, group, path): (u16, u8, u8)) -> bool {
    let group = peer.groups.iter().find(|known| known.id == group);
    let path = group.and_then(|group| group.paths.get(usize::from(path)));
    path.is_some_and(|path| path.remote.is_none())
}
