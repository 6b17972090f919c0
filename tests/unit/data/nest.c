/* Nested inlining, cold parts, and the variants that GCC makes of a function. */
#include "nest.h"

volatile long sink;

NOINLINE long first(struct page *page, long x)
{
	return outer(page, x) + outer(page, x + 1);
}

/* All calls have the same last argument: GCC makes a .constprop variant. */
static NOINLINE long scaled(struct page *page, long x, long scale)
{
	sink = x * scale;
	return middle(page, x * scale) + leaf(scale);
}

/* Only two fields of the structure are used: GCC makes an .isra variant. */
static NOINLINE long summed(struct page *page)
{
	sink = page->flags;
	return leaf(page->flags) + page->index;
}

/* A short early return before a long body: GCC may split it into a .part and an inlined test. */
static long guarded(struct page *page, long x)
{
	if (!page->next)
		return 0;
	for (int i = 0; i < 100; i++)
		x += outer(page->next, x * i) ^ middle(page, x);
	return x;
}

long second(struct page *page, long x)
{
	return scaled(page, x, 5) + scaled(page, x + 1, 5) + summed(page) + guarded(page, x);
}

long third(struct page *page, long x)
{
	long y = guarded(page, x + sink);

	if (__builtin_expect(y < 0, 0)) {
		cold_path(page, outer(page, y));
		return summed(page);
	}
	return y;
}

long fourth(struct page *page, long x, enum zone zone);

int main(int argc, char **argv)
{
	struct page page = { .flags = (unsigned long)argc, .next = 0, .index = argv[0][0] };

	return (int)(first(&page, argc) + second(&page, argc) + third(&page, 2) +
		     fourth(&page, argc, ZONE_MOVABLE));
}
