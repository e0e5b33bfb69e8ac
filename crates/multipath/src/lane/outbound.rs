//! The sending end of a stream of bytes.

/// Numbers the pieces of a stream of bytes, within what the receiver has room for.
#[derive(Clone, Copy, Debug)]
pub struct Outbound {
    offset: u64,
    limit: u64,
    ended: bool,
}

/// A piece to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes before it.
    pub offset: u64,
    /// Its bytes.
    pub len: usize,
    /// Whether nothing follows.
    pub end: bool,
}

impl Outbound {
    /// A stream of which the first `limit` bytes may be sent.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { offset: 0, limit, ended: false }
    }

    /// The receiver has room for so many bytes, counted from the beginning.
    pub fn allow(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Whether the end has been sent.
    #[must_use]
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes that the receiver has room for.
    #[must_use]
    pub const fn room(&self) -> u64 {
        self.limit.saturating_sub(self.offset)
    }

    /// The next piece, of at most `most` bytes; `available` bytes wait, and `end` says that no more
    /// follow. None: there is nothing to send, or no room worth it: what does not fill a packet of `full`
    /// bytes for want of room alone waits until there is more (RFC 9293 section 3.8.6.2.1).
    pub fn next(&mut self, available: usize, end: bool, most: usize, full: usize) -> Option<Piece> {
        if self.ended {
            return None;
        }
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let len = available.min(most).min(room);
        let end = end && len == available;
        if (len == 0 && !end) || len < available.min(full).min(most) {
            return None;
        }
        let piece = Piece { offset: self.offset, len, end };
        self.offset += len as u64;
        self.ended = end;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_within_the_limit() {
        let mut outbound = Outbound::new(2500);
        let piece = |offset, len, end| Some(Piece { offset, len, end });
        assert_eq!(outbound.next(9000, false, 2000, 1000), piece(0, 2000, false));
        assert_eq!(
            outbound.next(7000, false, 2000, 1000),
            None,
            "500 bytes are not worth a packet"
        );
        assert_eq!(outbound.next(400, false, 2000, 1000), piece(2000, 400, false));
        outbound.allow(100);
        assert_eq!(outbound.room(), 100, "a limit never falls");
        outbound.allow(5000);
        assert_eq!(outbound.next(2500, true, 2000, 1000), piece(2400, 2000, false));
        assert_eq!(outbound.next(500, true, 2000, 1000), piece(4400, 500, true));
        assert!(outbound.ended());
        assert_eq!(outbound.next(0, true, 2000, 1000), None);
    }

    #[test]
    fn an_end_alone_needs_no_room() {
        let mut outbound = Outbound::new(0);
        assert_eq!(outbound.next(0, false, 2000, 1000), None);
        let end = Piece { offset: 0, len: 0, end: true };
        assert_eq!(outbound.next(0, true, 2000, 1000), Some(end));
    }
}
