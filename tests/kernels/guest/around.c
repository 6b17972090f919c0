// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads pages of a file that is in the page cache, one byte each, in order: the kernel maps the
 * pages around each fault with it (fault-around, 16 pages).
 *
 * around FILE PAGES...
 *
 * Prints a line. Then, for each PAGES: reads a line, reads so many pages of a mapping of its own,
 * prints a line. Ends after one more line. Mappings begin where a window of fault-around does, so
 * that PAGES / 16 faults map them all; they are there before the first line.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define FIRST 0x100000000000UL
#define APART (1UL << 30)

static volatile char sink;

static void say_and_wait(void)
{
	putchar('\n');
	fflush(stdout);
	while (getchar() != '\n')
		;
}

int main(int argc, char **argv)
{
	int fd = argc > 2 ? open(argv[1], O_RDONLY) : -1;
	char *mapping[argc];

	if (fd < 0)
		return 1;
	for (int i = 2; i < argc; i++) {
		mapping[i] = mmap((void *)(FIRST + i * APART), atol(argv[i]) * PAGE, PROT_READ,
				  MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
		if (mapping[i] == MAP_FAILED)
			return 1;
	}
	for (int i = 2; i < argc; i++) {
		say_and_wait();
		for (long page = 0; page < atol(argv[i]); page++)
			sink = mapping[i][page * PAGE];
	}
	say_and_wait();
	return 0;
}
