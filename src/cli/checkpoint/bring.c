/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/bring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/host_memory.h"
#include "base/number.h"
#include "cli/checkpoint/away.h"
#include "cli/checkpoint/content.h"
#include "cli/checkpoint/criu.h"
#include "cli/checkpoint/stored.h"
#include "cli/checkpoint/tree.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/dmem.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/swap_dir.h"
#include "image/image.h"
#include "image/parts.h"
#include "ledger/ledger.h"
#include "ledger/life.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"
#include "node/devices.h"
#include "node/tenants.h"
#include "nvidia/nvml.h"
#include "text/text.h"
#include "text/units.h"

struct bring {
	char dir[PATH_MAX]; /* absolute, for messages and for the note */
	/* that directory: the checked files are read, whatever has their name by now */
	int at;
	char path[32];	    /* it, by `at` */
	char runtime[PATH_MAX], tenant_dir[PATH_MAX];
	const char *name;
	struct image *image;
	struct parts parts;
	uint64_t bytes[MANIFEST_DEVICES]; /* that come back, by device */
	struct tree others;		  /* children that are none of its */
	int life;
	bool amd;		 /* its devices are AMD's, and their content is in CRIU's files */
	char plugin[PATH_MAX]; /* then CRIU's for them, else "" */
};

/* --- The directory's content --------------------------------------------------------------- */

static void bring_count(const struct object *object, uint64_t content_bytes, void *arg)
{
	struct bring *bring = arg;

	bring->bytes[object->device] += object->bytes;
}

static int bring_read(struct bring *bring)
{
	struct damage damage = {.text = ""};
	int r;

	bring->at = fd_openat(AT_FDCWD, bring->dir, O_RDONLY | O_DIRECTORY, 0);
	if (bring->at < 0)
		return say_error("%s: %s", bring->dir, say_errno(bring->at));
	snprintf(bring->path, sizeof(bring->path), "/proc/self/fd/%d", bring->at);
	r = parts_verify(bring->path, &bring->parts, &damage);
	if (r == 0)
		r = image_open(bring->path, true, &bring->image, &damage);
	if (r == 0)
		r = image_verify(bring->image, bring_count, bring, &damage);
	text_make_printable(damage.text);
	if (r < 0)
		return say_error("%s: %s; nothing was started", bring->dir,
				 *damage.text ? damage.text : say_errno(r));
	if (memcmp(bring->parts.image, image_manifest(bring->image)->id, 16) != 0)
		return say_error("%s: its processes and its memory are of two checkpoints; nothing was "
				 "started",
				 bring->dir);
	bring->name = image_manifest(bring->image)->policy.name;
	return 0;
}

/* --- Whether it can be here ----------------------------------------------------------------- */

static int bring_check_tenant(struct bring *bring)
{
	char *slash;
	pid_t pid;

	if (runtime_find(bring->runtime) < 0)
		return say_error("there is no runtime directory");
	if (tenant_path(bring->runtime, bring->name, bring->tenant_dir,
			sizeof(bring->tenant_dir)) < 0)
		return say_error("%s: \"%.63s\" is no name of a tenant", bring->dir, bring->name);
	if (strcmp(bring->tenant_dir, bring->parts.tenant_dir) != 0) {
		slash = strrchr(bring->parts.tenant_dir, '/');
		return say_error("tenant \"%s\" was in %s, and its processes find it there alone; set "
				 "ALLOT_RUNTIME_DIR=%.*s",
				 bring->name, bring->parts.tenant_dir,
				 (int)(slash - bring->parts.tenant_dir), bring->parts.tenant_dir);
	}
	/* It may be left of a restore that was killed just now. */
	tenants_await_note(bring->tenant_dir);
	if (!access(bring->tenant_dir, F_OK) &&
	    tenants_state(bring->tenant_dir, &pid) != TENANT_ENDED)
		return say_error("there is a tenant \"%s\" already; end it, or \"allot resume %s\"",
				 bring->name, bring->name);
	return 0;
}

static int bring_check_pids(const struct bring *bring)
{
	const struct manifest *m = image_manifest(bring->image);
	char path[64];

	for (uint32_t i = 0; i < m->nprocesses; i++) {
		snprintf(path, sizeof(path), "/proc/%d", m->processes[i].pid);
		if (!access(path, F_OK))
			return say_error("there is a process %d, whose number one of tenant \"%s\" "
					 "had and must have again; wait for its end",
					 m->processes[i].pid, bring->name);
	}
	return 0;
}

