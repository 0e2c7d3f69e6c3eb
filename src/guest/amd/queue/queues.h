/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues that this process has on AMD's GPUs: what the program wants of each, and what the
 * kernel was told. A tenant's share is told to the kernel queue by queue, as a mask and as a
 * percentage of 0 or of what the program asked for.
 *
 * Nothing is locked while the kernel is asked. Of a queue it is asked by one at a time all the
 * same, since a percentage is told together with all else that a queue is, and the number of one
 * that was destroyed is given to another: the program's calls *claim* the queue, for which they
 * wait until the keeper's one call for it is done, as they would in the kernel, which does one
 * call of a process after the other. The keeper passes over what is claimed.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_QUEUES_H
#define ALLOT_GUEST_AMD_QUEUE_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/cu_mask.h"
#include "amd/duty.h"
#include "base/lock.h"
#include "guest/amd/amd.h"
#include "guest/amd/queue/allotment.h"

/* The kernel gives a process no more, and numbers them from 0. */
#define QUEUES 1024

/* Which account of time a queue's part is taken from. */
enum queue_kind {
	QUEUE_COMPUTES, /* a mask binds it */
	QUEUE_COPIES,	/* none does */
	QUEUE_KINDS,
};

struct queue {
	bool used;
	enum queue_kind kind;
	int device;	  /* index in struct amd */
	uint32_t claims;  /* calls of the program under way */
	uint32_t telling; /* a futex: the keeper's call is under way */
	uint64_t version; /* of what has this number */
	struct duty_queue duty;
	uint64_t read_pointer, write_pointer;  /* in the program's memory */
	uint32_t own_bits, own[CU_MASK_WORDS]; /* the mask that the program asked for; 0: none */
	bool masked;			       /* the kernel has: */
	struct cu_mask mask;
};

/* What the tenant's queues on a device are held to. */
struct queue_hold {
	bool limited; /* if not, the rest means nothing */
	bool masks;   /* express the share; else time does */
	struct cu_mask mask;
	uint32_t permille[QUEUE_KINDS]; /* of the time */
	uint64_t generation;		/* of the policy that it follows; 0: of none */
};

/* All under the lock of the queues. */
struct queue_device {
	uint32_t n; /* queues, and those that are about to be */
	int map_error;
	bool has_map;
	struct cu_map map; /* does not change any more then */
	struct queue_hold hold;
	struct queue_turn {
		bool closed;
		uint64_t looked_ns, next_ns;
	} turn[QUEUE_KINDS];
};

struct queues {
	struct guest *guest;
	struct amd *amd;
	struct allotment *allotment; /* NULL: nobody else's units can be known */
	struct lock lock;
	bool kept;	   /* the keeper runs, or is about to: */
	uint32_t starting; /* a futex: its thread is being made, which may fail */
	bool watched;	   /* a thread sleeps until the policy changes */
	int file;     /* a number under which the program had /dev/kfd */
	uint32_t n;
	uint32_t high; /* numbers at and above this were never used */
	uint64_t versions;
	struct queue_device device[GUEST_DEVICES];
	struct queue queue[QUEUES];
};

/* Those of this process, made by the first call. NULL: there is no memory. */
struct queues *queues_get(struct guest *guest, struct amd *amd);

/* The same, if there are any. */
struct queues *queues_made(struct amd *amd);

/*
 * One more is about to be made, so that others know; or is not made after all. True: none of this
 * device was kept so far.
 */
bool queues_expect(struct queues *queues, int device);
void queues_expect_no_more(struct queues *queues, int device);

/*
 * A queue that was expected and the kernel just made, by the file of that number; as if the program
 * had claimed it. Answers its version.
 */
uint64_t queues_add(struct queues *queues, const struct queue *queue, int fd);

/* False: there is no such queue. *ret_version tells it from a later one of its number. */
bool queues_claim(struct queues *queues, uint32_t id, uint64_t *ret_version);
void queues_release(struct queues *queues, uint32_t id, uint64_t version);

/* The kernel has destroyed it. */
void queues_remove(struct queues *queues, uint32_t id, uint64_t version);

/* Whether a queue may be on the hardware now. Under the lock. */
bool queues_open(const struct queues *queues, const struct queue *queue);

/*
 * Tells the kernel what it does not know yet of a queue that the caller has claimed. 0 or what it
 * answered as -errno.
 */
int queues_settle(struct queues *queues, int fd, uint32_t id);

/* Numbers at and above this were never used. */
uint32_t queues_high(struct queues *queues);

/* The keeper's way: tells all of a device's queues that nobody has claimed. */
void queues_tell(struct queues *queues, int device);

#endif
