/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Structures shared by the switch and its loader. Mirrored in ../../switch/layout.rs; both assert the sizes. */
#ifndef HAWSER_SWITCH_H
#define HAWSER_SWITCH_H

#include <linux/types.h>

#define SWITCH_SNAP 1280 /* bytes of a packet in an event; ICMP errors are at most so long (RFC 4443 section 2.4) */
#define SWITCH_COUNTS 65536 /* counters: twice the entries, for the old and the new set */

enum switch_from { FROM_AGENT, FROM_WAN };
enum switch_place { PLACE_DESTINATION, PLACE_SOURCE, PLACE_BOTH };

/* Key of a flow entry. */
struct switch_key {
	__be32 source;
	__be32 destination;
	__be16 source_port; /* 0 unless it holds the label */
	__be16 destination_port; /* 0 unless it holds the label */
	__u8 from; /* enum switch_from */
	__u8 place; /* enum switch_place: which ports hold the label */
	__u16 pad;
};

/* Actions of a flow entry. */
struct switch_entry {
	__be32 source;
	__be32 destination;
	__be16 port; /* the new port if one port holds the label; a label in both is not rewritten */
	__u16 pad;
	__u32 interface; /* egress; 0: the local stack */
	__be32 next_hop;
	__u32 priority; /* class of the port's shaper; 0: unchanged */
	__u32 count; /* index of its counters */
};

/* The same for IPv6. */
struct switch_key6 {
	__be32 source[4];
	__be32 destination[4];
	__be16 source_port;
	__be16 destination_port;
	__u8 from;
	__u8 place;
	__u16 pad;
};

struct switch_entry6 {
	__be32 source[4];
	__be32 destination[4];
	__be16 port;
	__u16 pad;
	__u32 interface;
	__be32 next_hop[4];
	__u32 priority;
	__u32 count;
};

struct switch_count {
	__u64 packets; /* on the wire, after segmentation */
	__u64 bytes; /* of IP packets */
};

/* Why packets were dropped. */
enum switch_drop {
	DROP_NO_ENTRY, /* not local, or with a label that no entry matches */
	DROP_FRAGMENT, /* of an IPv4 packet that an entry matches */
	DROP_TOO_BIG, /* for the egress port */
	DROP_MALFORMED, /* a header or its checksum is wrong */
	DROP_TTL, /* or hop limit exhausted */
	DROP_FAILED, /* a helper failed, such as for a port that is gone */
	DROP_CAUSES,
};

enum switch_event_kind { EVENT_TOO_BIG, EVENT_ICMP_ERROR };

/* A packet for the daemon, which sends or translates an ICMP error. */
struct switch_event {
	__u32 kind;
	__u32 mtu; /* MTU of the egress port */
	__u32 length; /* bytes of data */
	__u32 pad;
	__u8 data[SWITCH_SNAP]; /* from the IP header */
};

_Static_assert(sizeof(struct switch_key) == 16, "switch_key");
_Static_assert(sizeof(struct switch_entry) == 28, "switch_entry");
_Static_assert(sizeof(struct switch_key6) == 40, "switch_key6");
_Static_assert(sizeof(struct switch_entry6) == 64, "switch_entry6");
_Static_assert(sizeof(struct switch_count) == 16, "switch_count");
_Static_assert(sizeof(struct switch_event) == 16 + SWITCH_SNAP, "switch_event");

#endif
