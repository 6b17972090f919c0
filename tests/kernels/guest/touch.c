// SPDX-License-Identifier: GPL-2.0-only
/*
 * Touches a known number of pages, one byte each, and nothing else that depends on the number.
 *
 * touch WHAT TASKS PAGES [FILE]
 *   WHAT   anon: private anonymous memory, written; read: shared file, read; cow: private file
 *          mapping, written; huge: anonymous memory aligned to 2 MiB, PAGES huge pages written;
 *          hugetlb: the same with MAP_HUGETLB
 *   TASKS  1, or tN: N threads that start together; pN: N processes; fN: a chain of N processes,
 *          each forked by the one before
 * Each task touches PAGES pages of a mapping of its own.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE (2UL << 20)

static const char *what;
static unsigned long pages;
static int file = -1;
static pthread_barrier_t together;

static void die(const char *message)
{
	perror(message);
	_exit(1);
}

static void touch(void)
{
	int is_huge = !strncmp(what, "huge", 4);
	unsigned long page = is_huge ? HUGE : 4096, length = pages * page, i;
	int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
	volatile char *p;
	char sum = 0;

	if (!strcmp(what, "read"))
		flags = MAP_SHARED;
	if (!strcmp(what, "hugetlb"))
		flags |= MAP_HUGETLB;
	else if (is_huge)
		length += HUGE; /* room to align */
	p = mmap(NULL, length, PROT_READ | (flags & MAP_SHARED ? 0 : PROT_WRITE), flags, file, 0);
	if (p == MAP_FAILED)
		die("mmap");
	if (is_huge)
		p = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	for (i = 0; i < pages; i++) {
		if (flags & MAP_SHARED)
			sum += p[i * page];
		else
			p[i * page] = 1;
	}
	if (sum)
		die("the file is not empty");
}

static void *thread(void *unused)
{
	pthread_barrier_wait(&together);
	touch();
	pthread_barrier_wait(&together); /* no stack is given back while another is still needed */
	return unused;
}

static void wait_for_children(int count)
{
	int status;

	while (count--)
		if (wait(&status) < 0 || status)
			die("a child failed");
}

static void run_threads(int count)
{
	pthread_t threads[count];
	int i;

	pthread_barrier_init(&together, NULL, count);
	for (i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, thread, NULL))
			die("pthread_create");
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void run_processes(int count)
{
	int i;

	for (i = 0; i < count; i++)
		if (!fork()) {
			touch();
			_exit(0);
		}
	wait_for_children(count);
}

static void run_chain(int count)
{
	if (count > 1 && !fork()) {
		run_chain(count - 1);
		_exit(0);
	}
	touch();
	if (count > 1)
		wait_for_children(1);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	what = argv[1];
	pages = strtoul(argv[3], NULL, 10);
	if (argc > 4) {
		file = open(argv[4], O_RDWR | O_CREAT, 0600);
		if (file < 0 || ftruncate(file, pages * 4096))
			die(argv[4]);
	}
	switch (argv[2][0]) {
	case 't': run_threads(atoi(argv[2] + 1)); break;
	case 'p': run_processes(atoi(argv[2] + 1)); break;
	case 'f': run_chain(atoi(argv[2] + 1)); break;
	default: touch();
	}
	return 0;
}
