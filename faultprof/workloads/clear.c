// SPDX-License-Identifier: GPL-2.0-only
/*
 * clear ROUNDS TMPFS HUGETLBFS N...: how long the kernel takes to clear and copy N huge pages.
 *
 * Each round does it four ways, one after the other, and gives all pages back:
 *
 *   fault              the first write to each page of private memory (MADV_HUGEPAGE)
 *   fallocate_tmpfs    fallocate(2) of a file in TMPFS, which is mounted huge=always; twice, as
 *                      shmem leaves new pages as they are, and the second call clears them
 *   fallocate_hugetlb  fallocate(2) of a file in HUGETLBFS
 *   cow                a child's first write to each hugetlb page that its parent has written
 *
 * One table for each N: a line of microseconds for each round, and the average. Only the clearing
 * itself is within the time, not mmap(2), fork(2) and the like. A way that did not get huge pages
 * is an error, since its figures would be of something else.
 *
 * Exit status: 0, 1 when a way failed, 2 on wrong usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

static const char *tmpfs, *hugetlbfs;
static size_t thp_bytes, hugetlb_bytes;

__attribute__((noreturn, format(printf, 1, 2)))
static void fail(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs("clear: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(STATUS_FAILED);
}

static uint64_t now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* Writes one byte to each page and returns how long that took. */
static uint64_t touch(volatile char *memory, size_t page, size_t pages)
{
	uint64_t from = now_us();

	for (size_t i = 0; i < pages; i++)
		memory[i * page] = 1;
	return now_us() - from;
}

/* Returns how many kilobytes of the mapping at `start` the field of smaps called `field` counts. */
static size_t kilobytes_of(const void *start, const char *field)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	uintptr_t from, to;
	size_t found = 0, length = strlen(field), value;
	int inside = 0;
	char line[512];

	if (!smaps)
		fail("cannot read /proc/self/smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			inside = from <= (uintptr_t)start && (uintptr_t)start < to;
		else if (inside && !strncmp(line, field, length) && line[length] == ':' &&
			 sscanf(line + length + 1, "%zu", &value) == 1)
			found += value;
	}
	fclose(smaps);
	return found;
}

static void want_huge(const void *start, const char *field, size_t pages, const char *way)
{
	size_t expected = pages * (thp_bytes / 1024), found = kilobytes_of(start, field);

	if (found < expected)
		fail("%s: the kernel gave huge pages for %zu kB of %zu kB only (memory is "
		     "fragmented or short)", way, found, expected);
}

