/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The boundary of the domain: what arrives at a port with hosts behind it has no headers that only nodes of the domain
 * may write (RFC 8300 section 8, RFC 8754 section 5.1). */
#ifndef HAWSER_NSH_EDGE_H
#define HAWSER_NSH_EDGE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "packet.h"
#include "transport.h"

static __always_inline int is_vxlan_gpe(const struct packet *p, const struct flow *f, const struct flow_headers *h)
{
	const __be16 *ports = p->data + (h->upper & FLOW_OFFSET_MAX);

	return f->protocol == IPPROTO_UDP && h->upper && !h->offset && (void *)(ports + 2) <= p->end &&
	       ports[1] == bpf_htons(PORT_VXLAN_GPE);
}

/* Whether a frame has such headers: the cause of a drop, or -1. */
static __always_inline int forged(const struct packet *p, const struct flow *f, const struct flow_headers *h,
				  enum flow_kind kind)
{
	if (h->type == bpf_htons(ETH_P_NETWORK_SERVICE))
		return DROP_UNTRUSTED_NSH;
	if (h->segments)
		return DROP_UNTRUSTED_SRH;
	if (kind == FLOW_HIDDEN || kind == FLOW_OPAQUE)
		return DROP_OPAQUE;
	return is_vxlan_gpe(p, f, h) ? DROP_UNTRUSTED_VXLAN_GPE : -1;
}

/* Whether VXLAN-GPE comes from a forwarder. */
static __always_inline int is_known(const struct gpe_outer *outer)
{
	__be32 source = outer->ip.saddr;

	return bpf_map_lookup_elem(&forwarders, &source) != 0;
}

#endif
