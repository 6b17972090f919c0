// SPDX-License-Identifier: GPL-2.0-only
/*
 * usemem: use memory in a chosen way and say how fast it went.
 *
 * A task (a process, a thread of one, or this program itself) maps SIZE bytes,
 * walks them word by word, reports, unmaps them and reports again. Nearly all
 * of the time goes to page faults: that is what the program is for.
 *
 * The clock of every task starts in main(), so that a task's figure contains
 * what was done before it, such as --prefault or starting its siblings.
 * With --prealloc the mapping is made before the tasks: threads share it,
 * processes get their copy-on-write view of it, and each task walks all of it.
 *
 * Exit status: 0, 1 when a task failed, 2 on wrong usage.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGETLBFS_MAGIC 0x958458f6U
#define MAX_TASKS 65536U
/* Accesses between two looks at the clock, with --runtime only. */
#define SLICE ((size_t)8192)

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };
enum { OPTION_PREFAULT = 256 };

/*
 * Atomic, because tasks may write the same word at once; volatile, because an
 * access that nobody uses must still be made. Relaxed, it is a plain load or
 * store on every machine.
 */
typedef volatile _Atomic uint64_t word_t;

struct options {
	const char *file;
	unsigned int processes;		/* 0: no fork */
	unsigned int threads;		/* 0: no thread beside the main one */
	size_t size, unit, step;
	uint64_t repeat;		/* 0: not given */
	uint64_t runtime;		/* seconds, 0: not given */
	bool anonymous, hugetlb, prealloc, prefault, readonly, random, open_rw;
};

struct mapping {
	word_t *words;			/* NULL: not mapped yet */
	size_t walked;			/* bytes that tasks walk */
	size_t length;			/* bytes mapped: walked, in whole pages */
};

struct task {
	uint64_t number;		/* over all processes */
	const struct mapping *shared;	/* NULL: the task maps its own */
	struct mapping *units;
	size_t unit_count;
	uint64_t bytes;			/* walked so far */
	int status;
	pthread_t thread;
};

/* A one-to-one shuffle of 0 … mask, different for each key. */
struct shuffle {
	uint64_t mask, key;
	unsigned int half;
};

/* Written before the first task starts, read-only from then on. */
static struct options opt = { .step = sizeof(uint64_t) };
static uint64_t started;		/* microseconds */
static size_t page_size;		/* of the memory that is mapped */
static int file_fd = -1;
static char bus_message[PATH_MAX + 256];
static size_t bus_message_length;

