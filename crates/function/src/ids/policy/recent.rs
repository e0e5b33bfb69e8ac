//! A map of bounded size, which forgets what was used longest ago.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// A map of at most so many keys.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    capacity: usize,
    values: HashMap<K, (u64, V)>,
    /// Keys in the order of their use.
    order: BTreeMap<u64, K>,
    uses: u64,
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    /// An empty one; it has room for one key at least.
    pub(super) fn new(capacity: usize) -> Self {
        let (values, order) = (HashMap::new(), BTreeMap::new());
        Self { capacity: capacity.max(1), values, order, uses: 0 }
    }

    /// The value of a key; this is no use of it.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    /// The value of a key, which is the last to be forgotten now. A new key has the default.
    pub(super) fn touch(&mut self, key: K) -> &mut V {
        if let Some((use_before, _)) = self.values.get(&key) {
            self.order.remove(use_before);
        } else if self.values.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.uses += 1;
        self.order.insert(self.uses, key);
        let (last_use, value) = self.values.entry(key).or_default();
        *last_use = self.uses;
        value
    }

    /// Forgets a key.
    pub(super) fn remove(&mut self, key: &K) {
        if let Some((last_use, _)) = self.values.remove(key) {
            self.order.remove(&last_use);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_map_forgets_the_oldest_alone() {
        let mut map = Recent::new(3);
        for key in [1, 2, 3, 1, 4] {
            *map.touch(key) = key * 10;
        }
        assert_eq!(
            [1, 2, 3, 4].map(|key| map.get(&key).copied()),
            [Some(10), None, Some(30), Some(40)]
        );
    }

    proptest! {
        /// It holds what a list of the last uses says, and no more.
        #[test]
        fn it_is_a_list_of_the_last_uses(uses in prop::collection::vec((0_u8..12, any::<bool>()), 0..200)) {
            let (mut map, mut list) = (Recent::<u8, u8>::new(5), Vec::new());
            for (key, is_removed) in uses {
                list.retain(|known| *known != key);
                if is_removed {
                    map.remove(&key);
                } else {
                    *map.touch(key) = key;
                    list.push(key);
                    list = list.split_off(list.len().saturating_sub(5));
                }
                for key in 0..12 {
                    prop_assert_eq!(map.get(&key).is_some(), list.contains(&key));
                }
                prop_assert_eq!(map.order.len(), list.len());
            }
        }
    }
}
