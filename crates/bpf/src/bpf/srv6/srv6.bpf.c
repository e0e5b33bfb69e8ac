/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* SRv6 service proxies for SR-unaware functions, at a port's XDP hook: End.AS, End.AD and End.AM of
 * draft-ietf-spring-sr-service-programming section 6.
 *
 * A packet to a local segment is sent to the function without its headers (End.AS, End.AD), or with the last segment as
 * its destination (End.AM). A packet that returns on the function's port gets the configured headers (End.AS), the
 * headers of the last packet received (End.AD), or its destination back (End.AM).
 */
#include "parse.h"

#include "drops.h" /* after enum srv6_drop */

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, SRV6_PORTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} devices SEC(".maps");

/* By segment. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SRV6_PROXIES);
	__type(key, struct in6_addr);
	__type(value, struct srv6_proxy);
} segments SEC(".maps");

/* By index of the interface, of each port that is not trusted: on most, packets return from a function. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SRV6_PORTS);
	__type(key, __u32);
	__type(value, struct srv6_proxy);
} returns SEC(".maps");

/* Headers for returning packets, by proxy and inner family. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * SRV6_PROXIES);
	__type(key, __u32);
	__type(value, struct srv6_cache);
} caches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SRV6_COUNTS * SRV6_PROXIES);
	__type(key, __u32);
	__type(value, struct srv6_tally);
} counts SEC(".maps");

struct packet {
	struct xdp_md *ctx;
	void *data;
	void *end;
};

static __always_inline void reload(struct packet *p)
{
	p->data = (void *)(long)p->ctx->data;
	p->end = (void *)(long)p->ctx->data_end;
}

static __always_inline int drop(__u32 cause)
{
	count_drop(cause);
	return XDP_DROP;
}

static __always_inline void count(const struct packet *p, __u32 number, enum srv6_count what)
{
	__u32 index = number * SRV6_COUNTS + what;
	struct srv6_tally *c = bpf_map_lookup_elem(&counts, &index);

	if (c) {
		c->packets++;
		c->bytes += p->end - p->data;
	}
}

/* Writes an Ethernet header and sends the packet. */
static __always_inline int leave(const struct packet *p, const struct srv6_next_hop *next_hop, __u16 type)
{
	struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->end)
		return drop(DROP_FAILED);
	if (p->end - p->data > next_hop->frame_max)
		return drop(DROP_TOO_BIG);
	__builtin_memcpy(eth->h_dest, next_hop->mac, sizeof(eth->h_dest));
	__builtin_memcpy(eth->h_source, next_hop->own_mac, sizeof(eth->h_source));
	eth->h_proto = bpf_htons(type);
	if (bpf_redirect_map(&devices, next_hop->port, XDP_ABORTED) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return drop(DROP_FAILED);
}

static __always_inline __u16 type_of(__u32 family)
{
	return family == FAMILY_IPV4 ? ETH_P_IP : ETH_P_IPV6;
}

/* The first 8 bytes of an IPv6 header with the payload length set to zero. */
static __always_inline __u64 first_word(const void *ip)
{
	union {
		__u64 word;
		__be16 parts[4];
	} first = { *(const __u64 *)ip };

	first.parts[2] = 0;
	return first.word;
}

static __always_inline int is_known(const struct packet *p, const struct srv6_headers *known, __u32 length)
{
	const void *ip = p->data + ETH_HLEN;

	if (known->length != length)
		return 0;
	for (__u32 at = 8; at < SRV6_HEADERS_MAX; at += 8) {
		if (at >= length)
			break;
		if (ip + at + 8 > p->end || *(__u64 *)(ip + at) != *(__u64 *)(known->bytes + at))
			return 0;
	}
	return 1;
}

/* Learns the headers of a packet (End.AD): writes the inactive half of the cache, then activates it. The words with
 * traffic class, flow label and hop limit are ignored in the comparison, since they may differ between packets. */
static __always_inline void learn(const struct packet *p, __u32 number, __u32 family, __u32 length)
{
	__u32 key = 2 * number + family;
	struct srv6_cache *cache = bpf_map_lookup_elem(&caches, &key);
	const void *ip = p->data + ETH_HLEN;
	struct srv6_headers *spare;
	__u32 other;
	__u64 first;

	if (!cache || ip + 8 > p->end)
		return;
	first = first_word(ip);
	other = !(cache->in_force & 1);
	if (is_known(p, &cache->headers[!other], length)) {
		if (*(__u64 *)cache->headers[!other].bytes != first)
			*(__u64 *)cache->headers[!other].bytes = first;
		return;
	}
	if (__sync_val_compare_and_swap(&cache->busy, 0, 1))
		return; /* another CPU is writing */
	spare = &cache->headers[other];
	for (__u32 at = 8; at < SRV6_HEADERS_MAX; at += 8) {
		if (at >= length || ip + at + 8 > p->end)
			break;
		*(__u64 *)(spare->bytes + at) = *(__u64 *)(ip + at);
	}
	*(__u64 *)spare->bytes = first;
	spare->length = length;
	__sync_lock_test_and_set(&cache->in_force, other);
	__sync_lock_test_and_set(&cache->busy, 0);
	count(p, number, COUNT_LEARNED);
}

