/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Service function chaining (RFC 7665) by network service headers (RFC 8300), at a port's XDP hook.
 *
 * The same program is classifier, service function forwarder (SFF) and function: `serves` makes it count
 * down the service index first. A packet on a path is looked up by path and index; the entry says to whom
 * it goes, or that it leaves the path. A function without entries sends everything back.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "nsh_states.h"
#include "nsh_transport.h"
#include "rules.h"

#define VERSION 0xc0
#define OAM 0x20
#define TTL_MAX 63
#define MD_FIXED 1
#define MD_VARIABLE 2
#define FIXED_LENGTH 24
#define SERVED 0 /* index of a function's counters */
#define PROTOCOL_IPV4 1
#define PROTOCOL_IPV6 2
#define PROTOCOL_ETHERNET 3

const volatile __u8 serves = 0;
const volatile __u8 forwards_oam = 0;
const volatile __u8 guards = 0;

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

/* The entries in force: replaced as a whole, between two packets. */
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

/* What rules lead to, in two slots as the rules. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * NSH_CLASSES);
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
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DROP_CAUSES);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

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

/* What is known of the packet in hand. */
struct packet {
	struct xdp_md *ctx;
	void *data;
	void *end;
	__u32 offset; /* of the service header: ETHERNET_OUTER or GPE_OUTER */
	__u32 header; /* its length */
	__u32 path; /* as it came in, host byte order; 0: on none */
};

static __always_inline void reload(struct packet *p)
{
	p->data = (void *)(long)p->ctx->data;
	p->end = (void *)(long)p->ctx->data_end;
}

/* Masks are bounds that the verifier can follow. */
static __always_inline struct nsh *service(const struct packet *p)
{
	return p->data + (p->offset & 63);
}

static __always_inline __u32 inner_offset(const struct packet *p)
{
	return (p->offset + p->header) & 511;
}

/* The flow of what is carried; zero where it is not IP. */
static __always_inline enum flow_kind inner_flow(const struct packet *p, struct flow *f)
{
	void *inner = p->data + inner_offset(p);
	struct nsh *nsh = service(p);

	__builtin_memset(f, 0, sizeof(*f));
	if (!p->header)
		return flow_frame(f, p->data, p->end);
	if ((void *)(nsh + 1) > p->end)
		return FLOW_MALFORMED;
	switch (nsh->next_protocol) {
	case PROTOCOL_ETHERNET: return flow_frame(f, inner, p->end);
	case PROTOCOL_IPV4:
	case PROTOCOL_IPV6: return flow_ip(f, inner, p->end);
	default: return FLOW_MALFORMED;
	}
}

static __always_inline int equal_or_any(const __u8 *wanted, const __u8 *found)
{
	const __u64 *w = (const __u64 *)wanted, *f = (const __u64 *)found;

	return !(w[0] | w[1]) || (w[0] == f[0] && w[1] == f[1]);
}

/* Tell the daemon where the packet goes, where somebody asked for packets like it. */
static __noinline int tell(struct packet *p, __u32 step, __u32 cause, __u32 out)
{
	struct flow flow __attribute__((aligned(8)));
	struct nsh_event *event;
	struct nsh_filter *f;
	__u32 zero = 0;

	if (!p)
		return 0;
	f = bpf_map_lookup_elem(&filter, &zero);
	if (!f || (f->path && f->path != p->path >> 8))
		return 0;
	reload(p);
	inner_flow(p, &flow);
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
		tell(p, step, cause, out);
}

