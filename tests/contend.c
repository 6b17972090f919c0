// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that get into each other's way, in one address space: each maps some pages, touches them
 * and unmaps them again, as often as it can. Waits are for the mmap_lock, page tables, the page
 * allocator and the scheduler's queues.
 *
 * Usage: contend THREADS MILLISECONDS
 * Prints the ids of all its threads in one line.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGES 16
#define MAX_THREADS 64

static uint64_t end_ns;
static pid_t ids[MAX_THREADS];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void *contend(void *id)
{
	long page = sysconf(_SC_PAGESIZE);

	*(pid_t *)id = gettid();
	while (now_ns() < end_ns) {
		volatile char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			exit(1);
		for (int i = 0; i < PAGES; i++)
			memory[i * page] = 1;
		munmap((void *)memory, PAGES * page);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	int threads = count == 3 ? atoi(arguments[1]) : 0;
	pthread_t thread[MAX_THREADS];

	if (threads < 1 || threads > MAX_THREADS)
		return 2;
	end_ns = now_ns() + atoi(arguments[2]) * 1000000ull;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, contend, &ids[i]))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%d", getpid());
	for (int i = 0; i < threads; i++)
		printf(" %d", ids[i]);
	putchar('\n');
	return 0;
}
