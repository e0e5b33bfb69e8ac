/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking of a firewall.
 *
 * A flow begins with a packet that the rules allow, a TCP connection with a SYN. It is established once the responder
 * has answered and the initiator has spoken again, with TCP by acknowledging the responder's SYN, which one that forges
 * its address cannot. Established flows have a table of their own, so that a flood of new flows evicts none of them. */
#ifndef HAWSER_NSH_STATES_H
#define HAWSER_NSH_STATES_H

#include <linux/bpf.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_parse.h"
#include "nsh.h"
#include "rules.h"

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16
#define TCP_EARLY 65536 /* bytes that a responder may have sent when its SYN is acknowledged (RFC 7413) */
#define TCP_BRIEF_NS 240000000000ull /* of connections that open or close (RFC 5382 section 5) */

const volatile __u64 idle_ns = 0; /* flow state expires after this idle time; 0: stateless */
const volatile __u64 tcp_idle_ns = 0; /* the same of established TCP connections */
const volatile __u8 picks_up = 0; /* whether TCP connections may begin in mid-stream */

/* Flows that are not established. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct nsh_state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct nsh_state);
} established SEC(".maps");

/* What of a TCP segment matters; of other packets `flags` is 0. */
struct segment {
	__u32 sequence;
	__u32 acknowledged;
	__u32 flags;
};

/* Makes a key that is the same for both directions; returns whether source and destination were swapped. */
static __always_inline __u32 put_in_order(const struct flow *f, struct flow *key)
{
	const __u64 *s = (const __u64 *)f->source, *d = (const __u64 *)f->destination;
	__u32 turned = s[0] != d[0] ? s[0] > d[0] :
		       s[1] != d[1] ? s[1] > d[1] : f->source_port > f->destination_port;

	*key = *f;
	key->dscp = 0;
	key->port = 0;
	if (turned) {
		__builtin_memcpy(key->source, f->destination, 16);
		__builtin_memcpy(key->destination, f->source, 16);
		key->source_port = f->destination_port;
		key->destination_port = f->source_port;
	}
	return turned;
}

/* Reads a TCP header. Returns the cause of a drop, or -1. */
static __always_inline int read_segment(struct xdp_md *ctx, const struct flow_headers *h, struct segment *s)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct tcphdr *tcp = data + (h->upper & FLOW_OFFSET_MAX);

	if (h->length < sizeof(*tcp) || (void *)(tcp + 1) > end)
		return h->more ? DROP_FRAGMENT : DROP_MALFORMED;
	s->sequence = bpf_ntohl(tcp->seq);
	s->acknowledged = bpf_ntohl(tcp->ack_seq);
	s->flags = ((const __u8 *)tcp)[13] & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK);
	switch (s->flags) {
	case TCP_SYN:
	case TCP_SYN | TCP_ACK:
	case TCP_RST:
	case TCP_RST | TCP_ACK:
	case TCP_ACK:
	case TCP_FIN | TCP_ACK: return -1;
	default: return DROP_TCP_STATE; /* no stack sends these */
	}
}

static __always_inline __u64 idle_of(const struct nsh_state *state, __u8 protocol)
{
	if (protocol != IPPROTO_TCP)
		return idle_ns;
	if (state->phase == PHASE_ESTABLISHED)
		return tcp_idle_ns;
	return tcp_idle_ns < TCP_BRIEF_NS ? tcp_idle_ns : TCP_BRIEF_NS;
}

/* The state of a flow; null if there is none, or it has expired. */
static __always_inline struct nsh_state *find_state(const struct flow *key, __u64 now)
{
	struct nsh_state *known = bpf_map_lookup_elem(&established, key);

	if (known && now - known->last_ns <= idle_of(known, key->protocol))
		return known;
	known = bpf_map_lookup_elem(&states, key);
	return known && now - known->last_ns <= idle_of(known, key->protocol) ? known : 0;
}

/* Whether the rules allow a flow in its initiator's direction, if they have changed since it was last allowed. */
static __always_inline int still_allowed(struct nsh_state *known, struct flow *f, __u32 turned, __u32 slot,
					 __u32 number)
{
	if (known->rules == number)
		return 1;
	if (known->turned != turned)
		flow_turn(f);
	if (rules_find(f, slot).action != ACTION_ALLOW)
		return 0;
	known->rules = number;
	return 1;
}

static __always_inline void establish(const struct flow *key, const struct nsh_state *known)
{
	struct nsh_state new = *known;

	new.phase = PHASE_ESTABLISHED;
	bpf_map_update_elem(&established, key, &new, BPF_ANY);
	bpf_map_delete_elem(&states, key);
}

