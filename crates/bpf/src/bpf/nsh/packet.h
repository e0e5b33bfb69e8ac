/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The packet being processed, the maps of the program, and tracing, counting, dropping and sending. */
#ifndef HAWSER_NSH_PACKET_H
#define HAWSER_NSH_PACKET_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "rules.h"
#include "transport.h"

#include "drops.h" /* after enum nsh_drop */

#define PROTOCOL_IPV4 1
#define PROTOCOL_IPV6 2
#define PROTOCOL_ETHERNET 3

struct nsh {
	__be16 first; /* version, O, unassigned, TTL, length */
	__u8 md_type; /* low 4 bits */
	__u8 next_protocol;
	__be32 path; /* identifier and index */
};

struct hops {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct nsh_hop));
};

/* The active entries, replaced atomically as a whole. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__array(values, struct hops);
} in_force SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, NSH_PORTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} devices SEC(".maps");

/* By interface index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NSH_PORTS);
	__type(key, __u32);
	__type(value, struct nsh_port);
} ports SEC(".maps");

/* Addresses from which VXLAN-GPE is accepted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NSH_FORWARDERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __be32);
	__type(value, __u8);
} forwarders SEC(".maps");

/* Classes that rules refer to, in slots like the rules. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_SLOTS * NSH_CLASSES);
	__type(key, __u32);
	__type(value, struct nsh_class);
} classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NSH_COUNTS);
	__type(key, __u32);
	__type(value, struct nsh_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nsh_filter);
} filter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} events SEC(".maps");

/* The packet being processed. */
struct packet {
	struct xdp_md *ctx;
	void *data;
	void *end;
	__u32 offset; /* of the NSH: ETHERNET_OUTER or GPE_OUTER */
	__u32 header; /* length of the NSH, bytes */
	__u32 path; /* service path header on arrival, host byte order; 0: on no path */
};

static __always_inline void reload(struct packet *p)
{
	p->data = (void *)(long)p->ctx->data;
	p->end = (void *)(long)p->ctx->data_end;
}

/* The masks here and below are bounds for the verifier. */
static __always_inline struct nsh *service(const struct packet *p)
{
	return p->data + (p->offset & 63);
}

static __always_inline __u32 inner_offset(const struct packet *p)
{
	return (p->offset + p->header) & 511;
}

/* The flow of the payload, or of a frame on no path; zero if it is not IP. */
static __always_inline enum flow_kind inner_flow(const struct packet *p, struct flow *f, struct flow_headers *h)
{
	struct nsh *nsh = service(p);
	__u32 is_frame = 1;

	if (p->header) {
		if ((void *)(nsh + 1) > p->end)
			return FLOW_MALFORMED;
		if (nsh->next_protocol < PROTOCOL_IPV4 || nsh->next_protocol > PROTOCOL_ETHERNET)
			return FLOW_MALFORMED;
		is_frame = nsh->next_protocol == PROTOCOL_ETHERNET;
	}
	return flow_parse(p->ctx, p->header ? inner_offset(p) : 0, is_frame, f, h);
}

static __always_inline int equal_or_any(const __u8 *wanted, const __u8 *found)
{
	const __u64 *w = (const __u64 *)wanted, *f = (const __u64 *)found;

	return !(w[0] | w[1]) || (w[0] == f[0] && w[1] == f[1]);
}

/* Reports a packet that matches the filter to the daemon. */
static __noinline int report(struct packet *p, __u32 step, __u32 cause, __u32 out)
{
	struct flow flow __attribute__((aligned(8))) = {};
	struct flow_headers headers = {};
	struct nsh_event *event;
	struct nsh_filter *f;
	__u32 zero = 0;

	if (!p)
		return 0;
	f = bpf_map_lookup_elem(&filter, &zero);
	if (!f || (f->path && f->path != p->path >> 8))
		return 0;
	reload(p);
	inner_flow(p, &flow, &headers);
	if (!equal_or_any(f->source, flow.source) || !equal_or_any(f->destination, flow.destination))
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return 0;
	__sync_fetch_and_sub(&f->left, 1);
	event->time_ns = bpf_ktime_get_ns();
	event->step = step;
	event->cause = cause;
	event->path = p->path;
	event->in = p->ctx->ingress_ifindex;
	event->out = out;
	event->length = p->end - p->data;
	event->flow = flow;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void trace(struct packet *p, __u32 step, __u32 cause, __u32 out)
{
	__u32 zero = 0;
	struct nsh_filter *f = bpf_map_lookup_elem(&filter, &zero);

	if (f && (__s64)f->left > 0)
		report(p, step, cause, out);
}

static __always_inline int drop(struct packet *p, __u32 cause)
{
	count_drop(cause);
	trace(p, STEP_DROPPED, cause, 0);
	return XDP_DROP;
}

static __always_inline void count(struct packet *p, __u32 index)
{
	struct nsh_count *c = bpf_map_lookup_elem(&counts, &index);

	if (c) {
		c->packets++;
		c->bytes += p->end - p->data;
	}
}

static __always_inline int redirect(struct packet *p, __u32 port)
{
	if (bpf_redirect_map(&devices, port, XDP_ABORTED) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return drop(p, DROP_FAILED);
}

/* Redirection bypasses the queueing discipline. For a `queued` port, the frame is addressed to the ingress port and
 * passed to the kernel, whose routes lead to the egress port. */
static __always_inline int out(struct packet *p, const struct nsh_target *t)
{
	__u32 interface = p->ctx->ingress_ifindex;
	struct ethhdr *eth = p->data;
	struct nsh_port *port;

	if (!t->queued)
		return redirect(p, t->port);
	port = bpf_map_lookup_elem(&ports, &interface);
	if (!port || (void *)(eth + 1) > p->end)
		return drop(p, DROP_FAILED);
	__builtin_memcpy(eth->h_dest, port->mac, sizeof(eth->h_dest));
	return XDP_PASS;
}

static __always_inline struct nsh_hop *find(__u32 path)
{
	__u32 zero = 0;
	void *set = bpf_map_lookup_elem(&in_force, &zero);

	return set ? bpf_map_lookup_elem(set, &path) : 0;
}

#endif
