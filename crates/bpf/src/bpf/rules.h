/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Finds the first rule that matches a flow by tuple space search (V. Srinivasan, S. Suri, G. Varghese: Packet
 * classification using tuple space search, SIGCOMM 1999).
 *
 * A tuple is a combination of bits that rules match. All entries are in one hash table, keyed by tuple and masked flow,
 * so a search does one lookup per tuple instead of one per rule. Tuples are in the order of their first rule; the search
 * ends when no later tuple can have an earlier rule. */
#ifndef HAWSER_RULES_H
#define HAWSER_RULES_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "flow.h"

#define RULES_TUPLES 2048 /* tuples of a set at most */
#define RULES_SLOTS 3 /* see `rules_in_force` */
#define RULES_NONE 0xffffffff

struct rules_key {
	struct flow flow; /* masked */
	__u32 tuple;
};

struct rules_match {
	__u32 rule; /* its number; the lowest applies */
	__u32 action;
};

struct rules_tuple {
	struct flow mask;
	__u32 first; /* lowest rule number of this tuple */
};

/* A set in its slot. */
struct rules_set {
	__u32 tuples;
	__u32 number; /* of this set; differs from that of the previous set */
};

_Static_assert(sizeof(struct rules_key) == 44, "rules_key");
_Static_assert(sizeof(struct rules_tuple) == 44, "rules_tuple");

struct rules_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct rules_key));
	__uint(value_size, sizeof(struct rules_match));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RULES_SLOTS);
	__uint(key_size, sizeof(__u32));
	__array(values, struct rules_table);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_SLOTS * RULES_TUPLES);
	__type(key, __u32);
	__type(value, struct rules_tuple);
} rules_tuples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_SLOTS);
	__type(key, __u32);
	__type(value, struct rules_set);
} rules_sets SEC(".maps");

/* The slot in force. A set is written to the next slot, then to this word, of which only the lowest byte ever changes.
 * With three slots, the one being written was left two replacements ago, and the replacement since then has waited for
 * all runs that had begun (an update of an array of maps ends with synchronize_rcu). No run sees a set change. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} rules_in_force SEC(".maps");

struct rules_search {
	const struct flow *flow;
	void *table;
	__u32 first_tuple;
	struct rules_match best;
};

static __always_inline void rules_mask(struct rules_key *key, const struct flow *flow,
				       const struct flow *mask)
{
	const __u64 *f = (const __u64 *)flow, *m = (const __u64 *)mask;
	__u64 *k = (__u64 *)key;

	for (int i = 0; i < 5; i++)
		k[i] = f[i] & m[i];
}

/* Looks up one tuple. Returns 1 to end the search. */
static long rules_step(__u32 index, struct rules_search *search)
{
	__u32 at = search->first_tuple + index;
	struct rules_tuple *tuple = bpf_map_lookup_elem(&rules_tuples, &at);
	struct rules_key key __attribute__((aligned(8)));
	struct rules_match *match;

	if (!tuple || tuple->first > search->best.rule)
		return 1;
	rules_mask(&key, search->flow, &tuple->mask);
	key.tuple = index;
	match = bpf_map_lookup_elem(search->table, &key);
	if (match && match->rule < search->best.rule)
		search->best = *match;
	return 0;
}

static __always_inline __u32 rules_slot(void)
{
	__u32 zero = 0;
	__u32 *slot = bpf_map_lookup_elem(&rules_in_force, &zero);

	return slot ? *slot : 0;
}

/* Finds the first rule of a slot that matches. Without one, its number is RULES_NONE and its action 0. */
static __always_inline struct rules_match rules_find(const struct flow *flow, __u32 slot)
{
	struct rules_search search = { flow, 0, slot * RULES_TUPLES, { RULES_NONE, 0 } };
	struct rules_set *set = bpf_map_lookup_elem(&rules_sets, &slot);

	search.table = bpf_map_lookup_elem(&rules, &slot);
	if (set && search.table)
		bpf_loop(set->tuples, rules_step, &search, 0);
	return search.best;
}

#endif
