/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Structures shared by the load programs and their loader. Mirrored in ../../layout.rs; both assert the sizes. */
#ifndef HAWSER_LOAD_H
#define HAWSER_LOAD_H

#include <linux/types.h>

#define LOAD_HEADER_MAX 192 /* Ethernet, two tags, IPv6, segment routing header of 4, IPv6, UDP: 182 */
#define LOAD_FRAME_MAX 4096
#define LOAD_STREAMS_MAX 16
#define LOAD_PAYLOAD 18
#define LOAD_MAGIC 0x4857 /* "HW" */
#define LOAD_DELAY_BITS 40 /* of the timestamp on the wire */
#define LOAD_DELAY_MASK ((1ULL << LOAD_DELAY_BITS) - 1)
#define LOAD_RUN_SHIFT 48 /* the run's number is in the upper 16 bits of a sequence number */

/* Buckets of a histogram: exact below 2^7 ns, then 128 to the octave up to 2^40 ns. */
#define LOAD_SUB_BITS 7
#define LOAD_BUCKETS ((LOAD_DELAY_BITS - LOAD_SUB_BITS + 1) << LOAD_SUB_BITS)

/* One flow as the generator writes it. Addresses of IPv4 are in the first four bytes. */
struct load_flow {
	__u8 source[16];
	__u8 target[16];
	__be16 source_port;
	__be16 target_port;
	__be16 entropy; /* source port of an outer UDP header */
	__u16 pad;
	__u32 address_sum; /* one's complement sums of 16-bit words in memory order */
	__u32 port_sum;
	__u64 sequence; /* the next one; a trial starts with run << 48 */
	__u64 bytes;
};

/* One frame size: its headers with every length in place. */
struct load_shape {
	__u32 length;
	__u32 ip_sum; /* IPv4 header without addresses and checksum */
	__u32 udp_sum; /* UDP header and pseudo header without addresses and ports */
	__u16 header_length; /* bytes in front of the payload */
	__u16 ip_offset; /* of the innermost IP header */
	__u16 udp_offset;
	__u16 entropy_offset; /* of an outer UDP source port; 0: none */
	__u32 ip_version;
	__u8 header[LOAD_HEADER_MAX];
};

/* One stream: what the loader sets, also while frames are being sent. */
struct load_control {
	__u64 interval_ns; /* between due times; with the fraction 0: as fast as possible */
	__u64 interval_fraction; /* in 2^-32 ns */
	__u64 burst; /* frames to a due time */
	__u64 limit; /* frames of the schedule */
	__u64 catch_up_ns; /* frames later than this are skipped */
	__u32 first_flow;
	__u32 flow_count;
	__u32 first_pattern;
	__u32 pattern_length;
};

/* Where a stream is in its schedule. */
struct load_progress {
	__u64 due_ns;
	__u64 due_fraction;
	__u64 burst_done; /* frames of this due time already sent */
	__u64 position; /* frames of the schedule that were sent or skipped */
	__u64 sent;
	__u64 unsent; /* skipped */
	__u64 first_ns;
	__u64 last_ns;
	__u32 flow; /* of the next frame, from the stream's first */
	__u32 pattern; /* likewise */
};

/* Counters of one flow at the receiver, one copy a CPU. */
struct load_count {
	__u64 received; /* every copy */
	__u64 bytes;
	__u64 duplicated;
	__u64 reordered; /* RFC 4737 section 3.3 */
	__u64 late; /* older than the window, so that duplicates cannot be detected */
	__u64 delay_sum;
	__u64 delay_max;
	__u64 delay_min_inverted; /* ~minimum, so that zero means none */
	__u64 first_ns;
	__u64 last_ns;
};

/* State of a flow shared by all CPUs. */
struct load_track {
	__u64 expected; /* one more than the highest sequence number seen */
	__u64 last_delay; /* plus one; zero means none */
};

/* Counters of a port. */
struct load_port {
	__u64 other; /* frames that are not load frames */
	__u64 other_bytes;
	__u64 foreign; /* load frames of another run or an unknown flow */
	__u64 reflected;
	__u64 captured;
	__u64 uncaptured; /* the ring was full */
};

/* One frame of a recording. */
struct load_frame {
	__u32 length;
	__u32 pad;
	__u8 data[2048];
};

/* One captured frame. */
struct load_capture {
	__u64 time_ns;
	__u32 length;
	__u32 captured;
	__u8 data[2048];
};

_Static_assert(sizeof(struct load_flow) == 64, "load_flow");
_Static_assert(sizeof(struct load_shape) == 24 + LOAD_HEADER_MAX, "load_shape");
_Static_assert(sizeof(struct load_control) == 56, "load_control");
_Static_assert(sizeof(struct load_progress) == 72, "load_progress");
_Static_assert(sizeof(struct load_count) == 80, "load_count");
_Static_assert(sizeof(struct load_track) == 16, "load_track");
_Static_assert(sizeof(struct load_port) == 48, "load_port");
_Static_assert(sizeof(struct load_frame) == 8 + 2048, "load_frame");
_Static_assert(sizeof(struct load_capture) == 16 + 2048, "load_capture");

#endif
