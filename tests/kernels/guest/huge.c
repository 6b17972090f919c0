// SPDX-License-Identifier: GPL-2.0-only
/*
 * Has the kernel clear or copy a known number of huge pages, each at a fault on a chosen page.
 *
 * huge WHAT COUNT PAGE
 *   WHAT   anon: transparent huge pages; hugetlb: those of a pool; copy: private ones of a pool,
 *          written by a child after fork(2)
 *   COUNT  how many huge pages
 *   PAGE   of each, the page that is touched, from 0
 *
 * Prints the nanoseconds that the touches took, which is longer than what they made the kernel do.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE (2UL << 20)

static void die(const char *message)
{
	perror(message);
	exit(1);
}

static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void touch(volatile char *at, unsigned long count)
{
	unsigned long long began = now();
	unsigned long number;

	for (number = 0; number < count; number++)
		at[number * HUGE] = 1;
	printf("%llu\n", now() - began);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long count = argc == 4 ? strtoul(argv[2], NULL, 0) : 0, size = count * HUGE;
	unsigned long page = argc == 4 ? strtoul(argv[3], NULL, 0) : 0;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, status;
	char *region;

	if (!count) {
		fprintf(stderr, "usage: huge anon|hugetlb|copy COUNT PAGE\n");
		return 2;
	}
	if (!strcmp(argv[1], "anon")) {
		region = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (region == MAP_FAILED)
			die("mmap");
		region = (char *)(((uintptr_t)region + HUGE - 1) & ~(HUGE - 1));
		if (madvise(region, size, MADV_HUGEPAGE))
			die("madvise");
	} else {
		region = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
		if (region == MAP_FAILED)
			die("mmap of a pool");
	}
	touch(region + page * PAGE, count);
	if (strcmp(argv[1], "copy"))
		return 0;
	if (!fork()) {
		touch(region + page * PAGE, count);
		_exit(0);
	}
	wait(&status);
	return status != 0;
}
