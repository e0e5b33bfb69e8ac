/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the service chain programs and their loader share. Mirrored in ../../nsh/layout.rs; both assert the
 * sizes. */
#ifndef HAWSER_NSH_H
#define HAWSER_NSH_H

#include <linux/types.h>

#include "flow.h"

#define NSH_PORTS 256
#define NSH_COUNTS 65536
#define NSH_CLASSES 1024
#define NSH_TARGETS 16 /* instances of one function */
#define NSH_BUCKETS 64 /* that flows of several instances fall into */
#define NSH_HEADER_MAX 128 /* bytes of a header that a classifier writes */

enum nsh_encapsulation { ENCAPSULATION_ETHERNET, ENCAPSULATION_VXLAN_GPE };
enum nsh_bare { BARE_NOT, BARE_FLOWS, BARE_RULES }; /* how packets without header are known again */
enum nsh_kind { HOP_FORWARD, HOP_END };
enum nsh_otherwise { OTHERWISE_PASS, OTHERWISE_DROP, OTHERWISE_PORT };

enum nsh_drop {
	DROP_MALFORMED, /* shorter than its headers say */
	DROP_VERSION,
	DROP_MD_TYPE,
	DROP_LENGTH, /* not that of its MD type */
	DROP_OAM,
	DROP_NEXT_PROTOCOL, /* nothing that can leave the path here */
	DROP_NO_HOP, /* no entry for path and index */
	DROP_INDEX, /* service index used up */
	DROP_TTL,
	DROP_TOO_BIG, /* for the port it should leave by */
	DROP_UNCLASSIFIED,
	DROP_FAILED, /* no room in front of the packet, or no such port */
	DROP_DENIED, /* by a rule of the firewall */
	DROP_FRAGMENT, /* shows no ports, which rules may look at */
	DROP_UNKNOWN_FLOW, /* came back from a function without headers, and never went there */
	DROP_SEVERAL_PATHS, /* came back with other addresses, and flows of several paths are like it */
	DROP_CAUSES,
};

/* Where packets of a hop may go. */
struct nsh_target {
	__u32 port; /* place in the map of ports */
	__u32 frame_max; /* bytes that the port takes */
	__u8 mac[6];
	__u8 own_mac[6];
	__u8 encapsulation;
	__u8 rewrite_mac; /* at the end of a path: whether inner Ethernet addresses are written */
	__u8 queued; /* leaves by the kernel's routes, through the port's queues */
	__u8 bare; /* of enum nsh_bare */
	__be32 remote;
	__be32 local;
	__be32 vni; /* as it stands in the header */
	__u32 back; /* path and index on which answers of a function without headers go; 0: on none */
};

/* One entry: what happens to packets at a place of a path. */
struct nsh_hop {
	__u32 kind;
	__u32 count; /* index of its counters */
	__u32 targets;
	__u8 bucket[NSH_BUCKETS]; /* the target of each */
	struct nsh_target target[NSH_TARGETS];
};

/* What a port does with frames that are on no path. */
struct nsh_port {
	__u32 classify;
	__u32 otherwise;
	__u32 other_port;
	__be32 own; /* address that VXLAN-GPE comes to; 0: none */
	__u8 mac[6]; /* its own */
	__u16 proxy; /* its number, where flows that come from it have been there without header; 0: not */
};

/* A header as a classifier writes it. */
struct nsh_class {
	__u32 length;
	__u32 count; /* index of its counters */
	__u8 header[NSH_HEADER_MAX];
};

struct nsh_count {
	__u64 packets;
	__u64 bytes; /* of frames as they came in */
};

/* Which packets are traced. Zero is every packet. */
struct nsh_filter {
	__u64 left; /* events still to be told */
	__u32 path; /* service path identifier */
	__u32 pad;
	__u8 source[16];
	__u8 destination[16];
};

/* A flow that a firewall let pass, under its addresses and ports in a fixed order. */
struct nsh_state {
	__u64 last_ns; /* when a packet of either direction came */
	__u32 rules; /* the set of rules that allowed it */
	__u32 turned; /* whether who began it stands second in the key */
};

/* A flow that went to a function without header. */
struct nsh_proxied {
	__u32 on; /* path and index on which it goes on; 0: flows of several paths look like this */
	__u32 back; /* the same for answers; 0: on none */
	__u32 length; /* of the header */
	__u8 macs[12]; /* inner Ethernet addresses */
	__u8 header[NSH_HEADER_MAX];
};

enum nsh_action { ACTION_ALLOW, ACTION_DENY };

enum nsh_step { STEP_FORWARDED, STEP_ENDED, STEP_CLASSIFIED, STEP_SERVED, STEP_DROPPED };

struct nsh_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 step;
	__u32 cause; /* of a drop */
	__u32 path; /* service path header, host byte order */
	__u32 in; /* interface */
	__u32 out; /* port */
	__u32 length;
	struct flow flow;
};

_Static_assert(sizeof(struct nsh_target) == 40, "nsh_target");
_Static_assert(sizeof(struct nsh_hop) == 12 + NSH_BUCKETS + NSH_TARGETS * 40, "nsh_hop");
_Static_assert(sizeof(struct nsh_port) == 24, "nsh_port");
_Static_assert(sizeof(struct nsh_class) == 8 + NSH_HEADER_MAX, "nsh_class");
_Static_assert(sizeof(struct nsh_count) == 16, "nsh_count");
_Static_assert(sizeof(struct nsh_filter) == 48, "nsh_filter");
_Static_assert(sizeof(struct nsh_state) == 16, "nsh_state");
_Static_assert(sizeof(struct nsh_proxied) == 24 + NSH_HEADER_MAX, "nsh_proxied");
_Static_assert(sizeof(struct nsh_event) == 72, "nsh_event");

#endif
