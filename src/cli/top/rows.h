/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of `allot top`: a row for each tenant on each device, and for each program outside of
 * them; sorted, filtered, one of them selected. Pure: a view and a choice in, rows out.
 */
#ifndef ALLOT_CLI_TOP_ROWS_H
#define ALLOT_CLI_TOP_ROWS_H

#include "cli/top/view.h"

enum rows_sort {
	ROWS_BY_MEMORY,
	ROWS_BY_SHARE,
	ROWS_BY_NAME,
	ROWS_BY_USER,
	ROWS_BY_REFUSALS,
	ROWS_SORTS
};

extern const char *const rows_sorts[ROWS_SORTS]; /* "memory", ... */

struct rows_choice {
	enum rows_sort sort;
	bool reverse;
	char filter[64]; /* part of a name, a user or a command, in either case; "": all */
	/* The selected row, and the number of rows to move it by; taken and zeroed. */
	char name[TRAIL_NAME];
	uint8_t uuid[16];
	int move;
};

struct row {
	char name[TRAIL_NAME];
	const char *user, *command;	      /* the latter is "" where none is known */
	const struct tenant_entry *tenant;    /* NULL: outside */
	const struct snapshot_device *device; /* NULL: outside, or it used none yet */
	const struct outsider_found *outside; /* NULL: a tenant */
	const uint8_t *uuid;		      /* of the device; NULL: it used none yet */
	uint64_t used_bytes;		      /* UINT64_MAX: not known */
	uint64_t limit_bytes;		      /* 0: none, or not known */
};

struct rows {
	size_t n;
	struct row *list;
};

/* Collects the rows that pass the filter, in order. They point into the view. -ENOMEM. */
int rows_collect(const struct view *view, const struct rows_choice *choice, struct rows *ret);
void rows_free(struct rows *rows);

/*
 * Which is selected: the same as before, wherever sorting has put it, else the first. 0 where there
 * is none.
 */
size_t rows_select(const struct rows *rows, struct rows_choice *choice);

/* True if a share of the device's time is measured for it. */
bool rows_has_share(const struct row *row);

/* The part of the time that it may count on; in mode space it may be busy all the time. */
uint32_t rows_target_permille(const struct row *row);

/* Used memory, relative to its quota or to the device's memory; -1: not known. */
int rows_memory_permille(const struct row *row, const struct view *view);

/* 0: not known. */
uint64_t rows_memory_whole(const struct row *row, const struct view *view);

#endif