static __always_inline int drop(struct packet *p, __u32 cause)
{
	__u64 *count = bpf_map_lookup_elem(&drops, &cause);

	if (count)
		++*count;
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

/* A redirected frame passes no queue: where the port has queues that must hold, the kernel gets the frame
 * as if it had been sent to it, and its routes lead it out of that port. */
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

/* The service header, its length checked (RFC 8300 section 2.2); or the cause of a drop. */
static __always_inline int check(struct packet *p)
{
	struct nsh *nsh = service(p);
	__u16 first;

	if ((void *)(nsh + 1) > p->end)
		return DROP_MALFORMED;
	first = bpf_ntohs(nsh->first);
	p->header = (first & 63) * 4;
	p->path = bpf_ntohl(nsh->path);
	if (first >> 14)
		return DROP_VERSION;
	switch (nsh->md_type & 15) {
	case MD_FIXED:
		if (p->header != FIXED_LENGTH)
			return DROP_LENGTH;
		break;
	case MD_VARIABLE:
		if (p->header < sizeof(*nsh))
			return DROP_LENGTH;
		break;
	default:
		return DROP_MD_TYPE;
	}
	if ((void *)nsh + p->header > p->end)
		return DROP_MALFORMED;
	/* RFC 8300 section 2.2: who does not handle such packets discards them, unless told otherwise. */
	if (first & OAM << 8 && !forwards_oam)
		return DROP_OAM;
	return -1;
}

/* RFC 8300 section 2.2: down by one before the lookup, a zero becomes 63; never forward a zero. */
static __always_inline int lower_ttl(struct nsh *nsh)
{
	__u16 first = bpf_ntohs(nsh->first);
	__u16 ttl = ((first >> 6) - 1) & TTL_MAX;

	nsh->first = bpf_htons((first & ~(TTL_MAX << 6)) | ttl << 6);
	return ttl;
}

/* Which instance: a flow keeps to one, and moves only when its own goes. */
static __always_inline struct nsh_target *pick(struct nsh_hop *hop, __u32 hash)
{
	if (hop->targets == 1)
		return &hop->target[0];
	return &hop->target[hop->bucket[hash % NSH_BUCKETS] % NSH_TARGETS];
}

static __always_inline __u32 inner_hash(const struct packet *p)
{
	struct flow flow __attribute__((aligned(8)));

	inner_flow(p, &flow);
	return flow_hash(&flow);
}

/* Put the headers of a transport in the place of those that are there. */
static __always_inline int send(struct packet *p, const struct nsh_target *t, __u32 hash)
{
	__u32 outer = t->encapsulation == ENCAPSULATION_VXLAN_GPE ? GPE_OUTER : ETHERNET_OUTER;
	int grow = outer - p->offset;

	if (p->end - p->data + grow > t->frame_max)
		return drop(p, DROP_TOO_BIG);
	if (grow) {
		if (bpf_xdp_adjust_head(p->ctx, -grow))
			return drop(p, DROP_FAILED);
		reload(p);
		p->offset = outer;
	}
	if (outer == GPE_OUTER) {
		if (p->data + GPE_OUTER > p->end)
			return drop(p, DROP_FAILED);
		write_gpe(p->data, t, p->end - p->data, hash);
	} else {
		if (p->data + ETHERNET_OUTER > p->end)
			return drop(p, DROP_FAILED);
		write_ethernet(p->data, t, ETH_P_NETWORK_SERVICE);
	}
	trace(p, STEP_FORWARDED, 0, t->port);
	reload(p);
	return out(p, t);
}

static __always_inline int forward(struct packet *p, struct nsh_hop *hop)
{
	__u32 hash = hop->targets > 1 || hop->target[0].encapsulation ? inner_hash(p) : 0;

	return send(p, pick(hop, hash), hash);
}

/* Off the path: without service header, to the port of the entry. */
static __always_inline int leave(struct packet *p, const struct nsh_target *t)
{
	struct nsh *nsh = service(p);
	__u32 cut = inner_offset(p);
	__u8 protocol;

	if ((void *)(nsh + 1) > p->end)
		return drop(p, DROP_MALFORMED);
	protocol = nsh->next_protocol;
	if (protocol < PROTOCOL_IPV4 || protocol > PROTOCOL_ETHERNET)
		return drop(p, DROP_NEXT_PROTOCOL);
	if (protocol != PROTOCOL_ETHERNET)
		cut -= ETHERNET_OUTER;
	if (!t->queued && p->end - p->data - cut > t->frame_max)
		return drop(p, DROP_TOO_BIG);
	trace(p, STEP_ENDED, 0, t->port);
	reload(p);
	if (p->data + cut + ETHERNET_OUTER > p->end || bpf_xdp_adjust_head(p->ctx, cut))
		return drop(p, DROP_MALFORMED);
	reload(p);
	if (p->data + ETHERNET_OUTER > p->end)
		return drop(p, DROP_MALFORMED);
	if (protocol != PROTOCOL_ETHERNET)
		write_ethernet(p->data, t, protocol == PROTOCOL_IPV4 ? ETH_P_IP : ETH_P_IPV6);
	else if (t->rewrite_mac)
		write_ethernet(p->data, t, bpf_ntohs(((struct ethhdr *)p->data)->h_proto));
	return out(p, t);
}

/* What a forwarder does (RFC 8300 sections 2.2 and 2.3). A function that is its own forwarder has the
 * entry already. */
static __always_inline int steer(struct packet *p, struct nsh_hop *hop)
{
	struct nsh *nsh = service(p);

	if ((void *)(nsh + 1) > p->end)
		return drop(p, DROP_MALFORMED);
	if (!lower_ttl(nsh))
		return drop(p, DROP_TTL);
	if (!hop)
		hop = find(bpf_ntohl(nsh->path));
	if (!hop)
		return drop(p, DROP_NO_HOP);
	count(p, hop->count);
	return hop->kind == HOP_END ? leave(p, &hop->target[0]) : forward(p, hop);
}

/* By redirection rather than XDP_TX, which does not wake a veth whose end has no program (Linux 6.18). */
static __always_inline int back(struct packet *p)
{
	struct gpe_outer *outer = p->data;

	if (p->data + ETHERNET_OUTER > p->end)
		return drop(p, DROP_MALFORMED);
	swap_ethernet(p->data);
	if (p->offset == GPE_OUTER) {
		if (p->data + GPE_OUTER > p->end)
			return drop(p, DROP_MALFORMED);
		turn_gpe(outer);
	}
	trace(p, STEP_SERVED, 0, 0);
	return bpf_redirect(p->ctx->ingress_ifindex, 0);
}

/* What a firewall says: the cause of a drop, or less than 0. What is not IP passes. */
static __always_inline int guard(struct packet *p)
{
	struct flow flow __attribute__((aligned(8)));

	switch (inner_flow(p, &flow)) {
	case FLOW_NOT_IP: return -1;
	case FLOW_MALFORMED: return DROP_MALFORMED;
	case FLOW_COMPLETE: return is_allowed(&flow) ? -1 : DROP_DENIED;
	default: return DROP_FRAGMENT;
	}
}

/* What a function does: the index goes down by one (RFC 8300 section 2.3). Where it has entries it is
 * its own forwarder. */
static __always_inline int serve(struct packet *p)
{
	struct nsh *nsh = service(p);
	struct nsh_hop *hop;

	if ((void *)(nsh + 1) > p->end)
		return drop(p, DROP_MALFORMED);
	if ((p->path & 0xff) <= 1)
		return drop(p, DROP_INDEX);
	if (guards) {
		int cause = guard(p);

		if (cause >= 0)
			return drop(p, cause);
	}
	nsh->path = bpf_htonl(p->path - 1);
	count(p, SERVED);
	hop = find(p->path - 1);
	return hop ? steer(p, hop) : back(p);
}

static __always_inline int on_path(struct packet *p)
{
	int cause = check(p);

	if (cause >= 0)
		return drop(p, cause);
	return serves ? serve(p) : steer(p, 0);
}

/* Write the header of a class in front of the frame, behind an outer header that is still empty. */
static __always_inline int enter(struct packet *p, const struct nsh_class *class)
{
	__u32 length = class->length & (NSH_HEADER_MAX - 1);
	__u32 *to;

	if (bpf_xdp_adjust_head(p->ctx, -(int)(ETHERNET_OUTER + length)))
		return drop(p, DROP_FAILED);
	reload(p);
	for (__u32 at = 0; at < NSH_HEADER_MAX; at += 4) {
		if (at >= length)
			break;
		to = p->data + ETHERNET_OUTER + at;
		if ((void *)(to + 1) > p->end)
			return drop(p, DROP_FAILED);
		*to = *(const __u32 *)(class->header + at);
	}
	p->offset = ETHERNET_OUTER;
	p->header = length;
	if (p->data + ETHERNET_OUTER + sizeof(struct nsh) > p->end)
		return drop(p, DROP_FAILED);
	p->path = bpf_ntohl(((struct nsh *)(p->data + ETHERNET_OUTER))->path);
	trace(p, STEP_CLASSIFIED, 0, 0);
	reload(p);
	return steer(p, 0);
}

static __always_inline int other(struct packet *p, const struct nsh_port *port)
{
	switch (port->otherwise) {
	case OTHERWISE_PORT: return redirect(p, port->other_port);
	case OTHERWISE_DROP: return drop(p, DROP_UNCLASSIFIED);
	default: return XDP_PASS;
	}
}

static __always_inline int classify(struct packet *p, const struct nsh_port *port, __u32 number)
{
	struct flow flow __attribute__((aligned(8)));
	struct rules_match match;
	struct nsh_class *class;

	__builtin_memset(&flow, 0, sizeof(flow));
	if (flow_frame(&flow, p->data, p->end) >= FLOW_NOT_IP)
		return other(p, port);
	flow.port = number;
	match = rules_find(&flow);
	if (match.rule == RULES_NONE)
		return other(p, port);
	class = bpf_map_lookup_elem(&classes, &match.action);
	if (!class)
		return drop(p, DROP_FAILED);
	count(p, class->count);
	return enter(p, class);
}

SEC("xdp")
int nsh(struct xdp_md *ctx)
{
	struct packet p = { .ctx = ctx };
	__u32 interface = ctx->ingress_ifindex;
	struct ethhdr *eth;
	struct nsh_port *port;

	reload(&p);
	eth = p.data;
	if ((void *)(eth + 1) > p.end)
		return drop(&p, DROP_MALFORMED);
	if (eth->h_proto == bpf_htons(ETH_P_NETWORK_SERVICE)) {
		p.offset = ETHERNET_OUTER;
		return on_path(&p);
	}
	port = bpf_map_lookup_elem(&ports, &interface);
	if (!port)
		return XDP_PASS;
	if (port->own && is_gpe(p.data, p.end, port->own)) {
		if (!is_sound_gpe(p.data, p.end - p.data))
			return drop(&p, DROP_MALFORMED);
		p.offset = GPE_OUTER;
		return on_path(&p);
	}
	return port->classify ? classify(&p, port, port->classify) : other(&p, port);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
