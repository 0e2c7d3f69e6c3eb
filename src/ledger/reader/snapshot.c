/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/now.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/cu_grant.h"
#include "ledger/device_time.h"
#include "ledger/layout.h"
#include "ledger/ledger.h"
#include "base/pidns.h"
#include "ledger/shared.h"
#include "ledger/reader/snapshot.h"
#include "ledger/swap.h"
#include "ledger/turn.h"

DEFINE_CLEANUP(struct ledger, ledger_close)
DEFINE_CLEANUP(struct snapshot, snapshot_free)

struct snapshot_device *snapshot_device_of(const struct snapshot *snapshot,
					   const uint8_t uuid[static 16])
{
	for (int i = 0; snapshot && i < snapshot->ndevices; i++)
		if (!memcmp(snapshot->device[i].uuid, uuid, 16))
			return &snapshot->device[i];
	return NULL;
}

/* Somebody who reads many tenants keeps no more of each than it has. */
static int snapshot_fit_devices(struct snapshot *snapshot)
{
	size_t bytes = ((size_t)snapshot->ndevices + 1) * sizeof(*snapshot->device);
	struct snapshot_device *fitting = realloc(snapshot->device, bytes);

	if (!fitting)
		return -ENOMEM;
	snapshot->device = fitting;
	return 0;
}

static void snapshot_read_energy(struct ledger *ledger, struct snapshot_device *dev)
{
	struct device_time_energy energy = device_time_energy(ledger, dev->index, now_monotonic_ns());

	dev->energy_uj = energy.uj;
	dev->milliwatt = energy.milliwatt;
}

/* The policy's devices in its order, then those that only the ledger knows. */
static int snapshot_list_devices(struct snapshot *snapshot, struct ledger *ledger)
{
	const struct policy *policy = &snapshot->policy;

	snapshot->device = calloc(POLICY_DEVICES + LEDGER_DEVICES, sizeof(*snapshot->device));
	if (!snapshot->device)
		return -ENOMEM;
	for (uint32_t i = policy->flags & POLICY_ALL_DEVICES ? 1 : 0; i < policy->ndevices; i++) {
		struct snapshot_device *dev = &snapshot->device[snapshot->ndevices++];

		memcpy(dev->uuid, policy->device[i].uuid, 16);
		dev->index = -1;
		dev->milliwatt = DEVICE_TIME_NO_POWER;
		dev->total_bytes = policy->device[i].total_bytes;
	}
	for (int i = 0; i < LEDGER_DEVICES; i++) {
		struct ledger_device_info info;
		struct snapshot_device *dev;

		if (ledger_device_info(ledger, i, &info) < 0)
			continue;
		dev = snapshot_device_of(snapshot, info.uuid);
		/* A forged table may name a device twice; processes use the first. */
		if (dev && dev->index >= 0)
			continue;
		if (!dev)
			dev = &snapshot->device[snapshot->ndevices++];
		memcpy(dev->uuid, info.uuid, 16);
		dev->index = i;
		if (info.total_bytes)
			dev->total_bytes = info.total_bytes;
		dev->context_bytes = max_u64(info.context_bytes, info.context_mps_bytes);
		dev->peak_bytes = info.peak_bytes;
		dev->refusals = info.refusals;
		snapshot_read_energy(ledger, dev);
	}
	for (int i = 0; i < snapshot->ndevices; i++) {
		struct snapshot_device *dev = &snapshot->device[i];

		policy_limit(policy, dev->uuid, dev->total_bytes, &dev->limit_bytes);
	}
	return snapshot_fit_devices(snapshot);
}

/* A turn that was not updated for this long is nobody's. */
#define TURN_OLD_NS NS_PER_S

/*
 * The tenant's part of the device's time where tenants take turns on its memory: an evicted tenant
 * has none.
 */
static uint32_t snapshot_memory_part(const struct turn *turn, uint64_t now_ns)
{
	bool told = turn->memory_permille >= 1 && turn->memory_permille <= 1000 &&
		    now_ns < turn->memory_until_ns;

	return told ? turn->memory_permille : 1000;
}

