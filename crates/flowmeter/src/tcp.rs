//! How far a TCP connection is, seen from the middle, by the state machine of flowtbag.

use hawser_wire::tcp::flag;

/// State of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Syn,
    SynAck,
    Established,
    Fin,
    Closed,
}

/// States of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connection {
    client: State,
    server: State,
}

impl Connection {
    /// Takes note of a segment; `forward`: it comes from the client.
    pub(crate) fn update(&mut self, flags: u8, forward: bool) {
        self.client = next(self.client, flags, forward);
        self.server = next(self.server, flags, !forward);
    }

    pub(crate) fn is_established(self) -> bool {
        self.client == State::Established
    }

    pub(crate) fn is_closed(self) -> bool {
        self.client == State::Closed && self.server == State::Closed
    }
}

/// State of an end after a segment; `own`: that end sent it.
fn next(state: State, flags: u8, own: bool) -> State {
    let has = |bits: u8| flags & bits == bits;
    match state {
        _ if has(flag::RST) => State::Closed,
        _ if has(flag::FIN) && own => State::Fin,
        State::Fin if has(flag::ACK) && !own => State::Closed,
        State::Start if has(flag::SYN) && own => State::Syn,
        State::Syn if has(flag::SYN | flag::ACK) && !own => State::SynAck,
        State::SynAck if has(flag::ACK) && own => State::Established,
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use super::{flag::*, *};

    #[test]
    fn a_connection_opens_and_closes() {
        let mut connection = Connection::default();
        for (flags, forward) in [(SYN, true), (SYN | ACK, false), (ACK, true)] {
            assert!(!connection.is_established());
            connection.update(flags, forward);
        }
        assert!(connection.is_established());
        for (flags, forward) in [(FIN | ACK, true), (FIN | ACK, false), (ACK, true)] {
            assert!(!connection.is_closed());
            connection.update(flags, forward);
        }
        assert!(connection.is_closed());
    }

    #[test]
    fn a_reset_closes_both_ends() {
        let mut connection = Connection::default();
        connection.update(SYN, true);
        connection.update(RST | ACK, false);
        assert!(connection.is_closed());
    }
}
