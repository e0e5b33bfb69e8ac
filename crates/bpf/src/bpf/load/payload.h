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

/* A payload by its address. Fields are read and written as whole words, wherever they lie: a packed
 * structure would make clang do it byte by byte. */
static __always_inline __be16 *payload_magic(void *payload)
{
	return payload;
}

static __always_inline __be64 *payload_flow_time(void *payload)
{
	return payload + 2;
}

static __always_inline __be64 *payload_sequence(void *payload)
{
	return payload + 10;
}

#endif
