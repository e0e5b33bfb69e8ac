//! Which flow was heard last: lists through an array, every operation in constant time.

/// No flow.
const NONE: u32 = u32::MAX;

/// Neighbours of a flow in its list.
#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
}

/// One list, from the flow that was silent longest to the one heard last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    oldest: u32,
    newest: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { oldest: NONE, newest: NONE }
    }
}

impl List {
    pub(crate) fn oldest(self) -> Option<u32> {
        some(self.oldest)
    }

    pub(crate) fn newest(self) -> Option<u32> {
        some(self.newest)
    }
}

/// Links of all lists; a flow is in one list at most.
#[derive(Debug, Default)]
pub(crate) struct Order(Vec<Links>);

impl Order {
    /// Appends `id` as the newest of `list`; it is in no list.
    pub(crate) fn append(&mut self, list: &mut List, id: u32) {
        let at = id as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Links { older: NONE, newer: NONE });
        }
        self.set(id, |links| *links = Links { older: list.newest, newer: NONE });
        self.set(list.newest, |links| links.newer = id);
        list.newest = id;
        if list.oldest == NONE {
            list.oldest = id;
        }
    }

    /// Takes `id` out of `list`.
    pub(crate) fn remove(&mut self, list: &mut List, id: u32) {
        let Some(Links { older, newer }) = self.0.get(id as usize).copied() else { return };
        if list.oldest == id {
            list.oldest = newer;
        }
        if list.newest == id {
            list.newest = older;
        }
        self.set(older, |links| links.newer = newer);
        self.set(newer, |links| links.older = older);
    }

    /// The flow that was heard last before `id`.
    pub(crate) fn older(&self, id: u32) -> Option<u32> {
        self.0.get(id as usize).and_then(|links| some(links.older))
    }

    fn set(&mut self, id: u32, change: impl FnOnce(&mut Links)) {
        if let Some(links) = self.0.get_mut(id as usize) {
            change(links);
        }
    }
}

fn some(id: u32) -> Option<u32> {
    (id != NONE).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn contents(order: &Order, list: List) -> Vec<u32> {
        let mut ids: Vec<_> = std::iter::successors(list.newest(), |id| order.older(*id)).collect();
        ids.reverse();
        ids
    }

    proptest! {
        #[test]
        fn it_is_a_queue_with_removal(ids in prop::collection::vec(0_u32..8, 0..64)) {
            let (mut order, mut list) = (Order::default(), List::default());
            let mut model = VecDeque::new();
            for id in ids {
                if let Some(at) = model.iter().position(|each| *each == id) {
                    model.remove(at);
                    order.remove(&mut list, id);
                } else {
                    model.push_back(id);
                    order.append(&mut list, id);
                }
                prop_assert_eq!(contents(&order, list), Vec::from(model.clone()));
                prop_assert_eq!(list.oldest(), model.front().copied());
            }
        }
    }
}
