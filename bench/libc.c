/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc [BATCHES]: nanoseconds a call for functions of the C library that liballot stands in front
 * of, used on files that are not AMD's, as medians over batches, one line of JSON. bench/run-libc
 * compares runs.
 */
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCHES_MAX 10000

static int file;
static char named[64] = "/dev/shm/allot-bench-XXXXXX"; /* with a name that AMD's files have */
extern char **environ;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void call_ioctl(void)
{
	ioctl(file, TCGETS, NULL); /* it is no terminal */
}

static void call_open(void)
{
	close(open("/etc/passwd", O_RDONLY));
}

static void call_fopen(void)
{
	FILE *stream = fopen("/etc/passwd", "r");

	if (stream)
		fclose(stream);
}

static void call_open_named(void)
{
	close(open(named, O_RDONLY));
}

static void start(void)
{
	char name[] = "true", *argv[] = {name, NULL};
	pid_t pid;

	if (!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ))
		waitpid(pid, NULL, 0);
}

static const struct item {
	const char *name;
	void (*call)(void);
	int calls; /* in a batch */
} items[] = {
	{"ioctl", call_ioctl, 1000},	      {"open", call_open, 500}, {"fopen", call_fopen, 500},
	{"open_named", call_open_named, 500}, {"start", start, 2},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double ns[ITEMS][BATCHES_MAX];
	int batches = argc > 1 ? atoi(argv[1]) : 200, fd;
	char dir[sizeof(named)];
	cpu_set_t cpu;

	/* Where it happens to run, it stays. */
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	file = open("/dev/null", O_RDWR);
	if (file < 0 || batches < 1 || batches > BATCHES_MAX || !mkdtemp(named))
		return 1;
	snprintf(dir, sizeof(dir), "%s", named);
	snprintf(named, sizeof(named), "%.40s/properties", dir);
	fd = open(named, O_CREAT | O_RDWR, 0600);
	if (fd < 0)
		return 1;
	close(fd);
	for (int b = 0; b < batches; b++)
		for (size_t i = 0; i < ITEMS; i++) {
			double begin = now_ns();

			for (int c = 0; c < items[i].calls; c++)
				items[i].call();
			ns[i][b] = (now_ns() - begin) / items[i].calls;
		}
	unlink(named);
	rmdir(dir);
	for (size_t i = 0; i < ITEMS; i++) {
		qsort(ns[i], (size_t)batches, sizeof(ns[i][0]), ascending);
		printf("%s\"%s\": %.1f", i ? ", " : "{", items[i].name, ns[i][batches / 2]);
	}
	printf("}\n");
	return 0;
}
