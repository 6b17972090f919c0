// SPDX-License-Identifier: GPL-2.0-only
/*
 * Touches known numbers of pages, one byte each, and faults on nothing else meanwhile.
 *
 * touch WHAT TASKS FILE PAGES...
 *   WHAT   anon: private anonymous memory, written; read: shared file, read; cow: private file
 *          mapping, written; huge: anonymous memory, huge pages written; hugetlb: the same with
 *          MAP_HUGETLB
 *   TASKS  1: the main thread; tN: N threads; pN: N processes; fN: a chain of N processes, each
 *          forked by the one before
 *   FILE   for read and cow; it must not be there yet. Else any word.
 *
 * Prints a line once all tasks are there. Then, for each PAGES: reads a line, every task touches so
 * many pages of a mapping of its own, prints a line. Ends after one more line.
 *
 * What a task faults on besides lies before the first line that is printed or after the last:
 * - Each task first goes through a round of one page. Its code, its stack and what a fork(2) has
 *   left to be copied on write are there then; so is the mapping's anon_vma, for want of which a
 *   first fault is tried twice.
 * - Nothing changes an address space (mmap, clone) after that: a fault beside it may be tried
 *   twice, too.
 * - Mappings do not touch each other: the kernel would merge them.
 * - Threads' stacks are populated, and with them the area that the kernel writes to when it moves
 *   a thread to another CPU (rseq(2)). The main thread's lies in memory that is copied on write
 *   after a fork(2), at a time of the scheduler's choosing: run this with
 *   GLIBC_TUNABLES=glibc.pthread.rseq=0.
 *
 * Counting over the whole life of a program is not exact: how many faults its start takes depends
 * on which of the pages around a fault are locked by someone else at that moment.
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

#define MAX_TASKS 16
#define MAX_ROUNDS 64
#define PAGE 4096UL
#define HUGE (2UL << 20)
#define STACK (64UL << 10)

static volatile char *regions[MAX_TASKS];
static unsigned long rounds[MAX_ROUNDS] = {1}, page_size = PAGE;
static int tasks, round_count = 1, reads;
/* Pipes: a byte for each task that may begin the round (the last: may end), has ended its round. */
static int gates[MAX_ROUNDS + 1][2], finished[2];

static void die(const char *message)
{
	perror(message);
	_exit(1);
}

static void take(int fd, int count)
{
	char byte;

	while (count--)
		if (read(fd, &byte, 1) != 1)
			die("read");
}

static void give(int fd, int count)
{
	static const char bytes[MAX_TASKS];

	if (write(fd, bytes, count) != count)
		die("write");
}

/* Return memory that is mapped as asked, starts at a huge page and has a hole before and after. */
static char *map_apart(unsigned long length, int protection, int flags, int file, off_t offset)
{
	unsigned long room = length + 3 * HUGE;
	char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap of address space");
	p = (char *)(((uintptr_t)p + 2 * HUGE - 1) & ~(HUGE - 1));
	p = mmap(p, length, protection, flags | MAP_FIXED, file, offset);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static unsigned long region_length(void)
{
	unsigned long pages = 0;
	int i;

	for (i = 0; i < round_count; i++)
		pages += rounds[i];
	/* A fault maps what is there already of the 16 pages around it: not another task's. */
	return (pages * page_size + 0xffff) & ~0xffffUL;
}

static void map_regions(const char *what, const char *path)
{
	int flags = MAP_PRIVATE, protection = PROT_READ | PROT_WRITE, file = -1, i;
	unsigned long length;

	reads = !strcmp(what, "read");
	if (!strncmp(what, "huge", 4))
		page_size = HUGE;
	if (!strcmp(what, "hugetlb"))
		flags |= MAP_HUGETLB;
	if (reads) {
		flags = MAP_SHARED;
		protection = PROT_READ;
	}
	length = region_length();
	if (reads || !strcmp(what, "cow")) {
		file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (file < 0 || ftruncate(file, tasks * length))
			die(path);
	} else {
		flags |= MAP_ANONYMOUS;
	}
	for (i = 0; i < tasks; i++)
		regions[i] = map_apart(length, protection, flags, file, file < 0 ? 0 : i * length);
}

static void touch(volatile char *p, unsigned long pages)
{
	char sum = 0;

	for (; pages--; p += page_size) {
		if (reads)
			sum += *p;
		else
			*p = 1;
	}
	if (sum)
		die("the file is not empty");
}

static void run_round(int task, int round)
{
	take(gates[round][0], 1);
	touch(regions[task], rounds[round]);
	regions[task] += rounds[round] * page_size;
	give(finished[1], 1);
}

static void *work(void *task)
{
	int round;

	for (round = 0; round < round_count; round++)
		run_round((intptr_t)task, round);
	take(gates[round_count][0], 1);
	return NULL;
}

static void start_thread(int task)
{
	pthread_attr_t attributes;
	pthread_t thread;
	char *stack = map_apart(STACK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, STACK);
	if (pthread_create(&thread, &attributes, work, (void *)(intptr_t)task))
		die("pthread_create");
}

/* Fork a process that works; in a chain it forks the next one first. */
static void start_process(int task, int in_chain)
{
	if (fork())
		return;
	if (in_chain && task + 1 < tasks)
		start_process(task + 1, in_chain);
	work((void *)(intptr_t)task);
	while (wait(NULL) > 0)
		;
	_exit(0);
}

static void start_tasks(int kind)
{
	int i;

	if (kind == 'f')
		start_process(0, 1);
	for (i = 0; i < tasks && kind == 't'; i++)
		start_thread(i);
	for (i = 0; i < tasks && kind == 'p'; i++)
		start_process(i, 0);
}

int main(int argc, char **argv)
{
	int i, kind = argc > 4 ? argv[2][0] : 0;

	tasks = kind ? atoi(argv[2] + strspn(argv[2], "tpf")) : 0;
	if (tasks < 1 || tasks > MAX_TASKS || argc - 4 >= MAX_ROUNDS)
		return 2;
	for (i = 4; i < argc; i++)
		rounds[round_count++] = strtoul(argv[i], NULL, 10);
	for (i = 0; i <= round_count; i++)
		if (pipe(gates[i]))
			die("pipe");
	if (pipe(finished))
		die("pipe");
	map_regions(argv[1], argv[3]);
	start_tasks(kind);
	for (i = 0; i < round_count; i++) {
		if (i)
			take(STDIN_FILENO, 1);
		give(gates[i][1], tasks);
		if (kind == '1')
			run_round(0, i);
		take(finished[0], tasks);
		if (write(STDOUT_FILENO, "\n", 1) != 1)
			die("write");
	}
	take(STDIN_FILENO, 1);
	give(gates[round_count][1], tasks);
	while (wait(NULL) > 0)
		;
	return 0;
}
