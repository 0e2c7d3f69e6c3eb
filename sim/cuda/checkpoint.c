/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuCheckpointProcess*: one process's memory leaves its devices and comes back, at the request of
 * another. Here it is one word of its row, by which the region counts (region.h), because content
 * lies in the host's memory all along. So whoever asks may be killed at any time: the next one
 * finds a state and goes on from there. Whoever has locked a process and died leaves it locked. A
 * process that CRIU dumped while it was checkpointed is found again by its pid.
 *
 * As seen on an H200 with driver 580: 4 MiB stay on the device, addresses, content and handles come
 * back; and of processes that share memory lock and checkpoint answer success, and the restore
 * loses them. Seen there were INVALID_VALUE and NOT_SUPPORTED; that the first is for memory shared
 * by descriptor and the second for legacy IPC is how we read it. Not seen there, and chosen here:
 * that managed memory and MPS are refused by the checkpoint and not by the lock, what a full device
 * answers, and that calls of a lost process answer CUDA_ERROR_UNKNOWN.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/futex.h"
#include "base/now.h"
#include "sim/cuda/api.h"
#include "sim/cuda/sim.h"

#define LOOK_NS 200000

static bool checkpoint_told(const char *what)
{
	const char *setting = getenv("ALLOT_SIM_CHECKPOINT");

	return setting && !strcmp(setting, what);
}

static bool checkpoint_is_zero(const void *reserved, size_t len)
{
	static const char zero[64];

	return !len || (len <= sizeof(zero) && !memcmp(reserved, zero, len));
}

