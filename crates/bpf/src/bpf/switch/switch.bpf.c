/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The switch: IP address swapping by exact match on addresses and label.
 *
 * switch_wan runs at a port's ingress, switch_agent at its egress (TC, clsact). Both look up an entry, write its addresses
 * and port, and send the packet to a neighbour or, at ingress, to the local stack. Offload (GSO) packets are not split:
 * checksums are updated incrementally (RFC 1624), which is valid for complete and for partial checksums. A packet that
 * matches no entry and is not for the local stack is dropped.
 */
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/ip.h>

#include "common.h"
#include "switch6.h"

#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff
#define L4 (sizeof(struct ethhdr) + sizeof(struct iphdr)) /* offset of TCP or UDP: IPv4 options are not supported */
#define ICMP_LENGTH 8

struct entries {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct switch_key));
	__uint(value_size, sizeof(struct switch_entry));
};

/* The active entries, replaced atomically as a whole. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__array(values, struct entries);
} in_force SEC(".maps");

/* Local addresses, and whether NAT uses their low ports. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __u32);
} own SEC(".maps");

/* Headers that are parsed, after Ethernet's. */
struct headers {
	struct iphdr ip;
	__be16 source_port;
	__be16 destination_port;
	__be16 udp_length; /* the last field of the shortest header, UDP's */
	__be16 udp_check;
};

/* The headers, pulled into linear data if needed; null if the packet is shorter. */
static __always_inline struct headers *headers(struct __sk_buff *skb)
{
	const __u32 length = sizeof(struct ethhdr) + sizeof(struct headers);
	struct headers *h = (void *)(long)skb->data + sizeof(struct ethhdr);

	if ((void *)(h + 1) <= (void *)(long)skb->data_end)
		return h;
	if (skb->len < length || bpf_skb_pull_data(skb, length))
		return 0;
	h = (void *)(long)skb->data + sizeof(struct ethhdr);
	return (void *)(h + 1) <= (void *)(long)skb->data_end ? h : 0;
}

/* Header validation before forwarding (RFC 1812 section 5.2.2), as in the stack. */
static __always_inline int is_sound(const struct iphdr *ip, __u32 length)
{
	const __u32 *words = (const void *)ip;
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];
	__u32 total = bpf_ntohs(ip->tot_len), least = sizeof(*ip);

	least += ip->protocol == IPPROTO_TCP ? sizeof(struct tcphdr) : sizeof(struct udphdr);
	return fold(sum) == 0xffff && total >= least && total <= length - sizeof(struct ethhdr);
}

static __always_inline int has_ports(const struct iphdr *ip)
{
	return ip->version == 4 && ip->ihl == 5 && !(ip->frag_off & bpf_htons(IP_FRAGMENT_OFFSET)) &&
	       (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP);
}

static __always_inline struct switch_entry *find(const struct switch_key *key)
{
	__u32 zero = 0;
	void *set = bpf_map_lookup_elem(&in_force, &zero);

	return set ? bpf_map_lookup_elem(set, key) : 0;
}

/* Looks up the entry of a packet with these ports and the key's addresses, and which port holds the label. Only UDP has
 * labels in both ports. */
static __always_inline struct switch_entry *find_by_ports(struct switch_key *key, __u8 protocol,
							  __be16 source_port, __be16 destination_port)
{
	struct switch_entry *entry;

	key->source_port = source_port;
	key->destination_port = destination_port;
	key->place = PLACE_BOTH;
	entry = protocol == IPPROTO_UDP ? find(key) : 0;
	if (entry)
		return entry;
	key->source_port = 0;
	key->place = PLACE_DESTINATION;
	entry = find(key);
	if (entry)
		return entry;
	key->source_port = source_port;
	key->destination_port = 0;
	key->place = PLACE_SOURCE;
	return find(key);
}

static __always_inline struct switch_entry *entry_of(const struct headers *h, struct switch_key *key)
{
	key->source = h->ip.saddr;
	key->destination = h->ip.daddr;
	return find_by_ports(key, h->ip.protocol, h->source_port, h->destination_port);
}

