/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Find the load payload of a frame, however it is wrapped: tags, segment routing, IP in IP, VXLAN, NSH. */
#ifndef HAWSER_PARSE_H
#define HAWSER_PARSE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "load.h"
#include "payload.h"

#define ETH_P_IPV4 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_P_VLAN 0x8100
#define ETH_P_QINQ 0x88a8
#define ETH_P_SERVICE 0x894f
#define PROTO_IPV4 4
#define PROTO_UDP 17
#define PROTO_IPV6 41
#define PROTO_ROUTING 43
#define PORT_VXLAN 4789

#define PARSE_STEPS 10 /* headers looked at: two tags, three IP, two routing, UDP, VXLAN, Ethernet */
#define PARSE_REACH 256 /* bytes into the frame; a bound the verifier can follow */

enum step { STEP_ETHERNET, STEP_TAG, STEP_IPV4, STEP_IPV6, STEP_ROUTING, STEP_UDP, STEP_VXLAN,
	    STEP_NSH, STEP_NONE };

struct cursor {
	__u8 *data;
	__u8 *end;
	__u32 offset;
	__u32 ip; /* offset of the last IP header */
};

static __always_inline __u8 *reach(struct cursor *c, __u32 bytes)
{
	__u8 *at;

	if (c->offset > PARSE_REACH)
		return 0;
	at = c->data + c->offset;
	return at + bytes > c->end ? 0 : at;
}

static __always_inline enum step after_type(__be16 type)
{
	switch (type) {
	case bpf_htons(ETH_P_IPV4): return STEP_IPV4;
	case bpf_htons(ETH_P_IPV6): return STEP_IPV6;
	case bpf_htons(ETH_P_VLAN):
	case bpf_htons(ETH_P_QINQ): return STEP_TAG;
	case bpf_htons(ETH_P_SERVICE): return STEP_NSH;
	default: return STEP_NONE;
	}
}

static __always_inline enum step after_protocol(__u8 protocol)
{
	switch (protocol) {
	case PROTO_UDP: return STEP_UDP;
	case PROTO_IPV4: return STEP_IPV4;
	case PROTO_IPV6: return STEP_IPV6;
	case PROTO_ROUTING: return STEP_ROUTING;
	default: return STEP_NONE;
	}
}

/* By the next protocols of RFC 8300 section 2.2. */
static __always_inline enum step after_service(__u8 protocol)
{
	switch (protocol) {
	case 1: return STEP_IPV4;
	case 2: return STEP_IPV6;
	case 3: return STEP_ETHERNET;
	default: return STEP_NONE;
	}
}

static __always_inline enum step pass_ipv4(struct cursor *c)
{
	__u8 *at = reach(c, 20);

	if (!at || at[0] < 0x45 || *(__be16 *)(at + 6) & bpf_htons(0x3fff)) /* fragments */
		return STEP_NONE;
	c->ip = c->offset;
	c->offset += (at[0] & 15) * 4;
	return after_protocol(at[9]);
}

static __always_inline enum step pass_ipv6(struct cursor *c)
{
	__u8 *at = reach(c, 40);

	c->ip = c->offset;
	c->offset += 40;
	return at ? after_protocol(at[6]) : STEP_NONE;
}

/* Parses one header. STEP_NONE: not a load frame. */
static __always_inline enum step pass(struct cursor *c, enum step step)
{
	__u8 *at;

	switch (step) {
	case STEP_ETHERNET:
		at = reach(c, 14);
		c->offset += 14;
		return at ? after_type(*(__be16 *)(at + 12)) : STEP_NONE;
	case STEP_TAG:
		at = reach(c, 4);
		c->offset += 4;
		return at ? after_type(*(__be16 *)(at + 2)) : STEP_NONE;
	case STEP_IPV4:
		return pass_ipv4(c);
	case STEP_IPV6:
		return pass_ipv6(c);
	case STEP_ROUTING:
		at = reach(c, 8);
		if (!at)
			return STEP_NONE;
		c->offset += 8 + at[1] * 8;
		return after_protocol(at[0]);
	case STEP_NSH:
		at = reach(c, 8);
		if (!at)
			return STEP_NONE;
		c->offset += (at[1] & 63) * 4;
		return after_service(at[3]);
	case STEP_VXLAN:
		c->offset += 16; /* its UDP header too */
		return STEP_ETHERNET;
	default:
		return STEP_NONE;
	}
}

/* The payload of any frame. */
static __always_inline void *parse_payload(struct cursor *c)
{
	enum step step = STEP_ETHERNET;
	void *payload;
	__u8 *udp;

	for (int i = 0; i < PARSE_STEPS; i++) {
		if (step == STEP_UDP) {
			udp = reach(c, 8 + LOAD_PAYLOAD);
			if (!udp)
				return 0;
			payload = udp + 8;
			if (*payload_magic(payload) == bpf_htons(LOAD_MAGIC))
				return payload;
			step = *(__be16 *)(udp + 2) == bpf_htons(PORT_VXLAN) ? STEP_VXLAN : STEP_NONE;
		}
		if (step == STEP_NONE)
			return 0;
		step = pass(c, step);
	}
	return 0;
}

/* The payload of the most common frame, IPv4 without tags and options: four comparisons. */
static __always_inline void *plain_payload(struct cursor *c)
{
	__u8 *at = c->data;
	void *payload = at + 42;

	if (at + 42 + LOAD_PAYLOAD > c->end || *(__be16 *)(at + 12) != bpf_htons(ETH_P_IPV4))
		return 0;
	if (at[14] != 0x45 || at[23] != PROTO_UDP || *(__be16 *)(at + 20) & bpf_htons(0x3fff))
		return 0;
	c->ip = 14;
	c->offset = 34;
	return *payload_magic(payload) == bpf_htons(LOAD_MAGIC) ? payload : 0;
}

/* The payload, or null when the frame is not a load frame. `c->offset` is then at the UDP header. */
static __always_inline void *find_payload(struct cursor *c)
{
	void *plain = plain_payload(c);

	if (plain)
		return plain;
	c->offset = 0;
	return parse_payload(c);
}

#endif