static uint32_t snapshot_target_of(const struct policy *policy, const struct turn *turn,
				   uint32_t share, uint64_t now_ns)
{
	bool told = turn->entitled_permille >= 1 && turn->entitled_permille <= 1000;
	bool now = !turn_silent(turn, now_ns, TURN_OLD_NS) && (turn->flags & TURN_CONTENDED);

	if (policy->compute == POLICY_COMPUTE_OFF)
		return 0;
	/* A part of the SMs, which the driver keeps. */
	if (policy->mode == POLICY_MODE_SPACE)
		return share;
	if (policy->compute == POLICY_COMPUTE_SHARE)
		return told ? turn->entitled_permille : policy->weight ? 1000 : share;
	return told && now && turn->entitled_permille < share ? turn->entitled_permille : share;
}

/* Nobody keeps an account of those who have no cap, or whose cap is the driver's affair. */
static uint32_t snapshot_cap_of(const struct policy *policy, uint32_t share)
{
	bool kept = policy->compute == POLICY_COMPUTE_CAP && policy->mode != POLICY_MODE_SPACE;

	return kept && share < 1000 ? share : 0;
}

static void snapshot_read_account(const struct policy *policy, const struct device_time *time,
				  uint64_t now_ns, struct snapshot_compute *ret)
{
	const struct controller *controller = controller_by_id(policy->controller);
	struct share_params params = {
		.share_permille = ret->cap_permille,
		.slice_ns = policy->slice_us ? policy->slice_us * UINT64_C(1000) :
					       CONTROLLER_SLICE_NS,
	};
	uint64_t hot = word_read(&time->hot);

	if (!ret->cap_permille)
		return;
	/* State that another controller left has another unit. */
	if (controller->tick_ns && word_read(&time->cold_owner) != (uint64_t)controller->id + 1)
		hot = 0;
	ret->owes = controller->debt_ns;
	if (controller->debt_ns)
		ret->debt_ns = controller->debt_ns(hot, &params, now_ns);
	if (controller->tokens)
		ret->tokens = controller->tokens(hot, &params, now_ns);
}

/* Of an AMD GPU: what was made for all tenants that have queues there. */
static void snapshot_read_units(struct ledger *ledger, const struct device_time *time, int device,
				struct snapshot_compute *ret)
{
	struct cu_grant grant;

	if (!cu_grant_in_use(ledger, device) || cu_grant_read(time, &grant) || !grant.permille ||
	    grant.permille > 1000)
		return;
	ret->target_permille = grant.permille;
	for (int i = 0; i < CU_GRANT_WORDS; i++)
		ret->units += (uint32_t)__builtin_popcount(grant.word[i]);
}

static void snapshot_read_compute(const struct policy *policy, const struct turn *turn,
				  struct ledger *ledger, struct snapshot_device *dev)
{
	const struct device_time *time = dev->index < 0 ? NULL : device_time_of(ledger, dev->index);
	const struct policy_device *asked = policy_find(policy, dev->uuid);
	uint32_t share = policy_share(policy, dev->uuid);
	struct snapshot_compute *ret = &dev->compute;
	uint64_t now = now_monotonic_ns();

	if (policy->compute != POLICY_COMPUTE_OFF && asked)
		ret->share_permille = asked->share_permille;
	ret->target_permille = (uint32_t)min_u64(snapshot_target_of(policy, turn, share, now),
						 snapshot_memory_part(turn, now));
	ret->cap_permille = snapshot_cap_of(policy, share);
	ret->tokens = SNAPSHOT_NO_TOKENS;
	ret->measured = policy_meters(policy);
	if (!time)
		return;
	ret->achieved_1s_bp = device_time_achieved(time, now, 1);
	ret->achieved_60s_bp = device_time_achieved(time, now, SNAPSHOT_SECONDS);
	device_time_history(time, now, SNAPSHOT_SECONDS, ret->history_bp);
	ret->busy_ns = word_read(&time->busy_ns);
	ret->launches = word_read(&time->launches);
	ret->graph_launches = word_read(&time->graph_launches);
	ret->throttled_ns = word_read(&time->throttled_ns);
	ret->throttles = word_read(&time->throttles);
	ret->longest_ns = word_read(&time->longest_ns);
	ret->unmeasured_ns = word_read(&time->unmeasured_ns);
	ret->host_copy_bytes = word_read(&time->host_copy_bytes);
	snapshot_read_account(policy, time, now, ret);
	if (policy->compute != POLICY_COMPUTE_OFF)
		snapshot_read_units(ledger, time, dev->index, ret);
}

