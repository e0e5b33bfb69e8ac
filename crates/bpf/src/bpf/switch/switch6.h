/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The switch's IPv6, with maps of its own: IPv4 keeps its small keys. A packet with extension headers, that of fragments
 * among them, has no ports here and matches no entry.
 */
#ifndef HAWSER_SWITCH6_H
#define HAWSER_SWITCH6_H

#include <linux/icmpv6.h>
#include <linux/ipv6.h>

#include "common.h"

#define L4_6 (sizeof(struct ethhdr) + sizeof(struct ipv6hdr)) /* offset of TCP or UDP */
#define ND_FIRST 133 /* types of neighbour discovery (RFC 4861 section 4) */
#define ND_LAST 137
#define ND_HOP_LIMIT 255

struct entries6 {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct switch_key6));
	__uint(value_size, sizeof(struct switch_entry6));
};

/* The active entries, replaced atomically as a whole. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__array(values, struct entries6);
} in_force6 SEC(".maps");

/* Whether there are any. Else IPv6 is left to the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} switches_ipv6 SEC(".maps");

/* Local addresses, and whether NAT uses their low ports. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct in6_addr);
	__type(value, __u32);
} own6 SEC(".maps");

/* Headers that are parsed, after Ethernet's. */
struct headers6 {
	struct ipv6hdr ip;
	__be16 source_port;
	__be16 destination_port;
	__be16 udp_length; /* the last field of the shortest header, UDP's */
	__be16 udp_check;
};

static __always_inline int is_ipv6_switched(void)
{
	__u32 zero = 0, *set = bpf_map_lookup_elem(&switches_ipv6, &zero);

	return set && *set;
}

/* A pointer of the context. In C it would be a number of 32 bits, whose extension, if the compiler spills it, the verifier
 * refuses. */
#define POINTER(skb, field)                                                                               \
	({                                                                                                \
		void *pointer;                                                                            \
		asm volatile("%0 = *(u32 *)(%1 + %2)"                                                     \
			     : "=r"(pointer)                                                              \
			     : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, field)));                \
		pointer;                                                                                  \
	})

/* The headers if they are in linear data, else null. */
static __always_inline struct headers6 *linear_headers6(struct __sk_buff *skb)
{
	struct headers6 *h = POINTER(skb, data) + sizeof(struct ethhdr);

	return (void *)(h + 1) <= POINTER(skb, data_end) ? h : 0;
}

/* The headers, pulled into linear data if needed; null if the packet is shorter. */
static __always_inline struct headers6 *headers6(struct __sk_buff *skb)
{
	const __u32 length = sizeof(struct ethhdr) + sizeof(struct headers6);
	struct headers6 *h = linear_headers6(skb);

	if (h || skb->len < length || bpf_skb_pull_data(skb, length))
		return h;
	return linear_headers6(skb);
}

static __always_inline int has_ports6(const struct ipv6hdr *ip)
{
	return ip->version == 6 && (ip->nexthdr == IPPROTO_TCP || ip->nexthdr == IPPROTO_UDP);
}

/* Whether lengths fit, and a UDP packet has a checksum (RFC 8200 section 8.1). */
static __always_inline int is_sound6(const struct headers6 *h, __u32 length)
{
	int is_udp = h->ip.nexthdr == IPPROTO_UDP;
	__u32 payload = bpf_ntohs(h->ip.payload_len);
	__u32 least = is_udp ? sizeof(struct udphdr) : sizeof(struct tcphdr);

	return payload >= least && payload <= length - L4_6 && (!is_udp || h->udp_check);
}

static __always_inline struct switch_entry6 *find6(const struct switch_key6 *key)
{
	__u32 zero = 0;
	void *set = bpf_map_lookup_elem(&in_force6, &zero);

	return set ? bpf_map_lookup_elem(set, key) : 0;
}

/* Looks up the entry of a packet with these ports and the key's addresses, and which port holds the label. Only UDP has
 * labels in both ports. */
static __always_inline struct switch_entry6 *find_by_ports6(struct switch_key6 *key, __u8 protocol,
							    __be16 source_port, __be16 destination_port)
{
	struct switch_entry6 *entry;

	key->source_port = source_port;
	key->destination_port = destination_port;
	key->place = PLACE_BOTH;
	entry = protocol == IPPROTO_UDP ? find6(key) : 0;
	if (entry)
		return entry;
	key->source_port = 0;
	key->place = PLACE_DESTINATION;
	entry = find6(key);
	if (entry)
		return entry;
	key->source_port = source_port;
	key->destination_port = 0;
	key->place = PLACE_SOURCE;
	return find6(key);
}

