/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The payload of a load frame: 18 bytes, so that a 60-byte IPv4 frame holds it.
 * crates/wire/src/load.rs describes it; the fields are in network byte order.
 *
 *    0      2          5                10                      18
 *    | magic | flow (24) | timestamp (40) |     sequence (64)     |
 */
#ifndef HAWSER_PAYLOAD_H
#define HAWSER_PAYLOAD_H

#include <bpf/bpf_endian.h>

#include "load.h"

struct payload {
	__be16 magic;
	__be64 flow_time;
	__be64 sequence;
} __attribute__((packed));

_Static_assert(sizeof(struct payload) == LOAD_PAYLOAD, "payload");

#endif
