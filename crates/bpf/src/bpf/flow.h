/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The flow of a packet: addresses, ports, protocol. */
#ifndef HAWSER_FLOW_H
#define HAWSER_FLOW_H

#include <linux/types.h>

/* IPv4 addresses stand mapped into IPv6 (RFC 4291 section 2.5.5.2). Mirrored in ../flow.rs. */
struct flow {
	__u8 source[16];
	__u8 destination[16];
	__be16 source_port; /* 0 where the packet shows none */
	__be16 destination_port;
	__u8 protocol;
	__u8 dscp;
	__u16 port; /* the packet came in by */
};

_Static_assert(sizeof(struct flow) == 40, "flow");

#endif
