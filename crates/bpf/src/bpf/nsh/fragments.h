/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Fragments at a firewall: the first one has the ports, and decides for those behind it. */
#ifndef HAWSER_NSH_FRAGMENTS_H
#define HAWSER_NSH_FRAGMENTS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "states.h"

#define FRAGMENTS_NS 30000000000ull /* Linux reassembles for 30 s (net.ipv4.ipfrag_time) */

/* By addresses and protocol, with the datagram's identification in place of the ports. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct nsh_fragments);
} fragments SEC(".maps");

static __always_inline void fragment_key(struct flow *key, const struct flow *f, const struct flow_headers *h)
{
	*key = *f;
	key->source_port = h->id;
	key->destination_port = h->id >> 16;
	key->dscp = 0;
	key->port = 0;
}

/* The ports of a first fragment. One without all of its ports is refused (RFC 1858 section 3, RFC 7112); `admit` wants
 * all of a TCP header. */
static __always_inline int first_ports(struct xdp_md *ctx, struct flow *f, const struct flow_headers *h)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__be16 *ports = data + (h->upper & FLOW_OFFSET_MAX);

	if (!h->upper)
		return 0;
	if (f->protocol != IPPROTO_TCP && f->protocol != IPPROTO_UDP && f->protocol != IPPROTO_SCTP)
		return 1;
	if (h->length < 2 * sizeof(*ports) || (void *)(ports + 2) > end)
		return 0;
	f->source_port = ports[0];
	f->destination_port = ports[1];
	return 1;
}

/* A later fragment passes if the first one did. One that would overwrite that is refused with all that follow (RFC 1858
 * section 4.2, RFC 5722). */
static __always_inline int admit_later(const struct flow *key, const struct flow_headers *h, __u32 rules)
{
	struct nsh_fragments *known = bpf_map_lookup_elem(&fragments, key);

	if (!known || known->rules != rules || bpf_ktime_get_ns() - known->first_ns > FRAGMENTS_NS)
		return DROP_FRAGMENT;
	if (h->offset >= known->length)
		return -1;
	bpf_map_delete_elem(&fragments, key);
	return DROP_FRAGMENT;
}

static __always_inline int admit_fragment(struct xdp_md *ctx, struct flow *f, struct flow_headers *h)
{
	struct flow key __attribute__((aligned(8)));
	struct nsh_fragments new = {};
	__u32 slot = rules_slot();
	struct rules_set *set = bpf_map_lookup_elem(&rules_sets, &slot);
	int cause;

	if (!set)
		return DROP_FRAGMENT;
	fragment_key(&key, f, h);
	if (h->offset)
		return admit_later(&key, h, set->number);
	if (!first_ports(ctx, f, h))
		return DROP_FRAGMENT;
	new.first_ns = bpf_ktime_get_ns();
	new.rules = set->number;
	new.length = h->length;
	cause = admit(ctx, f, h);
	if (cause < 0)
		bpf_map_update_elem(&fragments, &key, &new, BPF_ANY);
	return cause;
}

#endif
