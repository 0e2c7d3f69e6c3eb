/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/drop_in.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "dropin/directory.h"
#include "guest/process/complain.h"
#include "ledger/ledger.h"
#include "ledger/life.h"
#include "ledger/role/residency_file.h"
#include "ledger/tenant.h"

static void drop_in_own_limit(struct size_spec limit, uint32_t share, struct policy_device *ret)
{
	*ret = (struct policy_device){.limit_bytes = limit.bytes,
				      .limit_permille = limit.permille,
				      .share_permille = share};
}

/*
 * The policy that `allot ps` shows before the tenant uses a device: only limits for every device,
 * since the device behind a number is not known yet.
 */
static void drop_in_own_policy(const struct config *config, struct policy *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ndevices = 1;
	ret->flags = POLICY_ALL_DEVICES;
	ret->compute = config_compute(config);
	drop_in_own_limit(config_everywhere(config), config_share_everywhere(config),
			  &ret->device[0]);
	config_apply(config, ret);
}

/* Removing a tenant takes less than a millisecond. */
#define DROP_IN_TRIES 1000

/* A process that comes into the tenant. */
struct entering {
	const char *dir;
	struct policy own;
	bool first;
};

/*
 * policy_update calls it, and so one process at a time. If no process lives in the tenant, its policy
 * belongs to a program that ended, and this process is the first.
 */
static int drop_in_edit_entering(struct policy *policy, void *arg)
{
	struct entering *entering = arg;
	bool first = !life_is_held(entering->dir);
	int r = life_keep(entering->dir);

	if (r)
		return r;
	entering->first = first;
	if (!first)
		return -EALREADY;
	*policy = entering->own;
	return 0;
}

/*
 * Returns true if no process lives in the tenant, and its ledger has devices of programs that ended.
 * A tenant without devices is as good as new, and another process may be about to enter it.
 */
static bool drop_in_is_left(const char *dir)
{
	struct ledger *ledger;
	bool used;

	if (life_is_held(dir) || ledger_open(dir, LEDGER_READ, &ledger))
		return false;
	used = ledger_knows(ledger, 0);
	ledger_close(ledger);
	return used;
}

/* Returns true for a name as directory_find makes it, of a tenant that the command did not note. */
static bool drop_in_is_of_container(const char *name, const char *dir)
{
	const char *of = strrchr(name, '-');
	unsigned int major, minor;
	char note[PATH_MAX], to[2];
	int len = 0;

	if (!of || sscanf(of, "-%u.%u%n", &major, &minor, &len) != 2 || of[len])
		return false;
	snprintf(note, sizeof(note), "%s/" TENANT_NOTE, dir);
	return readlink(note, to, sizeof(to)) < 0;
}

/*
 * A container that begins anew has another root, and so another name: the tenants of those that ended
 * would fill /dev/shm. `arg`: the runtime directory.
 */
static int drop_in_sweep_one(const char *name, const char *dir, void *arg)
{
	char own[TENANT_CONTAINER_BYTES];

	if (tenant_container(arg, own) && drop_in_is_of_container(name, dir) && drop_in_is_left(dir))
		tenant_remove(arg, name);
	return 0;
}

/* -ESTALE where the tenant was of programs that ended: it is gone now. */
static int drop_in_try(const char *runtime, struct entering *entering, char *dir, size_t len)
{
	int r = tenant_create(runtime, entering->own.name, &entering->own, dir, len);

	if (r && r != -EEXIST)
		return r;
	if (!r)
		tenant_list(runtime, drop_in_sweep_one, (void *)runtime);
	/* A process that entered it meanwhile keeps it. */
	if (r && drop_in_is_left(dir) && !tenant_remove(runtime, entering->own.name))
		return -ESTALE;
	r = policy_update(dir, drop_in_edit_entering, entering);
	return r == -EALREADY ? 0 : r;
}

int drop_in_enter(const struct config *config, char *ret_dir, size_t len, bool *ret_first)
{
	struct entering entering = {.dir = ret_dir};
	char runtime[200];
	int r;

	drop_in_own_policy(config, &entering.own);
	r = directory_find(config, runtime, sizeof(runtime), entering.own.name);
	if (r)
		return r;
	/* An `allot ps` in between may remove the files of an earlier tenant. */
	for (int i = 0; i < DROP_IN_TRIES; i++) {
		r = drop_in_try(runtime, &entering, ret_dir, len);
		if (r != -ESTALE && r != -ENOENT)
			break;
		sched_yield();
	}
	if (r)
		return r;
	residency_file_tell(runtime); /* its quota counts */
	*ret_first = entering.first;
	return 0;
}

