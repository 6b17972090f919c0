/* Inline functions that both units of the test program use, so that dwz has something to share. */
#ifndef NEST_H
#define NEST_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

struct page {
	unsigned long flags;
	struct page *next;
	union {
		long index;
		char bytes[16];
	};
};

enum zone { ZONE_NORMAL, ZONE_MOVABLE };

extern volatile long sink;
extern void cold_path(struct page *page, long code) __attribute__((cold, noinline));

ALWAYS_INLINE long leaf(long x)
{
	sink += x;
	return x * 3 + sink;
}

ALWAYS_INLINE long middle(struct page *page, long x)
{
	long sum = 0;

	for (int i = 0; i < 4; i++) {
		sum += leaf(x + i);
		if (__builtin_expect(sum == 77, 0))
			cold_path(page, leaf(sum));
	}
	return sum;
}

/* Nothing of it is left but what it calls. */
ALWAYS_INLINE long wrapper(struct page *page, long x)
{
	return middle(page, x);
}

ALWAYS_INLINE long outer(struct page *page, long x)
{
	if (page->flags & 1)
		return wrapper(page, page->index) + leaf(x);
	return wrapper(page, x);
}

#endif