static uint64_t snapshot_capped(struct snapshot_device *dev, uint64_t bytes)
{
	if (bytes >= QUOTA_ABSURD_BYTES)
		dev->absurd = true;
	return bytes;
}

static void snapshot_read_row(struct snapshot *snapshot, struct ledger *ledger,
			      struct snapshot_process *process, int d)
{
	struct snapshot_device *dev = &snapshot->device[d];
	struct snapshot_process_device *own = &process->device[d];
	struct snapshot_device ignored = {0};
	struct quota_row row;

	if (quota_process(ledger, process->slot, dev->index, &row) < 0)
		return;
	/* The dead count nowhere, whatever their rows say. */
	if (!process->live)
		dev = &ignored;
	own->pending = snapshot_capped(dev, row.pending);
	own->used_bytes = own->pending;
	dev->pending = sat_add_u64(dev->pending, own->pending);
	for (int c = 0; c < CAT_N; c++) {
		own->used[c] = snapshot_capped(dev, row.used[c]);
		own->used_bytes = sat_add_u64(own->used_bytes, own->used[c]);
		dev->used[c] = sat_add_u64(dev->used[c], own->used[c]);
	}
	own->driver_bytes = row.driver_bytes;
	own->driver_ns = row.driver_ns;
	own->host_bytes = row.host_bytes;
	own->out_bytes = swap_out(ledger, process->slot, snapshot->device[d].index);
	own->shared_bytes = shared_held(ledger, process->slot, snapshot->device[d].index);
	dev->used_bytes = sat_add_u64(dev->used_bytes, own->used_bytes);
	dev->driver_bytes = sat_add_u64(dev->driver_bytes, own->driver_bytes);
	dev->host_bytes = sat_add_u64(dev->host_bytes, own->host_bytes);
	dev->out_bytes = sat_add_u64(dev->out_bytes, own->out_bytes);
}

/* Its thread may still wait for work to end, while the others go on since nobody asks any more. */
static enum swap_state snapshot_swap_state(const struct snapshot *snapshot, enum swap_state state)
{
	bool withdrawn = snapshot->swap == SWAP_RUN;

	return withdrawn && (state == SWAP_SUSPENDING || state == SWAP_READY) ? SWAP_RUNNING
									      : state;
}

static void snapshot_read_use(struct snapshot_process *process, const struct swap_use *use)
{
	process->waiting = word_read(&use->waiting);
	process->out_ns = word_read(&use->out_us) * NS_PER_US;
	process->back_ns = word_read(&use->back_us) * NS_PER_US;
}

/* Its processes move at the same time. One way tells about the other where only that is known. */
uint64_t snapshot_swap_ns(const struct snapshot *snapshot, bool out)
{
	uint64_t most = 0;

	for (int i = 0; i < snapshot->nprocesses; i++) {
		const struct snapshot_process *p = &snapshot->process[i];
		uint64_t ns = out ? p->out_ns : p->back_ns;

		if (!ns)
			ns = out ? p->back_ns : p->out_ns;
		if (p->live)
			most = max_u64(most, ns);
	}
	return most;
}

size_t snapshot_weight(const struct snapshot *snapshot)
{
	size_t ndevices = (size_t)snapshot->ndevices, n = (size_t)snapshot->nprocesses;

	return ndevices * (50 + (size_t)snapshot->nslots) + n * (10 + 8 * ndevices);
}

static bool snapshot_is_within(const struct snapshot *snapshot, struct snapshot_bound bound)
{
	return snapshot_weight(snapshot) <= bound.weight &&
	       (bound.until_ns == UINT64_MAX || now_thread_ns() <= bound.until_ns);
}

static int snapshot_list_processes(struct snapshot *snapshot, struct ledger *ledger,
				   struct snapshot_bound bound)
{
	int nslots = snapshot->nslots, ndevices = snapshot->ndevices;
	struct snapshot_process_device *cells;

