/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the segment routing proxy and its loader share. Mirrored in ../../srv6/layout.rs; both assert the
 * sizes. */
#ifndef HAWSER_SRV6_H
#define HAWSER_SRV6_H

#include <linux/types.h>

#define SRV6_PORTS 64
#define SRV6_PROXIES 64
#define SRV6_ROOM 208 /* bytes that fit in front of a frame: an IPv6 header and ten segments */
#define SRV6_COUNTS 3 /* of a proxy */

enum srv6_behaviour { BEHAVIOUR_STATIC, BEHAVIOUR_DYNAMIC, BEHAVIOUR_MASQUERADING };
enum srv6_family { FAMILY_IPV4, FAMILY_IPV6 };
enum srv6_count { COUNT_TOWARD, COUNT_RETURNED, COUNT_LEARNED };

enum srv6_drop {
	DROP_MALFORMED, /* shorter than its headers say, or these contradict each other */
	DROP_NOT_SRV6, /* to a segment, or back from a function, without the header that this needs */
	DROP_SEGMENTS_LEFT, /* none is left after the proxy's */
	DROP_HOP_LIMIT,
	DROP_PAYLOAD, /* neither IPv4 nor IPv6 inside */
	DROP_NO_CACHE, /* came back before an encapsulation was learned */
	DROP_TOO_LONG, /* headers that could not be put back */
	DROP_TOO_BIG, /* for the port it should leave by */
	DROP_CHANGED, /* by a function that must leave the masqueraded address as it is */
	DROP_FAILED, /* no room in front of the packet, or no such port */
	DROP_CAUSES,
};

/* How a packet leaves. */
struct srv6_way {
	__u32 port; /* place in the map of ports */
	__u32 frame_max; /* bytes that the port takes */
	__u8 mac[6];
	__u8 own_mac[6];
};

/* A segment or a port of a function: what happens to packets that come to it. */
struct srv6_proxy {
	__u32 behaviour;
	__u32 number;
	struct srv6_way way;
};

/* Headers to put in front; a length of 0 is none. The payload length in them is 0. */
struct srv6_headers {
	__u64 length;
	__u8 bytes[SRV6_ROOM] __attribute__((aligned(8)));
};

/* Of one proxy and inner family. The one in force is never written except for its first word. */
struct srv6_cache {
	__u32 in_force;
	__u32 busy;
	struct srv6_headers headers[2];
};

struct srv6_tally {
	__u64 packets;
	__u64 bytes; /* of frames as they came in */
};

_Static_assert(sizeof(struct srv6_way) == 20, "srv6_way");
_Static_assert(sizeof(struct srv6_proxy) == 28, "srv6_proxy");
_Static_assert(sizeof(struct srv6_headers) == 8 + SRV6_ROOM, "srv6_headers");
_Static_assert(sizeof(struct srv6_cache) == 8 + 2 * (8 + SRV6_ROOM), "srv6_cache");
_Static_assert(sizeof(struct srv6_tally) == 16, "srv6_tally");

#endif