static __always_inline struct switch_entry6 *entry_of6(const struct headers6 *h, struct switch_key6 *key)
{
	__builtin_memcpy(key->source, &h->ip.saddr, sizeof(key->source));
	__builtin_memcpy(key->destination, &h->ip.daddr, sizeof(key->destination));
	return find_by_ports6(key, h->ip.nexthdr, h->source_port, h->destination_port);
}

static __always_inline int is_same6(const struct in6_addr *one, const __be32 *other)
{
	const __be32 *words = one->in6_u.u6_addr32;

	return words[0] == other[0] && words[1] == other[1] && words[2] == other[2] && words[3] == other[3];
}

/* Difference between two pairs of addresses as a ones' complement sum (RFC 1624). */
static __always_inline __u32 difference6(const struct ipv6hdr *ip, const struct switch_entry6 *entry)
{
	const __be32 *source = ip->saddr.in6_u.u6_addr32, *destination = ip->daddr.in6_u.u6_addr32;
	__u64 sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (__u64)(__u32)~source[i] + (__u32)~destination[i] + entry->source[i] +
		       entry->destination[i];
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/* Updates the checksum of TCP or UDP. */
static __always_inline int rewrite_checksum6(struct __sk_buff *skb, struct headers6 *h,
					     const struct switch_entry6 *entry, __u8 place)
{
	__be16 old = place == PLACE_SOURCE ? h->source_port : h->destination_port;
	int is_udp = h->ip.nexthdr == IPPROTO_UDP;
	__u32 at = L4_6 + (is_udp ? 6 : 16), change = difference6(&h->ip, entry);

	if (is_udp && skb->gso_size) { /* covers only the pseudo header, as in IPv4 */
		h->udp_check = fold((__u64)h->udp_check + change);
		return 0;
	}
	if (update_checksum(skb, at, is_udp, change, place, old, entry->port))
		return -1;
	/* The helper also takes the change out of a sum of the whole packet, since in IPv4 the header's checksum makes up for
	 * the addresses. IPv6 has none: the sum stays. */
	bpf_csum_update(skb, change);
	return 0;
}

/* Writes addresses, the port if it alone holds the label and, in transit, the decremented hop limit. */
static __always_inline int rewrite6(struct __sk_buff *skb, struct headers6 *h,
				    const struct switch_entry6 *entry, __u8 place, int transit)
{
	if (rewrite_checksum6(skb, h, entry, place))
		return -1;
	h = headers6(skb);
	if (!h)
		return -1;
	if (transit) { /* no checksum but a sum of the whole packet covers it */
		__u8 limit = h->ip.hop_limit--;

		bpf_csum_update(skb, (__u16)~bpf_htons(limit) + bpf_htons(limit - 1));
	}
	__builtin_memcpy(&h->ip.saddr, entry->source, sizeof(entry->source));
	__builtin_memcpy(&h->ip.daddr, entry->destination, sizeof(entry->destination));
	if (place == PLACE_SOURCE)
		h->source_port = entry->port;
	else if (place == PLACE_DESTINATION)
		h->destination_port = entry->port;
	return 0;
}

/* Whether an entry leaves a packet of the agent unchanged, as in IPv4. */
static __always_inline int stays6(const struct headers6 *h, const struct switch_entry6 *entry,
				  const struct switch_key6 *key)
{
	return key->from == FROM_AGENT && key->place == PLACE_BOTH && is_same6(&h->ip.saddr, entry->source) &&
	       is_same6(&h->ip.daddr, entry->destination);
}

/* Applies an entry. */
static __always_inline int carry6(struct __sk_buff *skb, struct headers6 *h, struct switch_entry6 *entry,
				  const struct switch_key6 *key)
{
	struct bpf_redir_neigh next = { .nh_family = 10 /* AF_INET6 */ };
	struct size size = size_of(skb, sizeof(h->ip), h->ip.nexthdr);
	int transit = key->from == FROM_WAN && entry->interface, verdict, stay;

	if (!is_sound6(h, skb->len))
		return drop(DROP_MALFORMED);
	if (transit && h->ip.hop_limit <= 1)
		return drop(DROP_TTL);
	verdict = entry->interface ? refuse(skb, entry->interface, size.largest) : 0;
	if (verdict)
		return verdict;
	h = headers6(skb);
	if (!h)
		return drop(DROP_FAILED);
	__builtin_memcpy(next.ipv6_nh, entry->next_hop, sizeof(next.ipv6_nh));
	stay = stays6(h, entry, key);
	if (stay && skb->ifindex != entry->interface)
		return bpf_redirect_neigh(entry->interface, &next, sizeof(next), 0);
	if (!stay && rewrite6(skb, h, entry, key->place, transit))
		return drop(DROP_FAILED);
	count(entry->count, &size);
	if (entry->interface && entry->priority)
		skb->priority = entry->priority;
	if (!entry->interface || stay)
		return TC_ACT_OK;
	return bpf_redirect_neigh(entry->interface, &next, sizeof(next), 0);
}

/* Whether an ICMPv6 error quotes a packet that the switch sent, that is, whether a reply to that packet would match an
 * entry. */
static __always_inline int is_about_switched6(struct __sk_buff *skb, const struct headers6 *h)
{
	struct headers6 quoted;
	struct switch_key6 key = { .from = FROM_WAN };
	__u8 type = h->source_port & 0xff; /* first byte of the ICMPv6 header */

	if (h->ip.nexthdr != IPPROTO_ICMPV6 || type < ICMPV6_DEST_UNREACH || type > ICMPV6_PARAMPROB)
		return 0;
	if (bpf_skb_load_bytes(skb, L4_6 + sizeof(struct icmp6hdr), &quoted, sizeof(quoted)) ||
	    !has_ports6(&quoted.ip))
		return 0;
	__builtin_memcpy(key.source, &quoted.ip.daddr, sizeof(key.source));
	__builtin_memcpy(key.destination, &quoted.ip.saddr, sizeof(key.destination));
	if (!is_same6(&h->ip.daddr, key.destination))
		return 0;
	return find_by_ports6(&key, quoted.ip.nexthdr, quoted.destination_port, quoted.source_port) != 0;
}

/* Whether a local socket matches the packet. */
static __always_inline int has_socket6(struct __sk_buff *skb, const struct headers6 *h)
{
	struct bpf_sock_tuple tuple = { .ipv6.sport = h->source_port, .ipv6.dport = h->destination_port };
	__u32 size = sizeof(tuple.ipv6);
	struct bpf_sock *socket;

	__builtin_memcpy(tuple.ipv6.saddr, &h->ip.saddr, sizeof(tuple.ipv6.saddr));
	__builtin_memcpy(tuple.ipv6.daddr, &h->ip.daddr, sizeof(tuple.ipv6.daddr));
	if (h->ip.nexthdr == IPPROTO_TCP)
		socket = bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else
		socket = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!socket)
		return 0;
	bpf_sk_release(socket);
	return 1;
}

