//! The host's end of a connection.

use hawser_wire::proxy::Reason;

/// A TCP connection that has been terminated, as the host's network stack has it. Bytes are taken from it when a path
/// has room for them, and not before: so it is given to the state machine instead of its bytes. Dropped, it is reset.
pub trait Stream {
    /// Receives into `space`: 0 when the other end has closed, None when nothing is there.
    ///
    /// # Errors
    /// Why the connection has failed.
    fn receive(&mut self, space: &mut [u8]) -> Result<Option<usize>, Reason>;

    /// Sends the beginning of `parts`, as much as it takes; None when it takes nothing.
    ///
    /// # Errors
    /// Why the connection has failed.
    fn send<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, Reason>;

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    /// Why the connection has failed.
    fn shutdown(&mut self) -> Result<(), Reason>;

    /// Why it has failed, if it has.
    fn failure(&mut self) -> Option<Reason>;

    /// Ends it in good order.
    fn finish(self);
}
