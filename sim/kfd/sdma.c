/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of SDMA queues, as generations 9 and 10 have them: words of 32 bits, the first of which
 * says what it is in its lowest bytes. The ring's pointers count bytes, and never wrap.
 */
#include <string.h>

#include "sim/kfd/queue.h"

#define WORDS_MOST 8
#define SLICE_BYTES (UINT64_C(4) << 20) /* of a packet, before others get their turn */

/* What an operation is to do with a packet. As in enum queue_step, but for QUEUE_IDLE. */
typedef enum queue_step op_fn(struct emu_queue *queue, const uint32_t *words,
			      struct queue_note *note);

static uint64_t sdma_address_of(const uint32_t *words)
{
	return words[0] | (uint64_t)words[1] << 32;
}

/* How many of `bytes` are left to do, at most a slice. */
static uint64_t sdma_slice_of(const struct emu_queue *q, uint64_t bytes)
{
	uint64_t rest = bytes - q->done;

	return rest < SLICE_BYTES ? rest : SLICE_BYTES;
}

/* header, bytes - 1, parameter, source, target */
static enum queue_step sdma_do_copy(struct emu_queue *q, const uint32_t *words,
				    struct queue_note *note)
{
	uint64_t bytes = (words[1] & 0x3fffffff) + UINT64_C(1), n = sdma_slice_of(q, bytes);

	if (vm_copy(&q->gpu->vm, sdma_address_of(words + 5) + q->done,
		    sdma_address_of(words + 3) + q->done, n, &note->fault) < 0)
		return QUEUE_FAULT;
	q->copied_bytes += n;
	q->done += n;
	if (q->done == bytes)
		q->done = 0;
	return QUEUE_WORKED;
}

/* header with the size of an element, target, element, bytes - 1 rounded down to elements */
static enum queue_step sdma_do_fill(struct emu_queue *q, const uint32_t *words,
				    struct queue_note *note)
{
	uint32_t size = 1u << (words[0] >> 30), pattern[1024];
	uint64_t bytes = ((words[4] & 0x3fffffff) & ~(size - 1)) + size,
		 n = sdma_slice_of(q, bytes);

	if (size > 4)
		return QUEUE_ILLEGAL;
	for (uint32_t i = 0; i < sizeof(pattern); i += size)
		memcpy((char *)pattern + i, &words[3], size);
	for (uint64_t done = 0; done < n; done += sizeof(pattern)) {
		uint64_t part = n - done < sizeof(pattern) ? n - done : sizeof(pattern);

		if (vm_write(&q->gpu->vm, sdma_address_of(words + 1) + q->done + done, pattern,
			     part, &note->fault) < 0)
			return QUEUE_FAULT;
	}
	q->done += n;
	if (q->done == bytes)
		q->done = 0;
	return QUEUE_WORKED;
}

/* header, target, value: comes after all that stands before it */
static enum queue_step sdma_do_fence(struct emu_queue *q, const uint32_t *words,
				     struct queue_note *note)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return vm_write(&q->gpu->vm, sdma_address_of(words + 1), &words[3], 4, &note->fault) < 0
		       ? QUEUE_FAULT
		       : QUEUE_WORKED;
}

/* header, event */
static enum queue_step sdma_do_trap(struct emu_queue *q, const uint32_t *words,
				    struct queue_note *note)
{
	note->event = words[1] & 0x0fffffff;
	return QUEUE_WORKED;
}

static bool sdma_compare(uint32_t how, uint32_t value, uint32_t reference)
{
	switch (how) {
	case 1:
		return value < reference;
	case 2:
		return value <= reference;
	case 3:
		return value == reference;
	case 4:
		return value != reference;
	case 5:
		return value >= reference;
	case 6:
		return value > reference;
	}
	return true;
}

/*
 * header, address, reference, mask, interval: how to compare stands in bits 28 to 30 of the header,
 * and in bit 31 that it is memory. A register is what programs have caches flushed with; there is
 * nothing to wait for.
 */
static enum queue_step sdma_do_poll(struct emu_queue *q, const uint32_t *words,
				    struct queue_note *note)
{
	uint32_t value;

