//! Interface to a terminated TCP connection.

use hawser_wire::proxy::Reason;

/// A terminated TCP connection in the host's network stack. Its bytes are read only when a path has
/// room for them, so the state machine owns the stream itself. Dropping it resets the connection.
pub trait Stream {
    /// Reads into `space`: 0 at the end of the stream, None if nothing is available.
    ///
    /// # Errors
    /// Why the connection has failed.
    fn receive(&mut self, space: &mut [u8]) -> Result<Option<usize>, Reason>;

    /// Writes the beginning of `parts` and returns how much was taken; None if nothing.
    ///
    /// # Errors
    /// Why the connection has failed.
    fn send<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, Reason>;

    /// Closes the sending direction.
    ///
    /// # Errors
    /// Why the connection has failed.
    fn shutdown(&mut self) -> Result<(), Reason>;

    /// Why it has failed, if it has.
    fn failure(&mut self) -> Option<Reason>;

    /// Closes it gracefully.
    fn finish(self);
}