static int bring_check_room(const struct bring *bring, uint32_t i, const struct device *device,
			    struct nvml *nvml)
{
	struct nvml_device now;

	if (!nvml || nvml_device_get(nvml, device->number, &now) < 0 ||
	    now.used_bytes > now.total_bytes ||
	    now.total_bytes - now.used_bytes >= bring->bytes[i])
		return 0;
	return say_error("%s has no room: %s are free, and tenant \"%s\" had %s on it",
			 units_uuid(device->uuid).s, units_bytes(now.total_bytes - now.used_bytes).s,
			 bring->name, units_bytes(bring->bytes[i]).s);
}

/* Programs know a GPU by its render node, and CRIU's plugin finds the GPU that replaces it. */
static int bring_check_place(const struct bring *bring, const struct manifest_device *was,
			     const struct device *is)
{
	for (uint32_t i = 0; i < was->nproperties; i++) {
		const struct manifest_property *p = &was->properties[i];
		unsigned int now = !strcmp(p->name, CONTENT_NODE)     ? is->number
				   : !strcmp(p->name, CONTENT_RENDER) ? is->render_minor
								      : (unsigned int)p->value;

		if (now != p->value)
			return say_error("%s has %s %u, and had %u when tenant \"%s\" left; have this "
					 "machine's GPUs be as they were, or restore it where they are",
					 units_uuid(was->uuid).s, p->name, now,
					 (unsigned int)p->value, bring->name);
	}
	return 0;
}

static int bring_check_device(const struct bring *bring, uint32_t i, const struct devices *devices,
			      struct nvml *nvml)
{
	const struct manifest_device *was = &image_manifest(bring->image)->devices[i];

	for (unsigned int d = 0; d < devices->n; d++) {
		const struct device *device = &devices->list[d];

		if (memcmp(device->uuid, was->uuid, sizeof(was->uuid)) != 0)
			continue;
		if (device->total_bytes < was->memory_bytes)
			return say_error("%s has %s, and had %s when tenant \"%s\" left",
					 units_uuid(was->uuid).s,
					 units_bytes(device->total_bytes).s,
					 units_bytes(was->memory_bytes).s, bring->name);
		return device->vendor == DEVICE_AMD ? bring_check_place(bring, was, device)
						    : bring_check_room(bring, i, device, nvml);
	}
	return say_error("%s (%s), which tenant \"%s\" was on, is not here",
			 units_uuid(was->uuid).s, was->model, bring->name);
}

static int bring_check_devices(const struct bring *bring)
{
	static struct devices devices;
	struct nvml *nvml = NULL;
	int r = 0;

	devices_read(&devices);
	if (nvml_open(NULL, &nvml) < 0)
		nvml = NULL;
	for (uint32_t i = 0; !r && i < image_manifest(bring->image)->ndevices; i++)
		r = bring_check_device(bring, i, &devices, nvml);
	nvml_close(nvml);
	return r;
}

static int bring_find_plugin(struct bring *bring)
{
	const struct manifest *m = image_manifest(bring->image);

	bring->amd = m->ndevices && amd_identity_is(m->devices[0].uuid);
	return bring->amd ? criu_find_plugin(bring->plugin) : 0;
}

/* Content that is put back goes to the host first, or to a file. */
static int bring_check_host(const struct bring *bring)
{
	const struct policy *policy = &image_manifest(bring->image)->policy;
	uint64_t room = swap_dir_host_room(policy->swap_dir, policy->host_bytes, 0), bytes = 0;
	int r;

	for (uint32_t i = 0; i < image_manifest(bring->image)->ndevices; i++)
		bytes += bring->bytes[i];
	if (*policy->swap_dir) {
		r = swap_dir_check(policy->swap_dir, sat_sub_u64(bytes, room));
		return r < 0 ? say_error("tenant \"%s\" has what has no room in host memory in a "
					 "file in %s (--swap-dir): %s",
					 bring->name, policy->swap_dir, swap_dir_words(r))
			     : 0;
	}
	if (bytes <= room || bytes <= host_memory_room())
		return 0;
	return say_error("host memory has room for %s, and tenant \"%s\" had %s on its devices",
			 units_bytes(room).s, bring->name, units_bytes(bytes).s);
}

/* --- The steps ------------------------------------------------------------------------------ */

static int bring_ledger(const struct bring *bring)
{
	CLEANUP_CLOSE int fd = -EBADF;

	fd = fd_openat(bring->at, PARTS_LEDGER, O_RDONLY, 0);
	return fd < 0 ? fd : ledger_await(bring->tenant_dir, fd, bring->amd);
}

