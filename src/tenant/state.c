/* SPDX-License-Identifier: Apache-2.0 */
/* The tenant's files, as one look found them, in the structures of include/allot/tenant.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/cancel.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pidns.h"
#include "ledger/reader/snapshot.h"
#include "ledger/swap.h"
#include "nvidia/uuid.h"
#include "tenant/handle.h"

/* Sizes of the first version: programs that were built with less were built with nothing of ours. */
#define STATE_LEAST  112
#define DEVICE_LEAST 176

_Static_assert(sizeof(struct allot_tenant_state) == 128, "ABI");
_Static_assert(offsetof(struct allot_tenant_state, limit_bytes) == STATE_LEAST, "ABI");
_Static_assert(offsetof(struct allot_tenant_state, name) == 48, "ABI");
_Static_assert(sizeof(struct allot_tenant_device) == DEVICE_LEAST, "ABI");
_Static_assert(offsetof(struct allot_tenant_device, total_bytes) == 24, "ABI");
_Static_assert(offsetof(struct allot_tenant_device, busy_ns) == 104, "ABI");
_Static_assert(offsetof(struct allot_tenant_device, name) == 128, "ABI");
_Static_assert(sizeof(((struct allot_tenant_device *)0)->name) >= UUID_TEXT_SIZE, "a device's name");
_Static_assert(sizeof(((struct allot_tenant_state *)0)->name) == POLICY_NAME_BYTES, "a tenant's name");

/* Both begin with their size. Fills what the caller's has room for, and zeroes the rest of it. */
static int state_copy(void *to, const void *from, uint32_t bytes, uint32_t least)
{
	uint32_t has = *(uint32_t *)to, filled = (uint32_t)min_u64(has, bytes);

	if (has < least)
		return -EINVAL;
	memset(to, 0, has);
	memcpy(to, from, filled);
	*(uint32_t *)to = filled;
	return 0;
}

static int state_look(struct allot_tenant *tenant)
{
	const struct snapshot_bound none = {SIZE_MAX, UINT64_MAX};
	struct snapshot *look = NULL;
	int r = handle_attach(tenant);

	if (!r && tenant->map)
		r = snapshot_read_within(tenant->dir, none, &look);
	if (r)
		return r;
	snapshot_free(tenant->look);
	tenant->look = look;
	return 0;
}

static uint32_t state_processes(const struct snapshot *look)
{
	uint32_t n = 0;

	for (int i = 0; i < look->nprocesses; i++)
		n += look->process[i].live;
	return n;
}

/* The smaller one; 0 limits nothing. */
static uint64_t state_smaller(uint64_t a, uint64_t b)
{
	return a && b ? min_u64(a, b) : a + b;
}

/* The whole of a device limits nothing. */
static uint32_t state_bound(uint32_t permille)
{
	return permille < 1000 ? permille : 0;
}

/* The tenant's limit, if all of its devices have the same. */
static struct size_spec state_policy_limit(const struct policy *policy)
{
	const struct policy_device *device = policy->device;
	struct size_spec all = {device->limit_bytes, device->limit_permille};

	for (uint32_t i = 1; i < policy->ndevices; i++)
		if (device[i].limit_bytes != all.bytes || device[i].limit_permille != all.permille)
			return (struct size_spec){0};
	return all;
}

/* The limit of any device: the tenant's, and that of this process beside it. */
static void state_fill_limit(const struct allot_tenant *tenant, struct allot_tenant_state *state)
{
	struct size_spec own = config_everywhere(&tenant->config);
	struct size_spec all = state_policy_limit(&tenant->look->policy);

	state->limit_bytes = state_smaller(all.bytes, own.bytes);
	state->limit_permille = (uint32_t)state_smaller(state_bound(all.permille),
							state_bound(own.permille));
}

static void state_fill(const struct allot_tenant *tenant, struct allot_tenant_state *state)
{
	const struct snapshot *look = tenant->look;

	state->flags = ALLOT_TENANT_LIMITED;
	if (look->policy.flags & POLICY_SWAPPABLE)
		state->flags |= ALLOT_TENANT_SWAPPABLE;
	if (look->policy.flags & POLICY_OVERCOMMIT)
		state->flags |= ALLOT_TENANT_OVERCOMMIT;
	state->place = handle_place(tenant);
	state->devices = (uint32_t)look->ndevices;
	state->processes = state_processes(look);
	state->turns = look->turns;
	if (state->place == ALLOT_TENANT_RUNNING)
		state->notice_ns = swap_notice_left_ns(tenant->map, now_monotonic_ns());
	state->wait_p50_us = look->waits.p50_us;
	state->wait_p99_us = look->waits.p99_us;
	state->wait_longest_us = look->waits.longest_us;
	memcpy(state->name, look->policy.name, sizeof(state->name));
	state_fill_limit(tenant, state);
}

