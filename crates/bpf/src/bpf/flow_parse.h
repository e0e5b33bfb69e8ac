/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Parses the flow of a frame or packet. */
#ifndef HAWSER_FLOW_PARSE_H
#define HAWSER_FLOW_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow.h"

#define FLOW_MORE_FRAGMENTS 0x2000
#define FLOW_FRAGMENT_OFFSET 0x1fff
#define FLOW_TAGS 4 /* VLAN tags at most */
#define FLOW_LABELS 8 /* MPLS labels at most */
#define FLOW_OFFSET_MAX 16383 /* mask that bounds offsets for the verifier; beyond all that is parsed */
#define FLOW_EXTENSIONS 4 /* extension headers at most: hop-by-hop, destination options twice, routing */
#define FLOW_SEGMENTS 4 /* routing type of a segment routing header */
#define ETH_P_QINQ_OLD 0x9100 /* tag before IEEE 802.1ad */
#define PPPOE_HEADER 6
#define ICMP_HEADER 8
#define ICMP_UNREACHABLE 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMPV6_INFORMATIONAL 128
#define PPP_IPV4 0x0021
#define PPP_IPV6 0x0057

enum flow_kind {
	FLOW_COMPLETE,
	FLOW_FRAGMENT, /* has no ports */
	FLOW_HIDDEN, /* ports unknown: behind headers that are not parsed */
	FLOW_NOT_IP,
	FLOW_OPAQUE, /* may be IP: behind more tags or labels than are parsed */
	FLOW_MALFORMED,
};

/* What a packet has beside its flow. */
struct flow_headers {
	__be32 id; /* of a fragment's datagram */
	__u16 upper; /* offset of the upper-layer header in the frame, in a first fragment too; 0: none, or not parsed */
	__u16 offset; /* of a fragment, bytes */
	__u8 more; /* whether further fragments follow */
	__u8 segments; /* whether there is a segment routing header (RFC 8754) */
	__be16 type; /* EtherType behind tags; 0: opaque */
	__u16 length; /* from the upper-layer header to the end of the packet by its IP header, bytes */
	__u16 network; /* offset of the IP header in the frame */
};

_Static_assert(sizeof(struct flow_headers) == 16, "flow_headers: the stack of a program is short");

/* The packet being parsed. */
struct flow_packet {
	void *data;
	void *end;
	struct flow *flow;
	struct flow_headers *headers;
};

/* `length`: of the IP packet from `from` on. */
static __always_inline void flow_upper(struct flow_packet *p, void *at, void *from, __u16 length)
{
	__u64 offset = at - p->data, before = at - from;

	asm volatile("" : "+r"(offset), "+r"(before)); /* pointers are subtracted in 64 bits */
	p->headers->upper = offset;
	p->headers->length = length > before ? length - before : 0;
}

/* TCP, UDP and SCTP have their ports at the same offset. */
static __always_inline enum flow_kind flow_ports(struct flow_packet *p, void *at)
{
	struct flow *f = p->flow;
	__be16 *ports = at;

	if (f->protocol != IPPROTO_TCP && f->protocol != IPPROTO_UDP && f->protocol != IPPROTO_SCTP)
		return FLOW_COMPLETE;
	if ((void *)(ports + 2) > p->end)
		return FLOW_MALFORMED;
	f->source_port = ports[0];
	f->destination_port = ports[1];
	return FLOW_COMPLETE;
}

static __always_inline enum flow_kind flow_ipv4(struct flow_packet *p, void *at)
{
	struct flow_headers *h = p->headers;
	struct flow *f = p->flow;
	struct iphdr *ip = at;
	__u16 fragment;

	if ((void *)(ip + 1) > p->end || ip->ihl < 5)
		return FLOW_MALFORMED;
	f->source[10] = f->source[11] = f->destination[10] = f->destination[11] = 0xff;
	__builtin_memcpy(f->source + 12, &ip->saddr, 4);
	__builtin_memcpy(f->destination + 12, &ip->daddr, 4);
	f->protocol = ip->protocol;
	f->dscp = ip->tos >> 2;
	fragment = bpf_ntohs(ip->frag_off);
	flow_upper(p, at + ip->ihl * 4, at, bpf_ntohs(ip->tot_len));
	if (!(fragment & (FLOW_MORE_FRAGMENTS | FLOW_FRAGMENT_OFFSET)))
		return flow_ports(p, at + ip->ihl * 4);
	/* All fragments belong to one flow without ports, which only the first has. */
	h->id = ip->id;
	h->offset = (fragment & FLOW_FRAGMENT_OFFSET) * 8;
	h->more = fragment & FLOW_MORE_FRAGMENTS ? 1 : 0;
	return FLOW_FRAGMENT;
}

