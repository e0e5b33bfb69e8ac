//! Structures shared with the load programs. Mirrored in `bpf/load/load.h`; both assert the sizes.

#![allow(unsafe_code)] // plain data for the kernel's maps

use crate::codes::load as codes;

/// Longest headers before the payload of a frame, bytes.
pub const HEADER_MAX: usize = codes::LOAD_HEADER_MAX as usize;
/// Streams of one generator at most.
pub const STREAMS_MAX: usize = codes::LOAD_STREAMS_MAX as usize;
/// Width of the timestamp on the wire, bits of nanoseconds.
pub const DELAY_BITS: u32 = codes::LOAD_DELAY_BITS;
/// Logarithm to base 2 of the buckets per octave of a histogram.
pub const SUB_BITS: u32 = codes::LOAD_SUB_BITS;
/// Buckets of a histogram.
pub const BUCKETS: u32 = (DELAY_BITS - SUB_BITS + 1) << SUB_BITS;
/// Position of the run's number in a sequence number, in its upper bits.
pub const RUN_SHIFT: u32 = codes::LOAD_RUN_SHIFT;
/// Longest frame of a recording, bytes.
pub const FRAME_MAX: usize = 2048;
/// Bytes of a frame that are captured at most.
pub const SNAP_MAX: usize = 2048;

/// A flow of the generator. Ports are in network byte order; sums are ones' complement sums of 16-bit words in memory
/// order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Source address; IPv4 in the first four bytes.
    pub source: [u8; 16],
    /// Destination address.
    pub target: [u8; 16],
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub target_port: u16,
    /// Source port of an outer UDP header.
    pub entropy: u16,
    /// Zero.
    pub pad: u16,
    /// Sum of both addresses.
    pub address_sum: u32,
    /// Sum of both ports.
    pub port_sum: u32,
    /// Next sequence number.
    pub sequence: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
}

/// The headers of one frame size, with all length fields set.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Length of the frame without frame check sequence, bytes.
    pub length: u32,
    /// Sum of the IPv4 header without addresses and checksum; unused for IPv6.
    pub ip_sum: u32,
    /// Sum of UDP header and pseudo header without addresses and ports.
    pub udp_sum: u32,
    /// Length of the headers, bytes.
    pub header_length: u16,
    /// Offset of the innermost IP header.
    pub ip_offset: u16,
    /// Offset of the innermost UDP header.
    pub udp_offset: u16,
    /// Offset of the outer UDP source port; 0 if there is none.
    pub entropy_offset: u16,
    /// 4 or 6.
    pub ip_version: u32,
    /// The headers.
    pub header: [u8; HEADER_MAX],
}

/// One stream of a generator.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Whole nanoseconds between due times; with the fraction 0: as fast as possible.
    pub interval_ns: u64,
    /// Fraction of the interval, in 2^-32 ns.
    pub interval_fraction: u64,
    /// Frames per due time.
    pub burst: u64,
    /// Frames of the whole schedule.
    pub limit: u64,
    /// Frames later than this are skipped.
    pub catch_up_ns: u64,
    /// Index of its first flow.
    pub first_flow: u32,
    /// Number of its flows.
    pub flow_count: u32,
    /// Index of the first element of its pattern of shapes.
    pub first_pattern: u32,
    /// Length of the pattern.
    pub pattern_length: u32,
}

/// Progress of a stream in its schedule.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When the next frame is due, on `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// Fraction of the due time, in 2^-32 ns.
    pub due_fraction: u64,
    /// Frames of this due time already sent.
    pub burst_done: u64,
    /// Frames of the schedule that were sent or skipped.
    pub position: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames skipped.
    pub unsent: u64,
    /// Time of the first frame.
    pub first_ns: u64,
    /// Time of the last frame.
    pub last_ns: u64,
    /// Flow of the next frame.
    pub flow: u32,
    /// Index in the pattern of the next frame.
    pub pattern: u32,
}

/// Counters of one flow at the receiver.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames received, including duplicates.
    pub received: u64,
    /// Their bytes, without frame check sequence.
    pub bytes: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Reordered frames (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Frames older than the window, for which duplicates cannot be detected.
    pub late: u64,
    /// Sum of the one-way delays, without duplicates, ns.
    pub delay_sum: u64,
    /// Maximum one-way delay, ns.
    pub delay_max: u64,
    /// Bitwise complement of the minimum one-way delay, so that 0 means none.
    pub delay_min_inverted: u64,
    /// Time of arrival of the first frame.
    pub first_ns: u64,
    /// Time of arrival of the last frame.
    pub last_ns: u64,
}

impl Count {
    /// The counts of two CPUs together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let first_ns = match (self.first_ns, other.first_ns) {
            (0, only) | (only, 0) => only,
            (one, two) => one.min(two),
        };
        Self {
            received: self.received + other.received,
            bytes: self.bytes + other.bytes,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            late: self.late + other.late,
            delay_sum: self.delay_sum.wrapping_add(other.delay_sum),
            delay_max: self.delay_max.max(other.delay_max),
            delay_min_inverted: self.delay_min_inverted.max(other.delay_min_inverted),
            first_ns,
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

/// State of a flow shared by all CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Highest sequence number received plus one.
    pub expected: u64,
    /// Last delay plus one; 0 means none.
    pub last_delay: u64,
}

/// Counters of a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Frames that are not load frames.
    pub other: u64,
    /// Their bytes.
    pub other_bytes: u64,
    /// Load frames of another run or an unknown flow.
    pub foreign: u64,
    /// Frames reflected.
    pub reflected: u64,
    /// Frames captured.
    pub captured: u64,
    /// Frames not captured because the ring buffer was full.
    pub uncaptured: u64,
}

impl Port {
    /// The counts of two CPUs together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            other: self.other + other.other,
            other_bytes: self.other_bytes + other.other_bytes,
            foreign: self.foreign + other.foreign,
            reflected: self.reflected + other.reflected,
            captured: self.captured + other.captured,
            uncaptured: self.uncaptured + other.uncaptured,
        }
    }
}

/// One frame of a recording.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its length, bytes.
    pub length: u32,
    /// Zero.
    pub pad: u32,
    /// The frame.
    pub data: [u8; FRAME_MAX],
}

/// Length of the header of a captured frame in the ring buffer; `SNAP_MAX` bytes of frame follow.
pub(crate) const CAPTURE_HEAD: usize = 16;

const _: () = {
    assert!(size_of::<Flow>() == 64);
    assert!(size_of::<Shape>() == 24 + HEADER_MAX);
    assert!(size_of::<Control>() == 56);
    assert!(size_of::<Progress>() == 72);
    assert!(size_of::<Count>() == 80);
    assert!(size_of::<Track>() == 16);
    assert!(size_of::<Port>() == 48);
    assert!(size_of::<Frame>() == 8 + FRAME_MAX);
};

// SAFETY: `repr(C)` structures of integers and byte arrays whose sizes leave no padding:
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for Flow {}
// SAFETY: as above.
unsafe impl aya::Pod for Shape {}
// SAFETY: as above.
unsafe impl aya::Pod for Control {}
// SAFETY: as above.
unsafe impl aya::Pod for Progress {}
// SAFETY: as above.
unsafe impl aya::Pod for Count {}
// SAFETY: as above.
unsafe impl aya::Pod for Track {}
// SAFETY: as above.
unsafe impl aya::Pod for Port {}
// SAFETY: as above.
unsafe impl aya::Pod for Frame {}
