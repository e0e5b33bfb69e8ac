/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Parses the flow of a frame or packet. */
#ifndef HAWSER_FLOW_PARSE_H
#define HAWSER_FLOW_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow.h"

#define FLOW_MORE_FRAGMENTS 0x2000
#define FLOW_FRAGMENT_OFFSET 0x1fff
#define FLOW_TAGS 2
#define FLOW_EXTENSIONS 4 /* extension headers at most: hop-by-hop, destination options twice, routing */

enum flow_kind {
	FLOW_COMPLETE,
	FLOW_FRAGMENT, /* has no ports */
	FLOW_HIDDEN, /* ports unknown: behind headers that are not parsed */
	FLOW_NOT_IP,
	FLOW_MALFORMED,
};

/* TCP, UDP and SCTP have their ports at the same offset. */
static __always_inline enum flow_kind flow_ports(struct flow *f, void *at, void *end)
{
	__be16 *ports = at;

	if (f->protocol != IPPROTO_TCP && f->protocol != IPPROTO_UDP && f->protocol != IPPROTO_SCTP)
		return FLOW_COMPLETE;
	if ((void *)(ports + 2) > end)
		return FLOW_MALFORMED;
	f->source_port = ports[0];
	f->destination_port = ports[1];
	return FLOW_COMPLETE;
}

static __always_inline enum flow_kind flow_ipv4(struct flow *f, void *at, void *end)
{
	struct iphdr *ip = at;

	if ((void *)(ip + 1) > end || ip->ihl < 5)
		return FLOW_MALFORMED;
	f->source[10] = f->source[11] = f->destination[10] = f->destination[11] = 0xff;
	__builtin_memcpy(f->source + 12, &ip->saddr, 4);
	__builtin_memcpy(f->destination + 12, &ip->daddr, 4);
	f->protocol = ip->protocol;
	f->dscp = ip->tos >> 2;
	/* All fragments belong to one flow without ports, which only the first has. */
	if (ip->frag_off & bpf_htons(FLOW_MORE_FRAGMENTS | FLOW_FRAGMENT_OFFSET))
		return FLOW_FRAGMENT;
	return flow_ports(f, at + ip->ihl * 4, end);
}

static __always_inline enum flow_kind flow_ipv6(struct flow *f, void *at, void *end)
{
	struct ipv6hdr *ip = at;
	__u8 *next = (__u8 *)(ip + 1);

	if ((void *)(ip + 1) > end)
		return FLOW_MALFORMED;
	__builtin_memcpy(f->source, &ip->saddr, 16);
	__builtin_memcpy(f->destination, &ip->daddr, 16);
	f->protocol = ip->nexthdr;
	f->dscp = (bpf_ntohs(*(__be16 *)at) >> 6) & 63;
	for (int i = 0; i < FLOW_EXTENSIONS; i++) {
		if (f->protocol == IPPROTO_FRAGMENT)
			return FLOW_FRAGMENT;
		if (f->protocol != IPPROTO_HOPOPTS && f->protocol != IPPROTO_DSTOPTS &&
		    f->protocol != IPPROTO_ROUTING)
			return flow_ports(f, next, end);
		if ((void *)(next + 8) > end)
			return FLOW_MALFORMED;
		f->protocol = next[0];
		next += 8 + next[1] * 8; /* RFC 8200 section 4.3 */
	}
	return FLOW_HIDDEN;
}

/* Parses an IP packet. The caller zeroes `f`. */
static __always_inline enum flow_kind flow_ip(struct flow *f, void *at, void *end)
{
	__u8 *first = at;

	if ((void *)(first + 1) > end)
		return FLOW_MALFORMED;
	switch (*first >> 4) {
	case 4: return flow_ipv4(f, at, end);
	case 6: return flow_ipv6(f, at, end);
	default: return FLOW_MALFORMED;
	}
}

/* Parses a frame, with or without VLAN tags. The caller zeroes `f`. */
static __always_inline enum flow_kind flow_frame(struct flow *f, void *at, void *end)
{
	__be16 *type = at + 12;

	for (int i = 0; i < FLOW_TAGS; i++) {
		if ((void *)(type + 1) > end)
			return FLOW_MALFORMED;
		if (*type != bpf_htons(ETH_P_8021Q) && *type != bpf_htons(ETH_P_8021AD))
			break;
		type += 2;
	}
	if ((void *)(type + 1) > end)
		return FLOW_MALFORMED;
	if (*type != bpf_htons(ETH_P_IP) && *type != bpf_htons(ETH_P_IPV6))
		return FLOW_NOT_IP;
	return flow_ip(f, type + 1, end);
}

/* Swaps source and destination. */
static __always_inline void flow_turn(struct flow *f)
{
	struct flow other = *f;

	__builtin_memcpy(f->source, other.destination, 16);
	__builtin_memcpy(f->destination, other.source, 16);
	f->source_port = other.destination_port;
	f->destination_port = other.source_port;
}

/* Symmetric: both directions of a flow have the same hash, and so reach the same function. */
static __always_inline __u32 flow_hash(const struct flow *f)
{
	const __u32 *s = (const __u32 *)f->source, *d = (const __u32 *)f->destination;
	__u32 hash = (f->source_port ^ f->destination_port) + f->protocol;

	for (int i = 0; i < 4; i++) {
		hash = (hash ^ s[i] ^ d[i]) * 0x9e3779b1; /* 2^32 over the golden ratio */
		hash ^= hash >> 15;
	}
	return hash ^ hash >> 13;
}

#endif