/* Difference between two pairs of addresses as a ones' complement sum (RFC 1624). */
static __always_inline __u32 difference(const struct iphdr *ip, const struct switch_entry *entry)
{
	__u64 sum = (__u64)(__u32)~ip->saddr + (__u32)~ip->daddr + entry->source + entry->destination;

	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/* Writes addresses, the port if it alone holds the label and, in transit, the decremented TTL. */
static __always_inline int rewrite(struct __sk_buff *skb, struct headers *h,
				   const struct switch_entry *entry, __u8 place, int transit)
{
	__be16 old = place == PLACE_SOURCE ? h->source_port : h->destination_port;
	int is_udp = h->ip.protocol == IPPROTO_UDP;
	__u32 at = L4 + (is_udp ? 6 : 16), change = difference(&h->ip, entry);
	__u64 sum = (__u16)~h->ip.check;

	if (is_udp && skb->gso_size) {
		/* The checksum covers only the pseudo header until the packet is segmented. If the port does not compute
		 * checksums, the kernel does not indicate that, and the helpers would treat it as complete. */
		h->udp_check = fold((__u64)h->udp_check + change);
	} else if (update_checksum(skb, at, is_udp, change, place, old, entry->port)) {
		return -1;
	}
	h = headers(skb);
	if (!h)
		return -1;
	sum += change;
	if (transit) {
		sum += (__u16)~bpf_htons((__u16)h->ip.ttl << 8) + bpf_htons((__u16)(h->ip.ttl - 1) << 8);
		h->ip.ttl--;
	}
	h->ip.check = ~fold(sum);
	h->ip.saddr = entry->source;
	h->ip.daddr = entry->destination;
	if (place == PLACE_SOURCE)
		h->source_port = entry->port;
	else if (place == PLACE_DESTINATION)
		h->destination_port = entry->port;
	return 0;
}

/* Whether an entry leaves a packet of the agent unchanged, on a direct path with a wide label. At its egress port, the
 * packet would match the entry again. */
static __always_inline int stays(const struct headers *h, const struct switch_entry *entry,
				 const struct switch_key *key)
{
	return key->from == FROM_AGENT && key->place == PLACE_BOTH &&
	       h->ip.saddr == entry->source && h->ip.daddr == entry->destination;
}

/* Applies an entry. */
static __always_inline int carry(struct __sk_buff *skb, struct headers *h, struct switch_entry *entry,
				 const struct switch_key *key)
{
	struct bpf_redir_neigh next = { .nh_family = 2 /* AF_INET */, .ipv4_nh = entry->next_hop };
	struct size size = size_of(skb, sizeof(h->ip), h->ip.protocol);
	int transit = key->from == FROM_WAN && entry->interface, verdict, stay;

	if (!is_sound(&h->ip, skb->len))
		return drop(DROP_MALFORMED);
	if (h->ip.frag_off & bpf_htons(IP_MORE_FRAGMENTS))
		return drop(DROP_FRAGMENT);
	if (transit && h->ip.ttl <= 1)
		return drop(DROP_TTL);
	verdict = entry->interface ? refuse(skb, entry->interface, size.largest) : 0;
	if (verdict)
		return verdict;
	h = headers(skb);
	if (!h)
		return drop(DROP_FAILED);
	stay = stays(h, entry, key);
	if (stay && skb->ifindex != entry->interface)
		return bpf_redirect_neigh(entry->interface, &next, sizeof(next), 0);
	if (!stay && rewrite(skb, h, entry, key->place, transit))
		return drop(DROP_FAILED);
	count(entry->count, &size);
	if (entry->interface && entry->priority)
		skb->priority = entry->priority;
	if (!entry->interface || stay)
		return TC_ACT_OK;
	return bpf_redirect_neigh(entry->interface, &next, sizeof(next), 0);
}

/* Whether an ICMP error quotes a packet that the switch sent, that is, whether a reply to that packet would match an
 * entry. */
static __always_inline int is_about_switched(struct __sk_buff *skb, const struct headers *h)
{
	struct headers quoted;
	struct switch_key key = { .from = FROM_WAN };
	__u8 type = h->source_port & 0xff; /* first byte of the ICMP header */

	if (h->ip.protocol != IPPROTO_ICMP || h->ip.ihl != 5 || h->ip.version != 4 ||
	    h->ip.frag_off & bpf_htons(IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET))
		return 0;
	if (type != 3 && type != 11 && type != 12) /* unreachable, time exceeded, parameter problem */
		return 0;
	if (bpf_skb_load_bytes(skb, L4 + ICMP_LENGTH, &quoted, sizeof(quoted)) || !has_ports(&quoted.ip))
		return 0;
	key.source = quoted.ip.daddr;
	key.destination = quoted.ip.saddr;
	if (key.destination != h->ip.daddr)
		return 0;
	return find_by_ports(&key, quoted.ip.protocol, quoted.destination_port, quoted.source_port) != 0;
}

/* Whether a local socket matches the packet. */
static __always_inline int has_socket(struct __sk_buff *skb, const struct headers *h)
{
	struct bpf_sock_tuple tuple = {
		.ipv4 = { h->ip.saddr, h->ip.daddr, h->source_port, h->destination_port }
	};
	__u32 size = sizeof(tuple.ipv4);
	struct bpf_sock *socket;

	if (h->ip.protocol == IPPROTO_TCP)
		socket = bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else
		socket = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!socket)
		return 0;
	bpf_sk_release(socket);
	return 1;
}