static __always_inline int flow_is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_DSTOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_FRAGMENT;
}

/* Behind a fragment header (RFC 8200 section 4.5). A packet that is no fragment may have one (RFC 6946). */
static __always_inline enum flow_kind flow_after_fragment(struct flow_packet *p, __u8 *at, struct ipv6hdr *ip)
{
	struct flow_headers *h = p->headers;
	__u16 offset = bpf_ntohs(*(__be16 *)(at + 2));

	h->id = *(__be32 *)(at + 4);
	h->offset = offset & 0xfff8;
	h->more = offset & 1;
	if (flow_is_extension(p->flow->protocol))
		return h->offset || h->more ? FLOW_FRAGMENT : FLOW_HIDDEN;
	flow_upper(p, at + 8, ip + 1, bpf_ntohs(ip->payload_len));
	return h->offset || h->more ? FLOW_FRAGMENT : flow_ports(p, at + 8);
}

static __always_inline enum flow_kind flow_ipv6(struct flow_packet *p, void *at)
{
	struct flow *f = p->flow;
	struct ipv6hdr *ip = at;
	__u8 *next = (__u8 *)(ip + 1), header;

	if ((void *)(ip + 1) > p->end)
		return FLOW_MALFORMED;
	__builtin_memcpy(f->source, &ip->saddr, 16);
	__builtin_memcpy(f->destination, &ip->daddr, 16);
	f->protocol = ip->nexthdr;
	f->dscp = (bpf_ntohs(*(__be16 *)at) >> 6) & 63;
	for (int i = 0; i < FLOW_EXTENSIONS; i++) {
		header = f->protocol;
		if (!flow_is_extension(header)) {
			flow_upper(p, next, ip + 1, bpf_ntohs(ip->payload_len));
			return flow_ports(p, next);
		}
		if ((void *)(next + 8) > p->end)
			return FLOW_MALFORMED;
		f->protocol = next[0];
		if (header == IPPROTO_FRAGMENT)
			return flow_after_fragment(p, next, ip);
		if (header == IPPROTO_ROUTING && next[2] == FLOW_SEGMENTS)
			p->headers->segments = 1;
		next += 8 + next[1] * 8; /* RFC 8200 section 4.3 */
	}
	return FLOW_HIDDEN;
}

static __always_inline enum flow_kind flow_ip(struct flow_packet *p, void *at)
{
	__u64 network = at - p->data;
	__u8 *first = at;

	if ((void *)(first + 1) > p->end)
		return FLOW_MALFORMED;
	asm volatile("" : "+r"(network)); /* as in flow_upper */
	p->headers->network = network;
	switch (*first >> 4) {
	case 4: return flow_ipv4(p, at);
	case 6: return flow_ipv6(p, at);
	default: return FLOW_MALFORMED;
	}
}

static __always_inline int flow_is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD) ||
	       type == bpf_htons(ETH_P_QINQ_OLD);
}

/* Behind an MPLS label stack (RFC 3032), the first nibble says whether it is IP. Gives the EtherType; 0: opaque. */
static __always_inline __be16 flow_labels(__u8 **at, void *end)
{
	__u8 *label = *at, *payload;

	for (int i = 0; i < FLOW_LABELS; i++, label += 4) {
		payload = label + 4;
		if ((void *)(payload + 1) > end)
			return bpf_htons(ETH_P_MPLS_UC);
		if (!(label[2] & 1)) /* bottom of stack */
			continue;
		*at = payload;
		switch (*payload >> 4) {
		case 4: return bpf_htons(ETH_P_IP);
		case 6: return bpf_htons(ETH_P_IPV6);
		default: return bpf_htons(ETH_P_MPLS_UC);
		}
	}
	return 0;
}

/* Behind a PPPoE session header and the PPP protocol (RFC 2516 section 6), which a sender may compress to one byte
 * (RFC 1661 section 6.5): then it is opaque. */
static __always_inline __be16 flow_session(__u8 **at, void *end)
{
	__u8 *protocol = *at + PPPOE_HEADER;

	if ((void *)(protocol + 2) > end)
		return bpf_htons(ETH_P_PPP_SES);
	*at = protocol + 2;
	if (protocol[0] & 1)
		return 0;
	switch (protocol[0] << 8 | protocol[1]) {
	case PPP_IPV4: return bpf_htons(ETH_P_IP);
	case PPP_IPV6: return bpf_htons(ETH_P_IPV6);
	default: return bpf_htons(ETH_P_PPP_SES);
	}
}