static __always_inline void answered(struct nsh_state *known, const struct segment *s)
{
	if (s->flags & TCP_SYN)
		known->expected = s->sequence + 1;
	if (!s->flags || s->flags & TCP_SYN || known->picked_up)
		known->phase = PHASE_ANSWERED;
}

static __always_inline int confirms(const struct nsh_state *known, const struct segment *s)
{
	if (!s->flags || known->picked_up)
		return 1;
	return s->flags & TCP_ACK && s->acknowledged - known->expected < TCP_EARLY;
}

/* Follows a flow by a packet that passes. */
static __always_inline void follow(struct nsh_state *known, const struct flow *key, __u32 turned,
				   const struct segment *s, __u64 now)
{
	__u32 from_initiator = known->turned == turned;

	known->last_ns = now;
	if (s->flags & TCP_FIN)
		known->finished |= from_initiator ? 1 : 2;
	if (s->flags & TCP_RST || known->finished == 3)
		known->phase = PHASE_CLOSING;
	else if (known->phase <= PHASE_ANSWERED && !from_initiator)
		answered(known, s);
	else if (known->phase == PHASE_ANSWERED && confirms(known, s))
		establish(key, known);
}

/* Begins a flow if the rules allow it. Returns the cause of a drop, or -1. */
static __always_inline int begin(struct flow *f, const struct flow *key, __u32 turned, const struct segment *s,
				 __u32 slot, __u32 number, __u64 now)
{
	struct nsh_state new = { .last_ns = now, .rules = number, .turned = turned };

	new.picked_up = s->flags == TCP_ACK;
	if (s->flags && s->flags != TCP_SYN && !(picks_up && new.picked_up))
		return DROP_TCP_STATE;
	if (rules_find(f, slot).action != ACTION_ALLOW)
		return DROP_DENIED;
	bpf_map_delete_elem(&established, key); /* an expired one would be found first */
	bpf_map_update_elem(&states, key, &new, BPF_ANY);
	return -1;
}

static __always_inline int track(struct flow *f, const struct segment *s, __u32 slot, __u32 number)
{
	struct flow key __attribute__((aligned(8)));
	__u32 turned = put_in_order(f, &key);
	__u64 now = bpf_ktime_get_ns();
	struct nsh_state *known = find_state(&key, now);

	if (!known || (known->phase == PHASE_CLOSING && s->flags == TCP_SYN))
		return begin(f, &key, turned, s, slot, number, now);
	if (!still_allowed(known, f, turned, slot, number))
		return DROP_DENIED;
	follow(known, &key, turned, s, now);
	return -1;
}

/* Whether a packet is an ICMP error about a flow that is allowed, to the sender of the packet that it quotes. */
static __always_inline int is_related(struct xdp_md *ctx, const struct flow *f, const struct flow_headers *h,
				      __u32 slot, __u32 number)
{
	struct flow quoted __attribute__((aligned(8))), key __attribute__((aligned(8)));
	struct flow_headers headers = *h;
	const __u64 *to = (const __u64 *)f->destination, *from = (const __u64 *)quoted.source;
	struct nsh_state *known;
	__u32 turned;

	if (!flow_quoted(ctx, f, &headers, &quoted) || to[0] != from[0] || to[1] != from[1])
		return 0;
	if (!idle_ns)
		return rules_find(&quoted, slot).action == ACTION_ALLOW;
	turned = put_in_order(&quoted, &key);
	known = find_state(&key, bpf_ktime_get_ns());
	return known && still_allowed(known, &quoted, turned, slot, number);
}

/* Whether a packet may pass: the cause of a drop, or -1. */
static __always_inline int admit(struct xdp_md *ctx, struct flow *f, struct flow_headers *h)
{
	__u32 slot = rules_slot();
	struct rules_set *set = bpf_map_lookup_elem(&rules_sets, &slot);
	struct segment segment = {};
	int cause;

	if (!set)
		return DROP_DENIED;
	if ((f->protocol == IPPROTO_ICMP || f->protocol == IPPROTO_ICMPV6) && is_related(ctx, f, h, slot, set->number))
		return -1;
	if (f->protocol == IPPROTO_TCP) {
		cause = read_segment(ctx, h, &segment);
		if (cause >= 0 && (idle_ns || cause != DROP_TCP_STATE))
			return cause;
	}
	if (!idle_ns)
		return rules_find(f, slot).action == ACTION_ALLOW ? -1 : DROP_DENIED;
	return track(f, &segment, slot, set->number);
}

#endif
