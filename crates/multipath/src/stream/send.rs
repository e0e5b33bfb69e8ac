//! Sending end of a byte stream.

/// Cuts a byte stream into chunks within the receiver's credit.
#[derive(Clone, Copy, Debug)]
pub struct SendStream {
    offset: u64,
    limit: u64,
    finished: bool,
}

/// A chunk to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its offset in the stream.
    pub offset: u64,
    /// Its length, bytes.
    pub len: usize,
    /// Whether it is the last.
    pub end: bool,
}

impl SendStream {
    /// A stream with an initial credit of `limit` bytes.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { offset: 0, limit, finished: false }
    }

    /// The receiver accepts data up to the offset `limit`; a lower one is ignored.
    pub fn raise_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Whether the last chunk has been sent.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Bytes that the receiver still accepts.
    #[must_use]
    pub const fn credit(&self) -> u64 {
        self.limit.saturating_sub(self.offset)
    }

    /// The next chunk, of at most `max_len` bytes; `available` bytes wait, `end` if they are the
    /// last. None if there is nothing to send, or if credit alone would make it shorter than a full
    /// packet of `full_packet` bytes (silly window avoidance, RFC 9293 section 3.8.6.2.1).
    pub fn next_chunk(
        &mut self,
        available: usize,
        end: bool,
        max_len: usize,
        full_packet: usize,
    ) -> Option<Chunk> {
        if self.finished {
            return None;
        }
        let credit = usize::try_from(self.credit()).unwrap_or(usize::MAX);
        let len = available.min(max_len).min(credit);
        let end = end && len == available;
        if (len == 0 && !end) || len < available.min(full_packet).min(max_len) {
            return None;
        }
        let chunk = Chunk { offset: self.offset, len, end };
        self.offset += len as u64;
        self.finished = end;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_stay_within_the_credit() {
        let mut stream = SendStream::new(2500);
        let chunk = |offset, len, end| Some(Chunk { offset, len, end });
        assert_eq!(stream.next_chunk(9000, false, 2000, 1000), chunk(0, 2000, false));
        assert_eq!(
            stream.next_chunk(7000, false, 2000, 1000),
            None,
            "500 bytes are not worth a packet"
        );
        assert_eq!(stream.next_chunk(400, false, 2000, 1000), chunk(2000, 400, false));
        stream.raise_limit(100);
        assert_eq!(stream.credit(), 100, "a limit never falls");
        stream.raise_limit(5000);
        assert_eq!(stream.next_chunk(2500, true, 2000, 1000), chunk(2400, 2000, false));
        assert_eq!(stream.next_chunk(500, true, 2000, 1000), chunk(4400, 500, true));
        assert!(stream.is_finished());
        assert_eq!(stream.next_chunk(0, true, 2000, 1000), None);
    }

    #[test]
    fn an_end_alone_needs_no_credit() {
        let mut stream = SendStream::new(0);
        assert_eq!(stream.next_chunk(0, false, 2000, 1000), None);
        let end = Chunk { offset: 0, len: 0, end: true };
        assert_eq!(stream.next_chunk(0, true, 2000, 1000), Some(end));
    }
}
