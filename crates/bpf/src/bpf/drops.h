/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Counters of dropped packets by cause. Include after the enumeration of a program's causes, which ends with
 * DROP_CAUSES. */
#ifndef HAWSER_DROPS_H
#define HAWSER_DROPS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DROP_CAUSES);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

static __always_inline void count_drop(__u32 cause)
{
	__u64 *count = bpf_map_lookup_elem(&drops, &cause);

	if (count)
		++*count;
}

#endif
