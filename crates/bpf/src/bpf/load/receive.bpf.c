/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The meter: counts and consumes load frames that arrive at a port; all other frames are passed to the kernel.
 *
 * Counters are per CPU. What CPUs share, the window of seen sequence numbers, changes by
 * compare-and-exchange: losses and duplicates are exact whichever CPUs the frames of a flow meet.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "histogram.h"
#include "load.h"
#include "parse.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_track);
} tracks SEC(".maps");

/* Seen sequence numbers: `window_words` words a flow, each 32 bits of seen marks under the 32-bit
 * number of the lap they belong to. A new lap begins by overwriting the word: nothing is swept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* One-way delays, then delay variations (RFC 3393), of each group of flows. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * LOAD_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} histograms SEC(".maps");

/* Group of each flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_port);
} port SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} captures SEC(".maps");

const volatile __u32 flow_count = 1;
const volatile __u32 group_count = 1;
const volatile __u32 window_words = 1024; /* a power of two */
const volatile __u32 window_shift = 10; /* its logarithm */
const volatile __u64 run = 0;
const volatile __u32 snap_length = 0; /* 0: no capture */

enum verdict { FIRST, AGAIN, TOO_OLD };

/* Mark a sequence number as seen. */
static __always_inline enum verdict mark(__u32 flow, __u64 sequence)
{
	__u64 word = sequence >> 5;
	__u32 place = flow * window_words + (__u32)(word & (window_words - 1));
	__u64 lap = word >> window_shift;
	__u64 bit = 1ULL << (sequence & 31);
	__u64 *slot = bpf_map_lookup_elem(&seen, &place);
	__u64 old, new;

	if (!slot)
		return TOO_OLD;
	lap = (lap + 1) & 0xffffffff; /* zero marks an unused word */
	for (int tries = 0; tries < 64; tries++) {
		old = *(volatile __u64 *)slot;
		if (old >> 32 > lap)
			return TOO_OLD;
		if (old >> 32 == lap && old & bit)
			return AGAIN;
		new = (old >> 32 == lap ? old : lap << 32) | bit;
		if (__sync_val_compare_and_swap(slot, old, new) == old)
			return FIRST;
	}
	return TOO_OLD;
}

/* Whether the frame comes after one that was sent later (RFC 4737 section 3.3, NextExp). A plain store
 * is enough: where two CPUs receive frames of a flow at once, their order is not defined. */
static __always_inline int reordered(struct load_track *track, __u64 sequence)
{
	if (sequence < track->expected)
		return 1;
	track->expected = sequence + 1;
	return 0;
}

static __always_inline void into_histogram(__u32 index, __u64 value)
{
	__u32 place = index * LOAD_BUCKETS + bucket_of(value);
	__u64 *slot = bpf_map_lookup_elem(&histograms, &place);

	if (slot)
		++*slot;
}

static __always_inline void count_delay(struct load_count *count, struct load_track *track, __u32 flow,
					__u64 delay)
{
	__u64 last = track->last_delay;
	__u32 *which = 0, group = 0;

	if (group_count > 1) {
		which = bpf_map_lookup_elem(&groups, &flow);
		group = which ? *which : 0;
	}
	count->delay_sum += delay;
	if (delay > count->delay_max)
		count->delay_max = delay;
	if (~delay > count->delay_min_inverted)
		count->delay_min_inverted = ~delay;
	into_histogram(2 * group, delay);
	if (last)
		into_histogram(2 * group + 1, delay >= last - 1 ? delay - (last - 1) : last - 1 - delay);
	track->last_delay = delay + 1;
}

static __always_inline void count_frame(__u32 flow, __u64 sequence, __u64 sent, __u64 now, __u32 length)
{
	struct load_count *count = bpf_map_lookup_elem(&counts, &flow);
	struct load_track *track = bpf_map_lookup_elem(&tracks, &flow);

	if (!count || !track)
		return;
	if (!count->received)
		count->first_ns = now;
	count->last_ns = now;
	count->received++;
	count->bytes += length;
	switch (mark(flow, sequence)) {
	case FIRST:
		if (reordered(track, sequence))
			count->reordered++;
		count_delay(count, track, flow, (now - sent) & LOAD_DELAY_MASK);
		break;
	case AGAIN:
		count->duplicated++;
		break;
	case TOO_OLD:
		count->late++;
		break;
	}
}

static __always_inline void capture(struct xdp_md *ctx, __u32 length, __u64 now)
{
	struct load_capture *c = bpf_ringbuf_reserve(&captures, sizeof(*c), 0);
	__u32 bytes = length < snap_length ? length : snap_length, zero = 0;
	struct load_port *p = bpf_map_lookup_elem(&port, &zero);

	if (!p) {
		if (c)
			bpf_ringbuf_discard(c, 0);
		return;
	}
	if (!c) {
		p->uncaptured++;
		return;
	}
	c->time_ns = now;
	c->length = length;
	c->captured = 0;
	if (bytes > 0 && bytes <= sizeof(c->data) && !bpf_xdp_load_bytes(ctx, 0, c->data, bytes))
		c->captured = bytes;
	p->captured++;
	bpf_ringbuf_submit(c, 0);
}

static __always_inline int not_ours(__u32 length)
{
	__u32 zero = 0;
	struct load_port *p = bpf_map_lookup_elem(&port, &zero);

	if (p) {
		p->other++;
		p->other_bytes += length;
	}
	return XDP_PASS; /* address resolution and routing still work on the port */
}

static __always_inline int foreign(void)
{
	__u32 zero = 0;
	struct load_port *p = bpf_map_lookup_elem(&port, &zero);

	if (p)
		p->foreign++;
	return XDP_DROP;
}

SEC("xdp")
int load_receive(struct xdp_md *ctx)
{
	struct cursor c = { (void *)(long)ctx->data, (void *)(long)ctx->data_end, 0, 0 };
	__u64 now = bpf_ktime_get_ns(), flow_time, sequence;
	__u32 length = c.end - c.data, flow;
	void *payload;

	if (snap_length) {
		capture(ctx, length, now);
		c.data = (void *)(long)ctx->data;
		c.end = (void *)(long)ctx->data_end;
	}
	payload = find_payload(&c);
	if (!payload)
		return not_ours(length);
	flow_time = bpf_be64_to_cpu(*payload_flow_time(payload));
	sequence = bpf_be64_to_cpu(*payload_sequence(payload));
	flow = flow_time >> LOAD_DELAY_BITS;
	if (flow >= flow_count || sequence >> LOAD_RUN_SHIFT != run)
		return foreign();
	count_frame(flow, sequence & ((1ULL << LOAD_RUN_SHIFT) - 1), flow_time, now, length);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