	if (!(words[0] >> 31))
		return QUEUE_WORKED;
	if (vm_read(&q->gpu->vm, &value, sdma_address_of(words + 1), sizeof(value), &note->fault) <
	    0)
		return QUEUE_FAULT;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return sdma_compare(words[0] >> 28 & 7, value & words[4], words[3]) ? QUEUE_WORKED
									    : QUEUE_WAITS;
}

#define ATOMIC_ADD64 47

/* header with the operation in its highest bits, address, operand, comparand, interval */
static enum queue_step sdma_do_atomic(struct emu_queue *q, const uint32_t *words,
				      struct queue_note *note)
{
	void *word;

	if (words[0] >> 25 != ATOMIC_ADD64)
		return QUEUE_ILLEGAL;
	if (vm_word(&q->gpu->vm, sdma_address_of(words + 1), 8, &word, &note->fault) < 0)
		return QUEUE_FAULT;
	__atomic_fetch_add((uint64_t *)word, sdma_address_of(words + 3), __ATOMIC_SEQ_CST);
	return QUEUE_WORKED;
}

/* header, target */
static enum queue_step sdma_do_timestamp(struct emu_queue *q, const uint32_t *words,
					 struct queue_note *note)
{
	uint64_t now = emu_gpu_clock();

	return vm_write(&q->gpu->vm, sdma_address_of(words + 1), &now, sizeof(now), &note->fault) <
			       0
		       ? QUEUE_FAULT
		       : QUEUE_WORKED;
}

static enum queue_step sdma_do_nothing(struct emu_queue *q, const uint32_t *words,
				       struct queue_note *note)
{
	return QUEUE_WORKED;
}

static const struct op {
	uint8_t op, sub_op, words;
	op_fn *execute;
} ops[] = {
	{0, 0, 1, sdma_do_nothing}, /* and as many words more as its upper half says */
	{1, 0, 7, sdma_do_copy},       {5, 0, 4, sdma_do_fence},    {6, 0, 2, sdma_do_trap},
	{8, 0, 6, sdma_do_poll},       {10, 0, 8, sdma_do_atomic},  {11, 0, 5, sdma_do_fill},
	{13, 2, 3, sdma_do_timestamp}, {17, 1, 5, sdma_do_nothing}, /* of caches */
};

static const struct op *sdma_find_op(uint32_t header)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i].op == (header & 0xff) && ops[i].sub_op == (header >> 8 & 0xff))
			return &ops[i];
	return NULL;
}

static bool sdma_fetch(const struct emu_queue *q, uint32_t *words, uint32_t n,
		       struct queue_note *note)
{
	for (uint32_t i = 0; i < n; i++)
		if (vm_read(&q->gpu->vm, &words[i],
			    q->ring + ((q->read + 4 * i) & (q->ring_bytes - 1)), 4,
			    &note->fault) < 0)
			return false;
	return true;
}

enum queue_step sdma_step(struct emu_queue *q, struct queue_note *note)
{
	uint64_t there = __atomic_load_n(q->doorbell, __ATOMIC_ACQUIRE) - q->read, bytes;
	uint32_t words[WORDS_MOST];
	const struct op *op;
	enum queue_step r;

	if (there < 4 || there > q->ring_bytes)
		return there ? QUEUE_ILLEGAL : QUEUE_IDLE;
	if (!sdma_fetch(q, words, 1, note))
		return QUEUE_FAULT;
	op = sdma_find_op(words[0]);
	if (!op)
		return QUEUE_ILLEGAL;
	bytes = 4 * (op->words +
		     (op->execute == sdma_do_nothing && !op->op ? words[0] >> 16 & 0x3fff : 0));
	if (bytes > there)
		return QUEUE_ILLEGAL;
	if (!sdma_fetch(q, words, op->words, note))
		return QUEUE_FAULT;
	r = op->execute(q, words, note);
	if (r != QUEUE_WORKED || q->done)
		return r;
	q->read += bytes;
	if (vm_write(&q->gpu->vm, q->read_pointer, &q->read, sizeof(q->read), &note->fault) < 0)
		return QUEUE_FAULT;
	return r;
}
