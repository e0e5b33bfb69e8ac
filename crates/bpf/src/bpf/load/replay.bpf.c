/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Sends the frames of a recording in turn, unchanged, at the rate of its stream. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "load.h"
#include "pacing.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load_frame);
} frames SEC(".maps");

const volatile __u32 frame_max = 60; /* initial length of a live frame, bytes */

SEC("xdp")
int load_replay(struct xdp_md *ctx)
{
	__u64 now = time_now();
	struct stream chosen = choose(now);
	struct load_control *c = chosen.control;
	struct load_progress *p = chosen.progress;
	__u32 place, length;
	struct load_frame *frame;

	if (!c || !p)
		return XDP_DROP; /* nothing is due */
	place = p->pattern;
	frame = bpf_map_lookup_elem(&frames, &place);
	if (!frame)
		return XDP_DROP;
	length = frame->length;
	if (length < 14 || length > sizeof(frame->data))
		return XDP_DROP;
	if (length < frame_max && bpf_xdp_adjust_tail(ctx, (int)(length - frame_max)))
		return XDP_DROP;
	if (bpf_xdp_store_bytes(ctx, 0, frame->data, length))
		return XDP_DROP;
	sent(p, c, now);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
