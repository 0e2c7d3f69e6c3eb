/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of this process, and the engine that executes what programs put there. A program writes
 * packets into a ring, and says how far in the queue's doorbell, which is memory. So somebody has
 * to look: one thread, while a queue is active, the less often the longer it finds nothing.
 * A queue's packets reach memory through the page tables of its GPU.
 *
 * A queue is active while it has a ring and a percentage other than 0, and no fault has stopped it;
 * its packets are executed then, and only then. All under the lock of the machine.
 */
#ifndef ALLOT_SIM_KFD_QUEUE_H
#define ALLOT_SIM_KFD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/roster.h"

enum { QUEUE_RING, QUEUE_READ, QUEUE_WRITE, QUEUE_EOP, QUEUE_SAVED, QUEUE_HOLDS };

struct emu_queue {
	bool used, stopped;
	uint32_t number;	/* in the machine's roster, */
	struct roster_queue is; /* which is told of each change */
	struct emu_gpu *gpu;
	uint64_t ring, ring_bytes;
	uint64_t read_pointer; /* where the program looks how far the engine is */
	const uint64_t *doorbell;
	uint64_t read; /* bytes of SDMA's packets, or number of AQL's, that are executed */
	uint64_t done; /* bytes of the packet that is being executed */
	uint64_t copied_bytes;
	uint64_t held[QUEUE_HOLDS]; /* handles of the memory that it uses; 0: not of /dev/kfd */
};

/* The result of looking at a queue's next packet. */
enum queue_step {
	QUEUE_IDLE,    /* there is none */
	QUEUE_WAITS,   /* for memory to become what the packet says */
	QUEUE_WORKED,  /* something is done */
	QUEUE_FAULT,   /* an address that the GPU cannot reach */
	QUEUE_ILLEGAL, /* not a packet, or none that can be executed here */
};

struct queue_note {
	uint64_t fault; /* the address */
	uint32_t event; /* to raise; 0: none */
};

/* Each executes the next packet of a queue, and notes what it is to be known for. */
enum queue_step sdma_step(struct emu_queue *queue, struct queue_note *note);
enum queue_step aql_step(struct emu_queue *queue, struct queue_note *note);

/* The queues, of which some are not used. */
struct emu_queue *emu_queues(uint32_t *ret_n);

/* Where they are, and how many, for another process that looks there. */
void emu_queues_at(struct emu_queue ***ret_queues, uint32_t **ret_n);

/*
 * A queue as a checkpoint has it: what the kernel notes, and the state of the hardware, which is
 * the engine's here. One that comes back has its id: -ENOSPC where that is taken.
 */
struct emu_queue_state {
	uint64_t doorbell, read, done, copied_bytes;
	uint32_t stopped;
	uint32_t mask_bits, mask[ROSTER_MASK_WORDS];
	uint32_t pad;
};
struct kfd_criu_queue_priv;
void emu_queue_save(const struct emu_queue *queue, uint64_t doorbell,
		    struct kfd_criu_queue_priv *ret, struct emu_queue_state *ret_state);
int emu_queue_restore(struct emu_machine *machine, const struct kfd_criu_queue_priv *queue,
		      const struct emu_queue_state *state);

/* engine.c: somebody executes queues from now on; -ENOMEM. */
int emu_engine_start(void);

/* The engine's part of what a queue is. */
void emu_queue_stop(struct emu_queue *queue);
void emu_queue_set_busy(struct emu_queue *queue, bool busy);

/* There is something to do, perhaps; the engine waits for that until a deadline: was it told? */
void emu_queues_look(void);
bool emu_queues_rest(const struct timespec *deadline);

/* A new queue, for engine.c, which sees to it that somebody executes it: CREATE_QUEUE. */
int emu_add_queue(struct emu_machine *machine, void *block);

void emu_engine_forget(void);

/* The GPU's clock, which goes at 100 MHz. */
static inline uint64_t emu_gpu_clock(void)
{
	return now_boot_ns() / 10;
}

#endif