/*
 * The processes wake up in a tenant whose last request asks for what they had done before. A
 * process that has all of its memory is asked for nothing, and continues.
 */
static int bring_ask(const struct bring *bring)
{
	struct swap_desk *desk;
	int r = swap_desk_open(bring->tenant_dir, SWAP_COMMAND, &desk);

	if (r < 0)
		return r;
	swap_desk_ask(desk, SWAP_GIVEN);
	swap_desk_close(desk);
	return 0;
}

static int bring_make_tenant(struct bring *bring)
{
	char dir[PATH_MAX];
	int r;

	tenants_remove(bring->runtime, bring->name, true);
	r = tenant_create(bring->runtime, bring->name, &image_manifest(bring->image)->policy, dir,
			  sizeof(dir));
	FAULT_POINT(BRING_MADE);
	if (r == 0)
		r = bring_ledger(bring);
	if (r == 0)
		r = tenants_mark(bring->tenant_dir, TENANT_NAMED, getpid());
	if (r == 0)
		r = stored_note(bring->tenant_dir, image_manifest(bring->image)->id, bring->dir);
	if (r == 0 && !bring->amd)
		r = bring_ask(bring);
	if (r == 0)
		bring->life = r = life_hold(bring->tenant_dir);
	FAULT_POINT(BRING_AWAITED);
	return r < 0 ? say_error("tenant \"%s\" cannot be made: %s", bring->name,
				 tenants_error_words(r))
		     : 0;
}

static void bring_undo(struct bring *bring)
{
	tree_kill_own(&bring->others);
	if (bring->life >= 0)
		close(TAKE_FD(bring->life));
	tenants_remove(bring->runtime, bring->name, false);
}

static int bring_processes(const struct bring *bring)
{
	char name[32], path[PATH_MAX + sizeof(name)];
	int r = 0;

	for (uint32_t i = 0; !r && i < bring->parts.ntrees; i++) {
		CLEANUP_CLOSE int at = -EBADF;

		snprintf(name, sizeof(name), PARTS_CRIU "/%u", i);
		snprintf(path, sizeof(path), "%s/%s", bring->dir, name);
		at = fd_openat(bring->at, name, O_RDONLY | O_DIRECTORY, 0);
		r = at < 0 ? say_error("%s: %s", path, say_errno(at))
			   : criu_restore(at, path, bring->plugin);
	}
	FAULT_POINT(BRING_RESTORED);
	return r;
}

/* A tenant that has all of its content, and no room on the device, stays suspended. */
static int bring_resume(struct bring *bring)
{
	struct moving moving;
	int r = moving_open(bring->name, &moving);

	if (r)
		return r;
	r = stored_return(&moving) ? EXIT_ALLOT : 0;
	if (!r)
		r = away_return(&moving) ? -EAGAIN : 0;
	moving_close(&moving);
	return r;
}

static int bring_all(struct bring *bring)
{
	int r;

	r = bring_make_tenant(bring);
	if (!r)
		r = bring_processes(bring);
	if (!r)
		r = bring_resume(bring);
	if (!r && bring->amd && dmem_offered())
		say_note("tenant \"%s\" is without the kernel's own limit (dmem.max) from here on",
			 bring->name);
	if (r == -EAGAIN)
		return say_error("tenant \"%s\" is restored, and suspended; \"allot resume %s\" when "
				 "there is room",
				 bring->name, bring->name);
	if (r) {
		bring_undo(bring);
		say_note("nothing is left of it; %s is as it was", bring->dir);
	}
	return r;
}

int bring_tenant(const char *dir)
{
	static struct bring bring;
	int r;

	bring = (struct bring){.at = -EBADF, .life = -EBADF};
	if (!realpath(dir, bring.dir))
		return say_error("%s: %s", dir, say_errno(errno));
	r = criu_check();
	if (!r)
		r = bring_read(&bring);
	if (!r)
		r = bring_check_tenant(&bring);
	if (!r)
		r = bring_check_devices(&bring);
	if (!r)
		r = bring_find_plugin(&bring);
	if (!r)
		r = bring_check_host(&bring);
	if (!r)
		r = bring_check_pids(&bring);
	if (!r)
		r = tree_children(&bring.others);
	if (!r)
		r = bring_all(&bring);
	if (bring.life >= 0)
		close(bring.life);
	if (bring.at >= 0)
		close(bring.at);
	tree_free(&bring.others);
	image_close(bring.image);
	return r;
}
