/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/enroll.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/now.h"
#include "cli/say/say.h"
#include "cli/tenant/remote.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/space.h"
#include "cli/tenant/sweep.h"
#include "ledger/ledger.h"
#include "ledger/life.h"
#include "ledger/role/residency_file.h"
#include "ledger/shared_file.h"
#include "ledger/tenant.h"
#include "node/compute_words.h"
#include "node/tenants.h"
#include "roles/arbiter_host.h"

/* The library keeps 255 bytes for a tenant's directory, so that it need not allocate. */
#define RUNTIME_MAX (255 - POLICY_NAME_BYTES - (int)sizeof("-users"))

/* Where the command finds the descriptor by which its tree keeps the tenant alive. */
#define LIFE_FD 100

static void enroll_set_flags(struct policy *p, const struct enroll_request *req)
{
	if (req->accounting == ENROLL_ACCOUNTING_DRIVER)
		p->flags |= POLICY_ACCOUNTING_DRIVER;
	else if (req->accounting == ENROLL_ACCOUNTING_LEDGER)
		p->flags &= ~(uint32_t)POLICY_ACCOUNTING_DRIVER;
	if (req->swappable)
		p->flags |= POLICY_SWAPPABLE;
	if (req->overcommit)
		p->flags |= POLICY_OVERCOMMIT;
	if (req->host_bytes)
		p->host_bytes = req->host_bytes;
	if (req->swap_dir && *req->swap_dir)
		snprintf(p->swap_dir, sizeof(p->swap_dir), "%s", req->swap_dir);
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
	if (*req->devices->trouble)
		return say_fail(-ENODEV, "%s \"%s\": %s; one value for all devices needs no driver",
				limits_option(several), several->text, req->devices->trouble);
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
	return say_fail(-ENODEV, "--gpu: tenant \"%s\" does not have GPU %u (%s); give all its "
			"devices and limits anew with --gpu and --memory%s when it has ended",
			req->name, index, units_uuid(req->devices->list[index].uuid).s,
			old->compute == POLICY_COMPUTE_OFF ? "" : " and --compute");
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

/* `old` with the chosen devices and the options' limits. */
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
	*ret = p;
	return 0;
}

static int enroll_check_mode(const struct policy *p)
{
	return p->mode == POLICY_MODE_SPACE && space_check() ? -ENOTSUP : 0;
}

/* The request as it counts where the tenant does not exist yet. */
static struct enroll_request enroll_as_first(const struct enroll_request *req)
{
	struct enroll_request first = *req;

	if (req->first_options)
		first.options = req->first_options;
	first.swappable |= req->first_overcommits;
	first.overcommit |= req->first_overcommits;
	return first;
}

static int enroll_first_policy(const struct enroll_request *req, const char *name,
			       struct policy *ret)
{
	struct policy none = {.ndevices = 1, .flags = POLICY_ALL_DEVICES};
	struct enroll_request first = enroll_as_first(req);
	int r;

	none.device[0].limit_permille = 1000;
	snprintf(none.name, sizeof(none.name), "%s", name);
	enroll_set_flags(&none, &first);
	r = enroll_new_policy(&first, &none, ret);
	return r < 0 ? r : enroll_check_mode(ret);
}

static bool enroll_has_same_devices(const struct policy *a, const struct policy *b)
{
	bool equal = a->ndevices == b->ndevices &&
		     !((a->flags ^ b->flags) & POLICY_ALL_DEVICES);

	for (unsigned int i = 0; equal && i < a->ndevices; i++)
		equal = !memcmp(a->device[i].uuid, b->device[i].uuid, sizeof(a->device[i].uuid));
	return equal;
}

static bool enroll_is_same_policy(const struct policy *a, const struct policy *b)
{
	bool equal = enroll_has_same_devices(a, b) && a->flags == b->flags &&
		     a->compute == b->compute && a->mode == b->mode &&
		     a->controller == b->controller && a->priority == b->priority &&
		     a->weight == b->weight && a->inflight_us == b->inflight_us &&
		     a->floor_permille == b->floor_permille && a->host_bytes == b->host_bytes &&
		     a->latency_us == b->latency_us && a->slice_us == b->slice_us &&
		     a->trace == b->trace && a->gtt_mib == b->gtt_mib &&
		     a->idle_s == b->idle_s && !strcmp(a->swap_dir, b->swap_dir);

	for (unsigned int i = 0; equal && i < a->ndevices; i++) {
		const struct policy_device *x = &a->device[i], *y = &b->device[i];

		equal = x->limit_bytes == y->limit_bytes &&
			x->limit_permille == y->limit_permille &&
			x->share_permille == y->share_permille;
	}
	return equal;
}

