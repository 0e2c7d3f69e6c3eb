/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits queues to a part of the time if no CU mask applies to them, or not enough: they are taken
 * off the hardware and put back. Pure: a controller of src/sched decides when the tenant may work,
 * this applies it to queues.
 *
 * A queue's percentage is a switch: the kernel runs it if it is above 0, and its value above 0
 * makes no difference (QUEUE_IS_ACTIVE in its kfd_priv.h). With 0 the kernel saves the queue's
 * state and takes it off the hardware; above 0, it continues. UPDATE_QUEUE sets all of a queue's
 * properties at once, so the program's own values must be known, and are passed to the kernel,
 * except for the percentage. A queue that the program itself has switched off stays off.
 */
#ifndef ALLOT_AMD_DUTY_H
#define ALLOT_AMD_DUTY_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/abi/kfd.h"
#include "base/now.h"
#include "sched/controller.h"

/*
 * How long queues stay on the hardware at a time, where the tenant does not say it: to switch one is
 * an ioctl that waits until its waves are saved, and preempts all processes' queues on the GPU.
 */
#define DUTY_SLICE_NS (20 * NS_PER_MS)

/* The next look is after this at most, in case the share has changed; and after this at least. */
#define DUTY_LOOK_NS  (50 * NS_PER_MS)
#define DUTY_PAUSE_NS NS_PER_MS

struct duty_answer {
	uint64_t hot;	  /* the controller's new word */
	bool open;	  /* the tenant's queues are to be on */
	uint64_t next_ns; /* ask again then, later than now */
};

/*
 * `params->share_permille` is the part of the time. From `from_ns` to `to_ns` the tenant's queues
 * have worked on the GPU since the last step; both are the same where they have not. Nobody
 * measures that: the caller takes the time in which they had work and were on the hardware. A step
 * that comes late lets them work longer, and the next pause is longer for it.
 */
struct duty_answer duty_step(const struct controller *controller, const struct share_params *params,
			     uint64_t hot, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns);

/* The percentage that the kernel is told where the program wants `wanted`. */
uint32_t duty_percentage(uint32_t wanted, bool open);

struct duty_queue {
	struct kfd_ioctl_update_queue_args wanted; /* by the program; its id, too */
	uint32_t told;				   /* the percentage that the kernel has */
};

/*
 * True if the kernel needs an update of the queue; then *ret is its argument. Once the kernel has
 * taken it, the caller sets `told` to ret->queue_percentage.
 */
bool duty_queue_update(const struct duty_queue *queue, bool open,
		       struct kfd_ioctl_update_queue_args *ret);

#endif
