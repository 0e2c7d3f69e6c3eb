/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/duty.h"

#include "base/number.h"

/* The bits above the percentage name the XCC that a queue of packets is for. */
#define PERCENT 0xffu

/*
 * How long a tenant that works all the time may continue. Meanwhile its share is paid in: with 10
 * ms of credit and a quarter of the time it may work for 10 / (1 - 0.25) = 13 ms.
 */
static int64_t duty_lasts_ns(const struct controller *controller, const struct share_params *params,
			     uint64_t hot, uint64_t now_ns)
{
	int64_t credit_ns = controller->debt_ns ? -controller->debt_ns(hot, params, now_ns) : 0;
	int64_t others = 1000 - (int64_t)params->share_permille;

	return clamp_i64(credit_ns, 0, (int64_t)DUTY_LOOK_NS) * 1000 / (others < 1 ? 1 : others);
}

struct duty_answer duty_step(const struct controller *controller, const struct share_params *params,
			     uint64_t hot, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns)
{
	struct duty_answer answer;
	uint64_t wait_ns;
	int64_t next_ns;

	if (to_ns > from_ns)
		hot = controller->bill(hot, params, from_ns, to_ns);
	wait_ns = controller->admit(hot, params, now_ns, 0, &answer.hot);
	answer.open = !wait_ns;
	next_ns = answer.open ? duty_lasts_ns(controller, params, answer.hot, now_ns)
			      : (int64_t)(wait_ns - now_ns);
	answer.next_ns = now_ns + (uint64_t)clamp_i64(next_ns, (int64_t)DUTY_PAUSE_NS,
						      (int64_t)DUTY_LOOK_NS);
	return answer;
}

uint32_t duty_percentage(uint32_t wanted, bool open)
{
	return open ? wanted : wanted & ~PERCENT;
}

bool duty_queue_update(const struct duty_queue *queue, bool open,
		       struct kfd_ioctl_update_queue_args *ret)
{
	uint32_t percentage = duty_percentage(queue->wanted.queue_percentage, open);

	if (percentage == queue->told)
		return false;
	*ret = queue->wanted;
	ret->queue_percentage = percentage;
	return true;
}