/* --gpu without limits reduces the tenant's devices, and adds none. */
static int enroll_check_gpus(const struct enroll_request *req, const struct policy *p)
{
	for (unsigned int i = 0; i < req->gpus->n; i++) {
		unsigned int index = req->gpus->index[i];

		if (!policy_find(p, req->devices->list[index].uuid))
			return enroll_not_given(req, index, p);
	}
	return 0;
}

/* Applies the request to an existing tenant's policy. */
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
	enroll_set_flags(&p, req);
	*ret = p;
	return 0;
}

struct difference {
	char words[512];
	bool fixed; /* one that `allot set` cannot change */
};

__attribute__((format(printf, 2, 3))) static void enroll_add_difference(struct difference *d,
									const char *fmt, ...)
{
	size_t len = strlen(d->words);
	va_list ap;

	if (len)
		len += (size_t)snprintf(d->words + len, sizeof(d->words) - len, ", ");
	if (len >= sizeof(d->words))
		return;
	va_start(ap, fmt);
	vsnprintf(d->words + len, sizeof(d->words) - len, fmt, ap);
	va_end(ap);
}

/* Compares a living tenant's policy with the requested one. */
static struct difference enroll_compare(const struct policy *is, const struct policy *asked)
{
	struct difference d = {""};

	if ((is->flags ^ asked->flags) & POLICY_ACCOUNTING_DRIVER) {
		enroll_add_difference(&d, "accounting %s",
				      is->flags & POLICY_ACCOUNTING_DRIVER ? "driver (asked: ledger)"
									   : "ledger (asked: driver)");
		d.fixed = true;
	}
	if ((is->flags ^ asked->flags) & POLICY_SWAPPABLE) {
		enroll_add_difference(&d, "not swappable (asked: swappable)");
		d.fixed = true;
	}
	if ((is->flags ^ asked->flags) & POLICY_OVERCOMMIT) {
		enroll_add_difference(&d, "not overcommitting (asked: overcommit)");
		d.fixed = true;
	}
	if (is->host_bytes != asked->host_bytes) {
		enroll_add_difference(&d, "host memory %s (asked: %s)",
				      is->host_bytes ? units_bytes(is->host_bytes).s : "what is free",
				      units_bytes(asked->host_bytes).s);
		d.fixed = true;
	}
	if (strcmp(is->swap_dir, asked->swap_dir) != 0) {
		enroll_add_difference(&d, "swap directory %s (asked: %s)",
				      *is->swap_dir ? is->swap_dir : "none", asked->swap_dir);
		d.fixed = true;
	}
	if (is->gtt_mib != asked->gtt_mib)
		enroll_add_difference(&d, "gtt %s (asked: %s)", limits_gtt_words(is).s,
				      limits_gtt_words(asked).s);
	if (is->idle_s != asked->idle_s)
		enroll_add_difference(&d, "idle-suspend %s (asked: %s)",
				      is->idle_s ? units_duration(is->idle_s * NS_PER_S).s : "off",
				      asked->idle_s ? units_duration(asked->idle_s * NS_PER_S).s
						     : "off");
	if (is->trace != asked->trace)
		enroll_add_difference(&d, "trace off (asked: on)");
	if (!enroll_has_same_devices(is, asked)) {
		enroll_add_difference(&d, "other devices");
		d.fixed = true;
		return d;
	}
	for (unsigned int i = 0; i < is->ndevices; i++) {
		struct units_text had = limits_words(&is->device[i]),
				  wants = limits_words(&asked->device[i]);
		struct compute_text has = compute_words(is, i), other = compute_words(asked, i);

		if (strcmp(had.s, wants.s))
			enroll_add_difference(&d, "memory %s (asked: %s)", had.s, wants.s);
		if (strcmp(has.s, other.s))
			enroll_add_difference(&d, "compute %s (asked: %s)", has.s, other.s);
	}
	return d;
}

static int enroll_refuse_other(const struct enroll_request *req, const struct policy *is,
			       const struct policy *asked)
{
	struct difference d = enroll_compare(is, asked);

	if (d.fixed || !req->options->said)
		say_error("tenant \"%s\" lives, with %s; join it without such options, or begin it "
			  "anew when it has ended",
			  req->name, d.words);
	else
		say_error("tenant \"%s\" lives, with %s; join it without such options, or change "
			  "it: allot set %s%s",
			  req->name, d.words, req->name, req->options->words);
	return -EBUSY;
}

