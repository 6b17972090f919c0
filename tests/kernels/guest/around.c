// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads pages of a file that is in the page cache, one byte each, in order: the kernel maps the
 * pages around each fault with it (fault-around, 16 pages).
 *
 * around FILE PAGES...
 *
 * Prints a line. Then, for each PAGES: reads a line, reads so many pages of a mapping of its own,
 * prints a line. Ends after one more line. Mappings begin where a window of fault-around does, so
 * that PAGES / 16 faults map them all; they are there before the first line. So is all that a round
 * needs besides: each step is done once for practice.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define FIRST 0x100000000000UL
#define APART (1UL << 30)

static volatile char sink;
static char letter = '\n';

static void say_and_wait(void)
{
	letter = '\n';
	if (write(1, &letter, 1) != 1)
		exit(1);
	do {
		if (read(0, &letter, 1) != 1)
			exit(1);
	} while (letter != '\n');
}

static void read_pages(char *mapping, long pages)
{
	for (long page = 0; page < pages; page++)
		sink = mapping[page * PAGE];
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
	read_pages(mmap((void *)FIRST, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0), 1);
	for (int i = 2; i < argc; i++) {
		long pages = atol(argv[i]);

		say_and_wait();
		read_pages(mapping[i], pages);
	}
	say_and_wait();
	return 0;
}
