// SPDX-License-Identifier: GPL-2.0-only
/* pages N: writes to N pages of private anonymous memory, and does nothing else. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	unsigned long pages = argc > 1 ? strtoul(argv[1], NULL, 10) : 1, i;
	volatile char *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	for (i = 0; i < pages; i++)
		p[i * 4096] = 1;
	return 0;
}
