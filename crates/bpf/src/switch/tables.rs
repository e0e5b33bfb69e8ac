//! The maps of one version of IP.

use std::{collections::BTreeMap, net::IpAddr};

use aya::{
    Ebpf, Pod,
    maps::{ArrayOfMaps, HashMap, MapData},
};

use super::{
    flow::Flow,
    layout::{self, Entry, Key},
};
use crate::object::{self, Error};

type Set<const N: usize> = HashMap<MapData, Key<N>, Entry<N>>;

/// Entries and own addresses, with addresses of `N` bytes.
pub(super) struct Tables<const N: usize> {
    in_force: ArrayOfMaps<MapData, Set<N>>,
    own: HashMap<MapData, [u8; N], u32>,
}

impl<const N: usize> Tables<N>
where
    Key<N>: Pod,
    Entry<N>: Pod,
{
    /// Takes the maps of these names from the object.
    pub(super) fn of(
        object: &mut Ebpf,
        in_force: &'static str,
        own: &'static str,
    ) -> Result<Self, Error> {
        Ok(Self {
            in_force: object::map(object, in_force)?.try_into()?,
            own: object::map(object, own)?.try_into()?,
        })
    }

    /// Replaces all entries atomically.
    pub(super) fn install(&mut self, flows: &[Flow]) -> Result<(), Error> {
        let mut set = Set::create(object::entries(flows.len())?, 0)?;
        for flow in flows {
            let entry = Key::new(flow.from, flow.key).zip(Entry::new(flow));
            let (key, entry) = entry.ok_or(Error::Versions)?;
            set.insert(key, entry, 0)?;
        }
        Ok(self.in_force.set(0, &set, 0)?)
    }

    /// Sets those own addresses that are of this version.
    pub(super) fn set_own(&mut self, addresses: &BTreeMap<IpAddr, bool>) -> Result<(), Error> {
        let wanted: BTreeMap<[u8; N], bool> = addresses
            .iter()
            .filter_map(|(address, nat)| Some((layout::octets(*address)?, *nat)))
            .collect();
        let known: Vec<_> = self.own.keys().collect::<Result<_, _>>()?;
        for (address, nat) in &wanted {
            self.own.insert(address, u32::from(*nat), 0)?;
        }
        for gone in known.iter().filter(|known| !wanted.contains_key(*known)) {
            self.own.remove(gone)?;
        }
        Ok(())
    }
}
