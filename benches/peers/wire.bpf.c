/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A faulty wire: passes frames from one port to another, and drops, swaps or duplicates some of
 * them. It counts the faults it makes, and the meter must find the same number. */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum fault { NONE, DROP, SWAP, DOUBLE, POLICE };

struct config {
	__u64 fault;
	__u64 seed;
	__u64 rate; /* POLICE: frames per second */
	__u64 depth; /* POLICE: depth of the bucket in frames */
};

struct state {
	__u64 frames;
	__u64 faults;
	__u64 tokens; /* in units of 1/1024 ns */
	__u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

/* The same port twice, so that a broadcast sends two copies. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} twice SEC(".maps");

/* splitmix64 */
static __always_inline __u64 mix(__u64 value)
{
	value += 0x9e3779b97f4a7c15;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

/* Swap the contents of two neighbouring frames, which looks the same on the wire as swapping the
 * frames. In a plain IPv4 frame, flow and sequence number are bytes 44 to 59; byte 59 is the last
 * byte of the sequence number. */
static __always_inline int swap(struct xdp_md *ctx, const struct config *c, struct state *s)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 flow, sequence;

	if (frame + 60 > end)
		return XDP_ABORTED;
	flow = bpf_be64_to_cpu(*(__u64 *)(frame + 44)) >> 40;
	sequence = bpf_be64_to_cpu(*(__u64 *)(frame + 52));
	if (mix(c->seed ^ flow << 48 ^ sequence >> 1) % 10)
		return bpf_redirect_map(&out, 0, 0);
	frame[59] ^= 1;
	if (sequence & 1)
		s->faults++; /* the second of the pair */
	return bpf_redirect_map(&out, 0, 0);
}

/* Token bucket: tokens are time, and each frame takes its share. */
static __always_inline int police(const struct config *c, struct state *s)
{
	__u64 price = 1000000000ULL * 1024 / c->rate, now = bpf_ktime_get_ns();

	s->tokens += (now - s->last_ns) * 1024;
	s->last_ns = now;
	if (s->tokens > c->depth * price)
		s->tokens = c->depth * price;
	if (s->tokens < price) {
		s->faults++;
		return XDP_DROP;
	}
	s->tokens -= price;
	return bpf_redirect_map(&out, 0, 0);
}

SEC("xdp")
int faults(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct state *s = bpf_map_lookup_elem(&state, &zero);
	__u8 *frame = (void *)(long)ctx->data;
	__u64 number;

	if (!c || !s)
		return XDP_ABORTED;
	/* only load frames; other traffic on the wire is not part of the test */
	if (frame + 44 > (__u8 *)(long)ctx->data_end || *(__be16 *)(frame + 42) != bpf_htons(0x4857))
		return XDP_PASS;
	number = s->frames++;
	switch (c->fault) {
	case DROP:
		if (number % 1000 != c->seed % 1000)
			break;
		s->faults++;
		return XDP_DROP;
	case SWAP:
		return swap(ctx, c, s);
	case DOUBLE:
		if (mix(c->seed ^ number) % 10)
			break;
		s->faults++;
		return bpf_redirect_map(&twice, 0, BPF_F_BROADCAST);
	case POLICE:
		return police(c, s);
	}
	return bpf_redirect_map(&out, 0, 0);
}

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