/* Returns true if this run would have made a tenant of the same policy. */
static bool enroll_is_as_first(const struct enroll_request *req, const struct policy *is)
{
	struct enroll_request first = enroll_as_first(req);
	struct policy asked;

	return req->first_options && !enroll_wanted_policy(&first, is, &asked) &&
	       enroll_is_same_policy(&asked, is);
}

/* A tenant that lives: it is joined as it is, or not at all. */
static int enroll_join(const struct enroll_request *req, struct enrolment *e)
{
	struct policy asked;
	int r = enroll_wanted_policy(req, &e->policy, &asked);

	if (r < 0)
		return r;
	if (!enroll_is_same_policy(&asked, &e->policy) && !enroll_is_as_first(req, &e->policy))
		return enroll_refuse_other(req, &e->policy, &asked);
	e->joined = true;
	return enroll_check_mode(&e->policy);
}

static void enroll_refuse_unusable(const char *name, const char *dir, int err)
{
	say_error("tenant \"%s\" (%s) cannot be used: %s; take another --name, or end its processes "
		  "and remove it: allot rm %s",
		  name, dir, tenants_error_words(err), name);
}

/* mkdir() says the same where /proc makes no directories and where the one above is missing. */
static int enroll_explain_runtime(const char *runtime, const char *name, int r)
{
	char above[PATH_MAX];

	if (!tenant_runtime_of(runtime, above, sizeof(above)) && access(above, F_OK) < 0)
		say_error("cannot make tenant \"%s\": cannot create %s: %s does not exist; "
			  "make it, or set ALLOT_RUNTIME_DIR to another directory",
			  name, runtime, above);
	else
		say_error("cannot make tenant \"%s\": cannot create %s: %s; "
			  "set ALLOT_RUNTIME_DIR to another directory",
			  name, runtime, say_errno(r));
	return r;
}

static int enroll_explain_create(const char *runtime, const char *name, int r)
{
	const char *todo = "set ALLOT_RUNTIME_DIR to a directory of yours";

	if (r == -EINVAL)
		return say_fail(r, "--name \"%s\": a name has 1 to 63 letters, digits, '.', '_' or "
				"'-' and begins with a letter or digit, like --name jobA", name);
	if ((r == -ENOENT || r == -EPERM) && access(runtime, F_OK) < 0)
		return enroll_explain_runtime(runtime, name, r);
	if (r == -EPERM || r == -ELOOP)
		todo = "it must be yours and closed to others (chmod 0700), or set "
		       "ALLOT_RUNTIME_DIR to one that is";
	else if (r == -ENOSPC || r == -EDQUOT)
		todo = "make room there (\"allot doctor --sweep\" removes stale tenants), or set "
		       "ALLOT_RUNTIME_DIR";
	else if (r == -EFBIG)
		todo = "raise the limit on the size of files (ulimit -f)";
	else if (r == -ENOLCK)
		todo = "set ALLOT_RUNTIME_DIR to a directory on tmpfs or a local disk, like "
		       "/dev/shm/allot";
	else if (r == -EMFILE || r == -ENFILE)
		todo = "raise the limit on open files (ulimit -n)";
	return say_fail(r, "cannot make tenant \"%s\" in %s: %s; %s", name, runtime,
			tenants_error_words(r), todo);
}

/*
 * Another `allot run` or `allot ps` may remove the tenant before this one holds it, and a third
 * make it again: the policy in force is the one that is there once it is held. -EAGAIN: it is gone.
 */
static int enroll_hold(const char *runtime, struct enrolment *e)
{
	int fd = life_hold(e->dir), r;

	if (fd == -ESTALE || fd == -ENOENT)
		return -EAGAIN;
	if (fd == -EPROTO)
		enroll_refuse_unusable(e->name, e->dir, fd);
	if (fd < 0)
		return fd == -EPROTO ? fd : enroll_explain_create(runtime, e->name, fd);
	r = policy_load(e->dir, &e->policy);
	if (r == 0)
		r = ledger_check(e->dir);
	/*
	 * For the command: above the numbers that shells and scripts use, and not closed by exec.
	 */
	e->life = fcntl(fd, F_DUPFD, LIFE_FD);
	if (e->life < 0)
		e->life = fcntl(fd, F_DUPFD, STDERR_FILENO + 1);
	close(fd);
	if (r < 0) {
		enroll_refuse_unusable(e->name, e->dir, r);
		return r;
	}
	return e->life < 0 ? enroll_explain_create(runtime, e->name, -errno) : 0;
}

