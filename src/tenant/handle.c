/* SPDX-License-Identifier: Apache-2.0 */
#include "tenant/handle.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/reader/snapshot.h"
#include "ledger/swap.h"
#include "tenant/forked.h"

/* Mappings are not inherited: others may be at their addresses by now, so nothing is unmapped. */
static void handle_notice_fork(struct allot_tenant *tenant)
{
	uint32_t process = forked_number();

	if (tenant->process == process)
		return;
	tenant->process = process;
	tenant->map = NULL;
	tenant->ear = NULL;
}

static void handle_detach(struct allot_tenant *tenant)
{
	swap_listen_no_more(tenant->ear);
	policy_close(tenant->map);
	tenant->ear = NULL;
	tenant->map = NULL;
}

/* enum find_result, or an error of find_tenant(). */
static int handle_find(struct allot_tenant *tenant)
{
	int found;

	if (tenant->placed)
		return (int)tenant->found;
	found = find_tenant(tenant->dir, &tenant->config);
	if (found < 0)
		return found;
	tenant->found = (enum find_result)found;
	tenant->placed = found != FIND_DROP_IN;
	return found;
}

int handle_attach(struct allot_tenant *tenant)
{
	int found, r;

	handle_notice_fork(tenant);
	if (tenant->map && policy_is_of(tenant->map, tenant->dir))
		return 0;
	handle_detach(tenant);
	found = handle_find(tenant);
	if (found <= FIND_NONE)
		return found;
	r = policy_open(tenant->dir, &tenant->map);
	if (!r)
		tenant->answered = 0; /* another tenant's, or for the parent */
	return r == -ENOENT && found == FIND_DROP_IN ? 0 : r;
}

/* A transition whose requester died has ended, though the word still says it. */
static enum swap_phase handle_phase(const struct allot_tenant *tenant)
{
	enum swap_phase phase = swap_phase_of(word_acquire(swap_request(tenant->map)));

	if (phase != swap_phase_rests(phase) && !swap_is_asked(tenant->dir))
		return swap_phase_rests(phase);
	return phase;
}

uint32_t handle_place(const struct allot_tenant *tenant)
{
	enum swap_phase phase = tenant->map ? handle_phase(tenant) : SWAP_RUN;

	if (swap_phase_prepares(phase))
		return ALLOT_TENANT_SUSPENDING;
	if (phase == SWAP_BACK)
		return ALLOT_TENANT_RESUMING;
	return swap_phase_is_out(phase) ? ALLOT_TENANT_SUSPENDED : ALLOT_TENANT_RUNNING;
}

struct handle_told handle_now(const struct allot_tenant *tenant)
{
	struct handle_told now = {0};

	if (!tenant->map)
		return now;
	now.key = policy_key(tenant->map);
	now.generation = policy_generation(tenant->map);
	now.notice = word_acquire(swap_notice(tenant->map));
	now.announced = swap_notice_left_ns(tenant->map, now_monotonic_ns()) > 0;
	now.place = handle_place(tenant);
	return now;
}

static int handle_open(struct allot_tenant **ret_tenant)
{
	CLEANUP_FREE struct allot_tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant)
		return -ENOMEM;
	tenant->process = forked_number();
	if (!tenant->process)
		return -ENOMEM;
	/* The calls that follow say what is wrong with the tenant. */
	(void)handle_attach(tenant);
	tenant->told = handle_now(tenant);
	*ret_tenant = TAKE_PTR(tenant);
	return 0;
}

int allot_tenant_open(struct allot_tenant **ret_tenant)
{
	int hold = cancel_hold();
	int r = handle_open(ret_tenant);

	cancel_release(hold);
	return r;
}

void allot_tenant_close(struct allot_tenant *tenant)
{
	int hold = cancel_hold();

	if (tenant) {
		handle_notice_fork(tenant);
		handle_detach(tenant);
		snapshot_free(tenant->look);
		free(tenant);
	}
	cancel_release(hold);
}