/* A living process of the region, in this PID namespace: CUDA_ERROR_INVALID_VALUE. */
static CUresult checkpoint_find(int pid, int *ret_row)
{
	struct stat ns;
	CUresult r = sim_ready();
	int revived;

	if (r)
		return r;
	if (checkpoint_told("unsupported"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (stat("/proc/self/ns/pid", &ns))
		return CUDA_ERROR_OPERATING_SYSTEM;
	for (int i = 0; i < (int)sim.region->nrows; i++) {
		const struct sim_process_row *row = &sim.region->row[i];

		if (row->state == SIM_ROW_LIVE && row->pid == pid && row->pid_ns == ns.st_ino &&
		    sim_row_alive(sim.region, i)) {
			*ret_row = i;
			return CUDA_SUCCESS;
		}
	}
	revived = sim_row_revive(sim.region, pid, ns.st_ino);
	if (revived < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_row = revived;
	return CUDA_SUCCESS;
}

/* ... that the caller may do something to. */
static CUresult checkpoint_take(int pid, const void *reserved, size_t len, int *ret_row)
{
	CUresult r = checkpoint_find(pid, ret_row);

	if (r)
		return r;
	if (checkpoint_told("denied") || (kill(pid, 0) && errno == EPERM))
		return CUDA_ERROR_NOT_PERMITTED;
	return checkpoint_is_zero(reserved, len) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void checkpoint_move(int row, enum sim_checkpoint to)
{
	sim.region->row[row].checkpoint = to;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	int row;
	CUresult r = checkpoint_find(pid, &row);

	if (!r && !tid)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*tid = pid; /* no thread is needed: any will do that lives as long as the process */
	return r;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	int row;
	CUresult r = checkpoint_find(pid, &row);

	if (!r && !state)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*state = (CUprocessState)sim.region->row[row].checkpoint;
	return r;
}

/* Until calls and work that had begun are done. CUDA_ERROR_NOT_READY when the time is over. */
static CUresult checkpoint_wait(int row, uint64_t until_ns)
{
	const struct sim_process_row *process = &sim.region->row[row];

	/* In this order: a call that is in progress may yet put work into a stream. */
	while (process->calls || process->works) {
		if (!sim_row_alive(sim.region, row))
			return CUDA_ERROR_INVALID_VALUE;
		if (now_monotonic_ns() >= until_ns)
			return CUDA_ERROR_NOT_READY;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	CUcheckpointLockArgs given = args ? *args : (CUcheckpointLockArgs){0};
	uint64_t until_ns = UINT64_MAX;
	uint32_t running = SIM_RUNNING;
	CUresult r;
	int row;

	r = checkpoint_take(pid, given.reserved1, sizeof(given.reserved1), &row);
	if (!r && given.reserved0)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	if (given.timeoutMs)
		until_ns = now_monotonic_ns() + given.timeoutMs * UINT64_C(1000000);
	if (!atomic_compare_exchange_strong(&sim.region->row[row].checkpoint, &running,
					    SIM_LOCKED))
		return CUDA_ERROR_ILLEGAL_STATE;
	FAULT_POINT(CHECKPOINT_LOCKED);
	r = checkpoint_wait(row, until_ns);
	if (r) {
		checkpoint_move(row, SIM_RUNNING);
		futex_wake_all(&sim.region->row[row].checkpoint);
	}
	return r;
}

/* What a restore will answer: does anybody else hold memory that the process holds? */
static CUresult checkpoint_judge(const struct sim_region *region, int row)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < region->nobjects && !r; i++) {
		const struct sim_object *o = &region->object[i];
		uint64_t own = UINT64_C(1) << row % 64;
		bool others = false;

		if (!o->key[0] || !(o->holders[row / 64] & own))
			continue;
		for (int w = 0; w < SIM_MAX_PROCESSES / 64; w++)
			others |= o->holders[w] & (w == row / 64 ? ~own : UINT64_MAX);
		if (others)
			r = o->export_row >= 0 ? CUDA_ERROR_INVALID_VALUE
					       : CUDA_ERROR_NOT_SUPPORTED;
	}
	return r;
}

/* With the region's lock held. */
static CUresult checkpoint_go(struct sim_region *region, int row)
{
	struct sim_process_row *process = &region->row[row];

	if (process->checkpoint != SIM_LOCKED)
		return CUDA_ERROR_ILLEGAL_STATE;
	for (uint32_t i = 0; i < region->ndevices; i++)
		if (process->use[i].managed_bytes)
			return CUDA_ERROR_NOT_SUPPORTED;
	if (process->under_mps)
		return CUDA_ERROR_NOT_SUPPORTED;
	process->restore_error = checkpoint_judge(region, row);
	sim_row_note_image(region, row);
	FAULT_POINT(CHECKPOINT_JUDGED);
	checkpoint_move(row, SIM_CHECKPOINTED);
	FAULT_POINT(CHECKPOINT_TAKEN);
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	CUresult r;
	int row;

	r = checkpoint_take(pid, args ? args->reserved : NULL, args ? sizeof(args->reserved) : 0,
			    &row);
	if (!r && sim.region->row[row].checkpoint != SIM_LOCKED)
		r = CUDA_ERROR_ILLEGAL_STATE;
	if (!r) /* for nothing, but where the one that locked it was killed meanwhile */
		r = checkpoint_wait(row, UINT64_MAX);
	if (r)
		return r;
	sim_region_lock(sim.region);
	sim_region_reap(sim.region);
	r = checkpoint_go(sim.region, row);
	sim_region_unlock(sim.region);
	return r;
}

static bool checkpoint_same_uuid(const CUuuid *uuid, const struct sim_device_row *device)
{
	return !memcmp(uuid->bytes, device->uuid, sizeof(device->uuid));
}

/* Every device must be named, and be restored on itself: what else the driver does is not here. */
static CUresult checkpoint_pairs(const CUcheckpointRestoreArgs *args)
{
	const struct sim_region *region = sim.region;
	unsigned int named = 0;

	if (!args->gpuPairsCount)
		return CUDA_SUCCESS;
	if (!args->gpuPairs)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < args->gpuPairsCount; i++) {
		const CUcheckpointGpuPair *pair = &args->gpuPairs[i];

		for (uint32_t d = 0; d < region->ndevices; d++)
			if (checkpoint_same_uuid(&pair->oldUuid, &region->device[d]))
				named |= 1u << d;
		if (memcmp(&pair->oldUuid, &pair->newUuid, sizeof(pair->oldUuid)))
			return CUDA_ERROR_NOT_SUPPORTED;
	}
	return named == (1u << region->ndevices) - 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* With the region's lock held. */
static CUresult checkpoint_return(struct sim_region *region, int row)
{
	const struct sim_process_row *process = &region->row[row];
	CUresult lost = process->restore_error;

	if (process->checkpoint != SIM_CHECKPOINTED)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (!lost && checkpoint_told("lost"))
		lost = CUDA_ERROR_UNKNOWN;
	if (lost) {
		checkpoint_move(row, SIM_LOST);
		futex_wake_all(&process->checkpoint);
		return lost;
	}
	for (uint32_t i = 0; i < region->ndevices; i++)
		if (sim_row_away(region, row, (int)i) >
		    region->device[i].total_bytes - sim_region_used(region, (int)i))
			return CUDA_ERROR_OUT_OF_MEMORY;
	checkpoint_move(row, SIM_LOCKED);
	FAULT_POINT(CHECKPOINT_RESTORED);
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	CUresult r;
	int row;

	r = checkpoint_take(pid, args ? args->reserved : NULL, args ? sizeof(args->reserved) : 0,
			    &row);
	if (!r && args && args->reserved1)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && args)
		r = checkpoint_pairs(args);
	if (r)
		return r;
	sim_region_lock(sim.region);
	sim_region_reap(sim.region);
	r = checkpoint_return(sim.region, row);
	sim_region_unlock(sim.region);
	return r;
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	uint32_t locked = SIM_LOCKED;
	CUresult r;
	int row;

	r = checkpoint_take(pid, args ? args->reserved : NULL, args ? sizeof(args->reserved) : 0,
			    &row);
	if (r)
		return r;
	if (!atomic_compare_exchange_strong(&sim.region->row[row].checkpoint, &locked,
					    SIM_RUNNING))
		return CUDA_ERROR_ILLEGAL_STATE;
	FAULT_POINT(CHECKPOINT_UNLOCKED);
	futex_wake_all(&sim.region->row[row].checkpoint);
	return CUDA_SUCCESS;
}
