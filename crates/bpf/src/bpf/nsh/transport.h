/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Outer encapsulation of an NSH: Ethernet (RFC 8300 section 6) or VXLAN-GPE over UDP and IPv4. */
#ifndef HAWSER_NSH_TRANSPORT_H
#define HAWSER_NSH_TRANSPORT_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "nsh.h"

#define ETH_P_NETWORK_SERVICE 0x894f
#define PORT_VXLAN_GPE 4790
#define GPE_FLAGS 0x0c /* instance and next protocol */
#define GPE_VERSION 0x30
#define GPE_NSH 4
#define DONT_FRAGMENT 0x4000
#define TIME_TO_LIVE 64

struct vxlan_gpe {
	__u8 flags;
	__u8 reserved[2];
	__u8 next_protocol;
	__be32 vni;
};

struct gpe_outer {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	struct vxlan_gpe gpe;
} __attribute__((packed));

#define ETHERNET_OUTER sizeof(struct ethhdr)
#define GPE_OUTER sizeof(struct gpe_outer)

_Static_assert(GPE_OUTER == 50, "gpe_outer");

static __always_inline __u16 ip_sum(const void *ip)
{
	const __u16 *words = ip;
	__u32 sum = 0;

	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

/* Whether an IPv4 packet is to this address. */
static __always_inline int is_to(void *data, void *end, __be32 own)
{
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);

	return (void *)(ip + 1) <= end && eth->h_proto == bpf_htons(ETH_P_IP) && ip->daddr == own;
}

/* Whether a packet is VXLAN-GPE to the port's own address. */
static __always_inline int is_gpe(void *data, void *end, __be32 own)
{
	struct gpe_outer *outer = data;

	return (void *)(outer + 1) <= end && outer->eth.h_proto == bpf_htons(ETH_P_IP) &&
	       outer->ip.ihl == 5 && outer->ip.protocol == IPPROTO_UDP && outer->ip.daddr == own &&
	       outer->udp.dest == bpf_htons(PORT_VXLAN_GPE) && !(outer->ip.frag_off & bpf_htons(0x3fff));
}

/* Whether lengths and the IPv4 header checksum are right, and the payload is an NSH. */
static __always_inline int is_sound_gpe(const struct gpe_outer *outer, __u32 length)
{
	__u32 total = bpf_ntohs(outer->ip.tot_len);

	return outer->ip.version == 4 && total <= length - ETHERNET_OUTER &&
	       total >= GPE_OUTER - ETHERNET_OUTER && ip_sum(&outer->ip) == 0xffff &&
	       (outer->gpe.flags & (GPE_FLAGS | GPE_VERSION)) == GPE_FLAGS &&
	       outer->gpe.next_protocol == GPE_NSH;
}

static __always_inline void write_ethernet(struct ethhdr *eth, const struct nsh_target *t, __u16 type)
{
	__builtin_memcpy(eth->h_dest, t->mac, 6);
	__builtin_memcpy(eth->h_source, t->own_mac, 6);
	eth->h_proto = bpf_htons(type);
}

/* The UDP checksum is zero, as is usual for tunnels over IPv4 (RFC 7348 section 5); the source port is a hash of
 * the inner flow, for ECMP. */
static __always_inline void write_gpe(struct gpe_outer *outer, const struct nsh_target *t, __u32 length,
				      __u32 hash)
{
	__u32 total = length - ETHERNET_OUTER;

	write_ethernet(&outer->eth, t, ETH_P_IP);
	outer->ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tot_len = bpf_htons(total),
		.frag_off = bpf_htons(DONT_FRAGMENT),
		.ttl = TIME_TO_LIVE,
		.protocol = IPPROTO_UDP,
		.saddr = t->local,
		.daddr = t->remote,
	};
	outer->ip.check = ~ip_sum(&outer->ip);
	outer->udp.source = bpf_htons(0xc000 | (hash & 0x3fff));
	outer->udp.dest = bpf_htons(PORT_VXLAN_GPE);
	outer->udp.len = bpf_htons(total - sizeof(struct iphdr));
	outer->udp.check = 0;
	outer->gpe = (struct vxlan_gpe){ GPE_FLAGS, { 0, 0 }, GPE_NSH, t->vni };
}

static __always_inline void swap_ethernet(struct ethhdr *eth)
{
	__u8 mac[6];

	__builtin_memcpy(mac, eth->h_dest, 6);
	__builtin_memcpy(eth->h_dest, eth->h_source, 6);
	__builtin_memcpy(eth->h_source, mac, 6);
}

/* Swaps source and destination. The payload has changed, so the UDP checksum is set to zero. */
static __always_inline void turn_gpe(struct gpe_outer *outer)
{
	__be32 address = outer->ip.daddr;

	outer->ip.daddr = outer->ip.saddr;
	outer->ip.saddr = address;
	outer->udp.check = 0;
}

#endif
