/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues that this process has on AMD's GPUs: what the program wants of each, and what the
 * kernel was told. The tenant's share is told to the kernel queue by queue: as a mask of compute
 * units, and as a percentage, which is 0 (off the hardware) or what the program asked for.
 *
 * The lock is never held while the kernel is asked. Calls about one queue come one after the other
 * all the same. There are two reasons: a percentage is told together with all other properties of
 * the queue, and the kernel gives the number of a destroyed queue to a new one. So a call of the
 * program claims its queue, and the keeper thread passes over a queue that is claimed:
 *
 *	thread of the program		keeper thread (queues_tell)
 *					no claim: sets `telling`, asks the kernel
 *	queues_claim: adds its claim,
 *	sleeps while `telling`
 *					clears `telling`, wakes the program
 *	asks the kernel
 *					finds the claim, and passes over the queue
 *	queues_release
 *
 * The program does not wait longer for that than it would in the kernel, which does one call of a
 * process after the other.
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
	uint64_t version; /* tells queues apart that had this number one after the other */
	struct duty_queue duty;
	uint64_t read_pointer, write_pointer;  /* in the program's memory */
	uint64_t eop, saves;		       /* what else of it the kernel uses */
	bool aql;
	uint32_t stack_bytes; /* of its waves, where they are saved */
	uint64_t seen;	      /* where the ring was filled to, see work.h */
	uint32_t own_bits, own[CU_MASK_WORDS]; /* the mask that the program asked for; 0: none */
	bool masked;			       /* the kernel was told `mask` */
	struct cu_mask mask;
};

/* The limits of the tenant's queues on a device. */
struct queue_hold {
	bool limited; /* if not, the rest means nothing */
	bool masks;   /* express the share; else time does */
	struct cu_mask mask;
	uint32_t permille[QUEUE_KINDS]; /* of the time */
	uint64_t slice_ns;		/* on the hardware at a time; 0: the tenant asked for none */
	uint64_t generation;		/* of the policy that it follows; 0: of none */
};

/* All of it is under the lock of the queues. */
struct queue_device {
	uint32_t n; /* queues, and queues that are being made */
	int map_error;
	bool has_map;
	struct cu_map map; /* does not change once has_map is set */
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
	struct lock_amd_queues lock;
	bool kept;	   /* the keeper thread runs, or is being made */
	uint32_t starting; /* a futex: the thread is being made, which may fail */
	bool watched;	   /* a thread sleeps until the policy changes */
	bool held;	   /* all queues are off the hardware: queues_hold */
	int file;     /* a number under which the program had /dev/kfd */
	uint32_t n;
	uint32_t high; /* numbers at and above this were never used */
	uint64_t versions;
	struct queue_device device[GUEST_DEVICES];
	struct queue queue[QUEUES];
};

/* The queues of this process; the first call makes the table. NULL: there is no memory. */
struct queues *queues_get(struct guest *guest, struct amd *amd);

/* The same table, or NULL where no call has made it. */
struct queues *queues_made(struct amd *amd);

/*
 * The program is about to make a queue: other tenants see the new number. queues_expect_no_more
 * takes that back when the queue was not made. True: no thread looks after this device yet, or this
 * is its first queue.
 */
bool queues_expect(struct queues *queues, int device);
void queues_expect_no_more(struct queues *queues, int device);

/*
 * Adds a queue that was expected and that the kernel has just made for the file `fd`. The caller
 * holds a claim to it. Answers its version.
 */
uint64_t queues_add(struct queues *queues, const struct queue *queue, int fd);

/*
 * Claims a queue, see above. False: there is none of this number. *ret_version tells it from a
 * later queue of the same number.
 */
bool queues_claim(struct queues *queues, uint32_t id, uint64_t *ret_version);
void queues_release(struct queues *queues, uint32_t id, uint64_t version);

/* The kernel has destroyed it. */
void queues_remove(struct queues *queues, uint32_t id, uint64_t version);

/* True if a queue may be on the hardware now. Under the lock. */
bool queues_open(const struct queues *queues, const struct queue *queue);

/*
 * Tells the kernel what it does not know yet of a queue that the caller has claimed. 0, or the
 * kernel's error as -errno.
 */
int queues_settle(struct queues *queues, int fd, uint32_t id);

/*
 * For the swap thread, while no call of the program is under way: takes all queues off the hardware
 * until they are released. 0, or the kernel's error as -errno; then some of them may be off.
 */
int queues_hold(struct queues *queues, bool hold);

/* True if a queue is made of memory there, which the kernel does not release. */
bool queues_need(struct queues *queues, uint64_t va, uint64_t bytes);

/* Numbers at and above this were never used. */
uint32_t queues_high(struct queues *queues);

/* For the keeper thread: the same for all queues of a device that nobody has claimed. */
void queues_tell(struct queues *queues, int device);

#endif
