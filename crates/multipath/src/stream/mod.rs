//! A byte stream carried as chunks over several paths.

mod recv;
mod send;

pub use recv::{RecvStream, StreamError};
pub use send::{Chunk, SendStream};
