//! TCP connections in memory.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use hawser_tunnel::Stream;
use hawser_wire::proxy::Reason;

#[derive(Default)]
struct Shared {
    /// From host to gateway, and whether that is all.
    out: RefCell<VecDeque<u8>>,
    ended: Cell<bool>,
    /// From gateway to host, and whether that is all.
    received: RefCell<Vec<u8>>,
    ended_by_gateway: Cell<bool>,
    reset: Cell<bool>,
    finished: Cell<bool>,
    number: Cell<usize>,
}

/// The gateway's end.
pub struct Memory(Rc<Shared>);

/// The host's end.
#[derive(Clone)]
pub struct End(Rc<Shared>);

pub(super) fn pair() -> (Memory, End) {
    let shared = Rc::<Shared>::default();
    (Memory(Rc::clone(&shared)), End(shared))
}

impl End {
    /// Sends bytes; the gateway must be woken then.
    pub fn send(&self, bytes: &[u8]) {
        self.0.out.borrow_mut().extend(bytes);
    }

    /// Ends the stream.
    pub fn end(&self) {
        self.0.ended.set(true);
    }

    /// Resets the connection.
    pub fn reset(&self) {
        self.0.reset.set(true);
    }

    /// Bytes received so far.
    #[must_use]
    pub fn received(&self) -> Vec<u8> {
        self.0.received.borrow().clone()
    }

    /// Whether the gateway has ended the stream, and closed the connection gracefully.
    #[must_use]
    pub fn is_ended(&self) -> (bool, bool) {
        (self.0.ended_by_gateway.get(), self.0.finished.get())
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.reset.get()
    }

    pub(super) fn set_number(&self, number: usize) {
        self.0.number.set(number);
    }

    pub(super) fn number(&self) -> usize {
        self.0.number.get()
    }
}

impl Memory {
    fn check(&self) -> Result<(), Reason> {
        if self.0.reset.get() { Err(Reason::Reset) } else { Ok(()) }
    }
}

impl Stream for Memory {
    fn receive(&mut self, space: &mut [u8]) -> Result<Option<usize>, Reason> {
        self.check()?;
        let mut out = self.0.out.borrow_mut();
        let len = out.len().min(space.len());
        if len == 0 {
            return Ok(self.0.ended.get().then_some(0));
        }
        for (place, byte) in space.iter_mut().zip(out.drain(..len)) {
            *place = byte;
        }
        Ok(Some(len))
    }

    fn send<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, Reason> {
        self.check()?;
        let mut received = self.0.received.borrow_mut();
        let before = received.len();
        parts.for_each(|part| received.extend_from_slice(part));
        Ok(Some(received.len() - before))
    }

    fn shutdown(&mut self) -> Result<(), Reason> {
        self.0.ended_by_gateway.set(true);
        self.check()
    }

    fn failure(&mut self) -> Option<Reason> {
        self.check().err()
    }

    fn finish(self) {
        self.0.finished.set(true);
    }
}
