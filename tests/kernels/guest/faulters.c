// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that do nothing but fault, each on a CPU of its own.
 *
 * faulters THREADS SECONDS
 *
 * Each thread has the pages of its own anonymous mapping made, gives them back and begins anew, until
 * the time is over. It asks for them, instead of touching them: at an exception QEMU's emulated CPUs
 * wait for the one lock that is also taken when a timer of another CPU expires. To that timer they
 * would seem to be before handle_mm_fault() too often (8% of what is inside on 6.12; none with one
 * CPU). The threads begin together. With one thread, the main thread is it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096UL
#define SIZE (1UL << 20)
#define MAX_THREADS 64

static pthread_barrier_t together;
static double seconds;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void *fault(void *number)
{
	volatile char *region;
	double until;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((long)number, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		perror("sched_setaffinity");
		exit(1);
	}
	region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	madvise((void *)region, SIZE, MADV_NOHUGEPAGE);
	pthread_barrier_wait(&together);
	until = now() + seconds;
	while (now() < until) {
		if (madvise((void *)region, SIZE, MADV_POPULATE_WRITE))
			exit(1);
		madvise((void *)region, SIZE, MADV_DONTNEED);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = argc > 2 ? atol(argv[1]) : 0, number;
	pthread_t ids[MAX_THREADS];

	if (threads < 1 || threads > MAX_THREADS) {
		fprintf(stderr, "usage: faulters THREADS SECONDS\n");
		return 2;
	}
	seconds = atof(argv[2]);
	pthread_barrier_init(&together, NULL, threads);
	for (number = 1; number < threads; number++)
		pthread_create(&ids[number], NULL, fault, (void *)number);
	fault((void *)0);
	for (number = 1; number < threads; number++)
		pthread_join(ids[number], NULL);
	return 0;
}
