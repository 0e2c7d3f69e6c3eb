/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/dmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/say/say.h"
#include "cli/tenant/cgroup.h"
#include "cli/tenant/dmem_notes.h"
#include "cli/tenant/dmem_region.h"
#include "ledger/tenant.h"

#define CONTROLLER "dmem"
#define CAPACITY   "/dmem.capacity"
#define MAX	   "/dmem.max"
#define CONTROL	   "/cgroup.subtree_control"

#define FILE_BYTES 32768

static int dmem_complain(struct dmem_trouble *trouble, int r, const char *todo, const char *fmt,
			 ...) __attribute__((format(printf, 4, 5)));

static int dmem_complain(struct dmem_trouble *trouble, int r, const char *todo, const char *fmt,
			 ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(trouble->what, sizeof(trouble->what), fmt, ap);
	va_end(ap);
	trouble->todo = todo;
	return r;
}

static const char *dmem_shown(const char *cgroup)
{
	return *cgroup ? cgroup : "/";
}

static int dmem_read_regions(const char *cgroup, const char *file, struct dmem_regions *ret)
{
	CLEANUP_FREE char *text = malloc(FILE_BYTES);
	int r = text ? cgroup_read(cgroup, file, text, FILE_BYTES) : -ENOMEM;

	if (r == 0)
		dmem_regions_parse(text, ret);
	return r;
}

bool dmem_offered(void)
{
	char path[PATH_MAX];

	/* The kernel knows no simulated GPU, and one of its own may have the same address. */
	if (getenv("ALLOT_SIM_DIR") && !getenv("ALLOT_CGROUP_ROOT"))
		return false;
	return !cgroup_path("", CAPACITY, path) && !access(path, R_OK);
}

/* -ENODEV where no region is memory of an AMD GPU. */
static int dmem_check_regions(const struct devices *devices)
{
	static const struct policy nothing;
	struct dmem_regions regions;
	uint64_t bytes;
	int r = dmem_read_regions("", CAPACITY, &regions);

	if (r < 0)
		return -ENODEV;
	for (size_t i = 0; i < regions.n; i++)
		if (!dmem_region_allowed(&regions.list[i], devices, &nothing, &bytes))
			return 0;
	return -ENODEV;
}

static int dmem_find_own(char own[static PATH_MAX], struct dmem_trouble *trouble)
{
	char path[PATH_MAX];
	int r = cgroup_own(own);

	if (r == 0)
		r = cgroup_path(own, "", path);
	if (r == 0 && access(path, F_OK) < 0)
		r = err_errno();
	if (r < 0)
		return dmem_complain(trouble, r, "mount /sys/fs/cgroup as this process sees it",
				     "allot's own cgroup is not found: %s", say_errno(r));
	return 0;
}

static int dmem_explain_make(struct dmem_trouble *trouble, int r, const char *own)
{
	return dmem_complain(trouble, r, "it takes the right to write there",
			     "no cgroup can be made in %s: %s", dmem_shown(own), say_errno(r));
}

static int dmem_explain_pass_on(struct dmem_trouble *trouble, int r, const char *cgroup)
{
	if (r == -EBUSY)
		return dmem_complain(
			trouble, r, "begin with: systemd-run --scope -p Delegate=yes allot run ...",
			"other processes are in the cgroup of allot (%s), so that it cannot "
			"pass the " CONTROLLER " controller on",
			dmem_shown(cgroup));
	return dmem_complain(trouble, r, "it takes the right to write cgroup.subtree_control there",
			     "cgroup %s does not pass the " CONTROLLER " controller on: %s",
			     dmem_shown(cgroup), say_errno(r));
}

/*
 * Finds the first cgroup on the way from the root to `own` that does not pass the controller on: a
 * cgroup has what the one above passes on. False if all do.
 */
static bool dmem_find_gap(const char *own, char ret[static PATH_MAX])
{
	size_t len = 0;

	for (;;) {
		memcpy(ret, own, len);
		ret[len] = '\0';
		if (!cgroup_passes_on(ret, CONTROLLER))
			return true;
		if (!own[len])
			return false;
		len += 1 + strcspn(own + len + 1, "/");
	}
}

static int dmem_pass_on(struct dmem_entry *e, struct dmem_trouble *trouble)
{
	char last[PATH_MAX] = "none", at[PATH_MAX];

	while (dmem_find_gap(e->own, at)) {
		/* A kernel that accepts the write and ignores it would be asked forever. */
		int r = strcmp(at, last) ? cgroup_pass_on(at, CONTROLLER, true) : -EIO;

		if (r < 0)
			return dmem_explain_pass_on(trouble, r, at);
		e->passes_on = !strcmp(at, e->own);
		strcpy(last, at);
	}
	return 0;
}

/* Sets the limit of one region. 1: the kernel keeps a higher one, since more is in use. */
static int dmem_limit_region(const char *cgroup, const char *region, uint64_t bytes)
{
	const struct dmem_region *now;
	struct dmem_regions regions;
	char line[DMEM_REGION_BYTES + 32];
	int r;

	if (bytes == DMEM_NO_LIMIT)
		snprintf(line, sizeof(line), "%s max", region);
	else
		snprintf(line, sizeof(line), "%s %" PRIu64, region, bytes);
	r = cgroup_write(cgroup, MAX, line);
	if (r == 0)
		r = dmem_read_regions(cgroup, MAX, &regions);
	if (r < 0)
		return r;
	now = dmem_regions_find(&regions, region);
	return now && now->bytes > bytes;
}

/*
 * Sets the limits of all regions of AMD GPUs. Answers how many the kernel keeps higher, or -errno.
 */
