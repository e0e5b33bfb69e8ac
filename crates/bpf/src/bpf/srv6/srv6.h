/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Structures shared by the SRv6 proxy and its loader. Mirrored in ../../srv6/layout.rs; both assert the sizes. */
#ifndef HAWSER_SRV6_H
#define HAWSER_SRV6_H

#include <linux/types.h>

#define SRV6_PORTS 64
#define SRV6_PROXIES 64
#define SRV6_HEADERS_MAX 208 /* bytes of headroom that are used: an IPv6 header and an SRH of ten segments */
#define SRV6_EXTENSIONS 4 /* extension headers before a segment routing header at most; with more, it is assumed */
#define SRV6_COUNTS 3 /* counters of a proxy */

/* OUTSIDE: of a port that is not trusted and on which nothing returns */
enum srv6_behaviour { BEHAVIOUR_STATIC, BEHAVIOUR_DYNAMIC, BEHAVIOUR_MASQUERADING, BEHAVIOUR_OUTSIDE };
enum srv6_family { FAMILY_IPV4, FAMILY_IPV6 };
enum srv6_count { COUNT_TOWARD, COUNT_RETURNED, COUNT_LEARNED };

enum srv6_drop {
	DROP_MALFORMED, /* truncated, or headers contradict each other */
	DROP_NOT_SRV6, /* to a segment, or back from a function, without the SRH it needs */
	DROP_SEGMENTS_LEFT, /* no segment is left after the proxy's */
	DROP_HOP_LIMIT,
	DROP_PAYLOAD, /* inner packet is neither IPv4 nor IPv6 */
	DROP_NO_CACHE, /* returned before an encapsulation was learned */
	DROP_TOO_LONG, /* headers too long to be restored */
	DROP_TOO_BIG, /* for the egress port */
	DROP_CHANGED, /* the function changed the destination of a masqueraded packet */
	DROP_FAILED, /* no headroom, or no such port */
	DROP_UNTRUSTED_SRH, /* to a segment, or with an SRH, from a port that is not trusted (RFC 8754 section 5.1) */
	DROP_CAUSES,
};

/* A next hop. */
struct srv6_next_hop {
	__u32 port; /* index in `devices` */
	__u32 frame_max; /* largest frame of the port, bytes */
	__u8 mac[6];
	__u8 own_mac[6];
};

/* What is done with packets to a segment, or on the return port of a function. */
struct srv6_proxy {
	__u32 behaviour;
	__u32 number;
	__u32 trusted; /* on a return port: whether packets from it may enter segments */
	struct srv6_next_hop next_hop;
};

/* Headers to add; length 0: none known. Their payload length is 0. */
struct srv6_headers {
	__u64 length;
	__u8 bytes[SRV6_HEADERS_MAX] __attribute__((aligned(8)));
};

/* Headers of one proxy and inner family, double-buffered: only the first word of the active half is ever written. */
struct srv6_cache {
	__u32 in_force;
	__u32 busy;
	struct srv6_headers headers[2];
};

struct srv6_tally {
	__u64 packets;
	__u64 bytes; /* of frames on arrival */
};

_Static_assert(sizeof(struct srv6_next_hop) == 20, "srv6_next_hop");
_Static_assert(sizeof(struct srv6_proxy) == 32, "srv6_proxy");
_Static_assert(sizeof(struct srv6_headers) == 8 + SRV6_HEADERS_MAX, "srv6_headers");
_Static_assert(sizeof(struct srv6_cache) == 8 + 2 * (8 + SRV6_HEADERS_MAX), "srv6_cache");
_Static_assert(sizeof(struct srv6_tally) == 16, "srv6_tally");

#endif
