// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that collide on one resource, and that a delay outside of it makes faster.
 *
 * collide [-q] [THREADS [COMMITS [THINK_US [WORK_US]]]]    default: 4 20 16000 40000
 *
 * Each thread does transactions: it prepares (writes to PAGES fresh pages, and thinks for a random
 * time of THINK_US in the mean), claims the resource, works on it for WORK_US, and commits. A claim
 * does not wait: it takes the resource away from whoever works on it, who finds out at the commit,
 * has worked in vain and begins again, preparations and all. Hardware transactions settle conflicts
 * so ("requester wins"); so do load-linked and store-conditional, and radio stations that share a
 * channel without listening first (ALOHA; Abramson 1970).
 *
 * A transaction commits if none of the N - 1 others claims while it works. Let T be the time from
 * the end of one attempt to the next claim, W the work, both random enough: that comes true with a
 * probability of (T / (T + W))^(N - 1), and
 *
 *     commits a second  =  N T^(N - 1) / (T + W)^N,
 *
 * which rises with T up to T = (N - 1) W. Below, whatever makes the preparation *slower* makes the
 * program *faster*, although every thread does the preparation and nobody else waits for it: it
 * thins the claims out. With the default, T = 2 W / 5, there is room for a factor of six.
 *
 * Times are waited for by the clock and nothing is won by a faster machine: the effect is the same on
 * any whose CPUs are idle. Where threads wait long for a CPU, that is a part of T, and T may be large
 * enough without any delay.
 *
 * -q is the remedy: a claim waits in a queue until the resource is free. Then no work is lost, and
 * the preparation is off the critical path: another thread works meanwhile.
 *
 * The preparation faults on PAGES anonymous pages: do_anonymous_page() is where to delay it.
 * Prints what was done and how long it took.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGES 128
#define PAGE 4096UL
#define MAX_THREADS 64

static atomic_ulong holder;             /* the attempt that has the resource; 0: none */
static atomic_ulong attempts, commits;  /* of all threads */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static unsigned long wanted = 20, think_us = 16000, work_us = 40000;
static int queues;

static void sleep_us(unsigned long us)
{
	struct timespec time = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&time, NULL);
}

static void prepare(volatile char *pages, unsigned int *seed)
{
	int i;

	madvise((void *)pages, PAGES * PAGE, MADV_DONTNEED);
	for (i = 0; i < PAGES; i++)
		pages[i * PAGE] = 1;
	sleep_us(2 * think_us * (unsigned long)(rand_r(seed) & 0xffff) >> 16);
}

/* Return whether the work was not in vain. */
static int attempt(void)
{
	unsigned long mine = atomic_fetch_add(&attempts, 1) + 1;

	atomic_store(&holder, mine);
	sleep_us(work_us);
	return atomic_compare_exchange_strong(&holder, &mine, 0);
}

static void *work(void *number)
{
	unsigned int seed = (unsigned long)number + 1;
	char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		exit(1);
	while (atomic_load(&commits) < wanted) {
		prepare(pages, &seed);
		if (queues)
			pthread_mutex_lock(&queue);
		if (attempt())
			atomic_fetch_add(&commits, 1);
		if (queues)
			pthread_mutex_unlock(&queue);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = 4, i;
	pthread_t thread[MAX_THREADS];
	struct timespec began, ended;

	queues = argc > 1 && !strcmp(argv[1], "-q");
	argv += queues;
	argc -= queues;
	threads = argc > 1 ? strtoul(argv[1], NULL, 10) : threads;
	wanted = argc > 2 ? strtoul(argv[2], NULL, 10) : wanted;
	think_us = argc > 3 ? strtoul(argv[3], NULL, 10) : think_us;
	work_us = argc > 4 ? strtoul(argv[4], NULL, 10) : work_us;
	if (threads < 1 || threads > MAX_THREADS)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)i))
			return 1;
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%lu commits of %lu attempts, %.3f s\n", commits, attempts,
	       ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9);
	return 0;
}