static int dmem_limit_cgroup(const char *cgroup, const struct policy *policy,
			     const struct devices *devices)
{
	struct dmem_regions regions;
	int r = dmem_read_regions("", CAPACITY, &regions), kept = 0;

	for (size_t i = 0; r >= 0 && i < regions.n; i++) {
		uint64_t bytes;

		r = dmem_region_allowed(&regions.list[i], devices, policy, &bytes);
		if (r == 0)
			r = dmem_limit_region(cgroup, regions.list[i].name, bytes);
		else if (r == -ENOENT)
			r = 0;
		kept += r > 0;
	}
	return r < 0 ? r : kept;
}

static int dmem_make_cgroup(const char *runtime, const char *tenant, struct dmem_entry *e,
			    struct dmem_trouble *trouble)
{
	char path[PATH_MAX];
	int n = snprintf(e->cgroup, sizeof(e->cgroup), "%.*s/allot-%s-%ld", PATH_MAX - 96, e->own,
			 tenant, (long)getpid());
	int r = n < 0 || (size_t)n >= sizeof(e->cgroup) ? -ENAMETOOLONG : 0;

	if (r == 0)
		r = cgroup_path(e->cgroup, "", path);
	if (r == 0)
		r = dmem_note(runtime, tenant, e->cgroup, e->note);
	if (r == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
		r = err_errno();
	if (r == 0)
		r = cgroup_enter(e->cgroup);
	return r < 0 ? dmem_explain_make(trouble, r, e->own) : 0;
}

/* `allot set` finds the cgroup from here on, so the policy is read after that. */
static int dmem_limit_tenant(const char *runtime, const char *tenant, const struct devices *devices,
			     const char *cgroup, struct dmem_trouble *trouble)
{
	char dir[PATH_MAX];
	struct policy policy;
	unsigned int kept;
	int r = tenant_path(runtime, tenant, dir, sizeof(dir));

	if (r == 0)
		r = policy_load(dir, &policy);
	if (r == 0)
		r = dmem_limit_cgroup(cgroup, &policy, devices);
	if (r < 0)
		return dmem_complain(trouble, r, "begin again, for a GPU may have gone",
				     "cgroup %s gets no limits: %s", cgroup, say_errno(r));
	/* A change of membership may change the limits of the tenant's other commands. */
	dmem_apply(runtime, tenant, &policy, devices, &kept);
	return 0;
}

int dmem_enter(const char *runtime, const char *tenant, const struct devices *devices,
	       struct dmem_entry *ret, struct dmem_trouble *trouble)
{
	struct dmem_entry e = {.own = ""};
	int r = dmem_check_regions(devices);

	if (r < 0)
		return r;
	r = dmem_find_own(e.own, trouble);
	if (r < 0)
		return r;
	r = dmem_make_cgroup(runtime, tenant, &e, trouble);
	if (r == 0)
		r = dmem_pass_on(&e, trouble);
	if (r == 0)
		r = dmem_limit_tenant(runtime, tenant, devices, e.cgroup, trouble);
	if (r < 0) {
		dmem_leave(&e);
		return r;
	}
	*ret = e;
	return 0;
}

/*
 * The reverse: no process can go back to a cgroup that passes a controller on, except to the root
 * of all. The root continues to pass it on, since others' limits may depend on it.
 */
void dmem_leave(const struct dmem_entry *entry)
{
	/* Processes that outlive the command keep its cgroup, and so their limits. */
	if (!*entry->note || cgroup_has_others(entry->cgroup))
		return;
	if (entry->passes_on && !cgroup_is_root(entry->own))
		cgroup_pass_on(entry->own, CONTROLLER, false);
	cgroup_enter(entry->own);
	dmem_note_end(AT_FDCWD, entry->note);
}

int dmem_check(const struct devices *devices, struct dmem_trouble *trouble)
{
	char own[PATH_MAX], path[PATH_MAX], at[PATH_MAX];
	int r = dmem_check_regions(devices);

	if (r == 0)
		r = dmem_find_own(own, trouble);
	if (r == 0)
		r = cgroup_path(own, "", path);
	if (r < 0)
		return r;
	if (access(path, W_OK | X_OK) < 0)
		return dmem_explain_make(trouble, err_errno(), own);
	if (!cgroup_is_root(own) && cgroup_has_others(own))
		return dmem_explain_pass_on(trouble, -EBUSY, own);
	if (dmem_find_gap(own, at) && !cgroup_path(at, CONTROL, path) && access(path, W_OK) < 0)
		return dmem_explain_pass_on(trouble, err_errno(), at);
	return 0;
}

struct application {
	const struct policy *policy;
	const struct devices *devices;
	int error;
	unsigned int kept;
};

/* A cgroup that is gone needs no limit. */
static void dmem_apply_to_cgroup(const char *cgroup, void *arg)
{
	struct application *a = arg;
	int r = dmem_limit_cgroup(cgroup, a->policy, a->devices);

	if (r > 0)
		a->kept += (unsigned int)r;
	else if (r < 0 && r != -ENOENT && !a->error)
		a->error = r;
}

int dmem_apply(const char *runtime, const char *tenant, const struct policy *policy,
	       const struct devices *devices, unsigned int *ret_kept)
{
	struct application a = {.policy = policy, .devices = devices};

	dmem_notes_each(runtime, tenant, dmem_apply_to_cgroup, &a);
	*ret_kept = a.kept;
	return a.error;
}

void dmem_sweep(const char *runtime, time_t grace_s)
{
	/* A process that cannot see the cgroups would take all of them for gone. */
	if (dmem_offered())
		dmem_notes_sweep(runtime, time(NULL) - grace_s);
}
