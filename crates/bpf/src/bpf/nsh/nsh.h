/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Structures shared by the service chain program and its loader. Mirrored in ../../nsh/layout.rs; both assert the
 * sizes. */
#ifndef HAWSER_NSH_H
#define HAWSER_NSH_H

#include <linux/types.h>

#include "flow.h"

#define NSH_PORTS 256
#define NSH_COUNTS 65536
#define NSH_FORWARDERS 16384
#define NSH_CLASSES 1024
#define NSH_TARGETS 16 /* instances of one function */
#define NSH_BUCKETS 64 /* hash buckets that spread flows over instances */
#define NSH_RINGS 4 /* readers of observations */
#define NSH_HEADER_MAX 128 /* bytes of an NSH that is written, rounded up to a power of two for the verifier */

enum nsh_encapsulation { ENCAPSULATION_ETHERNET, ENCAPSULATION_VXLAN_GPE };
enum nsh_proxy { PROXY_NONE, PROXY_FLOWS, PROXY_RULES }; /* how an SFC proxy finds a returning packet's path */
enum nsh_kind { HOP_FORWARD, HOP_END };
enum nsh_otherwise { OTHERWISE_PASS, OTHERWISE_DROP, OTHERWISE_PORT };

enum nsh_drop {
	DROP_MALFORMED, /* shorter than its headers say */
	DROP_VERSION,
	DROP_MD_TYPE,
	DROP_LENGTH, /* contradicts the MD type */
	DROP_OAM,
	DROP_NEXT_PROTOCOL, /* payload that cannot leave the path here */
	DROP_NO_HOP, /* no entry for path and index */
	DROP_INDEX, /* service index exhausted */
	DROP_TTL,
	DROP_TOO_BIG, /* for the egress port */
	DROP_UNCLASSIFIED,
	DROP_FAILED, /* no headroom, or no such port */
	DROP_DENIED, /* by a firewall rule */
	DROP_FRAGMENT, /* at a firewall: of a datagram whose first fragment was not allowed, or overlaps that */
	DROP_UNKNOWN_FLOW, /* from an SFC-unaware function, of a flow that was not sent there */
	DROP_SEVERAL_PATHS, /* from an SFC-unaware function with changed addresses that fit several paths */
	DROP_UNTRUSTED_NSH, /* from a port that is not trusted, as the next two (RFC 8300 section 8) */
	DROP_UNTRUSTED_VXLAN_GPE,
	DROP_UNTRUSTED_SRH, /* RFC 8754 section 5.1 */
	DROP_UNKNOWN_FORWARDER, /* VXLAN-GPE from an address that is no forwarder's */
	DROP_OPAQUE, /* may be IP or one of these, behind more headers than are parsed */
	DROP_NOT_IP, /* at a firewall, and not ARP */
	DROP_TCP_STATE, /* at a firewall: a segment that fits no connection */
	DROP_CAUSES,
};

/* A next hop. */
struct nsh_target {
	__u32 port; /* index in `devices` */
	__u32 frame_max; /* largest frame of the port, bytes */
	__u8 mac[6];
	__u8 own_mac[6];
	__u8 encapsulation;
	__u8 rewrite_mac; /* whether inner Ethernet addresses are rewritten when the NSH is removed */
	__u8 queued; /* leaves through the kernel's routing and queueing discipline */
	__u8 proxy; /* enum nsh_proxy; not PROXY_NONE: an SFC-unaware function */
	__be32 remote;
	__be32 local;
	__be32 vni; /* as in the header: 24 bits, shifted left by 8 */
	__u32 back; /* service path header of replies that an SFC-unaware function originates; 0: no path */
};

/* A forwarding entry, by service path identifier and index. */
struct nsh_hop {
	__u32 kind;
	__u32 count; /* index of its counters */
	__u32 targets;
	__u8 bucket[NSH_BUCKETS]; /* target of each hash bucket */
	struct nsh_target target[NSH_TARGETS];
};