static const char short_options[] = ":n:t:f:OUPu:j:r:oRT:wh";
static const struct option long_options[] = {
	{ "nproc", required_argument, NULL, 'n' },
	{ "thread", required_argument, NULL, 't' },
	{ "file", required_argument, NULL, 'f' },
	{ "anonymous", no_argument, NULL, 'O' },
	{ "hugetlb", no_argument, NULL, 'U' },
	{ "prealloc", no_argument, NULL, 'P' },
	{ "prefault", no_argument, NULL, OPTION_PREFAULT },
	{ "unit", required_argument, NULL, 'u' },
	{ "step", required_argument, NULL, 'j' },
	{ "repeat", required_argument, NULL, 'r' },
	{ "readonly", no_argument, NULL, 'o' },
	{ "random", no_argument, NULL, 'R' },
	{ "runtime", required_argument, NULL, 'T' },
	{ "open-rw", no_argument, NULL, 'w' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
	"Usage: usemem [options] SIZE[k|m|g|t]\n"
	"Map SIZE bytes in every task, write (or read) every word, report the speed.\n"
	"\n"
	"Tasks (one without these):\n"
	"  -n, --nproc N      N processes\n"
	"  -t, --thread N     N threads (in each process)\n"
	"Memory (private and anonymous without these):\n"
	"  -f, --file FILE    a shared mapping of FILE, made or grown (sparse) when it\n"
	"                     is shorter than SIZE; without SIZE the whole file\n"
	"  -O, --anonymous    private anonymous memory\n"
	"  -U, --hugetlb      the same in huge pages of the hugetlb pool\n"
	"  -P, --prealloc     map once, before the tasks start: threads share the\n"
	"                     mapping, processes copy it on write\n"
	"      --prefault     touch every page before the walk (with -P: before the\n"
	"                     tasks start)\n"
	"  -u, --unit SIZE    map and walk in units of SIZE, one after the other\n"
	"Access (one pass of 8-byte writes, in order, without these):\n"
	"  -j, --step BYTES   distance from one access to the next, 8 without this\n"
	"  -r, --repeat N     N passes\n"
	"  -o, --readonly     read; the mapping (and FILE) cannot be written\n"
	"  -w, --open-rw      open and map for writing even with --readonly\n"
	"  -R, --random       each place once a pass, in a random but fixed order\n"
	"  -T, --runtime SEC  pass after pass until SEC seconds after the start\n"
	"  -h, --help         this text\n"
	"\n"
	"Each task reports \"N bytes / N usecs = N KB/s\" (time since the start of the\n"
	"program, 1 KB = 1024 bytes), each mapping \"N usecs to free memory\".\n"
	"Exit status: 0, 1 when a task failed, 2 on wrong usage.\n";

/* Output: a line is one write(2), so that lines of several tasks stay whole. */

static bool write_line(int fd, const char *format, va_list arguments)
{
	char line[PATH_MAX + 512];
	int length = vsnprintf(line, sizeof(line) - 1, format, arguments);

	if (length < 0)
		return false;
	if ((size_t)length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	return write(fd, line, (size_t)length) == length;
}

__attribute__((format(printf, 1, 2)))
static bool report(const char *format, ...)
{
	va_list arguments;
	bool done;

	va_start(arguments, format);
	done = write_line(STDOUT_FILENO, format, arguments);
	va_end(arguments);
	return done;
}

__attribute__((format(printf, 1, 2)))
static void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	/* Nowhere is left to say that standard error cannot be written. */
	(void)write_line(STDERR_FILENO, format, arguments);
	va_end(arguments);
}

#define usage_error(...) do {			\
	complain("usemem: " __VA_ARGS__);	\
	exit(STATUS_USAGE);			\
} while (0)

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static bool time_is_up(void)
{
	return opt.runtime && now() - started >= opt.runtime * 1000000;
}

static size_t round_up(size_t bytes, size_t granule)
{
	return (bytes + granule - 1) / granule * granule;
}

/* The walk. */

static void read_in_order(const word_t *words, size_t from, size_t to, size_t stride)
{
	for (size_t i = from; i < to; i++)
		(void)atomic_load_explicit(&words[i * stride], memory_order_relaxed);
}

static void write_in_order(word_t *words, size_t from, size_t to, size_t stride)
{
	for (size_t i = from; i < to; i++)
		atomic_store_explicit(&words[i * stride], i, memory_order_relaxed);
}

static struct shuffle shuffle_of(size_t places, uint64_t key)
{
	struct shuffle shuffle = { .mask = 0, .key = key, .half = 1 };
	unsigned int bits = 0;

	while (shuffle.mask < places - 1) {
		shuffle.mask = shuffle.mask << 1 | 1;
		bits++;
	}
	if (bits > 2)
		shuffle.half = (bits + 1) / 2;
	return shuffle;
}

/*
 * Each step can be undone modulo mask + 1, so that no two numbers get the same
 * place. Multiplying carries low bits up, the shift brings high bits down;
 * three rounds of both leave no stride that a prefetcher could follow.
 */
static uint64_t shuffled(const struct shuffle *shuffle, uint64_t number)
{
	static const uint64_t odd[] = {
		0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		number = (number * odd[i] + shuffle->key) & shuffle->mask;
		number ^= number >> shuffle->half;
	}
	return number;
}

/* Take turns [from, to) of the shuffle and return how many led to a place. */
static size_t walk_at_random(const struct mapping *mapping, const struct shuffle *shuffle,
			     size_t from, size_t to, size_t places)
{
	size_t stride = opt.step / sizeof(word_t), done = 0;

	for (size_t i = from; i < to; i++) {
		uint64_t place = shuffled(shuffle, i);

		if (place >= places)
			continue;
		if (opt.readonly)
			(void)atomic_load_explicit(&mapping->words[place * stride],
						   memory_order_relaxed);
		else
			atomic_store_explicit(&mapping->words[place * stride], i,
					      memory_order_relaxed);
		done++;
	}
	return done;
}

static size_t walk_in_order(const struct mapping *mapping, size_t step, size_t from, size_t to)
{
	if (opt.readonly)
		read_in_order(mapping->words, from, to, step / sizeof(word_t));
	else
		write_in_order(mapping->words, from, to, step / sizeof(word_t));
	return to - from;
}

/* One pass, shorter if the time is up; returns the bytes that it covered. */
static size_t walk(const struct mapping *mapping, uint64_t key)
{
	size_t places = 1 + (mapping->walked - 1) / opt.step, done = 0;
	struct shuffle shuffle = shuffle_of(places, key);
	size_t turns = opt.random ? shuffle.mask + 1 : places;
	size_t slice = opt.runtime ? SLICE : turns;
	size_t from = 0;

	do {
		size_t to = turns - from > slice ? from + slice : turns;

		if (opt.random)
			done += walk_at_random(mapping, &shuffle, from, to, places);
		else
			done += walk_in_order(mapping, opt.step, from, to);
		from = to;
	} while (from < turns && !time_is_up());
	return done == places ? mapping->walked : done * opt.step;
}

/* Mappings. */

static void complain_of_mmap(size_t bytes)
{
	int error = errno;

	if (opt.hugetlb && error == ENOMEM)
		complain("usemem: not enough huge pages for %zu bytes: raise "
			 "/proc/sys/vm/nr_hugepages or nr_overcommit_hugepages, or use less",
			 bytes);
	else if (opt.hugetlb)
		complain("usemem: this kernel has no huge pages of %zu KB to map: %s",
			 page_size / 1024, strerror(error));
	else if (error == ENOMEM)
		complain("usemem: cannot map %zu bytes: %s; use less, or see "
			 "/proc/sys/vm/overcommit_memory and max_map_count, and ulimit -v",
			 bytes, strerror(error));
	else
		complain("usemem: cannot map %zu bytes of %s: %s", bytes,
			 opt.file ? opt.file : "anonymous memory", strerror(error));
}

static bool map(struct mapping *mapping, size_t offset, size_t bytes)
{
	int protection = PROT_READ | (opt.readonly && !opt.open_rw ? 0 : PROT_WRITE);
	int flags = opt.file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	size_t length = round_up(bytes, page_size);
	void *address;

	if (opt.hugetlb)
		flags |= MAP_HUGETLB;
	address = mmap(NULL, length, protection, flags, file_fd, (off_t)offset);
	if (address == MAP_FAILED) {
		complain_of_mmap(length);
		return false;
	}
	*mapping = (struct mapping){ .words = address, .walked = bytes, .length = length };
	if (opt.prefault)
		walk_in_order(mapping, page_size, 0, length / page_size);
	return true;
}

static bool free_and_report(struct mapping *mappings, size_t count)
{
	uint64_t from = now();

	for (size_t i = 0; i < count; i++) {
		/* NULL where the time was up before the unit's turn. */
		if (mappings[i].words && munmap((void *)mappings[i].words, mappings[i].length)) {
			complain("usemem: cannot unmap: %s", strerror(errno));
			return false;
		}
	}
	return report("%llu usecs to free memory", (unsigned long long)(now() - from));
}

/* Tasks. */

static bool report_speed(uint64_t bytes)
{
	uint64_t usecs = now() - started;
	uint64_t per_second;

	if (!usecs)
		usecs = 1;
	/* bytes * 1000000 / usecs, rounded down, without the overflow. */
	per_second = bytes / usecs * 1000000 + bytes % usecs * 1000000 / usecs;
	return report("%llu bytes / %llu usecs = %llu KB/s", (unsigned long long)bytes,
		      (unsigned long long)usecs, (unsigned long long)(per_second / 1024));
}

static bool take_unit(struct task *task, size_t index)
{
	size_t offset = index * opt.unit;
	size_t bytes = opt.size - offset < opt.unit ? opt.size - offset : opt.unit;

	if (!task->shared)
		return map(&task->units[index], offset, bytes);
	task->units[index] = (struct mapping){
		.words = task->shared->words + offset / sizeof(word_t),
		.walked = bytes,
	};
	return true;
}

static bool another_pass(uint64_t passes)
{
	if (opt.repeat)
		return passes < opt.repeat && !time_is_up();
	return passes == 0 || (opt.runtime && !time_is_up());
}

static bool walk_all(struct task *task)
{
	for (uint64_t pass = 0; another_pass(pass); pass++) {
		for (size_t i = 0; i < task->unit_count; i++) {
			if (pass == 0 && !take_unit(task, i))
				return false;
			task->bytes += walk(&task->units[i], task->number * 0xd1342543de82ef95);
			if (time_is_up())
				return true;
		}
	}
	return true;
}

static void *run_task(void *argument)
{
	struct task *task = argument;
	bool done;

	task->unit_count = 1 + (opt.size - 1) / opt.unit;
	task->units = calloc(task->unit_count, sizeof(*task->units));
	if (!task->units)
		complain("usemem: no memory to keep %zu units: use a larger --unit",
			 task->unit_count);
	done = task->units && walk_all(task) && report_speed(task->bytes);
	if (done && !task->shared)
		done = free_and_report(task->units, task->unit_count);
	free(task->units);
	task->status = done ? EXIT_SUCCESS : STATUS_FAILED;
	return NULL;
}

static int run_threads(struct task *tasks)
{
	int status = EXIT_SUCCESS;
	unsigned int running = 0;

	for (; running < opt.threads; running++) {
		int error = pthread_create(&tasks[running].thread, NULL, run_task,
					   &tasks[running]);

		if (error) {
			complain("usemem: cannot start thread %u: %s; use fewer", running,
				 strerror(error));
			status = STATUS_FAILED;
			break;
		}
	}
	for (unsigned int i = 0; i < running; i++) {
		pthread_join(tasks[i].thread, NULL);
		if (tasks[i].status)
			status = tasks[i].status;
	}
	return status;
}

/* All tasks of one process; the mapping that they share goes when they are done. */
static int run_process(unsigned int process, struct mapping *shared)
{
	unsigned int count = opt.threads ? opt.threads : 1;
	struct task *tasks = calloc(count, sizeof(*tasks));
	int status;

	if (!tasks) {
		complain("usemem: no memory for %u tasks: use fewer", count);
		return STATUS_FAILED;
	}
	for (unsigned int i = 0; i < count; i++) {
		tasks[i].number = (uint64_t)process * count + i;
		tasks[i].shared = shared->words ? shared : NULL;
	}
	if (opt.threads) {
		status = run_threads(tasks);
	} else {
		run_task(&tasks[0]);
		status = tasks[0].status;
	}
	if (shared->words && !free_and_report(shared, 1))
		status = STATUS_FAILED;
	free(tasks);
	return status;
}

static int wait_for_processes(unsigned int count)
{
	int status = EXIT_SUCCESS, state;

	while (count) {
		pid_t pid = wait(&state);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return STATUS_FAILED;
		count--;
		if (WIFSIGNALED(state))
			complain("usemem: process %d was killed by signal %d (%s)%s", (int)pid,
				 WTERMSIG(state), strsignal(WTERMSIG(state)),
				 WTERMSIG(state) == SIGKILL ? ": out of memory? See dmesg" : "");
		if (!WIFEXITED(state) || WEXITSTATUS(state))
			status = STATUS_FAILED;
	}
	return status;
}

static int run_processes(struct mapping *shared)
{
	pid_t parent = getpid();
	unsigned int running = 0;
	bool failed = false;

	for (; running < opt.processes; running++) {
		pid_t pid = fork();

		if (pid < 0) {
			complain("usemem: cannot start process %u: %s; use fewer", running,
				 strerror(errno));
			failed = true;
			break;
		}
		if (pid == 0) {
			/* Nobody waits for a task whose parent was killed. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(getppid() == parent ? run_process(running, shared) : STATUS_FAILED);
		}
	}
	return wait_for_processes(running) || failed ? STATUS_FAILED : EXIT_SUCCESS;
}

/* A page that cannot be had at the time of the fault. */

static void on_bus_error(int signal)
{
	(void)signal;
	if (write(STDERR_FILENO, bus_message, bus_message_length) < 0)
		_exit(STATUS_FAILED);
	_exit(STATUS_FAILED);
}

static void catch_bus_errors(void)
{
	struct sigaction action = { .sa_handler = on_bus_error };
	int length;

	if (opt.file)
		length = snprintf(bus_message, sizeof(bus_message),
				  "usemem: no page to be had for %s (SIGBUS): its file system is "
				  "full (see df; remount it with a larger size=), out of huge pages, "
				  "or the file was cut short\n", opt.file);
	else
		length = snprintf(bus_message, sizeof(bus_message),
				  "usemem: out of huge pages in the middle of the walk (SIGBUS): raise "
				  "/proc/sys/vm/nr_hugepages or nr_overcommit_hugepages, or use less\n");
	bus_message_length = length < 0 ? 0 : (size_t)length;
	if (bus_message_length >= sizeof(bus_message))
		bus_message_length = sizeof(bus_message) - 1;
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}

/* The file. */

static void fail_on_file(const char *what)
{
	complain("usemem: cannot %s %s: %s", what, opt.file, strerror(errno));
	exit(STATUS_FAILED);
}

/* Make the file and give it the length (a multiple of the huge page on hugetlbfs). */
static void grow_file(bool missing)
{
	/* Without O_CREAT where it exists: fs.protected_regular refuses that in /tmp. */
	int fd = open(opt.file, O_RDWR | O_CLOEXEC | (missing ? O_CREAT : 0), 0666);
	struct statfs system;
	size_t granule = 1;

	if (fd < 0)
		fail_on_file(missing ? "make" : "open for writing, to make it longer,");
	if (fstatfs(fd, &system) == 0 && (uint32_t)system.f_type == HUGETLBFS_MAGIC)
		granule = (size_t)system.f_bsize;
	if (ftruncate(fd, (off_t)round_up(opt.size, granule)))
		fail_on_file("make longer");
	close(fd);
}

static void open_file(void)
{
	bool missing;
	struct stat state = { .st_size = 0 };
	struct statfs system;

	missing = stat(opt.file, &state) != 0;
	if (missing && errno != ENOENT)
		fail_on_file("open");
	if (!opt.size && state.st_size <= 0)
		usage_error("no size given, and %s has no length: add one, such as 1g", opt.file);
	if (!opt.size)
		opt.size = (size_t)state.st_size;
	/* A device has no length to look at; mmap tells whether it will do. */
	if (missing || (S_ISREG(state.st_mode) && (size_t)state.st_size < opt.size))
		grow_file(missing);
	file_fd = open(opt.file, (opt.readonly && !opt.open_rw ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (file_fd < 0)
		fail_on_file("open");
	if (fstatfs(file_fd, &system) == 0 && (uint32_t)system.f_type == HUGETLBFS_MAGIC)
		page_size = (size_t)system.f_bsize;
}

/* The command line. */

static size_t huge_page_size(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[256];
	unsigned long kilobytes = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Hugepagesize: %lu kB", &kilobytes) == 1)
			break;
	if (file)
		fclose(file);
	if (!kilobytes) {
		complain("usemem: this kernel has no hugetlb pages (no Hugepagesize in /proc/meminfo)");
		exit(STATUS_FAILED);
	}
	return (size_t)kilobytes * 1024;
}

static uint64_t parse_number(const char *name, const char *text, uint64_t largest)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull takes blanks and a minus sign, which makes no sense here. */
	if (!isdigit((unsigned char)text[0]) || *end)
		usage_error("%s needs a number, not '%s'", name, text);
	if (errno == ERANGE || value < 1 || value > largest)
		usage_error("%s is out of range: %s (1 to %llu)", name, text,
			    (unsigned long long)largest);
	return value;
}

static size_t parse_size(const char *name, const char *text)
{
	static const char suffixes[] = "kmgt";
	const char *suffix = NULL;
	unsigned int shift = 0;
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end)
		suffix = strchr(suffixes, tolower((unsigned char)*end));
	if (!isdigit((unsigned char)text[0]) || (*end && (!suffix || end[1])))
		usage_error("%s needs a size such as 4096, 64m or 1g, not '%s'", name, text);
	if (suffix)
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	if (errno == ERANGE || value > (unsigned long long)PTRDIFF_MAX >> shift)
		usage_error("%s is too large: %s", name, text);
	if (!value)
		usage_error("%s must not be 0", name);
	return (size_t)(value << shift);
}

static const struct option *option_of(int value)
{
	for (const struct option *option = long_options; option->name; option++)
		if (option->val == value)
			return option;
	return NULL;
}

/* getopt_long() said no: find out what to say. */
static void refuse_option(int verdict, const char *word)
{
	const struct option *known = option_of(optopt);

	if (known && verdict == ':')
		usage_error("option --%s needs a value; see usemem --help", known->name);
	if (known)
		usage_error("option --%s takes no value; see usemem --help", known->name);
	if (optopt)
		usage_error("unknown option -%c; see usemem --help", optopt);
	usage_error("unknown or ambiguous option %s; see usemem --help", word);
}

static void take_option(int option, const char *value)
{
	switch (option) {
	case 'n': opt.processes = (unsigned int)parse_number("--nproc", value, MAX_TASKS); break;
	case 't': opt.threads = (unsigned int)parse_number("--thread", value, MAX_TASKS); break;
	case 'f': opt.file = value; break;
	case 'O': opt.anonymous = true; break;
	case 'U': opt.hugetlb = true; break;
	case 'P': opt.prealloc = true; break;
	case OPTION_PREFAULT: opt.prefault = true; break;
	case 'u': opt.unit = parse_size("--unit", value); break;
	case 'j': opt.step = parse_size("--step", value); break;
	case 'r': opt.repeat = parse_number("--repeat", value, UINT32_MAX); break;
	case 'o': opt.readonly = true; break;
	case 'R': opt.random = true; break;
	case 'T': opt.runtime = parse_number("--runtime", value, UINT32_MAX); break;
	case 'w': opt.open_rw = true; break;
	default:
		if (write(STDOUT_FILENO, help, sizeof(help) - 1) < 0)
			exit(STATUS_FAILED);
		exit(EXIT_SUCCESS);
	}
}

static void parse(int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (option == '?' || option == ':')
			refuse_option(option, argv[optind - 1]);
		take_option(option, optarg);
	}
	if (argc - optind > 1)
		usage_error("one size is enough: '%s' is one too many", argv[optind + 1]);
	if (argc - optind == 1)
		opt.size = parse_size("the size", argv[optind]);
	else if (!opt.file)
		usage_error("no size given; see usemem --help");
	if (opt.file && (opt.anonymous || opt.hugetlb))
		usage_error("--%s and --file exclude each other%s",
			    opt.hugetlb ? "hugetlb" : "anonymous",
			    opt.hugetlb ? ": put the file on hugetlbfs instead" : "");
	if (opt.step % sizeof(word_t))
		usage_error("--step must be a multiple of %zu, not %zu", sizeof(word_t), opt.step);
}

/* What depends on the page size, which depends on what is mapped. */
static void settle_unit(void)
{
	if (!opt.unit || opt.unit > opt.size)
		opt.unit = opt.size;
	if (opt.unit < opt.size && opt.unit % page_size)
		usage_error("--unit must be a multiple of the page size, %zu bytes", page_size);
}

int main(int argc, char **argv)
{
	struct mapping shared = { .words = NULL };

	started = now();
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	parse(argc, argv);
	if (opt.hugetlb)
		page_size = huge_page_size();
	if (opt.file)
		open_file();
	settle_unit();
	catch_bus_errors();
	if (opt.prealloc && !map(&shared, 0, opt.size))
		return STATUS_FAILED;
	return opt.processes ? run_processes(&shared) : run_process(0, &shared);
}
