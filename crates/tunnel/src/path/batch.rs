//! Datagrams that go to the kernel in one piece.

use quinn_proto::Transmit;

/// Joins datagrams that a connection makes one at a time, as the connection itself does those that it makes at once:
/// all of one length, but that the last may be shorter (UDP GSO).
#[derive(Default)]
pub(crate) struct GsoBatch {
    joined: Vec<u8>,
    /// The first of them, and how many there are.
    first: Option<(Transmit, usize)>,
    /// What was made next and does not go with them; its bytes are in `buffer`.
    next: Option<Transmit>,
    /// Where a connection writes.
    buffer: Vec<u8>,
}

impl GsoBatch {
    /// Gathers what `write` makes, of which at most so many datagrams go in one piece. None: it made nothing.
    pub(crate) fn poll(
        &mut self,
        most: usize,
        mut write: impl FnMut(&mut Vec<u8>) -> Option<Transmit>,
    ) -> Option<Transmit> {
        loop {
            let made = self.next.take().or_else(|| {
                self.buffer.clear();
                write(&mut self.buffer)
            });
            let Some(transmit) = made else { return self.finish() };
            if !self.takes(&transmit, most) {
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

    /// The bytes of what [`Self::poll`] gave.
    pub(crate) fn contents(&self) -> &[u8] {
        &self.joined
    }

    /// Drops what it holds.
    pub(crate) fn clear(&mut self) {
        (self.first, self.next) = (None, None);
    }

    /// Whether it may go behind the others.
    fn takes(&self, transmit: &Transmit, most: usize) -> bool {
        let Some((first, count)) = &self.first else { return true };
        let alike = (first.destination, first.ecn, first.src_ip)
            == (transmit.destination, transmit.ecn, transmit.src_ip);
        let all_whole = self.joined.len() == first.size * count;
        let fits = transmit.segment_size.is_none() && transmit.size <= first.size;
        alike && all_whole && fits && *count < most
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
    fn datagrams_of_a_length_go_together() {
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