/* Reserves room, and returns where the first huge page in it can begin. */
static char *aligned_room(size_t bytes, char **room)
{
	*room = mmap(NULL, bytes + thp_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	if (*room == MAP_FAILED)
		fail("cannot map %zu bytes: %s", bytes, strerror(errno));
	return *room + (-(uintptr_t)*room & (thp_bytes - 1));
}

static uint64_t by_fault(size_t pages, int check)
{
	size_t bytes = pages * thp_bytes;
	char *room, *start = aligned_room(bytes, &room);
	uint64_t took;

	if (mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		fail("fault: cannot map %zu bytes: %s", bytes, strerror(errno));
	if (madvise(start, bytes, MADV_HUGEPAGE))
		fail("fault: no transparent huge pages: %s", strerror(errno));
	took = touch(start, thp_bytes, pages);
	if (check)
		want_huge(start, "AnonHugePages", pages, "fault");
	munmap(room, bytes + thp_bytes);
	return took;
}

static uint64_t by_fallocate(const char *directory, size_t page, size_t pages, const char *way,
			     int calls, int check)
{
	char path[PATH_MAX], *room, *start;
	uint64_t took;
	int file;

	if (snprintf(path, sizeof(path), "%s/clear-%d", directory, (int)getpid()) >=
	    (int)sizeof(path))
		fail("%s: the name of the directory is too long", way);
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		fail("%s: cannot make %s: %s", way, path, strerror(errno));
	unlink(path);
	took = now_us();
	for (int i = 0; i < calls; i++)
		if (fallocate(file, 0, 0, (off_t)(pages * page)))
			fail("%s: cannot allocate %zu huge pages: %s", way, pages, strerror(errno));
	took = now_us() - took;
	if (check) {
		start = aligned_room(pages * page, &room);
		if (mmap(start, pages * page, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) ==
		    MAP_FAILED)
			fail("%s: cannot map the file: %s", way, strerror(errno));
		for (size_t i = 0; i < pages; i++)
			(void)*(volatile char *)(start + i * page);
		want_huge(start, "ShmemPmdMapped", pages, way);
		munmap(room, pages * page + thp_bytes);
	}
	close(file);
	return took;
}

static uint64_t by_copying(size_t pages)
{
	size_t bytes = pages * hugetlb_bytes;
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	uint64_t took;
	int ends[2], status;
	pid_t child;

	if (start == MAP_FAILED)
		fail("cow: no %zu huge pages: %s", pages, strerror(errno));
	touch(start, hugetlb_bytes, pages);
	if (pipe2(ends, O_CLOEXEC))
		fail("cow: no pipe: %s", strerror(errno));
	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("cow: cannot fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		took = touch(start, hugetlb_bytes, pages);
		_exit(write(ends[1], &took, sizeof(took)) != sizeof(took));
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) ||
	    read(ends[0], &took, sizeof(took)) != sizeof(took))
		fail("cow: there are not twice %zu huge pages", pages);
	close(ends[0]);
	close(ends[1]);
	munmap(start, bytes);
	return took;
}

static uint64_t by(int way, size_t pages, int check)
{
	switch (way) {
	case 0:
		return by_fault(pages, check);
	case 1:
		return by_fallocate(tmpfs, thp_bytes, pages, "fallocate_tmpfs", 2, check);
	case 2:
		return by_fallocate(hugetlbfs, hugetlb_bytes, pages, "fallocate_hugetlb", 1, 0);
	default:
		return by_copying(pages);
	}
}

static void print_table(size_t pages, unsigned int rounds)
{
	static const char *const names[] = { "fault", "fallocate_tmpfs", "fallocate_hugetlb", "cow" };
	enum { WAYS = sizeof(names) / sizeof(*names) };
	double sums[WAYS] = { 0 };

	printf("N=%zu,\n     ", pages);
	for (int way = 0; way < WAYS; way++)
		printf("  %17s", names[way]);
	puts("");
	for (unsigned int round = 1; round <= rounds; round++) {
		printf("%5u", round);
		for (int way = 0; way < WAYS; way++) {
			uint64_t took = by(way, pages, round == 1);

			sums[way] += (double)took;
			printf("  %17" PRIu64, took);
		}
		puts("");
		fflush(stdout);
	}
	printf("%5s", "avg");
	for (int way = 0; way < WAYS; way++)
		printf("  %17.1f", sums[way] / rounds);
	puts("\n");
}

/* Reads a number of at least one; ends the program when it is none. */
static size_t number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || !value || value > UINT32_MAX) {
		fprintf(stderr, "clear: not a number of pages or rounds: %s\n", text);
		exit(STATUS_USAGE);
	}
	return (size_t)value;
}

static void read_sizes(void)
{
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re");
	struct statfs about;

	if (!file || fscanf(file, "%zu", &thp_bytes) != 1)
		fail("this kernel has no transparent huge pages");
	fclose(file);
	if (statfs(hugetlbfs, &about))
		fail("cannot look at %s: %s", hugetlbfs, strerror(errno));
	hugetlb_bytes = (size_t)about.f_bsize;
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fputs("usage: clear ROUNDS TMPFS HUGETLBFS N...\n", stderr);
		return STATUS_USAGE;
	}
	tmpfs = argv[2];
	hugetlbfs = argv[3];
	read_sizes();
	for (int i = 4; i < argc; i++)
		print_table(number(argv[i]), (unsigned int)number(argv[1]));
	if (fflush(stdout) || ferror(stdout))
		fail("cannot print");
	return 0;
}
