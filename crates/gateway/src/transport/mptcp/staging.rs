//! Batches of records from the device to a connection.

use hawser_netdev::tun::{MAX_PACKET_LEN, Read};
use hawser_wire::{
    ip,
    record::{self, HEADER_LEN, Segmentation},
};

/// Bytes of records collected for one connection before they are sent.
pub(super) const BATCH: usize = 64 << 10;

/// Records for one connection, read directly to where they are sent from.
pub(super) struct Staging {
    bytes: Box<[u8]>,
    /// Complete records.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Peer and group that they are for.
    pub(super) target: Option<(usize, usize)>,
}

impl Default for Staging {
    fn default() -> Self {
        let bytes = vec![0; BATCH + 2 * record::MAX_LEN].into_boxed_slice();
        Self { bytes, start: 0, end: 0, target: None }
    }
}

impl Staging {
    /// Space for the packet of one more record; sufficient unless [`Staging::is_full`].
    pub(super) fn space(&mut self) -> &mut [u8] {
        let at = self.end + HEADER_LEN;
        self.bytes.get_mut(at..at + MAX_PACKET_LEN).unwrap_or_default()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() - self.end < record::MAX_LEN
    }

    /// Completes the record of the packet that was read into [`Self::space`].
    pub(super) fn commit(&mut self, read: Read) {
        let header = record::packet_header(truncated(read.len), read.segmentation.is_some());
        self.put(&header);
        self.end += read.len;
        if let Some(segmentation) = read.segmentation {
            self.put(&segmentation.emit());
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.end..self.end + bytes.len()) {
            place.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    pub(super) fn batch(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }
}

/// A read returns at most [`MAX_PACKET_LEN`] bytes.
fn truncated(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Packets of a record as on the wire.
pub(super) fn packets(packet: &ip::Packet<'_>, segmentation: Option<Segmentation>) -> usize {
    segmentation.map_or(1, |cut| cut.segments(packet.bytes()))
}
