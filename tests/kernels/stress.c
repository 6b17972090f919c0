// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults in many threads, as fast as they can, in all the ways that get into each other's way.
 *
 * stress THREADS SECONDS FILE
 *
 * Each thread reads a part of the file that all of them read (faults that map around), writes
 * memory of its own, gives both back, and now and then maps anew: then others find the address
 * space locked and wait, or have to try again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define LENGTH (64 * PAGE)

static volatile char *shared;
static time_t deadline;
static int file;

static volatile char *map(int protection, int flags, int fd)
{
	void *p = mmap(NULL, LENGTH, protection, flags, fd, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void *work(void *unused)
{
	volatile char *own = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	unsigned long i, turn;
	char sum = 0;

	for (turn = 0; time(NULL) < deadline; turn++) {
		for (i = 0; i < LENGTH; i += PAGE) {
			own[i] = 1;
			sum += shared[i];
		}
		madvise((void *)own, LENGTH, MADV_DONTNEED);
		madvise((void *)shared, LENGTH, MADV_DONTNEED);
		if (turn % 8 == 0) {
			munmap((void *)own, LENGTH);
			own = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		}
	}
	return (void *)(intptr_t)sum ?: unused;
}

int main(int argc, char **argv)
{
	int count = argc > 3 ? atoi(argv[1]) : 0, i;
	pthread_t threads[count + 1];

	if (!count)
		return 2;
	deadline = time(NULL) + atoi(argv[2]);
	file = open(argv[3], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, LENGTH))
		return 1;
	shared = map(PROT_READ, MAP_SHARED, file);
	for (i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
