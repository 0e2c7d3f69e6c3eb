/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of AQL queues, 64 bytes each, as the HSA runtime specification lays them out. Barriers
 * are executed; dispatches are not, for that would take the GPU's instructions.
 */
#include <stddef.h>

#include "sim/kfd/queue.h"

#define PACKET_BYTES 64
#define TYPE(header) ((header)&0xff)

enum packet_type { INVALID = 1, BARRIER_AND = 3, BARRIER_OR = 5 };

struct barrier {
	uint16_t header;
	uint16_t reserved[3];
	uint64_t depends_on[5]; /* addresses of signals; 0: none */
	uint64_t reserved2;
	uint64_t completion; /* the same */
};
_Static_assert(sizeof(struct barrier) == PACKET_BYTES, "as the specification has it");

/* AMD's signal, as far as it concerns who completes one. */
struct signal {
	int64_t kind;
	int64_t value;
	uint64_t mailbox; /* where an event's number goes before it is raised; 0: nobody waits so */
	uint32_t event;
	uint32_t reserved;
	uint64_t begin, end; /* by the GPU's clock */
};

static enum queue_step aql_depends(const struct emu_queue *q, const struct barrier *b,
				   struct queue_note *note)
{
	bool any = TYPE(b->header) == BARRIER_OR;
	uint32_t open = 0, done = 0;

	for (int i = 0; i < 5; i++) {
		int64_t value;

		if (!b->depends_on[i])
			continue;
		if (vm_read(&q->gpu->vm, &value, b->depends_on[i] + offsetof(struct signal, value),
			    sizeof(value), &note->fault) < 0)
			return QUEUE_FAULT;
		open += value != 0;
		done += value == 0;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return open && (!any || !done) ? QUEUE_WAITS : QUEUE_WORKED;
}

static enum queue_step aql_complete(const struct emu_queue *q, uint64_t at, struct queue_note *note)
{
	const struct vm *vm = &q->gpu->vm;
	uint64_t times[2] = {emu_gpu_clock(), emu_gpu_clock()};
	struct signal s;
	void *value;

	if (!at)
		return QUEUE_WORKED;
	if (vm_read(vm, &s, at, sizeof(s), &note->fault) < 0 ||
	    vm_write(vm, at + offsetof(struct signal, begin), times, sizeof(times), &note->fault) <
		    0 ||
	    vm_word(vm, at + offsetof(struct signal, value), 8, &value, &note->fault) < 0)
		return QUEUE_FAULT;
	__atomic_fetch_sub((int64_t *)value, 1, __ATOMIC_SEQ_CST);
	if (!s.mailbox)
		return QUEUE_WORKED;
	if (vm_write(vm, s.mailbox, &s.event, sizeof(s.event), &note->fault) < 0)
		return QUEUE_FAULT;
	note->event = s.event;
	return QUEUE_WORKED;
}

/* The packet's place is the program's again. */
static enum queue_step aql_leave(struct emu_queue *q, uint64_t at, struct queue_note *note)
{
	uint16_t invalid = INVALID;

	q->read++;
	return vm_write(&q->gpu->vm, at, &invalid, sizeof(invalid), &note->fault) < 0 ||
			       vm_write(&q->gpu->vm, q->read_pointer, &q->read, sizeof(q->read),
					&note->fault) < 0
		       ? QUEUE_FAULT
		       : QUEUE_WORKED;
}

enum queue_step aql_step(struct emu_queue *q, struct queue_note *note)
{
	uint64_t there = __atomic_load_n(q->doorbell, __ATOMIC_ACQUIRE) + 1 - q->read;
	uint64_t at = q->ring + (q->read * PACKET_BYTES & (q->ring_bytes - 1));
	struct barrier b;
	enum queue_step r;

	if (!there || there > q->ring_bytes / PACKET_BYTES)
		return there ? QUEUE_ILLEGAL : QUEUE_IDLE;
	if (vm_read(&q->gpu->vm, &b, at, sizeof(b), &note->fault) < 0)
		return QUEUE_FAULT;
	if (TYPE(b.header) == INVALID) /* not written yet: doorbells may come in any order */
		return QUEUE_IDLE;
	if (TYPE(b.header) != BARRIER_AND && TYPE(b.header) != BARRIER_OR)
		return QUEUE_ILLEGAL;
	r = aql_depends(q, &b, note);
	if (r == QUEUE_WORKED)
		r = aql_leave(q, at, note);
	return r == QUEUE_WORKED ? aql_complete(q, b.completion, note) : r;
}
