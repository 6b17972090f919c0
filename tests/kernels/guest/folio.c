// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that collide on the lock of one page of a file, and measure how long they wait for it.
 *
 * folio serve DIRECTORY FIFO MS
 *
 * Mounts a file system with one file, DIRECTORY/data, and prints a line. It takes MS milliseconds
 * to read a page, nine times as long from page SLOW on. The kernel holds the page's lock meanwhile;
 * that it does is told by a byte into the FIFO.
 *
 * folio fault|mem|read|truncate|kill FILE FIFO THREADS ROUNDS PAGE
 *
 * In each round the page is dropped from the cache, one thread (another one each time) has it read
 * in, and once its lock is held the others want the page too. They take a page fault, have one
 * taken for them through /proc/self/mem, or read(2). Only one can cut the page off the file. To be
 * killed are processes instead, which take a fault and die while they wait.
 *
 * Prints in JSON how many waited, how long in all, and for how much of that they ran (`cpu_ns`);
 * `switches`: how often they slept, as the kernel says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 64UL
#define SLOW 32UL
#define NODE 42UL
#define NAME "data"

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* The file system. */

static void answer(int fd, unsigned long unique, int error, const void *data, size_t size)
{
	struct fuse_out_header out = { .len = sizeof(out) + size, .error = -error, .unique = unique };
	struct iovec parts[] = { { &out, sizeof(out) }, { (void *)data, size } };

	if (writev(fd, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		die("answer");
}

static unsigned long size = PAGES * PAGE;

static struct fuse_attr attributes(unsigned long node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == NODE ? size : 0,
		.mode = node == NODE ? S_IFREG | 0644 : S_IFDIR | 0755,
		.nlink = 1,
		.blksize = PAGE,
	};
}

struct slow_read {
	int fd;
	unsigned long unique;
	long ms;
};

static void *answer_later(void *what)
{
	static char data[PAGE];
	struct slow_read *slow = what;

	usleep(slow->ms * 1000);
	answer(slow->fd, slow->unique, 0, data, PAGE);
	free(slow);
	return NULL;
}

static void serve_read(int fd, int fifo, long ms, unsigned long unique, unsigned long index)
{
	struct slow_read *slow = malloc(sizeof(*slow));
	pthread_t thread;

	*slow = (struct slow_read){ fd, unique, index < SLOW ? ms : 9 * ms };
	if (write(fifo, "", 1) != 1 || pthread_create(&thread, NULL, answer_later, slow))
		die("read");
	pthread_detach(thread);
}

static void serve_one(int fd, int fifo, long ms, struct fuse_in_header *in, void *argument)
{
	switch (in->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = {
			.major = FUSE_KERNEL_VERSION,
			.minor = 31,
			.max_write = PAGE,
			.time_gran = 1,
		};
		answer(fd, in->unique, 0, &out, sizeof(out));
		puts("ready");
		fflush(stdout);
		break;
	}
	case FUSE_LOOKUP: {
		struct fuse_entry_out out = {
			.nodeid = NODE,
			.entry_valid = 1000,
			.attr_valid = 1000,
			.attr = attributes(NODE),
		};
		if (strcmp(argument, NAME))
			answer(fd, in->unique, ENOENT, NULL, 0);
		else
			answer(fd, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_OPEN: {
		struct fuse_open_out out = { .open_flags = FOPEN_KEEP_CACHE };

		answer(fd, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_SETATTR:
		size = ((struct fuse_setattr_in *)argument)->size;
		/* fall through */
	case FUSE_GETATTR: {
		struct fuse_attr_out out = { .attr_valid = 1000, .attr = attributes(in->nodeid) };

		answer(fd, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_READ:
		serve_read(fd, fifo, ms, in->unique,
			   ((struct fuse_read_in *)argument)->offset / PAGE);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_RELEASE:
		answer(fd, in->unique, 0, NULL, 0);
		break;
	default: /* so the kernel does not ask for FUSE_FLUSH again, which a process that dies waits for */
		answer(fd, in->unique, ENOSYS, NULL, 0);
	}
}

static int serve(const char *directory, const char *fifo_name, long ms)
{
	static char request[1 << 16] __attribute__((aligned(8)));
	struct fuse_in_header *in = (void *)request;
	int fd = open("/dev/fuse", O_RDWR), fifo = open(fifo_name, O_RDWR);
	char options[128];

	if (fd < 0 || fifo < 0)
		die("open");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,max_read=4096",
		 fd);
	if (mount("folio", directory, "fuse", MS_NOSUID | MS_NODEV, options))
		die("mount");
	for (;;) {
		if (read(fd, request, sizeof(request)) < 0) {
			if (errno == ENODEV) /* unmounted */
				return 0;
			if (errno != ENOENT && errno != EINTR)
				die("request");
			continue;
		}
		serve_one(fd, fifo, ms, in, request + sizeof(*in));
	}
}

/* Those who use it. */

static const char *way;
static int file, fifo, memory, threads, rounds;
static unsigned long page;
static volatile char *mapping;
static pthread_barrier_t begin, locked, end;

static struct {
	long waits, ns, cpu_ns, least, most, switches;
} total = { .least = 1L << 62 };
static pthread_mutex_t total_lock = PTHREAD_MUTEX_INITIALIZER;

static void use_page(void)
{
	char letter;

	if (!strcmp(way, "mem")) {
		if (pread(memory, &letter, 1, (off_t)(mapping + page * PAGE)) != 1)
			die("mem");
	} else if (!strcmp(way, "read") || !strcmp(way, "truncate")) {
		if (pread(file, &letter, 1, page * PAGE) < 0)
			die("read");
	} else {
		letter = mapping[page * PAGE];
	}
}

/* The page before it is cut off too: the first one is looked up in another way. */
static void cut_page(void)
{
	if (ftruncate(file, (page - 1) * PAGE))
		die("truncate");
}

static void measure(void (*what)(void))
{
	struct rusage before, after;
	long start, ns, cpu_start, cpu_ns;

	getrusage(RUSAGE_THREAD, &before);
	cpu_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	start = now_ns(CLOCK_MONOTONIC);
	what();
	ns = now_ns(CLOCK_MONOTONIC) - start;
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
	getrusage(RUSAGE_THREAD, &after);
	pthread_mutex_lock(&total_lock);
	total.waits++;
	total.ns += ns;
	total.cpu_ns += cpu_ns;
	total.least = ns < total.least ? ns : total.least;
	total.most = ns > total.most ? ns : total.most;
	total.switches += after.ru_nvcsw - before.ru_nvcsw;
	pthread_mutex_unlock(&total_lock);
}

/* Wait until the file system is asked for the page: its lock is held then. */
static void await_lock(void)
{
	struct pollfd ready = { .fd = fifo, .events = POLLIN };
	char letter;

	if (poll(&ready, 1, 20000) != 1 || read(fifo, &letter, 1) != 1)
		die("the page was not read");
}

static void drop_page(void)
{
	if (madvise((void *)mapping, PAGES * PAGE, MADV_DONTNEED))
		die("madvise");
	if (posix_fadvise(file, page * PAGE, PAGE, POSIX_FADV_DONTNEED))
		die("fadvise");
}

static void *work(void *number)
{
	for (int round = 0; round < rounds; round++) {
		pthread_barrier_wait(&begin);
		if (round % threads == (long)number) {
			use_page();
		} else {
			pthread_barrier_wait(&locked);
			measure(use_page);
		}
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static int sleeps(pid_t child)
{
	char name[64], text[256], *behind;
	int fd, size;

	snprintf(name, sizeof(name), "/proc/%d/stat", child);
	fd = open(name, O_RDONLY);
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size < 0)
		die("stat");
	text[size] = 0;
	behind = strrchr(text, ')');
	if (!behind || behind[2] == 'Z') {
		fputs("a process did not wait\n", stderr);
		exit(1);
	}
	return behind[2] == 'D';
}

/* Have processes wait for the page, and kill them while they do. */
static void kill_waiters(void)
{
	pid_t child[threads];

	for (int i = 0; i < threads; i++) {
		child[i] = fork();
		if (child[i] < 0)
			die("fork");
		if (child[i] == 0) {
			use_page();
			_exit(1);
		}
	}
	for (int i = 0; i < threads; i++) {
		int status;

		while (!sleeps(child[i]))
			usleep(1000);
		kill(child[i], SIGKILL);
		if (waitpid(child[i], &status, 0) != child[i] || !WIFSIGNALED(status))
			die("a process was not killed while it waited");
		total.waits++;
	}
}

static void *read_in(void *unused)
{
	use_page();
	return unused;
}

static void run_killed(void)
{
	for (int round = 0; round < rounds; round++) {
		pthread_t thread;

		drop_page();
		pthread_create(&thread, NULL, read_in, NULL);
		await_lock();
		kill_waiters();
		pthread_join(thread, NULL);
	}
}

static void run_truncating(void)
{
	for (int round = 0; round < rounds; round++) {
		pthread_t thread;

		drop_page();
		pthread_create(&thread, NULL, read_in, NULL);
		await_lock();
		measure(cut_page);
		pthread_join(thread, NULL);
		if (ftruncate(file, PAGES * PAGE))
			die("truncate");
	}
}

static void run_threads(void)
{
	pthread_t thread[threads];
	long number;

	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	/* Without the one that has the page read in. */
	pthread_barrier_init(&locked, NULL, threads);
	for (number = 0; number < threads; number++)
		pthread_create(&thread[number], NULL, work, (void *)number);
	for (int round = 0; round < rounds; round++) {
		drop_page();
		pthread_barrier_wait(&begin);
		await_lock();
		pthread_barrier_wait(&locked);
		pthread_barrier_wait(&end);
	}
	for (number = 0; number < threads; number++)
		pthread_join(thread[number], NULL);
}

int main(int argc, char **argv)
{
	char self[64];

	if (argc == 5 && !strcmp(argv[1], "serve"))
		return serve(argv[2], argv[3], atol(argv[4]));
	if (argc != 7)
		return 2;
	way = argv[1];
	close(open(argv[2], O_RDONLY));
	file = open(argv[2], O_RDWR);
	fifo = open(argv[3], O_RDWR);
	threads = atoi(argv[4]);
	rounds = atoi(argv[5]);
	page = atol(argv[6]);
	snprintf(self, sizeof(self), "/proc/%d/mem", getpid());
	memory = open(self, O_RDONLY);
	mapping = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
	if (file < 0 || fifo < 0 || memory < 0 || mapping == MAP_FAILED)
		die("open");
	/* One page at a time. */
	if (madvise((void *)mapping, PAGES * PAGE, MADV_RANDOM))
		die("madvise");
	if (posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM))
		die("fadvise");
	if (!strcmp(way, "kill"))
		run_killed();
	else if (!strcmp(way, "truncate"))
		run_truncating();
	else
		run_threads();
	if (!total.ns) /* nobody lived to measure */
		total.least = 0;
	printf("{\"waits\": %ld, \"ns\": %ld, \"cpu_ns\": %ld, \"min_ns\": %ld, \"max_ns\": %ld, "
	       "\"switches\": %ld}\n",
	       total.waits, total.ns, total.cpu_ns, total.least, total.most, total.switches);
	return 0;
}