/* A packet without an entry: passed to the stack if it is local, else dropped. */
static __always_inline int unmatched(struct __sk_buff *skb, const struct headers *h)
{
	__be32 to = h->ip.daddr;
	__u32 *nat = bpf_map_lookup_elem(&own, &to);

	/* multicast (RFC 1112) and broadcast, which the stack does not forward */
	if (!nat)
		return bpf_ntohl(to) >= 0xe0000000 ? TC_ACT_OK : drop(DROP_NO_ENTRY);
	if (is_about_switched(skb, h)) {
		report(skb, EVENT_ICMP_ERROR, 0);
		return TC_ACT_SHOT; /* not counted as a drop: the daemon handles it */
	}
	/* a label without a path here: dropped, so that the stack does not send a reset */
	if (has_ports(&h->ip) && is_labelled(h->ip.protocol, h->source_port, h->destination_port, *nat) &&
	    !has_socket(skb, h)) {
		int fragment = h->ip.frag_off & bpf_htons(IP_MORE_FRAGMENTS);

		return drop(fragment ? DROP_FRAGMENT : DROP_NO_ENTRY);
	}
	return TC_ACT_OK;
}

static __always_inline int wan(struct __sk_buff *skb)
{
	struct switch_key key = { .from = FROM_WAN };
	struct headers *h = headers(skb);
	struct switch_entry *entry;

	if (!h || h->ip.version != 4 || h->ip.ihl < 5)
		return drop(DROP_MALFORMED);
	entry = has_ports(&h->ip) ? entry_of(h, &key) : 0;
	return entry ? carry(skb, h, entry, &key) : unmatched(skb, h);
}

static __always_inline int agent(struct __sk_buff *skb)
{
	struct switch_key key = { .from = FROM_AGENT };
	struct headers *h = headers(skb);
	struct switch_entry *entry;

	if (!h || !has_ports(&h->ip))
		return TC_ACT_OK;
	entry = entry_of(h, &key);
	return entry ? carry(skb, h, entry, &key) : TC_ACT_OK;
}

SEC("classifier")
int switch_wan(struct __sk_buff *skb)
{
	/* other protocols, and frames to other hosts, are left to the stack */
	if (skb->vlan_present || skb->pkt_type != PACKET_HOST)
		return TC_ACT_OK;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return wan(skb);
	return skb->protocol == bpf_htons(ETH_P_IPV6) ? wan6(skb) : TC_ACT_OK;
}

SEC("classifier")
int switch_agent(struct __sk_buff *skb)
{
	/* not sent by the local stack: forwarded, or switched already */
	if (skb->ingress_ifindex || skb->vlan_present)
		return TC_ACT_OK;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return agent(skb);
	return skb->protocol == bpf_htons(ETH_P_IPV6) ? agent6(skb) : TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
