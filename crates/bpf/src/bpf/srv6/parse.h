/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Parses a segment routing header and the inner packet.
 *
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * | Next Header   |  Hdr Ext Len  | Routing Type  | Segments Left |
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * |  Last Entry   |     Flags     |              Tag              |
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * ~     Segment List[0] (128-bit IPv6 address) ... [Last Entry]   ~
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
 * ~            Optional Type Length Value objects                 ~
 * +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+   (RFC 8754 section 2)
 */
#ifndef HAWSER_SRV6_PARSE_H
#define HAWSER_SRV6_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "srv6.h"

#define ROUTING_SEGMENTS 4
#define ND_FIRST 133 /* router solicitation to redirect (RFC 4861 section 4) */
#define ND_LAST 137
#define IP_LENGTH sizeof(struct ipv6hdr)
#define SEGMENT sizeof(struct in6_addr)

struct srh {
	__u8 next;
	__u8 words; /* Hdr Ext Len: 8-octet units, not including the first */
	__u8 type;
	__u8 left;
	__u8 last;
	__u8 flags;
	__be16 tag;
};

/* Length of an IPv6 packet by its header, bytes; 0: malformed. */
static __always_inline __u32 ipv6_length(const struct ipv6hdr *ip, const void *end)
{
	__u32 length;

	if ((const void *)(ip + 1) > end || ip->version != 6)
		return 0;
	length = IP_LENGTH + bpf_ntohs(ip->payload_len);
	return length > (__u32)(end - (const void *)ip) ? 0 : length;
}

static __always_inline __u32 ipv4_length(const struct iphdr *ip, const void *end)
{
	__u32 length;

	if ((const void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
		return 0;
	length = bpf_ntohs(ip->tot_len);
	return length < ip->ihl * 4u || length > (__u32)(end - (const void *)ip) ? 0 : length;
}

static __always_inline __u32 carried_length(const void *at, const void *end, __u32 family)
{
	return family == FAMILY_IPV4 ? ipv4_length(at, end) : ipv6_length(at, end);
}

/* Length of IPv6 header and SRH, bytes; 0: malformed. Segments Left may exceed Last Entry by one, since a reduced SRH
 * does not contain the first segment (RFC 8754 sections 4.1.1 and 4.3.1.1). */
static __always_inline __u32 srh_length(const struct srh *srh, __u32 packet)
{
	__u32 length = IP_LENGTH + sizeof(*srh) + srh->words * 8u;

	if (length > packet || (srh->last + 1u) * SEGMENT > srh->words * 8u || srh->left > srh->last + 1u)
		return 0;
	return length;
}

/* A segment of the list; null if it is not in the packet. */
static __always_inline struct in6_addr *segment(void *ip, const void *end, __u32 number)
{
	struct in6_addr *at = ip + IP_LENGTH + sizeof(struct srh) + (number & 255) * SEGMENT;

	return (void *)(at + 1) > end ? 0 : at;
}

static __always_inline int equal_address(const struct in6_addr *a, const struct in6_addr *b)
{
	return a->s6_addr32[0] == b->s6_addr32[0] && a->s6_addr32[1] == b->s6_addr32[1] &&
	       a->s6_addr32[2] == b->s6_addr32[2] && a->s6_addr32[3] == b->s6_addr32[3];
}

/* Whether a packet is neighbor discovery, which is passed to the kernel. */
static __always_inline int is_of_link(const struct ipv6hdr *ip, const void *end)
{
	const __u8 *type = (const __u8 *)(ip + 1);

	if ((const void *)(ip + 1) > end)
		return 1;
	if (ip->daddr.s6_addr[0] == 0xff ||
	    (ip->daddr.s6_addr[0] == 0xfe && (ip->daddr.s6_addr[1] & 0xc0) == 0x80))
		return 1;
	return ip->nexthdr == IPPROTO_ICMPV6 && ip->hop_limit == 255 &&
	       (const void *)(type + 1) <= end && *type >= ND_FIRST && *type <= ND_LAST;
}

#endif
