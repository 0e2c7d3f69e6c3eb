/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/enroll.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/exec/space.h"
#include "cli/out/say.h"
#include "cli/tenant/compute_words.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/tenants.h"
#include "ledger/snapshot.h"
#include "ledger/tenant.h"

/* The library keeps 255 bytes for a tenant's directory, so that it need not allocate. */
#define RUNTIME_MAX (255 - POLICY_NAME_BYTES)

static void enroll_set_accounting(struct policy *p, enum enroll_accounting accounting)
{
	if (accounting == ENROLL_ACCOUNTING_DRIVER)
		p->flags |= POLICY_ACCOUNTING_DRIVER;
	else if (accounting == ENROLL_ACCOUNTING_LEDGER)
		p->flags &= ~(uint32_t)POLICY_ACCOUNTING_DRIVER;
}

/* A quota above the device is no error (one command line for several machines), but is said. */
static void enroll_note_excess(const struct devices *devices, unsigned int index,
			       const struct policy_device *limit)
{
	uint64_t total = devices->list[index].total_bytes;

	if (total && limit->limit_bytes > total)
		say_note("note: --memory: %s is more than GPU %u has; its %s are the limit",
			 units_bytes(limit->limit_bytes).s, index, units_bytes(total).s);
}

/* The devices that the options speak of, in their order; none: those of the policy as it is. */
static int enroll_choose_devices(const struct enroll_request *req, struct selection *ret)
{
	const struct limits *several = tenant_options_by_device(req->options);
	int r;

	ret->n = 0;
	if (req->gpus) {
		*ret = *req->gpus;
		return 0;
	}
	/* Needs no driver to be asked. */
	if (!several)
		return 0;
	if (*req->devices->trouble) {
		say_error("%s \"%s\": %s; one value for all devices needs no driver",
			  limits_option(several), several->text, req->devices->trouble);
		return -ENODEV;
	}
	r = selection_visible(req->devices, ret);
	if (r < 0)
		say_error("%s \"%s\": which device is which? CUDA_VISIBLE_DEVICES counts different "
			  "models its own way; choose with --gpu",
			  limits_option(several), several->text);
	return r;
}

static int enroll_not_given(const struct enroll_request *req, unsigned int index,
			    const struct policy *old)
{
	say_error("--gpu: tenant \"%s\" does not have GPU %u (%s); give all its devices and limits "
		  "anew with --gpu and --memory%s while it is not running",
		  req->name, index, units_uuid(req->devices->list[index].uuid).s,
		  old->compute == POLICY_COMPUTE_OFF ? "" : " and --compute");
	return -ENODEV;
}

/* A device as it was, for the options to change; one that is new must get all limits by them. */
static int enroll_start_device(const struct enroll_request *req, unsigned int index,
			       const struct policy *old, struct policy_device *ret)
{
	const struct device *d = &req->devices->list[index];
	const struct policy_device *was = policy_find(old, d->uuid);
	struct policy_device device = {.limit_permille = 1000};

	if (was)
		device = *was;
	else if (!(req->options->said & TENANT_MEMORY) ||
		 (old->compute != POLICY_COMPUTE_OFF && !(req->options->said & TENANT_COMPUTE)))
		return enroll_not_given(req, index, old);
	memcpy(device.uuid, d->uuid, sizeof(device.uuid));
	device.total_bytes = d->total_bytes;
	*ret = device;
	return 0;
}

/* `old` with the devices that were chosen, and with what the options say. */
static int enroll_new_policy(const struct enroll_request *req, const struct policy *old,
			     struct policy *ret)
{
	struct policy p = *old;
	struct selection sel;
	int r = enroll_choose_devices(req, &sel);

	if (r < 0)
		return r;
	if (sel.n) {
		p.flags &= ~(uint32_t)POLICY_ALL_DEVICES;
		p.ndevices = sel.n;
		memset(p.device, 0, sizeof(p.device));
	}
	for (unsigned int i = 0; r == 0 && i < sel.n; i++)
		r = enroll_start_device(req, sel.index[i], old, &p.device[i]);
	if (r == 0)
		r = tenant_options_apply(req->options, &p);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < sel.n; i++)
		enroll_note_excess(req->devices, sel.index[i], &p.device[i]);
	*ret = p;
	return 0;
}

