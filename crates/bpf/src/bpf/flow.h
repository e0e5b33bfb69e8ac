/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The flow of a packet: addresses, ports, protocol. */
#ifndef HAWSER_FLOW_H
#define HAWSER_FLOW_H

#include <linux/types.h>

/* IPv4 addresses are mapped to IPv6 (RFC 4291 section 2.5.5.2). Mirrored in ../flow.rs. */
struct flow {
	__u8 source[16];
	__u8 destination[16];
	__be16 source_port; /* 0 if the packet has none */
	__be16 destination_port;
	__u8 protocol;
	__u8 dscp;
	__u16 port; /* number of the ingress port */
};

_Static_assert(sizeof(struct flow) == 40, "flow");

#endif
