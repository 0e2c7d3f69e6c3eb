/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which queues there are on the machine, in all of its processes, and how long each was active. A
 * process writes what its own queues are; whoever has the tree may read. A process is alive while
 * it maps the table, by a lock that goes with it; a dead one's queues are gone.
 *
 * Functions take the roster's own lock; 0 or -errno.
 */
#ifndef ALLOT_SIM_KFD_ROSTER_H
#define ALLOT_SIM_KFD_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#define ROSTER_QUEUES	  8192
#define ROSTER_MASK_WORDS 32

struct roster;

/* What is so of a queue now. */
struct roster_queue {
	int32_t pid;
	uint32_t id, gpu_id, type, percent, priority;
	uint32_t mask_bits, mask[ROSTER_MASK_WORDS]; /* of CUs; 0 bits: all */
	bool active;				     /* on the hardware */
	bool busy;				     /* has packets to execute */
};

/* Until now, by the clock that all processes have. */
struct roster_times {
	uint64_t life_ns, active_ns;
	uint64_t busy_ns; /* both active and busy */
};

/* The tree's at `root`, made if there is none; with `join` to have queues, once in a process. */
int roster_open(const char *root, bool join, struct roster **ret);
void roster_close(struct roster *roster);

/* Adds one, and answers by which number it goes; -ENOMEM: there are too many. */
int roster_add(struct roster *roster, const struct roster_queue *queue, uint32_t *ret_number);

/* From now on it is like that. */
void roster_change(struct roster *roster, uint32_t number, const struct roster_queue *queue);
void roster_remove(struct roster *roster, uint32_t number, struct roster_times *ret);

/* Those of living processes, at most `room`; how many there are. */
uint32_t roster_read(struct roster *roster, uint32_t room, struct roster_queue *ret_queues,
		     struct roster_times *ret_times);

#endif
