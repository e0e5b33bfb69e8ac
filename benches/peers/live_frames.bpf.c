/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Upper limit of XDP live frames: one program transmits its input, one counts and drops it. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} frames SEC(".maps");

SEC("xdp")
int send(struct xdp_md *ctx)
{
	return XDP_TX;
}

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *counter = bpf_map_lookup_elem(&frames, &zero);

	if (counter)
		++*counter;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