/* Family of the inner packet, or -1. */
static __always_inline int family_of(__u8 protocol)
{
	if (protocol == IPPROTO_IPIP)
		return FAMILY_IPV4;
	return protocol == IPPROTO_IPV6 ? FAMILY_IPV6 : -1;
}

/* Removes `length` bytes of headers from a packet of `whole` bytes. */
static __always_inline int strip(struct packet *p, const struct srv6_proxy *proxy, __u32 whole,
				 __u32 length, __u8 protocol)
{
	int family = family_of(protocol);
	__u32 carried;

	if (family < 0)
		return drop(DROP_PAYLOAD);
	length &= 4095;
	carried = carried_length(p->data + ETH_HLEN + length, p->end, family);
	if (!carried || carried > whole - length)
		return drop(DROP_MALFORMED);
	if (proxy->behaviour == BEHAVIOUR_DYNAMIC) {
		if (length > SRV6_HEADERS_MAX)
			return drop(DROP_TOO_LONG);
		learn(p, proxy->number, family, length);
	}
	count(p, proxy->number, COUNT_TOWARD);
	if (bpf_xdp_adjust_head(p->ctx, length))
		return drop(DROP_FAILED);
	reload(p);
	return leave(p, &proxy->next_hop, type_of(family));
}

/* Advances to the next segment (RFC 8986 section 4.1); for End.AM, the destination becomes the last segment. Returns the
 * cause of a drop, or -1. */
static __always_inline int advance(struct packet *p, struct ipv6hdr *ip, struct srh *srh, int masquerade)
{
	struct in6_addr *next = segment(ip, p->end, masquerade ? 0 : srh->left - 1);

	if (!next)
		return DROP_MALFORMED;
	srh->left--;
	ip->hop_limit--;
	ip->daddr = *next;
	return -1;
}

static __always_inline int toward(struct packet *p, struct ipv6hdr *ip, const struct srv6_proxy *proxy)
{
	struct srh *srh = (struct srh *)(ip + 1);
	__u32 whole = ipv6_length(ip, p->end), length;
	int cause;

	if (!whole)
		return drop(DROP_MALFORMED);
	if (ip->nexthdr != IPPROTO_ROUTING) {
		if (proxy->behaviour != BEHAVIOUR_STATIC || family_of(ip->nexthdr) < 0)
			return drop(DROP_NOT_SRV6);
		return ip->hop_limit <= 1 ? drop(DROP_HOP_LIMIT)
					  : strip(p, proxy, whole, IP_LENGTH, ip->nexthdr);
	}
	if ((void *)(srh + 1) > p->end)
		return drop(DROP_MALFORMED);
	if (srh->type != ROUTING_SEGMENTS)
		return drop(DROP_NOT_SRV6);
	length = srh_length(srh, whole);
	if (!length)
		return drop(DROP_MALFORMED);
	if (proxy->behaviour != BEHAVIOUR_STATIC && !srh->left)
		return drop(DROP_SEGMENTS_LEFT);
	if (ip->hop_limit <= 1)
		return drop(DROP_HOP_LIMIT);
	if (proxy->behaviour == BEHAVIOUR_STATIC)
		return strip(p, proxy, whole, length, srh->next);
	cause = advance(p, ip, srh, proxy->behaviour == BEHAVIOUR_MASQUERADING);
	if (cause >= 0)
		return drop(cause);
	if (proxy->behaviour == BEHAVIOUR_DYNAMIC)
		return strip(p, proxy, whole, length, srh->next);
	count(p, proxy->number, COUNT_TOWARD);
	return leave(p, &proxy->next_hop, ETH_P_IPV6);
}

