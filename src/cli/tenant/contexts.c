/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/contexts.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "amd/identity.h"
#include "base/fault.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/pids.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "nvidia/checkpoint.h"

/* Our own suspend has waited for all work, so the driver finds none. */
#define LOCK_MS 10000

static const char *contexts_words(int r)
{
	switch (r) {
	case -EPERM:
		return "it is not allowed to you; do it as the process's user, or as root";
	case -ENOTSUP:
		return "not of this process: it holds managed memory, or runs under MPS";
	case -ETIMEDOUT:
		return "work of it on the device does not end";
	case -ENOMEM:
		return "the device has no room; end or suspend another tenant first";
	case -ESRCH:
		return "it does not know this process";
	}
	return "it fails, as it does when work on the device has failed";
}

static int contexts_refuse(const struct pid_entry *process, const char *what, int r)
{
	return say_error("process %ld (%s): the driver's %s: %s", (long)process->pid, process->comm,
			 what, contexts_words(r));
}

static int contexts_open(void)
{
	switch (checkpoint_open()) {
	case 0:
		return 0;
	case -ENOENT:
		return say_error("--contexts: libcuda.so.1 is not found; \"allot doctor\" says more");
	case -ENOTSUP:
		return say_error("--contexts: this driver has no checkpoint of processes; it takes "
				 "driver 570 or later");
	default:
		return say_error("--contexts: the driver does not work; \"allot doctor\" says more");
	}
}

/* 0 also for a process that has ended, with whatever state. */
static int contexts_state(const struct pid_entry *process, CUprocessState *ret)
{
	CUprocessState state = CU_PROCESS_STATE_RUNNING;
	int r = checkpoint_state(process->pid, &state);

	if (r < 0)
		return contexts_refuse(process, "checkpoint", r);
	if (state == CU_PROCESS_STATE_FAILED)
		return say_error("process %ld (%s) is lost: the driver could not bring it back; end it",
				 (long)process->pid, process->comm);
	*ret = state;
	return 0;
}

static int contexts_check_process(const struct pid_entry *process)
{
	CUprocessState state = CU_PROCESS_STATE_RUNNING;

	if (kill(process->pid, 0) < 0 && errno == EPERM)
		return contexts_refuse(process, "checkpoint", -EPERM);
	return contexts_state(process, &state);
}

/* True if a device is AMD's: its driver has no checkpoint of this kind. */
static bool contexts_are_amds(const struct moving *moving)
{
	struct ledger_device_info info;

	for (int i = 0; !ledger_device_info(moving->ledger, i, &info); i++)
		if (amd_identity_is(info.uuid))
			return true;
	return false;
}

int contexts_check(const struct moving *moving)
{
	struct pids pids = {0};
	struct policy policy;
	int r;

	r = policy_load(moving->dir, &policy);
	if (r < 0)
		return say_error("tenant \"%s\": its policy cannot be read: %s", moving->name,
				 say_errno(r));
	/* Other processes may bring it back, and they know nothing of contexts. */
	if (policy.flags & POLICY_OVERCOMMIT)
		return say_error("--contexts: tenant \"%s\" takes turns on memory (--overcommit); suspend "
				 "it without --contexts",
				 moving->name);
	if (policy.mode == POLICY_MODE_SPACE)
		return say_error("--contexts: tenant \"%s\" runs under MPS, whose daemon has the "
				 "contexts; suspend it without --contexts",
				 moving->name);
	if (contexts_are_amds(moving))
		return say_error("--contexts: tenant \"%s\" is on an AMD GPU, where there is nothing "
				 "that leaves with contexts; suspend it without --contexts",
				 moving->name);
	r = contexts_open();
	if (!r)
		r = pids_find(moving, &pids);
	for (size_t i = 0; !r && i < pids.n; i++)
		r = contexts_check_process(&pids.list[i]);
	pids_free(&pids);
	return r;
}

static int contexts_lock_one(const struct pid_entry *process)
{
	CUprocessState state = CU_PROCESS_STATE_RUNNING;
	int r = contexts_state(process, &state);

	if (r || state != CU_PROCESS_STATE_RUNNING)
		return r;
	r = checkpoint_lock(process->pid, LOCK_MS);
	FAULT_POINT(CONTEXTS_LOCKED);
	return r < 0 ? contexts_refuse(process, "checkpoint", r) : 0;
}

static int contexts_take_one(const struct pid_entry *process)
{
	CUprocessState state = CU_PROCESS_STATE_RUNNING;
	int r = contexts_state(process, &state);

	if (r || state != CU_PROCESS_STATE_LOCKED)
		return r;
	r = checkpoint_take(process->pid);
	FAULT_POINT(CONTEXTS_TAKEN);
	return r < 0 ? contexts_refuse(process, "checkpoint", r) : 0;
}

static int contexts_return_one(const struct pid_entry *process)
{
	CUprocessState state = CU_PROCESS_STATE_RUNNING;
	int r = contexts_state(process, &state);

	if (!r && state == CU_PROCESS_STATE_CHECKPOINTED) {
		r = checkpoint_return(process->pid);
		FAULT_POINT(CONTEXTS_RETURNED);
		if (r < 0)
			return contexts_refuse(process, "restore", r);
		state = CU_PROCESS_STATE_LOCKED;
	}
	if (!r && state == CU_PROCESS_STATE_LOCKED) {
		r = checkpoint_unlock(process->pid);
		FAULT_POINT(CONTEXTS_UNLOCKED);
		if (r < 0)
			return contexts_refuse(process, "unlock", r);
	}
	return r;
}

/* A process that ended meanwhile is no error. */
static int contexts_each(const struct pids *pids, int (*what)(const struct pid_entry *process))
{
	int first = 0;

	for (size_t i = 0; i < pids->n; i++) {
		if (kill(pids->list[i].pid, 0) < 0 && errno == ESRCH)
			continue;
		first = what(&pids->list[i]);
		if (first)
			break;
	}
	return first;
}

int contexts_take(const struct moving *moving)
{
	struct pids pids;
	int r = pids_find(moving, &pids);

	if (r)
		return r;
	/* All are held before the first one goes: that is found out which cannot. */
	r = contexts_each(&pids, contexts_lock_one);
	if (!r)
		r = contexts_each(&pids, contexts_take_one);
	if (r)
		contexts_each(&pids, contexts_return_one);
	pids_free(&pids);
	return r;
}

int contexts_return(const struct moving *moving)
{
	struct pids pids;
	int r = checkpoint_open();

	/* Where there is no driver that could have taken them. */
	if (r == -ENOENT || r == -ENOTSUP)
		return 0;
	if (r < 0)
		return contexts_open();
	r = pids_find(moving, &pids);
	if (r)
		return r;
	r = contexts_each(&pids, contexts_return_one);
	pids_free(&pids);
	return r;
}
