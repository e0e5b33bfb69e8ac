//! Reassembly of tunnel datagrams from fragments (docs/design/path-mtu.md).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use hawser_wire::fragment::{Fragment, MAX_FRAGMENTS};

/// A datagram is given up after this time. The fragments of one leave together and take one path;
/// the resequencer at this end waits no longer than 0.25 s.
const LIFE: Duration = Duration::from_millis(500);

/// Bytes of incomplete datagrams, and how many of them there are, at most; beyond that the oldest
/// goes.
const LIMIT: usize = 256 << 10;
const MOST: usize = 256;

/// Incomplete datagrams of all paths of a group, the oldest first. Its memory is bounded, whatever
/// comes.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: VecDeque<Partial>,
    bytes: usize,
    expired: u64,
}

#[derive(Debug)]
struct Partial {
    path: usize,
    datagram: u32,
    last: u8,
    since: Instant,
    /// By their numbers; empty where a fragment has not come.
    fragments: [Option<Box<[u8]>>; MAX_FRAGMENTS],
    bytes: usize,
}

impl Partial {
    fn is_complete(&self) -> bool {
        self.fragments.iter().flatten().count() > usize::from(self.last)
    }

    fn join(&self) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.bytes);
        self.fragments.iter().flatten().for_each(|fragment| joined.extend_from_slice(fragment));
        joined
    }
}

impl Reassembly {
    /// Takes a fragment that came on a path; returns its datagram once that is whole. A fragment
    /// that came before, or says something else of its datagram than others did, is ignored.
    pub fn push(
        &mut self,
        now: Instant,
        path: usize,
        fragment: Fragment,
        contents: &[u8],
    ) -> Option<Vec<u8>> {
        let Fragment { datagram, number, last } = fragment;
        let is_its = |known: &Partial| (known.path, known.datagram) == (path, datagram);
        let known = self.partial.iter().rposition(is_its);
        let index = known.unwrap_or_else(|| {
            let fragments = [const { None }; MAX_FRAGMENTS];
            self.partial.push_back(Partial {
                path,
                datagram,
                last,
                since: now,
                fragments,
                bytes: 0,
            });
            self.partial.len() - 1
        });
        let partial = self.partial.get_mut(index)?;
        let place = partial.fragments.get_mut(usize::from(number))?;
        if partial.last != last || number > last || place.is_some() {
            return None;
        }
        *place = Some(contents.into());
        partial.bytes += contents.len();
        self.bytes += contents.len();
        if partial.is_complete() {
            let complete = self.partial.remove(index)?;
            self.bytes -= complete.bytes;
            return Some(complete.join());
        }
        while self.bytes > LIMIT || self.partial.len() > MOST {
            self.drop_oldest();
        }
        None
    }

    /// Gives up datagrams that have been incomplete for too long.
    pub fn expire(&mut self, now: Instant) {
        let is_old = |partial: &Partial| now.saturating_duration_since(partial.since) > LIFE;
        while self.partial.front().is_some_and(is_old) {
            self.drop_oldest();
        }
    }

    /// Datagrams that were given up.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.partial.pop_front() {
            self.bytes -= oldest.bytes;
            self.expired += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_wire::fragment::cut;
    use proptest::prelude::*;

    use super::*;

    fn fragments(datagram: u32, bytes: &[u8], most: usize) -> Vec<(Fragment, Vec<u8>)> {
        let (count, each) = cut(bytes.len(), most).unwrap();
        let last = u8::try_from(count - 1).unwrap();
        let chunks = (0..).zip(bytes.chunks(each));
        let fragments =
            chunks.map(|(number, part)| (Fragment { datagram, number, last }, part.to_vec()));
        fragments.collect()
    }

    proptest! {
        /// In whatever order the fragments of some datagrams come, on whatever paths, and however
        /// often.
        #[test]
        fn datagrams_come_whole_and_once(
            datagrams in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 2..3000), 0..3_usize, 300..1200_usize), 1..12),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 300),
        ) {
            let now = Instant::now();
            let mut reassembly = Reassembly::default();
            let mut coming = Vec::new();
            for (number, (bytes, path, most)) in (0..).zip(&datagrams) {
                coming.extend(fragments(number, bytes, *most).into_iter().map(|fragment| (*path, fragment)));
            }
            let mut came = vec![0; datagrams.len()];
            let mut push = |(path, (fragment, contents)): &(usize, (Fragment, Vec<u8>))| {
                if let Some(whole) = reassembly.push(now, *path, *fragment, contents) {
                    let number = usize::try_from(fragment.datagram).unwrap();
                    assert_eq!(&whole, &datagrams[number].0);
                    came[number] += 1;
                }
            };
            while !coming.is_empty() {
                let pick = order[coming.len() % order.len()].index(coming.len());
                let fragment = coming.swap_remove(pick);
                push(&fragment);
            }
            prop_assert!(came.iter().all(|times| *times == 1), "{came:?}");
            prop_assert_eq!(reassembly.bytes(), 0);
        }

        #[test]
        fn memory_and_time_are_bounded(
            coming in proptest::collection::vec((0..3_usize, any::<u32>(), any::<u8>(), 0..9000_usize), 0..600),
        ) {
            let mut now = Instant::now();
            let mut reassembly = Reassembly::default();
            for (path, datagram, place, len) in coming {
                let (number, last) = (place >> 4, place & 0xf);
                let fragment = Fragment { datagram: datagram % 300, number, last };
                reassembly.push(now, path, fragment, &vec![0; len]);
                prop_assert!(reassembly.bytes() <= LIMIT && reassembly.partial.len() <= MOST);
            }
            now += LIFE + Duration::from_millis(1);
            reassembly.expire(now);
            prop_assert_eq!((reassembly.bytes(), reassembly.partial.len()), (0, 0));
        }
    }

    #[test]
    fn a_piece_that_contradicts_others_is_ignored() {
        let (now, mut reassembly) = (Instant::now(), Reassembly::default());
        let fragment = |number, last| Fragment { datagram: 1, number, last };
        assert_eq!(reassembly.push(now, 0, fragment(0, 2), b"a"), None);
        assert_eq!(reassembly.push(now, 0, fragment(1, 1), b"x"), None);
        assert_eq!(reassembly.push(now, 0, fragment(0, 2), b"x"), None, "it came before");
        assert_eq!(reassembly.push(now, 0, fragment(2, 2), b"c"), None);
        assert_eq!(reassembly.push(now, 1, fragment(1, 2), b"x"), None, "of another path");
        assert_eq!(reassembly.push(now, 0, fragment(1, 2), b"b"), Some(b"abc".to_vec()));
    }
}
