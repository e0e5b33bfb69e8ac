//! Datagrams that go to the kernel in one piece.

use quinn_proto::Transmit;

/// Joins datagrams that a connection makes one at a time, as the connection itself does those that it makes at once:
/// all of one length, but that the last may be shorter (UDP GSO).
#[derive(Default)]
pub(super) struct Train {
    joined: Vec<u8>,
    /// The first of them, and how many there are.
    first: Option<(Transmit, usize)>,
    /// Where a connection writes.
    pub(super) buffer: Vec<u8>,
}

impl Train {
    /// Takes what the connection has made; at most so many datagrams go in one piece.
    pub(super) fn push(
        &mut self,
        transmit: Transmit,
        most: usize,
        send: &mut impl FnMut(&Transmit, &[u8]) -> bool,
    ) {
        if !self.takes(&transmit, most) {
            self.finish(send);
        }
        let datagram = self.buffer.get(..transmit.size).unwrap_or_default();
        if transmit.segment_size.is_some() {
            send(&transmit, datagram);
            return;
        }
        self.joined.extend_from_slice(datagram);
        match &mut self.first {
            Some((_, count)) => *count += 1,
            None => self.first = Some((transmit, 1)),
        }
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

    /// Sends what it holds.
    pub(super) fn finish(&mut self, send: &mut impl FnMut(&Transmit, &[u8]) -> bool) {
        if let Some((mut transmit, count)) = self.first.take() {
            let one = transmit.size;
            transmit.segment_size = (count > 1).then_some(one);
            transmit.size = self.joined.len();
            send(&transmit, &self.joined);
        }
        self.joined.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_a_length_go_together() {
        let mut train = Train::default();
        let mut pieces = Vec::new();
        let mut send = |transmit: &Transmit, bytes: &[u8]| {
            assert_eq!(transmit.size, bytes.len());
            pieces.push((bytes.len(), transmit.segment_size));
            true
        };
        for (size, port) in
            [(100, 1), (100, 1), (90, 1), (90, 1), (95, 1), (95, 2), (95, 2), (95, 2), (95, 2)]
        {
            train.buffer = vec![7; size];
            let destination = ([10, 0, 0, 1], port).into();
            let transmit =
                Transmit { destination, ecn: None, size, segment_size: None, src_ip: None };
            train.push(transmit, 3, &mut send);
        }
        train.finish(&mut send);
        train.finish(&mut send);
        let joined = [(290, Some(100)), (90, None), (95, None), (285, Some(95)), (95, None)];
        assert_eq!(pieces, joined);
    }
}
