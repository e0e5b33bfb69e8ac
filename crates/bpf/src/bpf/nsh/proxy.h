/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* State of an SFC proxy (RFC 7665 section 4.6): the NSH of each flow at an SFC-unaware function, found by the flow
 * as it was sent and, if the function changed one side, by the other side. */
#ifndef HAWSER_NSH_PROXY_H
#define HAWSER_NSH_PROXY_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"

const volatile __u8 proxies = 0; /* whether any port has an SFC-unaware function */

/* By flow, with the proxy's number as its port and enum proxy_side in place of the code point. */
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

/* Stores one side of a flow. If flows of several paths share it, it is marked as ambiguous. */
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
	FOUND_SAME, /* the flow as it was sent, or as it returned before */
	FOUND_REVERSE, /* a reply that the function originated */
	FOUND_SIDE, /* one side matches, the other has changed */
	FOUND_SEVERAL, /* one side matches flows of several paths */
	FOUND_NONE,
};

/* The flow of a packet that returned from an SFC-unaware function. */
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

#endif