static int enroll_check_mode(const struct policy *p)
{
	return p->mode == POLICY_MODE_SPACE && space_check() ? -ENOTSUP : 0;
}

static int enroll_first_policy(const struct enroll_request *req, const char *name,
			       struct policy *ret)
{
	struct policy none = {.ndevices = 1, .flags = POLICY_ALL_DEVICES};
	int r;

	none.device[0].limit_permille = 1000;
	snprintf(none.name, sizeof(none.name), "%s", name);
	enroll_set_accounting(&none, req->accounting);
	r = enroll_new_policy(req, &none, ret);
	return r < 0 ? r : enroll_check_mode(ret);
}

static bool enroll_is_same_policy(const struct policy *a, const struct policy *b)
{
	bool equal = a->ndevices == b->ndevices && a->flags == b->flags &&
		     a->compute == b->compute && a->mode == b->mode &&
		     a->controller == b->controller && a->priority == b->priority &&
		     a->weight == b->weight && a->inflight_us == b->inflight_us;

	for (unsigned int i = 0; equal && i < a->ndevices; i++) {
		const struct policy_device *x = &a->device[i], *y = &b->device[i];

		equal = x->limit_bytes == y->limit_bytes &&
			x->limit_permille == y->limit_permille &&
			x->share_permille == y->share_permille &&
			!memcmp(x->uuid, y->uuid, sizeof(x->uuid));
	}
	return equal;
}

/* --gpu without limits leaves the tenant fewer devices, and gives it no new ones. */
static int enroll_check_gpus(const struct enroll_request *req, const struct policy *p)
{
	for (unsigned int i = 0; i < req->gpus->n; i++) {
		unsigned int index = req->gpus->index[i];

		if (!policy_find(p, req->devices->list[index].uuid))
			return enroll_not_given(req, index, p);
	}
	return 0;
}

/* What the request makes of an existing tenant's policy. */
static int enroll_wanted_policy(const struct enroll_request *req, const struct policy *old,
				struct policy *ret)
{
	struct policy p = *old;
	int r;

	if (req->gpus && (req->options->said & (TENANT_MEMORY | TENANT_COMPUTE))) {
		r = enroll_new_policy(req, old, &p);
	} else {
		r = req->gpus ? enroll_check_gpus(req, old) : 0;
		if (r == 0)
			r = tenant_options_apply(req->options, &p);
	}
	if (r < 0)
		return r;
	enroll_set_accounting(&p, req->accounting);
	*ret = p;
	return 0;
}

/* A tenant does not begin with a policy that this machine cannot put into practice. */
static int enroll_replace_policy(struct policy *policy, void *arg)
{
	*policy = *(const struct policy *)arg;
	return 0;
}

static int enroll_join(const struct enroll_request *req, struct enrolment *e)
{
	struct snapshot *snapshot = NULL;
	struct policy want;
	unsigned int live;
	int r = snapshot_read(e->dir, &snapshot);

	if (r < 0) {
		say_error("tenant \"%s\" (%s) cannot be used: %s; take another --name, or end its "
			  "processes and remove it with rm -r",
			  req->name, e->dir, tenants_error_words(r));
		return r;
	}
	e->policy = snapshot->policy;
	e->joined = true;
	live = tenants_live(snapshot);
	snapshot_free(snapshot);
	r = enroll_wanted_policy(req, &e->policy, &want);
	if (r == 0)
		r = enroll_check_mode(&want);
	if (r < 0 || enroll_is_same_policy(&want, &e->policy))
		return r;
	if (live) {
		say_error("tenant \"%s\" is running (%u process%s) with %s%s, compute %s; "
			  "change it with \"allot set %s%s\", or join it as it is without --gpu, "
			  "--accounting and limits",
			  req->name, live, live == 1 ? "" : "es",
			  limits_words(&e->policy.device[0]).s,
			  e->policy.ndevices > 1 ? ",..." : "", compute_words(&e->policy, 0).s,
			  req->name, req->options->said ? req->options->words : " --memory 12GiB");
		return -EBUSY;
	}
	r = policy_update(e->dir, enroll_replace_policy, &want);
	if (r < 0)
		say_error("cannot change the policy of tenant \"%s\" in %s: %s", req->name, e->dir,
			  say_errno(r));
	e->policy = want;
	return r;
}

