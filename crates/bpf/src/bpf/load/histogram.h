/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Bucket of a value: exact below 2^LOAD_SUB_BITS, then 2^LOAD_SUB_BITS to the octave.
 * crates/meter/src/histogram.rs has the same rule. */
#ifndef HAWSER_HISTOGRAM_H
#define HAWSER_HISTOGRAM_H

#include "load.h"

static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32) { value >>= 32; bit += 32; }
	if (value >> 16) { value >>= 16; bit += 16; }
	if (value >> 8) { value >>= 8; bit += 8; }
	if (value >> 4) { value >>= 4; bit += 4; }
	if (value >> 2) { value >>= 2; bit += 2; }
	return bit + (value >> 1);
}

static __always_inline __u32 bucket_of(__u64 value)
{
	__u32 octave;

	if (value > LOAD_DELAY_MASK)
		value = LOAD_DELAY_MASK;
	if (value < 1 << LOAD_SUB_BITS)
		return value;
	octave = highest_bit(value) - LOAD_SUB_BITS;
	return ((octave + 1) << LOAD_SUB_BITS) + (__u32)((value >> octave) & ((1 << LOAD_SUB_BITS) - 1));
}

#endif
