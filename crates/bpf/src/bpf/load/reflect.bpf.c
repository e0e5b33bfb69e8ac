/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The reflector: returns load frames to their sender, for two-way measurements between machines with different
 * clocks. Swapping addresses and ports does not change the checksums. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "load.h"
#include "parse.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_port);
} port SEC(".maps");

static __always_inline void swap(__u8 *one, __u8 *other, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		__u8 byte = one[i];

		one[i] = other[i];
		other[i] = byte;
	}
}

/* Only plain frames, with or without VLAN tags, can be returned: a segment list has no reverse. */
static __always_inline int plain(const struct cursor *c)
{
	return c->ip == 14 || c->ip == 18 || c->ip == 22;
}

static __always_inline int turn_round(struct cursor *c)
{
	__u8 *ip = c->data + (c->ip & 0xff), *udp;

	if (ip + 40 > c->end)
		return -1;
	if (ip[0] >> 4 == 6)
		swap(ip + 8, ip + 24, 16);
	else
		swap(ip + 12, ip + 16, 4);
	udp = reach(c, 8);
	if (!udp)
		return -1;
	swap(udp, udp + 2, 2);
	swap(c->data, c->data + 6, 6);
	return 0;
}

SEC("xdp")
int load_reflect(struct xdp_md *ctx)
{
	struct cursor c = { (void *)(long)ctx->data, (void *)(long)ctx->data_end, 0, 0 };
	__u32 length = c.end - c.data, zero = 0;
	struct load_port *p = bpf_map_lookup_elem(&port, &zero);
	void *payload = find_payload(&c);

	if (!p)
		return XDP_PASS;
	if (!payload || !plain(&c) || c.data + 14 > c.end || turn_round(&c)) {
		p->other++;
		p->other_bytes += length;
		return XDP_PASS;
	}
	p->reflected++;
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