static enum tenant_kind enroll_kind(const struct enroll_request *req, const struct enrolment *e)
{
	if (req->container && !req->keep)
		return TENANT_CONTAINER;
	return req->keep ? TENANT_PREPARED : e->generated ? TENANT_GENERATED : TENANT_NAMED;
}

/* Notes the new tenant's owner, and makes a container's users its users. */
static int enroll_mark(const struct enroll_request *req, const char *runtime,
		       const struct enrolment *e)
{
	int r;

	if (req->container) {
		r = tenants_mark(e->dir, enroll_kind(req, e), req->container);
		if (!r)
			r = tenant_open_to_all(runtime, e->name);
		if (!r)
			arbiter_host_announce(runtime);
		return r;
	}
	r = req->library ? tenants_note_library(e->dir, req->library) : 0;
	if (!r)
		r = tenants_mark(e->dir, enroll_kind(req, e), getpid());
	/* A user's cannot say itself that it has come. */
	if (!r && req->user)
		arbiter_host_announce(runtime);
	return r;
}

/* Makes the tenant where there is none: 1, and its policy is *ret; 0: there is one; or -errno. */
static int enroll_make(const struct enroll_request *req, const char *runtime, struct enrolment *e,
		       struct policy *ret)
{
	int r;

	/* For an existing tenant --memory is about the devices that it has. */
	if (!access(e->dir, F_OK))
		return 0;
	r = enroll_first_policy(req, e->name, ret);
	if (r < 0)
		return r;
	/* As allotd does for users, see bounds_complete. */
	if (!(req->options->said & TENANT_METER) && !(ret->flags & POLICY_SWAPPABLE) &&
	    arbiter_host_has_daemon(runtime))
		ret->meter = true;
	r = tenant_create(runtime, e->name, ret, e->dir, sizeof(e->dir));
	if (r == 0)
		r = enroll_mark(req, runtime, e);
	FAULT_POINT(TENANT_NOTED);
	if (r == -EEXIST)
		return 0;
	/* Without its note: it was removed before it had one. */
	if (r == -ENOENT && !access(runtime, F_OK))
		return 0;
	return r < 0 ? enroll_explain_create(runtime, e->name, r) : 1;
}

/* The same by allotd, which removes it first if it has ended. */
static int enroll_make_remotely(const struct enroll_request *req, struct enrolment *e,
				struct policy *ret)
{
	char plain[POLICY_NAME_BYTES];
	int r;

	if (!req->container && !access(e->dir, F_OK) && life_is_held(e->dir))
		return 0;
	r = enroll_first_policy(req, e->name, ret);
	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(e->name, "@"), e->name);
	return r < 0 ? r : remote_make(e->runtime, plain, ret, enroll_as_first(req).options,
					 enroll_kind(req, e), req->container);
}

static int enroll_try_remotely(const struct enroll_request *req, struct enrolment *e)
{
	struct policy first;
	int made = enroll_make_remotely(req, e, &first), r;

	if (made < 0)
		return made;
	/* Its container has it live, and no other one joins it. */
	if (req->container) {
		e->policy = first;
		e->joined = !made;
		return 0;
	}
	r = enroll_hold(e->runtime, e);
	/* allotd gives the part of the request that this user may have. */
	return r < 0 || made ? r : enroll_join(req, e);
}

static int enroll_try(const struct enroll_request *req, const char *runtime, struct enrolment *e)
{
	struct policy first;
	int made, r;

	if (e->remote)
		return enroll_try_remotely(req, e);
	tenants_await_note(e->dir);
	r = tenants_remove(runtime, e->name, true);
	if (r < 0 && r != -ENOENT && r != -EBUSY) {
		enroll_refuse_unusable(e->name, e->dir, r);
		return r;
	}
	made = enroll_make(req, runtime, e, &first);
	if (made < 0)
		return made;
	r = enroll_hold(runtime, e);
	if (r < 0 || (made && enroll_is_same_policy(&first, &e->policy)))
		return r;
	return enroll_join(req, e);
}

