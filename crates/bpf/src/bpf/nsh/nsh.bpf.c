/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Service function chaining (RFC 7665) with network service headers (RFC 8300), at a port's XDP hook.
 *
 * The program is classifier, service function forwarder (SFF), SFC proxy and service function. With `serves` it
 * is a function and decrements the service index before the lookup. The entry for a packet's path and index
 * gives the next hop, or ends the path. A function without entries returns packets to the sender.
 *
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * |Ver|O|U|    TTL    |   Length  |U|U|U|U|MD Type| Next Protocol |
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * |          Service Path Identifier (SPI)        | Service Index |
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * ~                        Context Header(s)                      ~
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+   (RFC 8300 sections 2.2 and 2.3)
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "edge.h"
#include "observe.h"
#include "packet.h"
#include "proxy.h"
#include "fragments.h"
#include "states.h"
#include "transport.h"
#include "rules.h"

#define VERSION 0xc0
#define OAM 0x20
#define TTL_MAX 63
#define MD_FIXED 1
#define MD_VARIABLE 2
#define FIXED_LENGTH 24
#define SERVED 0 /* index of a function's counters */

const volatile __u8 serves = 0;
const volatile __u8 forwards_oam = 0;
const volatile __u8 guards = 0;

/* Checks the service header (RFC 8300 section 2.2). Returns the cause of a drop, or -1. */
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
	/* RFC 8300 section 2.2: nodes that do not support OAM packets discard them, unless configured otherwise. */
	if (first & OAM << 8 && !forwards_oam)
		return DROP_OAM;
	return -1;
}

/* RFC 8300 section 2.2: decrement before the lookup, 0 becomes 63; a result of 0 is not forwarded. */
static __always_inline int lower_ttl(struct nsh *nsh)
{
	__u16 first = bpf_ntohs(nsh->first);
	__u16 ttl = ((first >> 6) - 1) & TTL_MAX;

	nsh->first = bpf_htons((first & ~(TTL_MAX << 6)) | ttl << 6);
	return ttl;
}

/* The instance for a flow, chosen by hash. A flow moves only if its own instance goes down. */
static __always_inline struct nsh_target *pick(struct nsh_hop *hop, __u32 hash)
{
	if (hop->targets == 1)
		return &hop->target[0];
	return &hop->target[hop->bucket[hash % NSH_BUCKETS] % NSH_TARGETS];
}

static __noinline __u32 inner_hash(const struct packet *p)
{
	struct flow flow __attribute__((aligned(8))) = {};
	struct flow_headers headers = {};

	inner_flow(p, &flow, &headers);
	return flow_hash(&flow);
}

/* Replaces the outer encapsulation by the target's and sends the packet. */
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

/* Removes the NSH and sends the packet to the target's port: at the end of a path, or to an SFC-unaware function. */
static __always_inline int leave(struct packet *p, const struct nsh_target *t, __u32 step)
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
	trace(p, step, 0, t->port);
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

static __always_inline int differs(const struct nsh_proxied *known, const void *header, __u32 length, void *end)
{
	const __u32 *word;

	for (__u32 at = 0; at < NSH_HEADER_MAX; at += 4) {
		if (at >= length)
			break;
		word = header + at;
		if ((void *)(word + 1) > end || *word != *(const __u32 *)(known->header + at))
			return 1;
	}
	return 0;
}

/* The inner flow as an SFC-unaware function sees it. Returns the cause of a drop, or -1. */
static __always_inline int proxied_flow(const struct packet *p, __u32 port, struct flow *flow)
{
	struct flow_headers headers = {};

	switch (inner_flow(p, flow, &headers)) {
	case FLOW_OPAQUE:
	case FLOW_NOT_IP: return DROP_NEXT_PROTOCOL;
	case FLOW_MALFORMED: return DROP_MALFORMED;
	default: break;
	}
	flow->dscp = SIDE_BOTH;
	flow->port = port + 1;
	return -1;
}

