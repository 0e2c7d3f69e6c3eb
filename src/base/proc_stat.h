/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's account of a process or a thread in its `stat` (man 5 proc), by numbers of words. */
#ifndef ALLOT_BASE_PROC_STAT_H
#define ALLOT_BASE_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Words behind the name, from 0 on. The state is a letter and has no number. */
enum proc_stat_word {
	PROC_STAT_STATE,
	PROC_STAT_PARENT,
	PROC_STAT_FLAGS = 6,
	PROC_STAT_START = 19, /* in ticks of CLOCK_BOOTTIME */
	PROC_STAT_RESIDENT = 21, /* pages */
	PROC_STAT_CODE = 23,
	PROC_STAT_STACK = 25,
	PROC_STAT_DATA = 42,
	PROC_STAT_WORDS = 49,
};

struct proc_stat {
	char state;
	uint64_t word[PROC_STAT_WORDS]; /* 0: not there on an older kernel */
};

/*
 * Reads the file at `path` below `dir`. Allocates nothing. As open(2) and read(2); -ESRCH: it ended
 * meanwhile; -EPROTO: the file has no such words.
 */
int proc_stat_read_at(int dir, const char *path, struct proc_stat *ret);
int proc_stat_read(pid_t pid, struct proc_stat *ret);

/* Returns true from the beginning of its end on. */
bool proc_stat_is_exiting(const struct proc_stat *stat);
bool proc_stat_is_dead(const struct proc_stat *stat);
bool proc_stat_is_stopped(const struct proc_stat *stat);

/* CLOCK_BOOTTIME, rounded down to a tick. */
uint64_t proc_stat_start_ns(const struct proc_stat *stat);

#endif
