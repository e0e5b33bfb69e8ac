/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the switch does alike for IPv4 and IPv6: counters, reports to the daemon, sizes, checksums, labels. */
#ifndef HAWSER_SWITCH_COMMON_H
#define HAWSER_SWITCH_COMMON_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "switch.h"

#include "drops.h" /* after enum switch_drop */

#define LABEL_MIN 0x1000 /* lowest label */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SWITCH_COUNTS);
	__type(key, __u32);
	__type(value, struct switch_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 131072);
} events SEC(".maps");

static __always_inline int drop(__u32 cause)
{
	count_drop(cause);
	return TC_ACT_SHOT;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Reports the packet to the daemon. If the ring buffer is full, it is only counted. */
static __always_inline void report(struct __sk_buff *skb, __u32 kind, __u32 mtu)
{
	struct switch_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	__u32 length = skb->len - sizeof(struct ethhdr);

	if (!event)
		return;
	if (length > SWITCH_SNAP)
		length = SWITCH_SNAP;
	event->kind = kind;
	event->mtu = mtu;
	event->length = length;
	event->pad = 0;
	if (length == 0 || bpf_skb_load_bytes(skb, sizeof(struct ethhdr), event->data, length))
		bpf_ringbuf_discard(event, 0);
	else
		bpf_ringbuf_submit(event, 0);
}

/* Length of the headers of each segment of a GSO packet, from the IP header of `ip` bytes, bytes. */
static __always_inline __u32 segment_headers(struct __sk_buff *skb, __u32 ip, __u8 protocol)
{
	__u8 offset = 0;

	if (protocol == IPPROTO_UDP)
		return ip + sizeof(struct udphdr);
	bpf_skb_load_bytes(skb, sizeof(struct ethhdr) + ip + 12, &offset, 1);
	return ip + (offset >> 4) * 4;
}

struct size {
	__u32 packets;
	__u32 bytes;
	__u32 largest; /* length of the packet, or of its segments, bytes */
};

static __always_inline struct size size_of(struct __sk_buff *skb, __u32 ip, __u8 protocol)
{
	__u32 length = skb->len - sizeof(struct ethhdr), segment = skb->gso_size, headers;
	struct size size = { 1, length, length };

	if (!segment)
		return size;
	headers = segment_headers(skb, ip, protocol);
	if (length <= headers + segment)
		return size;
	size.packets = (length - headers + segment - 1) / segment;
	size.bytes = length + (size.packets - 1) * headers;
	size.largest = headers + segment;
	return size;
}

static __always_inline void count(__u32 index, const struct size *size)
{
	struct switch_count *c = bpf_map_lookup_elem(&counts, &index);

	if (c) {
		c->packets += size->packets;
		c->bytes += size->bytes;
	}
}

/* Returns 0 if the packet fits the MTU of the port, else the verdict. */
static __always_inline int refuse(struct __sk_buff *skb, __u32 interface, __u32 largest)
{
	__u32 mtu = 0; /* in: use the packet's own length */
	int answer = bpf_check_mtu(skb, interface, &mtu, 0, 0);

	if (answer < 0)
		return drop(DROP_FAILED);
	if (largest <= mtu)
		return 0;
	report(skb, EVENT_TOO_BIG, mtu);
	return drop(DROP_TOO_BIG);
}

/* Updates the checksum of TCP or UDP at an offset: for addresses, and the port if it alone holds the label. */
static __always_inline int update_checksum(struct __sk_buff *skb, __u32 at, int is_udp, __u32 addresses,
					   __u8 place, __be16 old, __be16 port)
{
	__u64 flags = is_udp ? BPF_F_MARK_MANGLED_0 : 0;

	return bpf_l4_csum_replace(skb, at, 0, addresses, BPF_F_PSEUDO_HDR | flags) ||
	       (place != PLACE_BOTH && bpf_l4_csum_replace(skb, at, old, port, 2 | flags));
}

/* Whether a port can be a narrow label: its destination branch is not 0 and not the source branch, and it is not a port
 * of an agent. */
static __always_inline int is_label(__be16 port)
{
	__u16 p = bpf_ntohs(port), to = p >> 12, from = p >> 8 & 15;

	return to && to != from && (p & 0x0ff0);
}

/* Whether the ports together can be a wide label of either layout, with 5 or 6 bits below the branch: neither port is below
 * the lowest label, and the branches differ. With 6 bits that also holds of some pairs of ports of one branch. */
static __always_inline int is_wide_label(__be16 source_port, __be16 destination_port)
{
	__u16 from = bpf_ntohs(source_port), to = bpf_ntohs(destination_port);

	return from >= LABEL_MIN && to >= LABEL_MIN && from >> 5 != to >> 5;
}

/* Whether the ports of a TCP or UDP packet hold a path label. With NAT, low ports are NAT's, and the source port of a reply
 * may look like a label. */
static __always_inline int is_labelled(__u8 protocol, __be16 source_port, __be16 destination_port, __u32 nat)
{
	return is_label(destination_port) ||
	       (protocol == IPPROTO_UDP && is_wide_label(source_port, destination_port)) ||
	       (is_label(source_port) && (!nat || bpf_ntohs(destination_port) >= LABEL_MIN));
}

#endif