/* Copies the NSH and inner Ethernet addresses. Returns the cause of a drop, or -1. */
static __always_inline int copy_headers(const struct packet *p, struct nsh *nsh, struct nsh_proxied *to)
{
	void *inner;

	for (__u32 at = 0; at < NSH_HEADER_MAX; at += 4) {
		__u32 *word = (void *)nsh + at;

		if (at >= to->length)
			break;
		if ((void *)(word + 1) > p->end)
			return DROP_MALFORMED;
		*(__u32 *)(to->header + at) = *word;
	}
	inner = p->data + inner_offset(p);
	if (nsh->next_protocol == PROTOCOL_ETHERNET && inner + sizeof(to->macs) <= p->end)
		__builtin_memcpy(to->macs, inner, sizeof(to->macs));
	return -1;
}

/* Stores the NSH under the packet's flow, to restore it when the packet returns from the function. Returns the
 * cause of a drop, or -1. */
static __noinline int remember(struct packet *p, const struct nsh_target *t)
{
	struct flow flow __attribute__((aligned(8)));
	struct nsh_proxied *known;
	__u32 zero = 0, on;
	struct nsh *nsh;
	int cause;

	if (!p || !t)
		return DROP_FAILED;
	reload(p);
	nsh = service(p);
	if ((void *)(nsh + 1) > p->end)
		return DROP_MALFORMED;
	on = bpf_ntohl(nsh->path) - 1;
	if (!(on & 0xff))
		return DROP_INDEX;
	if (p->header >= NSH_HEADER_MAX)
		return DROP_LENGTH;
	cause = proxied_flow(p, t->port, &flow);
	if (cause >= 0)
		return cause;
	known = bpf_map_lookup_elem(&proxied, &flow);
	if (known && known->on == on && known->back == t->back && known->length == p->header &&
	    !differs(known, nsh, p->header, p->end))
		return -1;
	known = bpf_map_lookup_elem(&fresh, &zero);
	if (!known)
		return DROP_FAILED;
	known->on = on;
	known->back = t->back;
	known->length = p->header;
	cause = copy_headers(p, nsh, known);
	if (cause < 0)
		keep(&flow, known);
	return cause;
}

/* To an SFC-unaware function (RFC 7665 section 4.6). */
static __always_inline int to_unaware(struct packet *p, const struct nsh_target *t)
{
	int cause = t->proxy == PROXY_FLOWS ? remember(p, t) : -1;

	return cause >= 0 ? drop(p, cause) : leave(p, t, STEP_FORWARDED);
}

static __always_inline int forward(struct packet *p, struct nsh_hop *hop)
{
	__u32 hash = hop->targets > 1 || hop->target[0].encapsulation ? inner_hash(p) : 0;
	struct nsh_target *target = pick(hop, hash);

	return proxies && target->proxy ? to_unaware(p, target) : send(p, target, hash);
}

/* Forwards as an SFF (RFC 8300 sections 2.2 and 2.3). `hop` is null unless the caller has looked it up. */
static __noinline int steer(struct packet *p, struct nsh_hop *hop)
{
	struct nsh *nsh;

	if (!p)
		return XDP_ABORTED;
	reload(p);
	nsh = service(p);

	if ((void *)(nsh + 1) > p->end)
		return drop(p, DROP_MALFORMED);
	if (!lower_ttl(nsh))
		return drop(p, DROP_TTL);
	if (!hop)
		hop = find(bpf_ntohl(nsh->path));
	if (!hop)
		return drop(p, DROP_NO_HOP);
	count(p, hop->count);
	return hop->kind == HOP_END ? leave(p, &hop->target[0], STEP_ENDED) : forward(p, hop);
}

/* Returns the packet to its sender. It is redirected, since XDP_TX does not wake a veth whose peer has no program
 * (Linux 6.18). */
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

/* Applies the firewall's rules. Returns the cause of a drop, or -1. Of packets that are not IP, only ARP passes. */
static __noinline int guard(const struct packet *p)
{
	struct flow flow __attribute__((aligned(8))) = {};
	struct flow_headers headers = {};

	if (!p)
		return DROP_FAILED;
	switch (inner_flow(p, &flow, &headers)) {
	case FLOW_COMPLETE: return admit(p->ctx, &flow, &headers);
	case FLOW_FRAGMENT: return admit_fragment(p->ctx, &flow, &headers);
	case FLOW_NOT_IP: return headers.type == bpf_htons(ETH_P_ARP) ? -1 : DROP_NOT_IP;
	case FLOW_MALFORMED: return DROP_MALFORMED;
	default: return DROP_OPAQUE;
	}
}

