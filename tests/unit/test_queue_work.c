/* SPDX-License-Identifier: Apache-2.0 */
/* What queues tell of their work by memory, and the kernel by what it has saved of them. */
#include "guest/amd/queue/work.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "amd/kfd_ioctl.h"
#include "guest/process/next.h"
#include "tests/check.h"

#define RING_BYTES 512 /* 8 packets */

static struct queues queues;
static struct queue *const q = &queues.queue[2];
static uint64_t read_pointer, write_pointer;
static struct packet {
	uint64_t words[7], completion;
} ring[RING_BYTES / 64];
static int64_t a_signal[2];

static struct kfd_ioctl_get_queue_wave_state_args waves;
static int error;

static int kernel_ioctl(int fd, unsigned long request, ...)
{
	struct kfd_ioctl_get_queue_wave_state_args *args;
	va_list ap;

	va_start(ap, request);
	args = va_arg(ap, void *);
	va_end(ap);
	CHECK_EQ(_IOC_NR(request), KFD_NR_GET_QUEUE_WAVE_STATE);
	CHECK_EQ(args->queue_id, 2);
	memset((void *)(uintptr_t)args->ctl_stack_address, 1, q->stack_bytes);
	args->ctl_stack_used_size = waves.ctl_stack_used_size;
	args->save_area_used_size = waves.save_area_used_size;
	errno = error;
	return error ? -1 : 0;
}

const struct next *next_libc(void)
{
	static const struct next next = {.ioctl = kernel_ioctl};

	return &next;
}

static void make(enum queue_kind kind, bool aql)
{
	read_pointer = write_pointer = 0;
	*q = (struct queue){.used = true,
			    .kind = kind,
			    .aql = aql,
			    .stack_bytes = 4096,
			    .duty.wanted = {.ring_base_address = (uintptr_t)ring,
					    .ring_size = RING_BYTES,
					    .queue_id = 2},
			    .read_pointer = (uintptr_t)&read_pointer,
			    .write_pointer = (uintptr_t)&write_pointer};
	queues.high = 3;
}

/*
 * What the program puts, as far as it is read, and whether that is work now and at the next look.
 */
static void look(uint64_t written, uint64_t read, bool now, bool then)
{
	write_pointer = written;
	read_pointer = read;
	CHECK_EQ(queues_work(&queues), now);
	CHECK_EQ(queues_work(&queues), then);
	CHECK_EQ(queues_have_more(&queues), written != read);
}

static void copies(void)
{
	make(QUEUE_COPIES, false);
	look(0, 0, false, false);
	look(64, 0, true, true);
	/* Done between two looks: it was work. */
	look(64, 64, false, false);
	look(128, 128, true, false);
	q->read_pointer = 8; /* nothing is there */
	CHECK(queues_work(&queues) && queues_have_more(&queues));
	q->used = false;
	CHECK(!queues_work(&queues) && !queues_have_more(&queues));
}

static void packets(void)
{
	make(QUEUE_COMPUTES, true);
	look(0, 0, false, false);
	/* The eleventh is in the third place; without a signal nobody knows when it is done. */
	look(11, 11, true, true);
	ring[2].completion = (uintptr_t)a_signal;
	a_signal[1] = 1;
	look(11, 11, true, true);
	a_signal[1] = 0;
	look(11, 11, false, false);
	ring[2].completion = 8;
	look(11, 11, true, true);
	make(QUEUE_COMPUTES, false);
	look(0, 0, false, false);
	look(11, 11, true, true);
}

static void saved(void)
{
	make(QUEUE_COMPUTES, true);
	CHECK(!queues_are_amid(&queues, 5));
	waves.save_area_used_size = 1;
	CHECK(queues_are_amid(&queues, 5));
	waves = (struct kfd_ioctl_get_queue_wave_state_args){.ctl_stack_used_size = 1};
	CHECK(queues_are_amid(&queues, 5));
	waves.ctl_stack_used_size = 0;
	error = EINVAL;
	CHECK(queues_are_amid(&queues, 5));
	q->kind = QUEUE_COPIES;
	CHECK(!queues_are_amid(&queues, 5));
}

int main(void)
{
	copies();
	packets();
	saved();
	return 0;
}
