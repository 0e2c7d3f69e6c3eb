/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a process that never touches a GPU looks like from outside and in: idle.sh compares
 * a run with liballot with one without.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

static void list(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int n = 0;

	CHECK(dir);
	while ((entry = readdir(dir)))
		n++;
	closedir(dir);
	printf("%s %d\n", path, n);
}

static void print_lines(const char *path, const char *const prefix[], int n)
{
	char line[512];
	FILE *f = fopen(path, "re");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		for (int i = 0; i < n; i++)
			if (!strncmp(line, prefix[i], strlen(prefix[i])))
				fputs(line, stdout);
	fclose(f);
}

int main(void)
{
	static const char *const status[] = {"Threads", "SigB", "SigI", "SigC", "Umask",
					     "Seccomp"};
	char line[512];
	FILE *maps;

	list("/proc/self/fd");
	list("/proc/self/task");
	print_lines("/proc/self/status", status, 6);
	for (int i = 1; i < NSIG; i++) {
		struct sigaction old;

		if (!sigaction(i, NULL, &old) && old.sa_handler != SIG_DFL)
			printf("signal %d\n", i);
	}
	/* Files mapped, once each. */
	maps = fopen("/proc/self/maps", "re");
	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		const char *path = strchr(line, '/');
		static char last[512];

		if (path && strcmp(path, last))
			printf("%s", strcpy(last, path));
	}
	fclose(maps);
	printf("errno %d\n", errno);
	return 0;
}
