//! GSO batches: datagrams that the kernel takes in one call.

use quinn_proto::Transmit;

/// Joins datagrams that a connection produces one at a time into the form of UDP GSO: all of one
/// length, except that the last may be shorter.
#[derive(Default)]
pub(crate) struct GsoBatch {
    joined: Vec<u8>,
    /// The first datagram, and their number.
    first: Option<(Transmit, usize)>,
    /// A datagram that did not fit this batch; its bytes are in `buffer`.
    next: Option<Transmit>,
    /// Where the connection writes.
    buffer: Vec<u8>,
}

impl GsoBatch {
    /// Collects datagrams from `write`, up to `max_datagrams` per batch. None if it produced
    /// nothing.
    pub(crate) fn poll(
        &mut self,
        max_datagrams: usize,
        mut write: impl FnMut(&mut Vec<u8>) -> Option<Transmit>,
    ) -> Option<Transmit> {
        loop {
            let made = self.next.take().or_else(|| {
                self.buffer.clear();
                write(&mut self.buffer)
            });
            let Some(transmit) = made else { return self.finish() };
            if !self.takes(&transmit, max_datagrams) {
                self.next = Some(transmit);
                return self.finish();
            }
            if let Some((_, count)) = &mut self.first {
                self.joined.extend_from_slice(self.buffer.get(..transmit.size)?);
                *count += 1;
                continue;
            }
            std::mem::swap(&mut self.joined, &mut self.buffer);
            self.joined.truncate(transmit.size);
            if transmit.segment_size.is_some() {
                return Some(transmit);
            }
            self.first = Some((transmit, 1));
        }
    }

    /// Bytes of the batch that [`Self::poll`] returned.
    pub(crate) fn contents(&self) -> &[u8] {
        &self.joined
    }

    /// Discards pending datagrams.
    pub(crate) fn clear(&mut self) {
        (self.first, self.next) = (None, None);
    }

    /// Whether a datagram may be appended.
    fn takes(&self, transmit: &Transmit, max_datagrams: usize) -> bool {
        let Some((first, count)) = &self.first else { return true };
        let alike = (first.destination, first.ecn, first.src_ip)
            == (transmit.destination, transmit.ecn, transmit.src_ip);
        let all_whole = self.joined.len() == first.size * count;
        let fits = transmit.segment_size.is_none() && transmit.size <= first.size;
        alike && all_whole && fits && *count < max_datagrams
    }

    fn finish(&mut self) -> Option<Transmit> {
        let (mut transmit, count) = self.first.take()?;
        let one = transmit.size;
        transmit.segment_size = (count > 1).then_some(one);
        transmit.size = self.joined.len();
        Some(transmit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_equal_length_share_a_batch() {
        let mut batch = GsoBatch::default();
        let sizes =
            [(100, 1), (100, 1), (90, 1), (90, 1), (95, 1), (95, 2), (95, 2), (95, 2), (95, 2)];
        let mut made = sizes.into_iter();
        let mut pieces = Vec::new();
        while let Some(transmit) = batch.poll(3, |buffer| {
            let (size, port) = made.next()?;
            buffer.resize(size, 7);
            let destination = ([10, 0, 0, 1], port).into();
            Some(Transmit { destination, ecn: None, size, segment_size: None, src_ip: None })
        }) {
            assert_eq!(transmit.size, batch.contents().len());
            pieces.push((batch.contents().len(), transmit.segment_size));
        }
        let joined = [(290, Some(100)), (90, None), (95, None), (285, Some(95)), (95, None)];
        assert_eq!(pieces, joined);
    }
}
