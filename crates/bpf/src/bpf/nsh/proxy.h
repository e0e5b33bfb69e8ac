/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What an SFC proxy (RFC 7665 section 4.6) remembers of flows that went to a function without headers: the
 * header that each had, by its addresses and ports as they went in and as they came back. */
#ifndef HAWSER_NSH_PROXY_H
#define HAWSER_NSH_PROXY_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"

#define ICMP_HEADER 8
#define ICMP_UNREACHABLE 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMPV6_INFORMATIONAL 128

const volatile __u8 proxies = 0; /* whether there are functions without headers at some port */

/* By flow, its port that of the proxy. What its code point would be says which side of it is known. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct nsh_proxied);
} proxied SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nsh_proxied);
} fresh SEC(".maps");

enum proxy_side { SIDE_BOTH, SIDE_TO, SIDE_FROM };

static __always_inline void keep_destination(struct flow *f)
{
	__builtin_memset(f->source, 0, sizeof(f->source));
	f->source_port = 0;
	f->dscp = SIDE_TO;
}

static __always_inline void keep_source(struct flow *f)
{
	__builtin_memset(f->destination, 0, sizeof(f->destination));
	f->destination_port = 0;
	f->dscp = SIDE_FROM;
}

/* One side of a flow: where flows of several paths share it, it tells no path. */
static __always_inline void keep_side(const struct flow *side, const struct nsh_proxied *new)
{
	struct nsh_proxied *known = bpf_map_lookup_elem(&proxied, side);

	if (!known)
		bpf_map_update_elem(&proxied, side, new, BPF_NOEXIST);
	else if (known->on != new->on)
		known->on = 0;
}

static __noinline int keep(struct flow *flow, struct nsh_proxied *new)
{
	struct flow side __attribute__((aligned(8)));

	if (!flow || !new)
		return 0;
	bpf_map_update_elem(&proxied, flow, new, BPF_ANY);
	side = *flow;
	keep_destination(&side);
	keep_side(&side, new);
	side = *flow;
	keep_source(&side);
	keep_side(&side, new);
	return 0;
}

enum proxy_found {
	FOUND_SAME, /* the flow as it went in, or as it came back before */
	FOUND_REVERSE, /* an answer to it by the function itself */
	FOUND_SIDE, /* its other side has changed */
	FOUND_SEVERAL, /* several paths would fit */
	FOUND_NONE,
};

/* The flow that a packet without header belongs to. */
static __always_inline struct nsh_proxied *find_flow(const struct flow *flow, enum proxy_found *how)
{
	struct flow key __attribute__((aligned(8))) = *flow;
	struct nsh_proxied *known = bpf_map_lookup_elem(&proxied, &key);

	*how = FOUND_SAME;
	if (known)
		return known;
	flow_turn(&key);
	*how = FOUND_REVERSE;
	known = bpf_map_lookup_elem(&proxied, &key);
	if (known)
		return known;
	*how = FOUND_SIDE;
	key = *flow;
	keep_destination(&key);
	known = bpf_map_lookup_elem(&proxied, &key);
	if (!known) {
		key = *flow;
		keep_source(&key);
		known = bpf_map_lookup_elem(&proxied, &key);
	}
	if (!known)
		*how = FOUND_NONE;
	else if (!known->on)
		*how = FOUND_SEVERAL;
	return known;
}

/* Whether a message of this type tells of a packet that went nowhere. */
static __always_inline int is_icmp_error(const struct flow *f, __u8 type)
{
	if (f->protocol == IPPROTO_ICMPV6)
		return type < ICMPV6_INFORMATIONAL;
	return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM;
}

/* The flow that an ICMP error tells of (RFC 792, RFC 4443 section 2.1). `f` has the error's own. */
static __always_inline int told_flow(struct flow *f, void *data, void *end)
{
	__u8 *type = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	__u16 port = f->port;

	if (f->protocol == IPPROTO_ICMPV6)
		type = data + sizeof(struct ethhdr) + sizeof(struct ipv6hdr);
	else if (f->protocol != IPPROTO_ICMP)
		return 0;
	if ((void *)(type + ICMP_HEADER) > end || !is_icmp_error(f, *type))
		return 0;
	__builtin_memset(f, 0, sizeof(*f));
	if (flow_ip(f, type + ICMP_HEADER, end) >= FLOW_NOT_IP)
		return 0;
	f->dscp = SIDE_BOTH;
	f->port = port;
	return 1;
}

#endif
