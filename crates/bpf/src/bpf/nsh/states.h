/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking of a firewall. */
#ifndef HAWSER_NSH_STATES_H
#define HAWSER_NSH_STATES_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "rules.h"

const volatile __u64 idle_ns = 0; /* flow state expires after this idle time; 0: stateless */

/* Allowed flows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct nsh_state);
} states SEC(".maps");

/* Makes a key that is the same for both directions; returns whether source and destination were swapped. */
static __always_inline __u32 put_in_order(const struct flow *f, struct flow *key)
{
	const __u64 *s = (const __u64 *)f->source, *d = (const __u64 *)f->destination;
	__u32 turned = s[0] != d[0] ? s[0] > d[0] :
		       s[1] != d[1] ? s[1] > d[1] : f->source_port > f->destination_port;

	*key = *f;
	key->dscp = 0;
	key->port = 0;
	if (turned) {
		__builtin_memcpy(key->source, f->destination, 16);
		__builtin_memcpy(key->destination, f->source, 16);
		key->source_port = f->destination_port;
		key->destination_port = f->source_port;
	}
	return turned;
}

/* Whether a packet may pass: its flow has been allowed, or the rules allow the flow in its initiator's direction.
 * Flows are checked again after the rules have changed. */
static __always_inline int is_allowed(struct flow *flow)
{
	struct flow key __attribute__((aligned(8)));
	struct nsh_state *known, new = {};
	__u32 slot = rules_slot(), turned;
	struct rules_set *set = bpf_map_lookup_elem(&rules_sets, &slot);
	__u64 now;

	if (!idle_ns || !set)
		return rules_find(flow, slot).action == ACTION_ALLOW;
	now = bpf_ktime_get_ns();
	turned = put_in_order(flow, &key);
	known = bpf_map_lookup_elem(&states, &key);
	if (known && now - known->last_ns > idle_ns)
		known = 0;
	if (known && known->rules == set->number) {
		known->last_ns = now;
		return 1;
	}
	new.last_ns = now;
	new.rules = set->number;
	new.turned = known ? known->turned : turned;
	if (new.turned != turned)
		flow_turn(flow);
	if (rules_find(flow, slot).action != ACTION_ALLOW)
		return 0;
	bpf_map_update_elem(&states, &key, &new, BPF_ANY);
	return 1;
}

#endif