/* Acts as a service function: decrements the service index (RFC 8300 section 2.3). With an entry for the new index
 * it is its own SFF. */
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
	if (rings)
		observe(p);
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

/* Prepends `grow` bytes: room for an Ethernet header, and the NSH `header`, whose service path header becomes
 * `path` unless that is 0. */
static __noinline int wrap(struct packet *p, const __u8 *header, __u32 length, __u32 grow, __u32 path)
{
	struct nsh *nsh;
	__u32 *to;

	if (!p || !header || length >= NSH_HEADER_MAX || bpf_xdp_adjust_head(p->ctx, -(int)grow))
		return -1;
	reload(p);
	for (__u32 at = 0; at < NSH_HEADER_MAX; at += 4) {
		if (at >= length)
			break;
		to = p->data + ETHERNET_OUTER + at;
		if ((void *)(to + 1) > p->end)
			return -1;
		*to = *(const __u32 *)(header + at);
	}
	p->offset = ETHERNET_OUTER;
	p->header = length;
	nsh = service(p);
	if ((void *)(nsh + 1) > p->end)
		return -1;
	if (path)
		nsh->path = bpf_htonl(path);
	p->path = bpf_ntohl(nsh->path);
	return 0;
}

/* Puts a packet on a path. */
static __always_inline int enter(struct packet *p, const struct nsh_class *class)
{
	__u32 length = class->length & (NSH_HEADER_MAX - 1);

	if (rings)
		observe(p);
	if (wrap(p, class->header, length, ETHERNET_OUTER + length, 0))
		return drop(p, DROP_FAILED);
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

/* A frame on no path. */
static __always_inline int classify(struct packet *p, const struct nsh_port *port)
{
	struct flow flow __attribute__((aligned(8)));
	struct flow_headers headers = {};
	struct rules_match match;
	struct nsh_class *class;
	enum flow_kind kind;
	int cause;

	if (port->trusted && !port->classify)
		return other(p, port);
	kind = inner_flow(p, &flow, &headers);
	cause = port->trusted ? -1 : forged(p, &flow, &headers, kind);
	if (cause >= 0)
		return drop(p, cause);
	if (!port->classify || kind == FLOW_NOT_IP || kind == FLOW_MALFORMED)
		return other(p, port);
	if (kind == FLOW_OPAQUE)
		return drop(p, DROP_OPAQUE);
	flow.port = port->classify;
	match = rules_find(&flow, rules_slot());
	if (match.rule == RULES_NONE)
		return other(p, port);
	class = bpf_map_lookup_elem(&classes, &match.action);
	if (!class)
		return drop(p, DROP_FAILED);
	count(p, class->count);
	return enter(p, class);
}

/* Restores the NSH of a packet that returned from an SFC-unaware function. Returns a verdict, or -1 if the packet
 * is to be forwarded. */
static __always_inline int rejoin(struct packet *p, const struct nsh_proxied *known, __u32 path, int turned)
{
	__u32 length = known->length & (NSH_HEADER_MAX - 1), grow = length;
	struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->end)
		return drop(p, DROP_MALFORMED);
	if (((const struct nsh *)known->header)->next_protocol == PROTOCOL_ETHERNET) {
		__builtin_memcpy(turned ? eth->h_source : eth->h_dest, known->macs, 6);
		__builtin_memcpy(turned ? eth->h_dest : eth->h_source, known->macs + 6, 6);
		grow += ETHERNET_OUTER;
	}
	if (wrap(p, known->header, length, grow, path))
		return drop(p, DROP_FAILED);
	trace(p, STEP_SERVED, 0, 0);
	return -1;
}

