/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Histogram: log-linear buckets of nanoseconds, four to each power of two.
 *
 * Values 0 to 3 have a bucket each. A larger one with its highest bit at position e (e >= 2) is in
 * bucket (e - 1) * 4 + the two bits below the highest. The last bucket takes all from 2^37 ns
 * (137 s) on. faultprof/recording/histogram.py knows the same rule.
 */
#ifndef FAULTPROF_HISTOGRAM_H
#define FAULTPROF_HISTOGRAM_H

#include <linux/compiler.h>
#include <linux/types.h>

#define HISTOGRAM_BUCKETS 144
#define HISTOGRAM_TOP_BIT 36

/* BPF has no instruction that counts leading zeros; without branches, for the verifier's sake. */
static __always_inline u64 highest_bit(u64 value)
{
	u64 bit, step;

	bit = (u64)(value > 0xffffffff) << 5;
	value >>= bit;
	step = (u64)(value > 0xffff) << 4;
	value >>= step;
	bit += step;
	step = (u64)(value > 0xff) << 3;
	value >>= step;
	bit += step;
	step = (u64)(value > 0xf) << 2;
	value >>= step;
	bit += step;
	step = (u64)(value > 0x3) << 1;
	value >>= step;
	return bit + step + (value >> 1);
}

static __always_inline u64 histogram_bucket(u64 value)
{
	u64 bit;

	if (value < 4)
		return value;
	bit = highest_bit(value);
	if (bit > HISTOGRAM_TOP_BIT)
		return HISTOGRAM_BUCKETS - 1;
	return (bit - 1) * 4 + ((value >> (bit - 2)) & 3);
}

static __always_inline void histogram_add(u64 *buckets, u64 value)
{
	u64 bucket = histogram_bucket(value);

	/* Always true; but the verifier cannot know, and the compiler must not. */
	asm volatile("" : "+r"(bucket));
	if (bucket < HISTOGRAM_BUCKETS)
		buckets[bucket]++;
}

#endif