/* A port, and what it does with frames that are on no path. */
struct nsh_port {
	__u32 classify;
	__u32 otherwise;
	__u32 other_port;
	__be32 own; /* local address of VXLAN-GPE; 0: none */
	__u8 mac[6]; /* its own */
	__u16 proxy; /* number of its SFC proxy if flows identify paths; else 0 */
	__u16 trusted; /* whether only nodes of the domain are behind it */
	__u16 mirror; /* whether copies of frames arrive here, which are observed and dropped */
};

/* The NSH of a class. */
struct nsh_class {
	__u32 length;
	__u32 count; /* index of its counters */
	__u8 header[NSH_HEADER_MAX];
};

struct nsh_count {
	__u64 packets;
	__u64 bytes; /* of frames on arrival */
};

/* Which packets are traced. Zero matches all. */
struct nsh_filter {
	__u64 left; /* events still to report */
	__u32 path; /* service path identifier */
	__u32 pad;
	__u8 source[16];
	__u8 destination[16];
};

/* The responder has answered, and then the initiator has spoken again: established. */
enum nsh_phase { PHASE_OPENING, PHASE_ANSWERED, PHASE_ESTABLISHED, PHASE_CLOSING };

/* State of an allowed flow. Its key has addresses and ports in a fixed order, the same for both directions. */
struct nsh_state {
	__u64 last_ns; /* time of the last packet in either direction, CLOCK_MONOTONIC */
	__u32 rules; /* number of the rule set that allowed it */
	__u32 expected; /* TCP: number by which the initiator acknowledges the responder's SYN */
	__u8 turned; /* whether the initiator is the destination of the key */
	__u8 phase;
	__u8 picked_up; /* TCP: seen in mid-stream first */
	__u8 finished; /* TCP: bits of the ends that have sent FIN */
	__u32 pad;
};

/* A datagram whose first fragment was allowed. */
struct nsh_fragments {
	__u64 first_ns;
	__u32 rules; /* number of the rule set */
	__u32 length; /* of the first fragment's payload */
};

/* A flow at an SFC-unaware function, and the NSH to restore. */
struct nsh_proxied {
	__u32 on; /* service path header after the function; 0: ambiguous, flows of several paths have this key */
	__u32 back; /* the same for replies that the function originates; 0: no path */
	__u32 length; /* of the NSH, bytes */
	__u8 macs[12]; /* inner Ethernet addresses */
	__u8 header[NSH_HEADER_MAX];
};

/* What a sensor needs of a packet. */
struct nsh_observation {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	struct flow flow; /* ports of TCP and UDP alone */
	__u16 length; /* of the IP packet, bytes */
	__u16 header_length; /* of IP and TCP; of IP and the length field of UDP, bytes */
	__u8 flags; /* of TCP */
	__u8 pad[3];
};

/* Packets at a sensor: told to user space, not told because the ring was full, not IP or malformed. */
enum nsh_observed { OBSERVED_PACKETS, OBSERVED_LOST, OBSERVED_OTHER, OBSERVED_KINDS };

enum nsh_action { ACTION_NONE, ACTION_ALLOW, ACTION_DENY }; /* NONE: no rule matches, as if denied */

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
_Static_assert(sizeof(struct nsh_port) == 28, "nsh_port");
_Static_assert(sizeof(struct nsh_class) == 8 + NSH_HEADER_MAX, "nsh_class");
_Static_assert(sizeof(struct nsh_count) == 16, "nsh_count");
_Static_assert(sizeof(struct nsh_filter) == 48, "nsh_filter");
_Static_assert(sizeof(struct nsh_state) == 24, "nsh_state");
_Static_assert(sizeof(struct nsh_proxied) == 24 + NSH_HEADER_MAX, "nsh_proxied");
_Static_assert(sizeof(struct nsh_event) == 72, "nsh_event");
_Static_assert(sizeof(struct nsh_observation) == 56, "nsh_observation");

#endif
