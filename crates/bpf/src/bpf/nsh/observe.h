/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The sensor: what flow features need of each packet goes to user space through ring buffers. A packet is never held
 * up: if a ring is full, the observation is lost and counted. */
#ifndef HAWSER_NSH_OBSERVE_H
#define HAWSER_NSH_OBSERVE_H

#include <linux/bpf.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "packet.h"

const volatile __u32 rings = 0; /* that are in use; 0: no sensor */

/* One for each reader, which sees all packets of its flows. */
#define OBSERVATION_RING(name)                               \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_RINGBUF);          \
		__uint(max_entries, 4096);                   \
	} name SEC(".maps")

OBSERVATION_RING(ring_0);
OBSERVATION_RING(ring_1);
OBSERVATION_RING(ring_2);
OBSERVATION_RING(ring_3);

/* By enum nsh_observed. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OBSERVED_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} observed SEC(".maps");

static __always_inline void count_observed(__u32 kind)
{
	__u64 *count = bpf_map_lookup_elem(&observed, &kind);

	if (count)
		++*count;
}

/* The reader is not woken, which would cost more than all the rest: it looks often enough. */
static __always_inline int tell(const struct nsh_observation *seen)
{
	switch (rings > 1 ? flow_hash(&seen->flow) % rings : 0) {
	case 0: return bpf_ringbuf_output(&ring_0, (void *)seen, sizeof(*seen), BPF_RB_NO_WAKEUP);
	case 1: return bpf_ringbuf_output(&ring_1, (void *)seen, sizeof(*seen), BPF_RB_NO_WAKEUP);
	case 2: return bpf_ringbuf_output(&ring_2, (void *)seen, sizeof(*seen), BPF_RB_NO_WAKEUP);
	default: return bpf_ringbuf_output(&ring_3, (void *)seen, sizeof(*seen), BPF_RB_NO_WAKEUP);
	}
}

/* Adds ports, flags and the header's length, as crates/flowmeter does: of UDP the whole length field. */
static __always_inline void observe_upper(const struct packet *p, const struct flow_headers *h,
					  struct nsh_observation *seen)
{
	void *at = p->data + (h->upper & FLOW_OFFSET_MAX);
	struct tcphdr *tcp = at;
	struct udphdr *udp = at;

	seen->header_length = h->upper - h->network;
	if (h->offset)
		return;
	if (seen->flow.protocol == IPPROTO_TCP && (void *)(tcp + 1) <= p->end) {
		seen->flow.source_port = tcp->source;
		seen->flow.destination_port = tcp->dest;
		seen->header_length += tcp->doff * 4;
		seen->flags = ((__u8 *)at)[13];
	} else if (seen->flow.protocol == IPPROTO_UDP && (void *)(udp + 1) <= p->end) {
		seen->flow.source_port = udp->source;
		seen->flow.destination_port = udp->dest;
		seen->header_length += bpf_ntohs(udp->len);
	}
}

/* Length of the IP packet by its header; of one whose headers are not all parsed, to the end of the frame. */
static __always_inline __u16 packet_length(const struct packet *p, const struct flow_headers *h)
{
	__u64 frame = p->end - p->data;

	asm volatile("" : "+r"(frame)); /* pointers are subtracted in 64 bits */
	return (h->upper ? h->upper + h->length : frame) - h->network;
}

/* Reports the packet inside the NSH, or that of a frame on no path. */
static __noinline int observe(const struct packet *p)
{
	struct nsh_observation seen __attribute__((aligned(8))) = {};
	struct flow_headers headers = {};

	if (!p)
		return 0;
	if (inner_flow(p, &seen.flow, &headers) >= FLOW_NOT_IP) {
		count_observed(OBSERVED_OTHER);
		return 0;
	}
	seen.time_ns = bpf_ktime_get_ns();
	seen.length = packet_length(p, &headers);
	seen.header_length = seen.length;
	seen.flow.source_port = seen.flow.destination_port = 0;
	if (headers.upper)
		observe_upper(p, &headers, &seen);
	count_observed(tell(&seen) ? OBSERVED_LOST : OBSERVED_PACKETS);
	return 0;
}

#endif
