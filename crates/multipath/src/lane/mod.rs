//! A stream of bytes that is carried in pieces over several paths.

mod inbound;
mod outbound;

pub use inbound::{Inbound, Violation};
pub use outbound::{Outbound, Piece};
