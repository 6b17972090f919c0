// SPDX-License-Identifier: GPL-2.0-only
/*
 * A convoy: threads that get faster when each of them is slowed down.
 *
 * convoy [THREADS [ROUNDS [SLEEP_MS]]]
 *
 * Each round of a thread is a system call (getppid, the function to delay), then a short critical
 * section. The lock is handed over in order, as the kernel hands over a folio's lock: who unlocks
 * it gives it to the one that has waited longest, and that one does not run yet. A waiter looks
 * whether it is its turn, sleeps, looks again, as many locks do that spin first and sleep then.
 *
 * Why a delay makes it faster: while the lock belongs to a thread that is still asleep, the one
 * that gave it away comes back after a microsecond, finds it taken and sleeps, too. From then on
 * every hand-over waits for a sleeper: the threads move in a convoy, at the speed of their sleep
 * (5 ms) and not of their work (20 us). A delay before the lock, outside of it, gives the sleeper
 * the time to wake up, do its work and leave: the next one finds the lock free, nobody sleeps, and
 * the convoy is gone until two threads meet by chance. The longer the delay, the rarer that is.
 *
 * The lock is held until all threads wait for it, so that the convoy is there from the beginning;
 * left alone, they form one as soon as they meet. They need a CPU each; on an emulated machine
 * that is busy, give them 50 ms, which outlast the pauses of its CPUs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

#define WORK 5000

static atomic_uint next_ticket, now_serving;
static atomic_ulong sleeps;
static unsigned long rounds = 300, sleep_ms = 5;
static volatile unsigned long shared;

static void lock(void)
{
	unsigned int mine = atomic_fetch_add(&next_ticket, 1);
	struct timespec nap = { 0, sleep_ms * 1000000 };

	while (atomic_load(&now_serving) != mine) {
		atomic_fetch_add(&sleeps, 1);
		nanosleep(&nap, NULL);
	}
}

static void unlock(void)
{
	atomic_fetch_add(&now_serving, 1);
}

static void *run(void *unused)
{
	unsigned long round, i;

	for (round = 0; round < rounds; round++) {
		syscall(SYS_getppid);
		lock();
		for (i = 0; i < WORK; i++)
			shared++;
		unlock();
	}
	return unused;
}

int main(int argc, char **argv)
{
	unsigned int threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 2, i;
	pthread_t *all = calloc(threads, sizeof(*all));

	if (argc > 2)
		rounds = strtoul(argv[2], NULL, 10);
	if (argc > 3)
		sleep_ms = strtoul(argv[3], NULL, 10);
	lock();
	if (!all)
		return 1;
	for (i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, run, NULL))
			return 1;
	while (atomic_load(&next_ticket) <= threads)
		usleep(1000);
	unlock();
	for (i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("%lu sleeps in %lu rounds\n", atomic_load(&sleeps), rounds * threads);
	return 0;
}
