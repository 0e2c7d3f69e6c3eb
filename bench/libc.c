/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc [BATCHES]: nanoseconds a call for functions of the C library that liballot stands in front
 * of, used on files that are not AMD's, as medians over batches, one line of JSON. bench/run-libc
 * compares runs.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/batch.h"

#define BATCHES_MAX 10000

static int file;
static char named[64] = "/dev/shm/allot-bench-XXXXXX"; /* with a name that AMD's files have */
extern char **environ;

static void libc_ioctl(void)
{
	ioctl(file, TCGETS, NULL); /* it is no terminal */
}

static void libc_open(void)
{
	close(open("/etc/passwd", O_RDONLY));
}

static void libc_fopen(void)
{
	FILE *stream = fopen("/etc/passwd", "r");

	if (stream)
		fclose(stream);
}

static void libc_open_named(void)
{
	close(open(named, O_RDONLY));
}

static void libc_start(void)
{
	char name[] = "true", *argv[] = {name, NULL};
	pid_t pid;

	if (!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ))
		waitpid(pid, NULL, 0);
}

static const struct batch_item items[] = {
	{"ioctl", libc_ioctl, 1000},	      {"open", libc_open, 500}, {"fopen", libc_fopen, 500},
	{"open_named", libc_open_named, 500}, {"start", libc_start, 2},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

int main(int argc, char **argv)
{
	int batches = batch_count(argc, argv, 200, BATCHES_MAX), fd, r;
	char dir[sizeof(named)];
	double ns[ITEMS];

	batch_pin();
	file = open("/dev/null", O_RDWR);
	if (file < 0 || !batches || !mkdtemp(named))
		return 1;
	snprintf(dir, sizeof(dir), "%s", named);
	snprintf(named, sizeof(named), "%.40s/properties", dir);
	fd = open(named, O_CREAT | O_RDWR, 0600);
	if (fd < 0)
		return 1;
	close(fd);
	r = batch_measure(items, ITEMS, batches, ns);
	unlink(named);
	rmdir(dir);
	if (r < 0)
		return 1;
	batch_print(items, ITEMS, ns);
	return 0;
}
