//! Datagrams that a path takes in fragments only (docs/design/path-mtu.md).

use bytes::Bytes;
use hawser_multipath::Retransmittable;
use hawser_wire::fragment::{self, Fragment};

use super::{fragment_outcomes::FragmentOutcomes, in_flight::Stored, link::Link};

impl Link {
    /// Sends a datagram in fragments; returns whether the connection took all of them.
    pub(crate) fn send_fragments(
        &mut self,
        datagram: &Bytes,
        stored: Option<&Retransmittable<Stored>>,
    ) -> bool {
        let max = self.connection.datagrams().max_size().unwrap_or(0);
        let Some((count, each)) = fragment::cut(datagram.len(), max) else { return false };
        let Ok(count) = u8::try_from(count) else { return false };
        let outcomes = stored.map(|_| FragmentOutcomes::new(count));
        self.fragmented = self.fragmented.wrapping_add(1);
        for (number, contents) in (0..).zip(datagram.chunks(each)) {
            let fragment = Fragment { datagram: self.fragmented, number, last: count - 1 };
            let bytes = [fragment.emit().as_slice(), contents].concat();
            let stored = stored.map(|packet| {
                let item = Stored { fragments: outcomes.clone(), ..packet.item.clone() };
                Retransmittable { item, ..packet.clone() }
            });
            if !self.send(bytes.into(), stored) {
                return false;
            }
        }
        true
    }
}