	snapshot->process = calloc((size_t)nslots + 1, sizeof(*snapshot->process));
	if (!snapshot->process)
		return -ENOMEM;
	for (int i = 0; i < nslots && snapshot_is_within(snapshot, bound); i++) {
		struct snapshot_process *process = &snapshot->process[snapshot->nprocesses];
		struct swap_answer answer;

		if (slot_info(ledger, i, &process->info) < 0)
			continue;
		process->slot = i;
		process->live = slot_alive(ledger, i);
		if (!swap_heard(ledger, i, &answer)) {
			process->swap = snapshot_swap_state(snapshot, answer.state);
			process->filed_bytes = swap_answer_filed(&answer);
		}
		snapshot_read_use(process, swap_use_of(ledger, i));
		snapshot->nprocesses++;
	}
	if (!snapshot_is_within(snapshot, bound))
		return -E2BIG;
	/* One block for all, freed by way of the first process. */
	cells = calloc((size_t)snapshot->nprocesses * (size_t)ndevices + 1, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	snapshot->process[0].device = cells;
	for (int p = 0; p < snapshot->nprocesses; p++) {
		snapshot->process[p].device = cells + (size_t)p * (size_t)ndevices;
		for (int d = 0; d < ndevices; d++)
			snapshot_read_row(snapshot, ledger, &snapshot->process[p], d);
	}
	return 0;
}

static void snapshot_note_guesses(struct snapshot *snapshot)
{
	for (int d = 0; d < snapshot->ndevices; d++) {
		struct snapshot_device *dev = &snapshot->device[d];

		dev->guessed_bytes = dev->context_bytes ? 0 : dev->used[CAT_CONTEXT];
	}
}

/* Adds the row of a living process. */
static void snapshot_add_host(struct snapshot_host *host, struct ledger *ledger, int slot, int index)
{
	struct quota_row row;

	if (quota_process(ledger, slot, index, &row) < 0)
		return;
	host->gtt_bytes = sat_add_u64(host->gtt_bytes,
				      sat_add_u64(row.used[HOST_GTT], row.used[CAT_IMPORTED]));
	host->userptr_bytes = sat_add_u64(host->userptr_bytes, row.used[HOST_USERPTR]);
	host->used_bytes = sat_add_u64(host->used_bytes, row.pending);
}

static void snapshot_read_host(struct snapshot *snapshot, struct ledger *ledger,
			       const struct shared_slots *alive)
{
	struct snapshot_host *host = &snapshot->host;
	struct ledger_device_info info;
	int index = ledger_host_info(ledger, &info);

	host->limit_bytes = (uint64_t)snapshot->policy.gtt_mib << 20;
	if (index < 0)
		return;
	for (int i = 0; i < snapshot->nprocesses; i++)
		if (snapshot->process[i].live)
			snapshot_add_host(host, ledger, snapshot->process[i].slot, index);
	host->known = true;
	host->gtt_bytes = sat_add_u64(host->gtt_bytes, shared_used(ledger, index, alive));
	host->used_bytes = sat_add_u64(host->used_bytes,
				       sat_add_u64(host->gtt_bytes, host->userptr_bytes));
	host->peak_bytes = max_u64(info.peak_bytes,
				   sat_add_u64(host->gtt_bytes, host->userptr_bytes));
	host->refusals = info.refusals;
}

static void snapshot_add_shared(struct snapshot *snapshot, struct ledger *ledger)
{
	struct shared_slots alive = {{0}};

	for (int i = 0; i < snapshot->nprocesses; i++) {
		unsigned int slot = (unsigned int)snapshot->process[i].slot;

		if (snapshot->process[i].live)
			alive.word[slot / 64] |= UINT64_C(1) << (slot % 64);
	}
	for (int d = 0; d < snapshot->ndevices; d++) {
		struct snapshot_device *dev = &snapshot->device[d];
		uint64_t bytes = dev->index < 0 ? 0 : shared_used(ledger, dev->index, &alive);

		dev->used[CAT_IMPORTED] = sat_add_u64(dev->used[CAT_IMPORTED], bytes);
		dev->used_bytes = sat_add_u64(dev->used_bytes, snapshot_capped(dev, bytes));
		/* Pending bytes may be an upper bound, and never be held. */
		dev->peak_bytes = max_u64(dev->peak_bytes,
					  sat_sub_u64(dev->used_bytes, dev->pending));
	}
	snapshot_read_host(snapshot, ledger, &alive);
}

static size_t snapshot_count(struct snapshot *const *list, size_t n)
{
	size_t processes = 0;

	for (size_t i = 0; i < n; i++)
		processes += list[i] ? (size_t)list[i]->nprocesses : 0;
	return processes;
}

int snapshot_find_host_pids(struct snapshot *const *list, size_t n)
{
	CLEANUP_FREE struct pidns_query *queries = NULL;
	size_t asked = 0;

	queries = calloc(snapshot_count(list, n) + 1, sizeof(*queries));
	if (!queries)
		return -ENOMEM;
	for (size_t s = 0; s < n; s++)
		for (int i = 0; list[s] && i < list[s]->nprocesses; i++) {
			const struct snapshot_process *process = &list[s]->process[i];

			if (process->live)
				queries[asked++] = (struct pidns_query){
					.pidns = process->info.pidns, .pid = process->info.pid};
		}
	pidns_translate(queries, asked);
	asked = 0;
	for (size_t s = 0; s < n; s++)
		for (int i = 0; list[s] && i < list[s]->nprocesses; i++)
			if (list[s]->process[i].live)
				list[s]->process[i].host_pid = queries[asked++].host_pid;
	return 0;
}

static int snapshot_make(const struct policy *policy, const struct policy_told *told,
			 struct ledger *ledger, struct snapshot_bound bound, struct snapshot **ret)
{
	CLEANUP(cleanup_snapshot_free) struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int r;