/* Skips VLAN tags, MPLS labels and PPPoE, and tells the EtherType; null if the frame is too short. */
static __always_inline void *flow_link(struct flow_packet *p, void *at)
{
	struct flow_headers *h = p->headers;
	__be16 *type = at + ETH_HLEN - sizeof(*type);
	__u8 *payload;

	for (int i = 0; i < FLOW_TAGS; i++) {
		if ((void *)(type + 1) > p->end)
			return 0;
		if (!flow_is_tag(*type))
			break;
		type += 2;
	}
	if ((void *)(type + 1) > p->end)
		return 0;
	payload = (__u8 *)(type + 1);
	h->type = flow_is_tag(*type) ? 0 : *type;
	if (h->type == bpf_htons(ETH_P_MPLS_UC) || h->type == bpf_htons(ETH_P_MPLS_MC))
		h->type = flow_labels(&payload, p->end);
	else if (h->type == bpf_htons(ETH_P_PPP_SES))
		h->type = flow_session(&payload, p->end);
	return payload;
}

static __always_inline enum flow_kind flow_frame(struct flow_packet *p, void *at)
{
	void *network = flow_link(p, at);

	if (!network)
		return FLOW_MALFORMED;
	if (p->headers->type == bpf_htons(ETH_P_IP) || p->headers->type == bpf_htons(ETH_P_IPV6))
		return flow_ip(p, network);
	return p->headers->type ? FLOW_NOT_IP : FLOW_OPAQUE;
}

/* Parses what begins at an offset of the packet: a frame, behind VLAN tags, MPLS labels and PPPoE, or an IP packet.
 * Gives enum flow_kind. It is global so that the verifier checks it once, not once for each call. */
__noinline int flow_parse(struct xdp_md *ctx, __u32 offset, __u32 is_frame, struct flow *f, struct flow_headers *h)
{
	struct flow_packet p = { (void *)(long)ctx->data, (void *)(long)ctx->data_end, f, h };
	void *at = p.data + (offset & FLOW_OFFSET_MAX);

	if (!f || !h)
		return FLOW_MALFORMED;
	__builtin_memset(f, 0, sizeof(*f));
	__builtin_memset(h, 0, sizeof(*h));
	return is_frame ? flow_frame(&p, at) : flow_ip(&p, at);
}

/* Whether a message of this type is an error that quotes a packet. */
static __always_inline int flow_is_error(const struct flow *f, __u8 type)
{
	if (f->protocol == IPPROTO_ICMPV6)
		return type < ICMPV6_INFORMATIONAL;
	return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM;
}

/* The flow of the packet that an ICMP error quotes (RFC 792, RFC 4443 section 2.1). Returns whether it is one. */
static __always_inline int flow_quoted(struct xdp_md *ctx, const struct flow *f, struct flow_headers *h,
				       struct flow *quoted)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *type = data + (h->upper & FLOW_OFFSET_MAX);

	if ((f->protocol != IPPROTO_ICMP && f->protocol != IPPROTO_ICMPV6) || !h->upper || h->offset)
		return 0;
	if ((void *)(type + ICMP_HEADER) > end || !flow_is_error(f, *type))
		return 0;
	return flow_parse(ctx, h->upper + ICMP_HEADER, 0, quoted, h) < FLOW_NOT_IP;
}

/* Swaps source and destination. */
static __always_inline void flow_turn(struct flow *f)
{
	struct flow other = *f;

	__builtin_memcpy(f->source, other.destination, 16);
	__builtin_memcpy(f->destination, other.source, 16);
	f->source_port = other.destination_port;
	f->destination_port = other.source_port;
}

/* Symmetric: both directions of a flow have the same hash, and so reach the same function. */
static __always_inline __u32 flow_hash(const struct flow *f)
{
	const __u32 *s = (const __u32 *)f->source, *d = (const __u32 *)f->destination;
	__u32 hash = (f->source_port ^ f->destination_port) + f->protocol;

	for (int i = 0; i < 4; i++) {
		hash = (hash ^ s[i] ^ d[i]) * 0x9e3779b1; /* 2^32 over the golden ratio */
		hash ^= hash >> 15;
	}
	return hash ^ hash >> 13;
}

#endif
