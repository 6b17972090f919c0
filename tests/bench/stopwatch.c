// SPDX-License-Identifier: GPL-2.0-only
/*
 * stopwatch FILE COMMAND [ARG]...: run COMMAND and write to FILE, in nanoseconds,
 *
 *	when this program began and when COMMAND had ended, of CLOCK_MONOTONIC
 *	the CPU time of COMMAND and of the children that it waited for
 *
 * Exit status: COMMAND's, or 1.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long nanoseconds(struct timeval time)
{
	return time.tv_sec * 1000000000LL + time.tv_usec * 1000LL;
}

int main(int argc, char **argv)
{
	long long begun = now(), ended, cpu;
	struct rusage usage;
	int status;
	FILE *file;
	pid_t child;

	if (argc < 3)
		return 1;
	child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		_exit(1);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child)
		return 1;
	ended = now();
	cpu = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);

	file = fopen(argv[1], "w");
	if (!file || fprintf(file, "%lld %lld %lld\n", begun, ended, cpu) < 0 || fclose(file))
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