/* Adds headers to a packet that returned from a function. */
static __always_inline int push(struct packet *p, const struct srv6_proxy *proxy, __u32 family)
{
	__u32 key = 2 * proxy->number + family, length, carried;
	struct srv6_cache *cache = bpf_map_lookup_elem(&caches, &key);
	const struct srv6_headers *known;
	struct ipv6hdr *ip;

	carried = carried_length(p->data + ETH_HLEN, p->end, family);
	if (!carried)
		return drop(DROP_MALFORMED);
	if (!cache)
		return drop(DROP_FAILED);
	known = &cache->headers[cache->in_force & 1];
	length = known->length & 255;
	if (length < IP_LENGTH + sizeof(struct srh))
		return drop(DROP_NO_CACHE);
	count(p, proxy->number, COUNT_RETURNED);
	if (p->end - p->data + length > proxy->next_hop.frame_max)
		return drop(DROP_TOO_BIG);
	if (bpf_xdp_adjust_head(p->ctx, -(int)length))
		return drop(DROP_FAILED);
	reload(p);
	ip = p->data + ETH_HLEN;
	for (__u32 at = 0; at < SRV6_HEADERS_MAX; at += 8) {
		if (at >= length)
			break;
		if ((void *)ip + at + 8 > p->end)
			return drop(DROP_FAILED);
		*(__u64 *)((void *)ip + at) = *(__u64 *)(known->bytes + at);
	}
	if ((void *)(ip + 1) + sizeof(struct srh) > p->end)
		return drop(DROP_FAILED);
	ip->payload_len = bpf_htons(length - IP_LENGTH + carried);
	((struct srh *)(ip + 1))->next = family == FAMILY_IPV4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	return leave(p, &proxy->next_hop, ETH_P_IPV6);
}

/* Restores the destination of a returned packet (End.AM). */
static __always_inline int unmask(struct packet *p, struct ipv6hdr *ip, const struct srv6_proxy *proxy)
{
	struct srh *srh = (struct srh *)(ip + 1);
	__u32 whole = ipv6_length(ip, p->end);
	struct in6_addr *next, *last;

	if (!whole)
		return drop(DROP_MALFORMED);
	if (ip->nexthdr != IPPROTO_ROUTING)
		return drop(DROP_NOT_SRV6);
	if ((void *)(srh + 1) > p->end)
		return drop(DROP_MALFORMED);
	if (srh->type != ROUTING_SEGMENTS)
		return drop(DROP_NOT_SRV6);
	if (!srh_length(srh, whole) || srh->left > srh->last)
		return drop(DROP_MALFORMED);
	last = segment(ip, p->end, 0);
	next = segment(ip, p->end, srh->left);
	if (!last || !next)
		return drop(DROP_MALFORMED);
	if (!equal_address(&ip->daddr, last))
		return drop(DROP_CHANGED);
	ip->daddr = *next;
	count(p, proxy->number, COUNT_RETURNED);
	return leave(p, &proxy->next_hop, ETH_P_IPV6);
}

static __always_inline int back(struct packet *p, const struct srv6_proxy *proxy)
{
	struct ethhdr *eth = p->data;
	struct ipv6hdr *ip = (struct ipv6hdr *)(eth + 1);

	if ((void *)(eth + 1) > p->end || eth->h_dest[0] & 1)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if (is_of_link(ip, p->end))
			return XDP_PASS;
		return proxy->behaviour == BEHAVIOUR_MASQUERADING ? unmask(p, ip, proxy)
								  : push(p, proxy, FAMILY_IPV6);
	}
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	return proxy->behaviour == BEHAVIOUR_MASQUERADING ? drop(DROP_NOT_SRV6) : push(p, proxy, FAMILY_IPV4);
}

/* Whether a packet has a segment routing header, behind extension headers that RFC 8200 section 4.1 puts before it. */
static __always_inline int has_segments(const struct packet *p, const struct ipv6hdr *ip)
{
	const __u8 *next = (const __u8 *)(ip + 1);
	__u8 protocol = ip->nexthdr;

	for (int i = 0; i < SRV6_EXTENSIONS; i++) {
		if ((const void *)(next + 8) > p->end)
			return 0;
		if (protocol == IPPROTO_ROUTING)
			return next[2] == ROUTING_SEGMENTS;
		if (protocol != IPPROTO_HOPOPTS && protocol != IPPROTO_DSTOPTS)
			return 0;
		protocol = next[0];
		next += 8 + next[1] * 8;
	}
	return 1;
}

SEC("xdp")
int srv6(struct xdp_md *ctx)
{
	struct packet p = { .ctx = ctx };
	__u32 interface = ctx->ingress_ifindex;
	struct in6_addr address;
	struct srv6_proxy *proxy;
	struct ethhdr *eth;
	struct ipv6hdr *ip;

	reload(&p);
	proxy = bpf_map_lookup_elem(&returns, &interface);
	eth = p.data;
	ip = (struct ipv6hdr *)(eth + 1);
	if ((void *)(ip + 1) <= p.end && eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct srv6_proxy *own;

		address = ip->daddr;
		own = bpf_map_lookup_elem(&segments, &address);
		if (own)
			return proxy && !proxy->trusted ? drop(DROP_UNTRUSTED_SRH) : toward(&p, ip, own);
		if (proxy && proxy->behaviour == BEHAVIOUR_OUTSIDE && has_segments(&p, ip))
			return drop(DROP_UNTRUSTED_SRH);
	}
	return proxy && proxy->behaviour != BEHAVIOUR_OUTSIDE ? back(&p, proxy) : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
