/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Minimal node of a chain: look up an entry, write the Ethernet addresses, redirect. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

struct entry {
	__u32 port;
	__u8 addresses[12]; /* destination, source */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0;
	struct entry *entry;

	if (frame + sizeof(struct ethhdr) > end)
		return XDP_DROP;
	entry = bpf_map_lookup_elem(&entries, &key);
	if (!entry)
		return XDP_DROP;
	__builtin_memcpy(frame, entry->addresses, sizeof(entry->addresses));
	return bpf_redirect_map(&out, entry->port, XDP_DROP);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
