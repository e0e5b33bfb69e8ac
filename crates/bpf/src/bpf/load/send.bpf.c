/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The generator, run with XDP live frames: each run of the program can send one frame.
 *
 * The kernel recycles the pages of live frames, and devices on the way may have changed them; so the whole frame is
 * written each time.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "load.h"
#include "pacing.h"
#include "payload.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_shape);
} shapes SEC(".maps");

/* Shape of each frame in turn. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pattern SEC(".maps");

/* What follows the payload. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[LOAD_FRAME_MAX]);
} filler SEC(".maps");

const volatile __u32 frame_max = 60; /* initial length of a live frame, bytes */

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static __always_inline __u64 halves(__u64 words)
{
	return (words & 0xffffffff) + (words >> 32);
}

/* Word by word: memcpy of bytes would be compiled to copies of single bytes. */
static __always_inline void copy_words(__u8 *to, const __u8 *from, __u32 words)
{
	for (__u32 i = 0; i < words; i++)
		((__u64 *)to)[i] = ((const __u64 *)from)[i];
}

static __always_inline void copy_header(__u8 *frame, const struct load_shape *shape, const __u8 *end)
{
	/* bytes beyond the header are overwritten later */
	if (shape->header_length <= 48 && frame + 48 <= end) {
		copy_words(frame, shape->header, 6);
		return;
	}
	for (__u32 at = 0; at < LOAD_HEADER_MAX && at < shape->header_length; at += 8) {
		if (frame + at + 8 > end)
			return;
		copy_words(frame + at, shape->header + at, 1);
	}
}

static __always_inline void write_addresses(__u8 *ip, const struct load_shape *shape,
					    const struct load_flow *flow, const __u8 *end)
{
	if (shape->ip_version == 6 && ip + 40 <= end) {
		copy_words(ip + 8, flow->source, 2);
		copy_words(ip + 24, flow->target, 2);
	} else if (ip + 20 <= end) {
		*(__u32 *)(ip + 12) = *(const __u32 *)flow->source;
		*(__u32 *)(ip + 16) = *(const __u32 *)flow->target;
		*(__u16 *)(ip + 10) = ~fold((__u64)shape->ip_sum + flow->address_sum);
	}
}

static __always_inline void write_payload(__u8 *udp, const struct load_shape *shape,
					  const struct load_flow *flow, __u32 index, __u64 now)
{
	void *payload = udp + 8;
	__be64 flow_time = bpf_cpu_to_be64((__u64)index << LOAD_DELAY_BITS | (now & LOAD_DELAY_MASK));
	__be64 sequence = bpf_cpu_to_be64(flow->sequence);
	__u64 sum = (__u64)shape->udp_sum + flow->address_sum + flow->port_sum;
	__u16 checksum;

	*payload_magic(payload) = bpf_htons(LOAD_MAGIC);
	*payload_flow_time(payload) = flow_time;
	*payload_sequence(payload) = sequence;
	checksum = ~fold(sum + bpf_htons(LOAD_MAGIC) + halves(flow_time) + halves(sequence));
	*(__u16 *)udp = flow->source_port;
	*(__u16 *)(udp + 2) = flow->target_port;
	*(__u16 *)(udp + 6) = checksum ?: 0xffff; /* RFC 768: zero would mean none */
}

/* Cut the live frame to the shape's length and fill what follows the payload. */
static __always_inline int fit(struct xdp_md *ctx, const struct load_shape *shape)
{
	__u32 zero = 0, start = shape->header_length + LOAD_PAYLOAD;
	__u32 rest = (shape->length - start) & (LOAD_FRAME_MAX - 1);
	void *zeros;

	if (shape->length < frame_max && bpf_xdp_adjust_tail(ctx, (int)(shape->length - frame_max)))
		return -1;
	if (!rest)
		return 0;
	zeros = bpf_map_lookup_elem(&filler, &zero);
	return zeros ? bpf_xdp_store_bytes(ctx, start, zeros, rest) : -1;
}

/* Write the frame of a flow in a shape. */
static __always_inline int compose(struct xdp_md *ctx, const struct load_shape *shape,
				   const struct load_flow *flow, __u32 index, __u64 now)
{
	__u8 *frame, *end, *udp;
	__u32 ip_offset = shape->ip_offset & 0xff, udp_offset = shape->udp_offset & 0xff;
	__u32 entropy_offset = shape->entropy_offset & 0xff;

	if (fit(ctx, shape))
		return -1;
	frame = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	copy_header(frame, shape, end);
	write_addresses(frame + ip_offset, shape, flow, end);
	udp = frame + udp_offset;
	if (udp + 8 + LOAD_PAYLOAD > end)
		return -1;
	write_payload(udp, shape, flow, index, now);
	if (entropy_offset && frame + entropy_offset + 2 <= end)
		*(__u16 *)(frame + entropy_offset) = flow->entropy;
	return 0;
}

SEC("xdp")
int load_send(struct xdp_md *ctx)
{
	__u64 now = time_now();
	struct stream chosen = choose(now);
	struct load_control *c = chosen.control;
	struct load_progress *p = chosen.progress;
	__u32 place, index, *which;
	struct load_shape *shape;
	struct load_flow *flow;

	if (!c || !p)
		return XDP_DROP; /* nothing is due */
	place = c->first_pattern + p->pattern;
	index = c->first_flow + p->flow;
	which = bpf_map_lookup_elem(&pattern, &place);
	flow = bpf_map_lookup_elem(&flows, &index);
	if (!which || !flow)
		return XDP_DROP;
	shape = bpf_map_lookup_elem(&shapes, which);
	if (!shape || compose(ctx, shape, flow, index, now))
		return XDP_DROP;
	flow->sequence++;
	flow->bytes += shape->length;
	sent(p, c, now);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
