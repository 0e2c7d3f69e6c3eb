/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is, as the arbiter last wrote it: each word stands for itself. A tenant obeys while
 * beat_ns is young; when it grows old nobody arbitrates, and the tenant keeps to entitled_permille
 * of each device as if that were its cap. Instants are CLOCK_MONOTONIC.
 */
#ifndef ALLOT_LEDGER_TURN_H
#define ALLOT_LEDGER_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct policy_map;

enum turn_flags {
	TURN_CONTENDED = 1 << 0, /* others want a device of it, or did just now */
	TURN_URGED = 1 << 1,	 /* a higher priority may come: keep little in flight */
	TURN_FIRST = 1 << 2,	 /* all others are urged by it */
};

struct turn {
	uint64_t beat_ns;	    /* when the arbiter last looked; 0 never */
	uint64_t open_until_ns;	    /* launches may start until then */
	uint32_t flags;		    /* enum turn_flags */
	uint32_t entitled_permille; /* 1 to 1000 */
	uint32_t seq;		    /* a futex: changes when open_until_ns does */
	uint32_t urgent_us;	    /* a higher priority works so long at a time; 0 not known */
	uint64_t open_from_ns;	    /* and not before: the last one's work is on the device */
	uint64_t reserved[3];
};

/*
 * Whether nobody arbitrated in the last `for_ns`. An instant that lies ahead is damage, or of
 * before the machine was started anew. Pure.
 */
bool turn_silent(const struct turn *turn, uint64_t now_ns, uint64_t for_ns);

/* The turn as the tenant's processes see it: to be read only, word by word. */
const struct turn *turn_of(const struct policy_map *map);

/*
 * For the arbiter alone: the same, to be written. Keeps no descriptor; not inherited by fork.
 * Errors of policy_open, and -EACCES.
 */
int turn_open(const char *dir, struct turn **ret);
void turn_close(struct turn *turn);

/* For somebody who looks once: read as policy_load reads the policy. */
int turn_load(const char *dir, struct turn *ret);

#endif