static int enroll_explain_create(const char *runtime, const char *name, int r)
{
	const char *todo = "set ALLOT_RUNTIME_DIR to a directory of yours";

	if (r == -EINVAL) {
		say_error("--name \"%s\": a name has 1 to 63 letters, digits, '.', '_' or '-' and "
			  "begins with a letter or digit, like --name jobA",
			  name);
		return r;
	}
	if (r == -EPERM || r == -ELOOP)
		todo = "it must be yours and closed to others (chmod 0700), or set "
		       "ALLOT_RUNTIME_DIR to one that is";
	else if (r == -ENOSPC || r == -EDQUOT)
		todo = "make room there (\"allot doctor --sweep\" removes stale tenants), or set "
		       "ALLOT_RUNTIME_DIR";
	else if (r == -ENOLCK)
		todo = "set ALLOT_RUNTIME_DIR to a directory on tmpfs or a local disk, like "
		       "/dev/shm/allot";
	else if (r == -EMFILE || r == -ENFILE)
		todo = "raise the limit on open files (ulimit -n)";
	say_error("cannot make tenant \"%s\" in %s: %s; %s", name, runtime, tenants_error_words(r),
		  todo);
	return r;
}

static int enroll_create_named(const struct enroll_request *req, const char *runtime,
			       struct enrolment *e)
{
	int r = tenant_path(runtime, req->name, e->dir, sizeof(e->dir));

	if (r < 0)
		return enroll_explain_create(runtime, req->name, r);
	/* For an existing tenant --memory is about the devices that it has. */
	if (!access(e->dir, F_OK))
		return enroll_join(req, e);
	r = enroll_first_policy(req, e->name, &e->policy);
	if (r < 0)
		return r;
	r = tenant_create(runtime, e->name, &e->policy, e->dir, sizeof(e->dir));
	if (r == -EEXIST)
		return enroll_join(req, e);
	return r < 0 ? enroll_explain_create(runtime, e->name, r) : 0;
}

static int enroll_create_generated(const struct enroll_request *req, const char *runtime,
				   struct enrolment *e)
{
	uint32_t random;
	int r;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		say_error("no random numbers for a tenant's name: %s; give one with --name",
			  say_errno(errno));
		return -EIO;
	}
	snprintf(e->name, sizeof(e->name), "run-%ld-%06x", (long)getpid(), random >> 8);
	r = enroll_first_policy(req, e->name, &e->policy);
	if (r < 0)
		return r;
	r = tenant_create(runtime, e->name, &e->policy, e->dir, sizeof(e->dir));
	if (r < 0)
		return enroll_explain_create(runtime, e->name, r);
	e->generated = true;
	r = tenants_mark_generated(e->dir);
	if (r < 0) {
		tenant_remove(runtime, e->name);
		return enroll_explain_create(runtime, e->name, r);
	}
	return 0;
}

int enroll(const struct enroll_request *request, struct enrolment *ret)
{
	char runtime[PATH_MAX];
	int r = runtime_find(runtime);

	if (r < 0)
		return r;
	if (strlen(runtime) > RUNTIME_MAX) {
		say_error("the runtime directory's path is longer than %d bytes; set "
			  "ALLOT_RUNTIME_DIR to a shorter one",
			  RUNTIME_MAX);
		return -ENAMETOOLONG;
	}
	memset(ret, 0, sizeof(*ret));
	if (!request->name) {
		tenants_sweep(runtime);
		return enroll_create_generated(request, runtime, ret);
	}
	if (!tenant_name_valid(request->name))
		return enroll_explain_create(runtime, request->name, -EINVAL);
	snprintf(ret->name, sizeof(ret->name), "%s", request->name);
	return enroll_create_named(request, runtime, ret);
}

void enroll_undo(const struct enrolment *enrolment)
{
	char runtime[PATH_MAX];

	if (!enrolment->joined && !tenant_runtime_dir(runtime, sizeof(runtime)))
		tenant_remove(runtime, enrolment->name);
}
