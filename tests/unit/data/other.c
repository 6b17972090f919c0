/* A second unit: the same header's functions once more, and a name that both units have. */
#include "nest.h"

static NOINLINE long summed(struct page *page, enum zone zone)
{
	return outer(page, zone) * leaf(zone);
}

void cold_path(struct page *page, long code)
{
	sink = code + (page ? leaf(page->index) : 0);
}

/* The linker drops it with --gc-sections; its entries stay, with addresses near 0. */
long unused(struct page *page)
{
	return outer(page, 42);
}

long fourth(struct page *page, long x, enum zone zone)
{
	switch (zone) {
	case ZONE_MOVABLE:
		return wrapper(page, x) + summed(page, zone);
	default:
		return leaf(x);
	}
}