/* Other processes that remove and make the tenant at the same time are soon done. */
#define TRIES	   100
#define NAP_MIN_US 100
#define NAP_MAX_US 20000

static int enroll_repeat(const struct enroll_request *req, const char *runtime,
			 struct enrolment *e)
{
	unsigned int us = NAP_MIN_US;
	int r = tenant_path(runtime, e->name, e->dir, sizeof(e->dir));

	if (r < 0)
		return enroll_explain_create(runtime, e->name, r);
	for (int i = 0; i < TRIES && (r = enroll_try(req, runtime, e)) == -EAGAIN; i++)
		shared_file_nap(&us, NAP_MAX_US);
	if (r == -EAGAIN)
		say_error("tenant \"%s\" comes and goes in %s; try again, or take another --name",
			  e->name, runtime);
	if (r < 0 && e->life >= 0)
		close(TAKE_FD(e->life));
	return r;
}

static int enroll_generate_name(struct enrolment *e)
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return say_fail(-EIO, "no random numbers for a tenant's name: %s; give one with "
				"--name", say_errno(errno));
	snprintf(e->name, sizeof(e->name), "run-%ld-%06x", (long)getpid(), random >> 8);
	e->generated = true;
	return 0;
}

/* The caller's user, as allotd sees it. */
static uid_t enroll_asker(const struct enroll_request *req)
{
	return req->container ? req->container_user : geteuid();
}

/* Finds the owner of the tenant, and so its directory: the name becomes "NAME@UID". */
static int enroll_give_owner(const struct enroll_request *req, struct enrolment *e)
{
	uid_t owner = e->remote ? enroll_asker(req) : req->user;
	char plain[POLICY_NAME_BYTES];
	int r;

	if (!owner)
		return 0;
	memcpy(plain, e->name, sizeof(plain));
	r = tenant_name_of(plain, owner, e->name);
	if (r < 0)
		say_error("--name \"%s\": with \"@%u\" behind it a name has at most 63 letters; give a "
			  "shorter one",
			  plain, (unsigned int)owner);
	return r;
}

/* Where: with allotd, or in the caller's own runtime directory. */
static int enroll_find_runtime(const struct enroll_request *req, struct enrolment *e)
{
	int r = req->user ? 0 : remote_find(enroll_asker(req), e->runtime);

	e->remote = r > 0;
	if (r > 0)
		return 0;
	return r < 0 ? r : runtime_find(e->runtime);
}

int enroll(const struct enroll_request *request, struct enrolment *ret)
{
	const char *runtime = ret->runtime;
	int r;

	*ret = (struct enrolment){.life = -EBADF};
	r = enroll_find_runtime(request, ret);
	if (r < 0)
		return r;
	if (strlen(runtime) > RUNTIME_MAX)
		return say_fail(-ENAMETOOLONG, "the runtime directory's path is longer than %d "
				"bytes; set ALLOT_RUNTIME_DIR to a shorter one", RUNTIME_MAX);
	if (request->name && (!tenant_name_valid(request->name) || strchr(request->name, '@')))
		return enroll_explain_create(runtime, request->name, -EINVAL);
	if (request->name)
		snprintf(ret->name, sizeof(ret->name), "%s", request->name);
	else
		r = enroll_generate_name(ret);
	if (r == 0)
		r = enroll_give_owner(request, ret);
	if (r < 0)
		return r;
	/* A daemon that this run would need at once is not to end between two of its tenants. */
	if (!ret->remote && (!(request->options->said & TENANT_MODE) ||
			     request->options->mode != POLICY_MODE_SPACE))
		sweep_runtime(runtime);
	r = enroll_repeat(request, runtime, ret);
	if (r == 0)
		residency_file_tell(runtime); /* its quota counts */
	return r;
}

static void enroll_let_go(struct enrolment *enrolment)
{
	if (enrolment->life >= 0)
		close(TAKE_FD(enrolment->life));
}

void enroll_undo(struct enrolment *enrolment)
{
	enroll_let_go(enrolment);
	if (enrolment->joined)
		return;
	if (enrolment->remote)
		remote_remove(enrolment->runtime, enrolment->name, false);
	else
		tenant_remove(enrolment->runtime, enrolment->name);
}

void enroll_end(struct enrolment *enrolment)
{
	enroll_let_go(enrolment);
	if (enrolment->remote)
		remote_remove(enrolment->runtime, enrolment->name, true);
	else
		tenants_remove(enrolment->runtime, enrolment->name, true);
}
