// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes known numbers of faults of known kinds, and of no other meanwhile.
 *
 * ways DIRECTORY HUGE_DIRECTORY COLD_FILE RECLAIM_FILE KIND:PAGES...
 *   DIRECTORY       on tmpfs
 *   HUGE_DIRECTORY  on tmpfs with huge=always
 *   COLD_FILE       a name on a file system with a disk
 *   RECLAIM_FILE    memory.reclaim of the cgroup that this runs in
 *   KIND            what each round does, see the table below
 *
 * For each round: prepares it, prints a line, reads a line, takes the faults, prints what the kernel
 * says of them ("MINOR MAJOR", as in getrusage(2)), reads a line.
 *
 * All that a round faults on besides has been faulted on before: a round of one page precedes it for
 * practice. Mappings are apart from each other and begin where a window of fault-around does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE (2UL << 20)
#define AROUND 16

static const char *directory, *huge_directory, *cold_file, *reclaim_file;
static volatile char sink;
static char *base;
static unsigned long *order;
static sigjmp_buf after_signal;

static void die(const char *message)
{
	perror(message);
	_exit(1);
}

static char *map(unsigned long pages, int protection, int flags, int file)
{
	unsigned long length = pages * PAGE;
	char *room = mmap(NULL, length + 3 * HUGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *p = (char *)(((uintptr_t)room + 2 * HUGE - 1) & ~(HUGE - 1));

	p = mmap(p, length, protection, flags | MAP_FIXED, file, 0);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* A new file of so many pages, all of them holes; it has no name any more. */
static int sparse(const char *where, unsigned long pages)
{
	char name[256];
	int file;

	snprintf(name, sizeof(name), "%s/ways", where);
	file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0 || ftruncate(file, pages * PAGE) || unlink(name))
		die(name);
	return file;
}

static void fill(int file, unsigned long pages)
{
	char page[PAGE];

	memset(page, 1, sizeof(page));
	while (pages--)
		if (write(file, page, sizeof(page)) != sizeof(page))
			die("write");
}

static void read_each(unsigned long pages, unsigned long step)
{
	for (unsigned long page = 0; page < pages; page++)
		sink = base[page * step * PAGE];
}

static void write_each(unsigned long pages, unsigned long size)
{
	for (unsigned long page = 0; page < pages; page++)
		base[page * size] = 1;
}

static void prepare_sparse(unsigned long pages)
{
	base = map(pages, PROT_READ, MAP_SHARED, sparse(directory, pages));
}

static void prepare_around(unsigned long pages)
{
	int file = sparse(directory, pages * AROUND);

	fill(file, pages * AROUND);
	base = map(pages * AROUND, PROT_READ, MAP_SHARED, file);
}

static void read_around(unsigned long pages)
{
	read_each(pages * AROUND, 1);
}

/* With one page touched, for the anon_vma: without, a first fault is tried twice. */
static void prepare_cow(unsigned long pages)
{
	base = map(pages + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, sparse(directory, pages + 1));
	base[pages * PAGE] = 1;
}

static void prepare_shared(unsigned long pages)
{
	base = map(pages, PROT_READ | PROT_WRITE, MAP_SHARED, sparse(directory, pages));
}

/* The same. */
static void prepare_anonymous(unsigned long pages)
{
	base = map(pages + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	base[pages * PAGE] = 1;
}

/* The zero page is there for reading. */
static void prepare_protected(unsigned long pages)
{
	prepare_anonymous(pages);
	read_each(pages, 1);
}

/* What has been swapped out stays in memory, too, until somebody needs that: a reclaim does. */
static void reclaim(void)
{
	int file = open(reclaim_file, O_WRONLY);

	if (file < 0 || (write(file, "64M", 3) != 3 && errno != EAGAIN) || close(file))
		die(reclaim_file);
}

static void prepare_swapped(unsigned long pages)
{
	unsigned char there[pages];
	unsigned long left, i, tries;

	if (mlockall(MCL_CURRENT)) /* the rest of the program stays */
		die("mlockall");
	prepare_anonymous(pages);
	write_each(pages, PAGE);
	for (tries = 0; tries < 100; tries++) {
		if (madvise(base, pages * PAGE, MADV_PAGEOUT))
			die("madvise");
		usleep(10000);
		reclaim();
		if (mincore(base, pages * PAGE, there))
			die("mincore");
		for (i = left = 0; i < pages; i++)
			left += there[i] & 1;
		if (!left)
			return;
	}
	fprintf(stderr, "%lu pages are not swapped out\n", left);
	_exit(1);
}

static void read_pages(unsigned long pages)
{
	read_each(pages, 1);
}

static void write_pages(unsigned long pages)
{
	write_each(pages, PAGE);
}

static void prepare_huge(unsigned long pages)
{
	unsigned long small = (pages + 1) * (HUGE / PAGE);

	base = map(small, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (madvise(base, small * PAGE, MADV_HUGEPAGE))
		die("madvise");
	base[pages * HUGE] = 1;
}

static void prepare_hugetlb(unsigned long pages)
{
	base = map((pages + 1) * (HUGE / PAGE), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	base[pages * HUGE] = 1;
}

static void write_huge(unsigned long pages)
{
	write_each(pages, HUGE);
}

/* One page of each window; none is read ahead, and none is in the cache. */
static void prepare_cold(unsigned long pages)
{
	int file = open(cold_file, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (file < 0)
		die(cold_file);
	fill(file, pages * AROUND);
	if (fsync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		die(cold_file);
	base = map(pages * AROUND, PROT_READ, MAP_SHARED, file);
	if (madvise(base, pages * AROUND * PAGE, MADV_RANDOM))
		die("madvise");
}

static void read_cold(unsigned long pages)
{
	read_each(pages, AROUND);
}

static void *read_even(void *pages)
{
	read_each((uintptr_t)pages, 2);
	return NULL;
}

/* Of two pages each the first is read by another thread; the second ones are holes. */
static void prepare_useless(unsigned long pages)
{
	unsigned long state = 1, i, j;
	pthread_t sibling;

	base = map(2 * pages, PROT_READ, MAP_SHARED, sparse(directory, 2 * pages));
	if (pthread_create(&sibling, NULL, read_even, (void *)(uintptr_t)pages) ||
	    pthread_join(sibling, NULL))
		die("pthread");
	order = malloc(pages * sizeof(*order));
	for (i = 0; i < pages; i++) {
		/* The test makes the same order. */
		state = state * 48271 % 2147483647;
		j = state % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
}

static void read_odd(unsigned long pages)
{
	for (unsigned long i = 0; i < pages; i++)
		sink = base[(2 * order[i] + 1) * PAGE];
}

static void prepare_pmd(unsigned long pages)
{
	int file = sparse(huge_directory, pages * (HUGE / PAGE));

	fill(file, pages * (HUGE / PAGE));
	base = map(pages * (HUGE / PAGE), PROT_READ, MAP_SHARED, file);
}

static void read_pmd(unsigned long pages)
{
	read_each(pages, HUGE / PAGE);
}

static void on_bus_error(int number)
{
	(void)number;
	siglongjmp(after_signal, 1);
}

/* Behind the file's end. */
static void prepare_error(unsigned long pages)
{
	base = map(pages, PROT_READ, MAP_SHARED, sparse(directory, 0));
	signal(SIGBUS, on_bus_error);
}

static void read_behind(unsigned long pages)
{
	for (volatile unsigned long page = 0; page < pages; page++)
		if (!sigsetjmp(after_signal, 1))
			sink = base[page * PAGE];
}

static void *sleep_on(void *nothing)
{
	pause();
	return nothing;
}

/* Scanned is what has several threads, and runs in the usual way: not first in, first out. */
static void prepare_numa(unsigned long pages)
{
	struct sched_param usual = {0};
	pthread_t sibling;

	prepare_anonymous(pages);
	write_each(pages, PAGE);
	if (sched_setscheduler(0, SCHED_OTHER, &usual) ||
	    pthread_create(&sibling, NULL, sleep_on, NULL))
		die("sibling");
}

/* Until so many pages have been faulted on, or half a minute is over. */
static void read_until_faulted(unsigned long pages)
{
	struct rusage before, now;

	if (pages == 1)
		return; /* no practice: the scanner comes when it comes */
	getrusage(RUSAGE_SELF, &before);
	do {
		read_each(pages, 1);
		getrusage(RUSAGE_SELF, &now);
	} while (now.ru_minflt - before.ru_minflt < (long)pages &&
		 now.ru_utime.tv_sec - before.ru_utime.tv_sec < 30);
}

static const struct {
	const char *name;
	void (*prepare)(unsigned long pages);
	void (*run)(unsigned long pages);
} kinds[] = {
	{"sparse", prepare_sparse, read_pages},
	{"around", prepare_around, read_around},
	{"cow", prepare_cow, write_pages},
	{"shared", prepare_shared, write_pages},
	{"anonymous", prepare_anonymous, write_pages},
	{"protected", prepare_protected, write_pages},
	{"swapped", prepare_swapped, read_pages},
	{"huge", prepare_huge, write_huge},
	{"hugetlb", prepare_hugetlb, write_huge},
	{"cold", prepare_cold, read_cold},
	{"useless", prepare_useless, read_odd},
	{"pmd", prepare_pmd, read_pmd},
	{"error", prepare_error, read_behind},
	{"numa", prepare_numa, read_until_faulted},
};

static void take_line(void)
{
	char byte;

	do {
		if (read(STDIN_FILENO, &byte, 1) != 1)
			_exit(1);
	} while (byte != '\n');
}

static void run(unsigned int kind, unsigned long pages)
{
	struct rusage before, after;
	char text[64];
	int length;

	kinds[kind].prepare(1);
	getrusage(RUSAGE_SELF, &before);
	kinds[kind].run(1); /* for practice */
	kinds[kind].prepare(pages);
	snprintf(text, sizeof(text), "%ld", 0L);
	if (write(STDOUT_FILENO, "\n", 1) != 1)
		_exit(1);
	take_line();
	getrusage(RUSAGE_SELF, &before);
	kinds[kind].run(pages);
	getrusage(RUSAGE_SELF, &after);
	length = snprintf(text, sizeof(text), "%ld %ld\n", after.ru_minflt - before.ru_minflt,
			  after.ru_majflt - before.ru_majflt);
	if (write(STDOUT_FILENO, text, length) != length)
		_exit(1);
	take_line();
}

int main(int argc, char **argv)
{
	char name[32];
	unsigned long pages;
	unsigned int kind;

	if (argc < 6)
		return 2;
	directory = argv[1];
	huge_directory = argv[2];
	cold_file = argv[3];
	reclaim_file = argv[4];
	for (int i = 5; i < argc; i++) {
		if (sscanf(argv[i], "%31[a-z]:%lu", name, &pages) != 2)
			return 2;
		for (kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++)
			if (!strcmp(kinds[kind].name, name))
				break;
		if (kind == sizeof(kinds) / sizeof(*kinds))
			return 2;
		run(kind, pages);
	}
	return 0;
}