/* Neighbour discovery, also for an address that was added only now. If the stack forwarded it, its receiver would ignore it:
 * a hop limit of 254 is invalid (RFC 4861 section 6.1). */
static __always_inline int is_neighbour_discovery(const struct headers6 *h)
{
	__u8 type = h->source_port & 0xff;

	return h->ip.nexthdr == IPPROTO_ICMPV6 && type >= ND_FIRST && type <= ND_LAST &&
	       h->ip.hop_limit == ND_HOP_LIMIT;
}

/* A packet without an entry: passed to the stack if it is local, else dropped. */
static __always_inline int unmatched6(struct __sk_buff *skb, const struct headers6 *h)
{
	struct in6_addr to = h->ip.daddr;
	__u32 *nat = bpf_map_lookup_elem(&own6, &to);

	if (!nat) {
		int is_multicast = to.in6_u.u6_addr8[0] == 0xff; /* which the stack does not forward */

		return is_multicast || is_neighbour_discovery(h) ? TC_ACT_OK : drop(DROP_NO_ENTRY);
	}
	if (is_about_switched6(skb, h)) {
		report(skb, EVENT_ICMP_ERROR, 0);
		return TC_ACT_SHOT; /* not counted as a drop: the daemon handles it */
	}
	/* a label without a path here: dropped, so that the stack does not send a reset */
	if (has_ports6(&h->ip) && is_labelled(h->ip.nexthdr, h->source_port, h->destination_port, *nat) &&
	    !has_socket6(skb, h))
		return drop(DROP_NO_ENTRY);
	return TC_ACT_OK;
}

static __always_inline int wan6(struct __sk_buff *skb)
{
	struct switch_key6 key = { .from = FROM_WAN };
	struct switch_entry6 *entry;
	struct headers6 *h;

	if (!is_ipv6_switched())
		return TC_ACT_OK;
	h = headers6(skb);
	if (!h || h->ip.version != 6)
		return drop(DROP_MALFORMED);
	entry = has_ports6(&h->ip) ? entry_of6(h, &key) : 0;
	return entry ? carry6(skb, h, entry, &key) : unmatched6(skb, h);
}

static __always_inline int agent6(struct __sk_buff *skb)
{
	struct switch_key6 key = { .from = FROM_AGENT };
	struct switch_entry6 *entry;
	struct headers6 *h;

	if (!is_ipv6_switched())
		return TC_ACT_OK;
	h = headers6(skb);
	if (!h || !has_ports6(&h->ip))
		return TC_ACT_OK;
	entry = entry_of6(h, &key);
	return entry ? carry6(skb, h, entry, &key) : TC_ACT_OK;
}

#endif
