//! The structures of `bpf/load/load.h`. Each size is asserted here and there.

#![allow(unsafe_code)] // plain data for the kernel

use crate::codes::load as codes;

/// Bytes of headers a frame can have in front of its payload.
pub const HEADER_MAX: usize = codes::LOAD_HEADER_MAX as usize;
/// Streams of one generator.
pub const STREAMS_MAX: usize = codes::LOAD_STREAMS_MAX as usize;
/// Bits of the timestamp on the wire.
pub const DELAY_BITS: u32 = codes::LOAD_DELAY_BITS;
/// Sub-buckets of an octave, as a power of two.
pub const SUB_BITS: u32 = codes::LOAD_SUB_BITS;
/// Buckets of a histogram.
pub const BUCKETS: u32 = (DELAY_BITS - SUB_BITS + 1) << SUB_BITS;
/// The number of the run is in the bits of a sequence number above these.
pub const RUN_SHIFT: u32 = codes::LOAD_RUN_SHIFT;
/// Longest frame of a recording.
pub const FRAME_MAX: usize = 2048;
/// Most bytes that are kept of a captured frame.
pub const SNAP_MAX: usize = 2048;

/// One flow as the generator writes it. Ports are in network byte order, sums are one's complement
/// sums of 16-bit words in memory order.
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
    /// The next sequence number.
    pub sequence: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
}

/// One frame size: its headers with every length in place.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the frame, without frame check sequence.
    pub length: u32,
    /// Sum of the IPv4 header without addresses and checksum; unused for IPv6.
    pub ip_sum: u32,
    /// Sum of UDP header and pseudo header without addresses and ports.
    pub udp_sum: u32,
    /// Bytes in front of the payload.
    pub header_length: u16,
    /// Offset of the innermost IP header.
    pub ip_offset: u16,
    /// Offset of the innermost UDP header.
    pub udp_offset: u16,
    /// Offset of an outer UDP source port; 0 where there is none.
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
    /// The rest, in 2^-32 ns.
    pub interval_fraction: u64,
    /// Frames to a due time.
    pub burst: u64,
    /// Frames of the schedule.
    pub limit: u64,
    /// Frames that are later than this are given up.
    pub catch_up_ns: u64,
    /// Where its flows begin in the table.
    pub first_flow: u32,
    /// How many it has.
    pub flow_count: u32,
    /// Where its pattern of shapes begins.
    pub first_pattern: u32,
    /// How long it is.
    pub pattern_length: u32,
}

/// Where a stream is in its schedule.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When the next frame is due, on `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// The rest, in 2^-32 ns.
    pub due_fraction: u64,
    /// Frames of this due time that are out.
    pub burst_done: u64,
    /// Frames of the schedule that are behind us, sent or given up.
    pub position: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames given up.
    pub unsent: u64,
    /// When the first was sent.
    pub first_ns: u64,
    /// When the last was sent.
    pub last_ns: u64,
    /// Flow of the next frame.
    pub flow: u32,
    /// Its place in the pattern.
    pub pattern: u32,
}

/// Counters of one flow at the receiver.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames, every copy.
    pub received: u64,
    /// Their bytes, without frame check sequence.
    pub bytes: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// RFC 4737 section 3.3.
    pub reordered: u64,
    /// Frames too old for the window to tell whether they came before.
    pub late: u64,
    /// Sum of the one-way delays of first copies, ns.
    pub delay_sum: u64,
    /// Greatest of them.
    pub delay_max: u64,
    /// Least of them, inverted, so that zero means none.
    pub delay_min_inverted: u64,
    /// When the first came.
    pub first_ns: u64,
    /// When the last came.
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

/// What all CPUs share of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// One more than the highest sequence number seen.
    pub expected: u64,
    /// The last delay plus one; zero means none.
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
    /// Load frames of another run, or of no flow of ours.
    pub foreign: u64,
    /// Frames sent back.
    pub reflected: u64,
    /// Frames captured.
    pub captured: u64,
    /// Frames that found the capture ring full.
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
    /// Bytes of it.
    pub length: u32,
    /// Zero.
    pub pad: u32,
    /// The frame.
    pub data: [u8; FRAME_MAX],
}

/// The head of a captured frame in the ring; `SNAP_MAX` bytes of frame follow.
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

// SAFETY: `repr(C)` structures of integers and byte arrays whose sizes leave no room for padding:
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