/* The flow of a packet, or, of an ICMP error, the one that it quotes, whose direction is the opposite one. */
static __always_inline struct nsh_proxied *find_flow_or_quoted(
	const struct packet *p, struct flow *flow, struct flow_headers *headers, enum proxy_found *how)
{
	struct nsh_proxied *known = find_flow(flow, how);
	struct flow quoted __attribute__((aligned(8)));

	if (known || !flow_quoted(p->ctx, flow, headers, &quoted))
		return known;
	quoted.dscp = flow->dscp;
	quoted.port = flow->port;
	*flow = quoted;
	known = find_flow(flow, how);
	if (*how == FOUND_REVERSE)
		*how = FOUND_SAME;
	else if (*how != FOUND_SEVERAL)
		*how = FOUND_REVERSE;
	return known;
}

/* A packet from an SFC-unaware function rejoins the path on which its flow arrived there. Replies that the function
 * originates take the path of the opposite direction. Packets that are not IP are passed to the kernel. */
static __noinline int returned(struct packet *p, __u16 proxy)
{
	struct flow flow __attribute__((aligned(8)));
	struct flow_headers headers = {};
	struct nsh_proxied *known;
	enum proxy_found how;
	enum flow_kind kind;
	int turned, cause;

	if (!p)
		return XDP_ABORTED;
	reload(p);
	kind = inner_flow(p, &flow, &headers);
	cause = forged(p, &flow, &headers, kind);
	if (cause >= 0)
		return drop(p, cause);
	switch (kind) {
	case FLOW_NOT_IP: return XDP_PASS;
	case FLOW_MALFORMED: return drop(p, DROP_MALFORMED);
	default: break;
	}
	flow.dscp = SIDE_BOTH;
	flow.port = proxy;
	known = find_flow_or_quoted(p, &flow, &headers, &how);
	if (!known)
		return drop(p, DROP_UNKNOWN_FLOW);
	if (how == FOUND_SEVERAL)
		return drop(p, DROP_SEVERAL_PATHS);
	if (how == FOUND_SIDE)
		bpf_map_update_elem(&proxied, &flow, known, BPF_ANY);
	turned = how == FOUND_REVERSE;
	if (turned && !known->back)
		return XDP_PASS;
	return rejoin(p, known, turned ? known->back : known->on, turned);
}

static __always_inline int proxied_frame(struct packet *p, __u16 proxy)
{
	int verdict = returned(p, proxy);

	return verdict < 0 ? steer(p, 0) : verdict;
}

/* Packets on a path, at a port of the domain. Returns a verdict, or -1 for other packets. */
static __always_inline int from_domain(struct packet *p, const struct nsh_port *port)
{
	struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->end)
		return drop(p, DROP_MALFORMED);
	if (eth->h_proto == bpf_htons(ETH_P_NETWORK_SERVICE)) {
		p->offset = ETHERNET_OUTER;
		return on_path(p);
	}
	if (!port->own || !is_gpe(p->data, p->end, port->own))
		return -1;
	if (!is_sound_gpe(p->data, p->end - p->data))
		return drop(p, DROP_MALFORMED);
	if (!is_known(p->data))
		return drop(p, DROP_UNKNOWN_FORWARDER);
	p->offset = GPE_OUTER;
	return on_path(p);
}

/* Copies of frames, with or without NSH, are observed and go no further. */
static __always_inline int mirrored(struct packet *p)
{
	struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->end)
		return XDP_DROP;
	if (eth->h_proto == bpf_htons(ETH_P_NETWORK_SERVICE)) {
		p->offset = ETHERNET_OUTER;
		if (check(p) >= 0)
			p->header = 0;
	}
	observe(p);
	return XDP_DROP;
}

SEC("xdp")
int nsh(struct xdp_md *ctx)
{
	struct packet p = { .ctx = ctx };
	__u32 interface = ctx->ingress_ifindex;
	struct nsh_port *port;
	int verdict;

	reload(&p);
	port = bpf_map_lookup_elem(&ports, &interface);
	if (!port)
		return XDP_PASS;
	if (rings && port->mirror)
		return mirrored(&p);
	if (port->trusted) {
		verdict = from_domain(&p, port);
		if (verdict >= 0)
			return verdict;
	}
	if (proxies && port->proxy) {
		if (port->own && is_to(p.data, p.end, port->own) && !is_gpe(p.data, p.end, port->own))
			return XDP_PASS;
		return proxied_frame(&p, port->proxy);
	}
	return classify(&p, port);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
