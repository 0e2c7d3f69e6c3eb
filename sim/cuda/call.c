/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/call.h"

#include "base/futex.h"
#include "base/now.h"
#include "sim/cuda/sim.h"

/* Who unlocks may be killed before it wakes anybody. */
#define LOOK_NS 50000000u

static struct sim_process_row *call_row(void)
{
	return &sim.region->row[sim.row];
}

/* The counter is raised before the state is looked at, and who locks does it the other way round. */
CUresult sim_call_begin(bool *ret_noted)
{
	struct sim_process_row *row;

	if (sim_ready())
		return CUDA_SUCCESS;
	row = call_row();
	for (;;) {
		uint32_t state = row->checkpoint;

		/* While it is held nothing is counted, so that an image of it has nothing under way. */
		if (state == SIM_RUNNING) {
			row->calls++;
			if (row->checkpoint == SIM_RUNNING)
				break;
			row->calls--;
			continue;
		}
		if (state == SIM_LOST)
			return CUDA_ERROR_UNKNOWN;
		futex_wait_until(&row->checkpoint, state, now_monotonic_ns() + LOOK_NS);
	}
	*ret_noted = true;
	return CUDA_SUCCESS;
}

void sim_call_end(void)
{
	call_row()->calls--;
}

void sim_works_begin(uint32_t n)
{
	call_row()->works += n;
}

void sim_works_end(uint32_t n)
{
	call_row()->works -= n;
}
