/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster: the queues of all processes on the machine, and how long each was active. A process
 * writes the rows of its own queues; anybody who has the tree may read them. A process is alive
 * while it maps the table, which a lock shows; the queues of a dead process are gone.
 *
 * Functions take the roster's own lock. They answer 0 or -errno.
 */
#ifndef ALLOT_SIM_KFD_ROSTER_H
#define ALLOT_SIM_KFD_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#define ROSTER_QUEUES	  8192
#define ROSTER_MASK_WORDS 32

struct roster;

/* The state of a queue. */
struct roster_queue {
	int32_t pid;
	uint32_t id, gpu_id, type, percent, priority;
	uint32_t mask_bits, mask[ROSTER_MASK_WORDS]; /* of CUs; 0 bits: all */
	bool active;				     /* on the hardware */
	bool busy;				     /* has packets to execute */
};

/* How long a queue has been there and active until now, by CLOCK_MONOTONIC. */
struct roster_times {
	uint64_t life_ns, active_ns;
	uint64_t busy_ns; /* both active and busy */
};

/*
 * Opens the roster of the tree at `root`, and makes it if there is none. A process that is to have
 * queues joins, once.
 */
int roster_open(const char *root, bool join, struct roster **ret);
void roster_close(struct roster *roster);

/* Adds a queue. *ret_number names it from now on. -ENOMEM: there are too many. */
int roster_add(struct roster *roster, const struct roster_queue *queue, uint32_t *ret_number);

/* The queue's state is `queue` from now on. */
void roster_change(struct roster *roster, uint32_t number, const struct roster_queue *queue);
void roster_remove(struct roster *roster, uint32_t number, struct roster_times *ret);

/* Reads the queues of living processes, at most `room`. Answers how many there are. */
uint32_t roster_read(struct roster *roster, uint32_t room, struct roster_queue *ret_queues,
		     struct roster_times *ret_times);

#endif