/* A device that a process brings into the tenant's policy. */
struct naming {
	struct policy_device own; /* as this process may have it */
	struct policy_device has; /* as the tenant has it */
	bool capped;		  /* the tenant's compute is */
};

static uint64_t drop_in_bytes(const struct policy_device *device)
{
	struct size_spec spec = {device->limit_bytes, device->limit_permille};

	return min_u64(size_spec_resolve(spec, device->total_bytes), device->total_bytes);
}

/* Called by policy_update. A limit for all devices also applies to one that is named. */
static int drop_in_edit_naming(struct policy *policy, void *arg)
{
	struct naming *naming = arg;
	const struct policy_device *found = policy_find(policy, naming->own.uuid);
	bool all = found && found == policy->device && (policy->flags & POLICY_ALL_DEVICES);
	struct policy_device all_of_it = {.limit_permille = 1000};

	naming->has = found ? *found : all_of_it;
	naming->capped = policy->compute == POLICY_COMPUTE_CAP;
	memcpy(naming->has.uuid, naming->own.uuid, sizeof(naming->has.uuid));
	naming->has.total_bytes = naming->own.total_bytes;
	if ((found && !all) || policy->ndevices == POLICY_DEVICES)
		return -EALREADY;
	if (drop_in_bytes(&naming->own) < drop_in_bytes(&naming->has)) {
		naming->has.limit_bytes = naming->own.limit_bytes;
		naming->has.limit_permille = naming->own.limit_permille;
	}
	naming->has.share_permille =
		config_smaller_share(naming->has.share_permille, naming->own.share_permille);
	policy->device[policy->ndevices++] = naming->has;
	return 0;
}

/* The limits of the tenant's first process stay, and a later one is told so. */
static void drop_in_say_kept(const struct config *config, const char *tenant, unsigned int ordinal,
			     const struct naming *naming, _Atomic bool *told)
{
	uint64_t has = drop_in_bytes(&naming->has), own = drop_in_bytes(&naming->own);
	uint32_t share = naming->capped ? config_smaller_share(naming->has.share_permille, 0) : 0;
	const char *todo = config_is_by_file(config)
				   ? "start it when they have ended"
				   : "start it when they have ended, or with another "
				     "CUDA_DEVICE_MEMORY_SHARED_CACHE";
	char line[256];

	if (has < own)
		snprintf(line, sizeof(line),
			 "tenant %.40s, in which programs run, has %" PRIu64
			 " MiB of device %u: the %" PRIu64 " MiB of this one are not in force; %s",
			 tenant, has >> 20, ordinal, own >> 20, todo);
	else if (share && config_smaller_share(share, naming->own.share_permille) !=
				  config_smaller_share(naming->own.share_permille, 0))
		snprintf(line, sizeof(line),
			 "tenant %.40s, in which programs run, has %u%% of the time of device %u: "
			 "the %u%% of this one are not in force; %s",
			 tenant, share / 10, ordinal,
			 naming->own.share_permille ? naming->own.share_permille / 10 : 100, todo);
	else
		return;
	if (!atomic_exchange(told, true))
		complain_line(line);
}

void drop_in_name_device(const struct config *config, const char *dir, const uint8_t uuid[16],
			 unsigned int ordinal, uint64_t total_bytes, _Atomic bool *told)
{
	struct naming naming;
	int r;

	if (!total_bytes)
		return;
	drop_in_own_limit(config_limit(config, ordinal, total_bytes),
			  config_share_permille(config, ordinal), &naming.own);
	memcpy(naming.own.uuid, uuid, sizeof(naming.own.uuid));
	naming.own.total_bytes = total_bytes;
	r = policy_update(dir, drop_in_edit_naming, &naming);
	/* Where it cannot be named, this process keeps to its own limits all the same. */
	if (!r || r == -EALREADY)
		drop_in_say_kept(config, strrchr(dir, '/') + 1, ordinal, &naming, told);
}