	if (!snapshot)
		return -ENOMEM;
	snapshot->now_ns = now_boot_ns();
	snapshot->policy = *policy;
	snapshot->turns = told->turn.seq;
	snapshot->swap = swap_phase_of(told->swap);
	if (turn_waits_hold(&told->waits, now_monotonic_ns()))
		snapshot->waits = told->waits;
	r = snapshot_list_devices(snapshot, ledger);
	if (r < 0)
		return r;
	snapshot->nslots = slot_count(ledger);
	if (!snapshot_is_within(snapshot, bound))
		return -E2BIG;
	for (int i = 0; i < snapshot->ndevices; i++)
		snapshot_read_compute(policy, &told->turn, ledger, &snapshot->device[i]);
	r = snapshot_list_processes(snapshot, ledger, bound);
	if (r < 0)
		return r;
	snapshot_note_guesses(snapshot);
	snapshot_add_shared(snapshot, ledger);
	*ret = TAKE_PTR(snapshot);
	return 0;
}

int snapshot_read_within(const char *dir, struct snapshot_bound bound, struct snapshot **ret)
{
	CLEANUP(cleanup_ledger_close) struct ledger *ledger = NULL;
	struct policy policy;
	struct policy_told told;
	int r = policy_load_all(dir, &policy, &told);

	if (r == 0)
		r = ledger_open(dir, LEDGER_READ, &ledger);
	return r < 0 ? r : snapshot_make(&policy, &told, ledger, bound, ret);
}

int snapshot_read(const char *dir, struct snapshot **ret)
{
	const struct snapshot_bound none = {SIZE_MAX, UINT64_MAX};
	struct snapshot *snapshot = NULL;
	int r = snapshot_read_within(dir, none, &snapshot);

	if (!r)
		r = snapshot_find_host_pids(&snapshot, 1);
	if (r < 0)
		snapshot_free(snapshot);
	else
		*ret = snapshot;
	return r;
}

int snapshot_read_files(int policy_fd, int ledger_fd, struct snapshot_bound bound,
			struct snapshot **ret)
{
	CLEANUP(cleanup_ledger_close) struct ledger *ledger = NULL;
	struct policy policy;
	struct policy_told told;
	int r = policy_load_file(policy_fd, &policy, &told);

	if (r == 0)
		r = ledger_open_file(ledger_fd, &ledger);
	return r < 0 ? r : snapshot_make(&policy, &told, ledger, bound, ret);
}

void snapshot_free(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	if (snapshot->process)
		free(snapshot->process[0].device);
	free(snapshot->process);
	free(snapshot->device);
	free(snapshot);
}