static int state_get(struct allot_tenant *tenant, struct allot_tenant_state *state)
{
	struct allot_tenant_state found = {0};
	int r;

	if (state && state->size < STATE_LEAST)
		return -EINVAL;
	r = state_look(tenant);
	if (r)
		return r;
	if (tenant->look)
		state_fill(tenant, &found);
	return state ? state_copy(state, &found, sizeof(found), STATE_LEAST) : 0;
}

int allot_tenant_get(struct allot_tenant *tenant, struct allot_tenant_state *state)
{
	int hold = cancel_hold();
	int r = state_get(tenant, state);

	cancel_release(hold);
	return r;
}

/* The bytes that this process holds alone, of the device with that number. */
static uint64_t state_own_bytes(const struct snapshot *look, uint32_t number)
{
	uint64_t pidns = pidns_self();

	for (int i = 0; i < look->nprocesses; i++) {
		const struct snapshot_process *process = &look->process[i];

		if (process->live && process->info.pid == (uint32_t)getpid() &&
		    process->info.pidns == pidns)
			return process->device[number].used_bytes;
	}
	return 0;
}

/*
 * Of the tenant's limit and of what limits this process beside it, the smaller one. Variables that
 * name one device name it by CUDA's ordinal, which nobody here knows.
 */
static uint64_t state_limit(const struct config *config, const struct snapshot_device *device)
{
	uint64_t own = size_spec_resolve(config_everywhere(config), device->total_bytes);

	return own ? min_u64(own, device->limit_bytes) : device->limit_bytes;
}

static uint32_t state_part(uint32_t permille)
{
	return permille && permille < ALLOT_TENANT_NO_SHARE ? permille : ALLOT_TENANT_NO_SHARE;
}

/* In mode space the driver keeps the tenant to its part of the SMs, and no account is kept. */
static uint32_t state_cap(const struct snapshot *look, const struct snapshot_device *device)
{
	if (look->policy.compute != POLICY_COMPUTE_OFF && look->policy.mode == POLICY_MODE_SPACE)
		return state_part(policy_share(&look->policy, device->uuid));
	return state_part(device->compute.cap_permille);
}

static void state_fill_device(const struct allot_tenant *tenant, uint32_t number,
			      struct allot_tenant_device *ret)
{
	const struct snapshot_device *device = &tenant->look->device[number];
	const struct snapshot_compute *compute = &device->compute;
	uint32_t own = config_share_everywhere(&tenant->config);

	memcpy(ret->uuid, device->uuid, sizeof(ret->uuid));
	if (amd_identity_is(device->uuid))
		amd_identity_text(device->uuid, ret->name);
	else
		uuid_format(device->uuid, ret->name);
	ret->total_bytes = device->total_bytes;
	ret->limit_bytes = state_limit(&tenant->config, device);
	ret->used_bytes = device->used_bytes;
	ret->peak_bytes = device->peak_bytes;
	ret->out_bytes = device->out_bytes;
	ret->process_bytes = state_own_bytes(tenant->look, number);
	ret->refusals = device->refusals;
	ret->share_permille = state_part(compute->share_permille);
	ret->cap_permille = (uint32_t)min_u64(state_cap(tenant->look, device), state_part(own));
	ret->entitled_permille =
		(uint32_t)min_u64(state_part(compute->target_permille), ret->cap_permille);
	ret->measured = compute->measured && !amd_identity_is(device->uuid);
	if (!ret->measured)
		return;
	ret->had_1s_bp = compute->achieved_1s_bp;
	ret->had_60s_bp = compute->achieved_60s_bp;
	ret->busy_ns = compute->busy_ns;
	ret->held_ns = compute->throttled_ns;
	ret->launches = compute->launches;
}

static int state_get_device(struct allot_tenant *tenant, uint32_t number,
			    struct allot_tenant_device *ret_device)
{
	struct allot_tenant_device found = {0};

	if (ret_device->size < DEVICE_LEAST)
		return -EINVAL;
	if (!tenant->look || number >= (uint32_t)tenant->look->ndevices)
		return -ENODEV;
	state_fill_device(tenant, number, &found);
	return state_copy(ret_device, &found, sizeof(found), DEVICE_LEAST);
}

int allot_tenant_get_device(struct allot_tenant *tenant, uint32_t number,
			    struct allot_tenant_device *ret_device)
{
	int hold = cancel_hold();
	int r = state_get_device(tenant, number, ret_device);

	cancel_release(hold);
	return r;
}

int allot_tenant_find_device(struct allot_tenant *tenant, const uint8_t uuid[16],
			     struct allot_tenant_device *ret_device)
{
	const struct snapshot_device *found = snapshot_device_of(tenant->look, uuid);

	if (ret_device->size < DEVICE_LEAST)
		return -EINVAL;
	if (!found)
		return -ENODEV;
	return allot_tenant_get_device(tenant, (uint32_t)(found - tenant->look->device), ret_device);
}
