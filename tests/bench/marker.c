// SPDX-License-Identifier: GPL-2.0-only
/*
 * marker FILE [COMMAND [ARG]...]: write to FILE when this program's main() began and when its
 * COMMAND had ended, in nanoseconds of CLOCK_MONOTONIC. Exit status: COMMAND's, or 1.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
	long long start = now();
	int status = 0;
	FILE *file;

	if (argc < 2)
		return 1;
	if (argc > 2) {
		pid_t child = fork();

		if (child == 0) {
			execvp(argv[2], argv + 2);
			_exit(1);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
	}
	long long end = now();

	file = fopen(argv[1], "w");
	if (!file || fprintf(file, "%lld %lld\n", start, end) < 0 || fclose(file))
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
