// SPDX-License-Identifier: GPL-2.0-only
/*
 * Says what an anonymous page fault costs: faults PAGES FILE
 *
 * Touches so many pages again and again and appends the nanoseconds a page of the quickest pass to
 * the file: whatever comes between only adds time.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096UL
#define PASSES 15

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned long length = argc > 2 ? atol(argv[1]) * PAGE : 0, i;
	double start, took, least = 0;
	volatile char *p;
	FILE *file;
	int pass;

	p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!length || p == MAP_FAILED)
		return 2;
	madvise((void *)p, length, MADV_NOHUGEPAGE);
	for (pass = 0; pass < PASSES; pass++) {
		start = now();
		for (i = 0; i < length; i += PAGE)
			p[i] = 1;
		took = now() - start;
		if (!pass || took < least)
			least = took;
		madvise((void *)p, length, MADV_DONTNEED);
	}
	file = fopen(argv[2], "a");
	if (!file || fprintf(file, "%f\n", least * PAGE / length) < 0 || fclose(file))
		return 1;
	return 0;
}
