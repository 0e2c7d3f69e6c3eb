/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define PF_EXITING 0x4u /* of a thread's flags, as the kernel numbers them */

int proc_stat_read_at(int dir, const char *path, struct proc_stat *ret)
{
	char text[1024], *rest, *word;
	ssize_t n = fd_read_text(dir, path, text, sizeof(text));
	int i = 0;

	if (n < 0)
		return (int)n;
	/* The name may have any byte in it, but is the last in parentheses. */
	rest = strrchr(text, ')');
	if (!rest)
		return -EPROTO;
	rest++;
	*ret = (struct proc_stat){0};
	for (; i < PROC_STAT_WORDS && (word = strtok_r(NULL, " \n", &rest)); i++)
		if (i == PROC_STAT_STATE)
			ret->state = *word;
		else
			ret->word[i] = strtoull(word, NULL, 10);
	return i > PROC_STAT_START ? 0 : -EPROTO;
}

int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	return proc_stat_read_at(AT_FDCWD, path, ret);
}

bool proc_stat_is_exiting(const struct proc_stat *stat)
{
	return stat->word[PROC_STAT_FLAGS] & PF_EXITING;
}

bool proc_stat_is_dead(const struct proc_stat *stat)
{
	return stat->state == 'Z' || stat->state == 'X';
}

bool proc_stat_is_stopped(const struct proc_stat *stat)
{
	return stat->state == 'T' || stat->state == 't';
}

uint64_t proc_stat_start_ns(const struct proc_stat *stat)
{
	return stat->word[PROC_STAT_START] * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}
