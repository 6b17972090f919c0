// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that get into each other's way, in one address space. One half maps pages, touches and
 * unmaps them, as often as each can: waits are for the mmap_lock, page tables and the scheduler's
 * queues. The other half sends pages through a pipe that all share: waits are for its mutex.
 *
 * Usage: contend THREADS MILLISECONDS
 * Prints the ids of all its threads in one line.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGES 16
#define PIPE_BYTES 1024
#define MAX_THREADS 64 /* half of them times PIPE_BYTES: half of what a pipe holds */

static uint64_t end_ns;
static pid_t ids[MAX_THREADS];
static int ends[2];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void map_and_unmap(long page)
{
	volatile char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	for (int i = 0; i < PAGES; i++)
		memory[i * page] = 1;
	munmap((void *)memory, PAGES * page);
}

/* Whoever reads has written, and no more than the pipe holds: nobody waits for the others' data. */
static void write_and_read(void)
{
	static __thread char bytes[PIPE_BYTES];

	if (write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes) ||
	    read(ends[0], bytes, sizeof(bytes)) <= 0)
		exit(1);
}

static void *contend(void *id)
{
	long page = sysconf(_SC_PAGESIZE);
	bool maps = ((pid_t *)id - ids) % 2;

	*(pid_t *)id = gettid();
	while (now_ns() < end_ns) {
		if (maps)
			map_and_unmap(page);
		else
			write_and_read();
	}
	return NULL;
}

int main(int count, char **arguments)
{
	int threads = count == 3 ? atoi(arguments[1]) : 0;
	pthread_t thread[MAX_THREADS];

	if (threads < 1 || threads > MAX_THREADS || pipe(ends))
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
