//! Counters of the programs, one for each CPU.
#![allow(unsafe_code)]

/// Packets and bytes. The map defines which bytes are counted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn merge(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

const _: () = assert!(size_of::<Count>() == 16);

// SAFETY: a `repr(C)` structure of integers without padding: every bit pattern is a value.
unsafe impl aya::Pod for Count {}
