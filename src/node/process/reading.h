/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of processes from files of /proc that a user can make long. Each file is read in slices,
 * over several seconds if it is long, within the budget of its user (node/process/allowance.h), and the
 * findings are kept while the process runs the same program. The kinds of such files
 * (node/process/mapped.c, node/amd_usage.c) have a table each.
 */
#ifndef ALLOT_NODE_PROCESS_READING_H
#define ALLOT_NODE_PROCESS_READING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/process/allowance.h"
#include "node/process/process.h"

/* Most processes of which something is kept. */
#define READING_PROCESSES 4096

struct reading {
	struct process_mark mark;
	uid_t uid;
	uint64_t begun_ns, asked_ns, read_ns; /* 0: it was not wholly read yet */
	int error;			      /* result of the last whole reading */
	bool put_off;			      /* the budget ended before the reading that was due */
	void *found;			      /* by it; NULL: nothing */
	int fd;				      /* of an unfinished reading; -EBADF */
	void *begun;			      /* found by it so far; NULL: likewise */
};

struct reading_kind {
	enum allowance_kind allowance;
	size_t found_bytes; /* of `begun` and `found`; zeroed in the beginning */
	/*
	 * Reads the process's next slice into `begun`, and opens the file first if *fd is none.
	 * Sets its cost for the user's budget. Returns 1, 0 at the end, or -errno.
	 */
	int (*read)(pid_t pid, int *fd, void *begun, uint64_t *ret_cost);
	bool (*is_any)(const void *found); /* something that has to be kept; never asked of NULL */
	void (*free)(void *found);	   /* what it points to; likewise */
	uint64_t (*keep_ns)(const void *found); /* how long it is not read again; NULL: no time */
	/* A process is read again only after all processes of its user were read once. */
	bool all_once;
};

struct reading_table {
	const struct reading_kind *kind;
	pthread_mutex_t lock;
	size_t n;
	unsigned int open; /* unfinished readings with a descriptor */
	struct reading list[READING_PROCESSES];
};

/* All below are called with the table's lock. */

/* The entry of the process, if it still runs the same program; NULL: there is none. */
struct reading *reading_find(struct reading_table *t, pid_t pid);

/*
 * Reads the slices of the process that are due, as far as its user's budget goes. Returns the
 * result of the last whole reading: 0, or an error of the kind's; -ESRCH. Before a whole one it is
 * -EAGAIN, and -ETIME after 60 s. *ret: the kept findings; NULL: there is no place for them now.
 */
int reading_know(struct reading_table *t, pid_t pid, struct reading **ret);

#endif
