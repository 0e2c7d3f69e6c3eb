/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook runs when the container's namespaces and mounts are there and nothing of its image has
 * run, as the runtime's child, beside the container. It asks no driver: sizes are as the device's
 * name has them, and devices are named by UUIDs.
 */
#include "cli/container/hook.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/identity.h"
#include "cdi/container.h"
#include "cdi/mount.h"
#include "cdi/spec.h"
#include "cli/container/image.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/enroll.h"
#include "cli/tenant/options.h"
#include "cli/tenant/remote.h"
#include "ledger/tenant.h"
#include "node/tenants.h"
#include "nvidia/uuid.h"

static const struct argp_option options[] = {
	{"gpu", 'g', "UUID,...", 0, "devices, by name (default: all)", 0},
	{"tenant", 't', "NAME", 0, "of a container that is started again and again: the tenant, which stays "
	 "until it is removed (default: one that ends with the container)", 0},
	{"grant", 'G', "ID", 0, "by which Kubernetes' claim or slot that is; for allotd", 0},
	{"memo", 'M', "TEXT", 0, "what allotd wants to find again", 0},
	{"swappable", 's', NULL, 0, "its memory can leave the device", 0},
	{"overcommit", 'o', NULL, 0, "and does so for others of this kind", 0},
	{0},
};

struct args {
	const char *gpus, *tenant, *grant;
	bool swappable, overcommit;
	struct tenant_options tenant_options;
};

static error_t hook_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->tenant_options;
		return 0;
	case 'g':
		a->gpus = arg;
		return 0;
	case 't':
		a->tenant = arg;
		return 0;
	case 'G':
		a->grant = arg;
		return 0;
	case 'M':
		return 0;
	case 's':
		a->swappable = true;
		return 0;
	case 'o':
		a->swappable = a->overcommit = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&tenant_options_argp}, {0}};

static const struct argp argp = {
	.options = options,
	.children = children,
	.parser = hook_parse_option,
	.doc = "For container runtimes: make a tenant for the container whose state is on standard "
	       "input.\n",
};

/* Takes the devices from the list alone, without asking the kernel or the drivers. */
static int hook_take_devices(const char *list, struct devices *devices, struct selection *gpus)
{
	char *copy = strdup(list), *rest = copy, *word;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && (word = strsep(&rest, ","))) {
		struct device *device = &devices->list[devices->n];

		if (devices->n == POLICY_DEVICES)
			r = -E2BIG;
		else if (!amd_identity_parse(word, device->uuid))
			device->vendor = DEVICE_AMD;
		else
			r = uuid_parse(word, device->uuid);
		if (r == 0) {
			gpus->index[gpus->n++] = devices->n;
			devices->n++;
		}
	}
	free(copy);
	if (r < 0)
		say_error("--gpu \"%s\": not a list of devices' names", list);
	return r;
}

/* As people see containers named: 64 digits by their first 12. Of two alike the second fails. */
static void hook_name_tenant(const char *id, char ret[static POLICY_NAME_BYTES])
{
	size_t len = strlen(id) < POLICY_NAME_BYTES ? strlen(id) : 12;

	snprintf(ret, POLICY_NAME_BYTES, "%.*s", (int)len, id);
}

/*
 * In a rootless runtime's user namespace we are root, and the tenants are the user's: made by allotd where
 * one makes users' tenants, else in a directory of the user's.
 */
static int hook_find_runtime(uid_t *ret_user)
{
	const char *chosen = getenv("ALLOT_RUNTIME_DIR");
	char runtime[PATH_MAX];
	int r;

	*ret_user = 0;
	if (geteuid())
		return 0;
	r = container_outer_uid(ret_user);
	if (r < 0)
		return say_error("whose container is this? %s", say_errno(r));
	r = remote_find(*ret_user, runtime);
	if (r || (chosen && *chosen))
		return r < 0 ? r : 0;
	r = tenant_runtime_dir_of(*ret_user, runtime, sizeof(runtime));
	if (r == 0 && setenv("ALLOT_RUNTIME_DIR", runtime, 1) < 0)
		r = -ENOMEM;
	return r < 0 ? say_error("no directory for tenants of user %u: %s", (unsigned int)*ret_user,
				 say_errno(r))
		     : 0;
}

/* The child enters another mount namespace and root. Returns an exit status. */
static int hook_furnish(const struct container *container, const struct enrolment *e)
{
	const char *tenant_dir = e->dir;
	int r = cdi_mount_enter(container);

	if (r < 0)
		return say_error("the container's mounts cannot be entered: %s", say_errno(r));
	/* Files that allotd made are root's; its root may be another than we are, too. */
	r = e->remote || container->owner != geteuid()
		    ? cdi_mount_files(container, tenant_dir)
		    : cdi_mount_tenant(container, tenant_dir);
	if (r == -EEXIST)
		return say_error("the container asks for two devices of allot, and has one tenant; ask for one "
				 "device, or in Kubernetes for one request of one claim (resources.claims[].request)");
	if (r < 0)
		return say_error("tenant %s cannot be mounted at %s in %s: %s", tenant_dir,
				 CDI_TENANT, container->root, say_errno(r));
	return image_check(container);
}

static int hook_furnish_apart(const struct container *container, const struct enrolment *e)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(hook_furnish(container, e));
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return say_error("no process to furnish the container: %s", say_errno(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : say_error("ended by signal %d", WTERMSIG(status));
}

/* A container that is started again finds its tenant with the changes that were made to it. */
static const struct tenant_options no_options;

static void hook_ask_for_kept(const struct args *a, struct enroll_request *req)
{
	req->name = a->tenant;
	req->keep = true;
	req->first_options = req->options;
	req->options = &no_options;
}

static int hook_note(const struct args *a, const struct container *container, const char *dir)
{
	int r = a->grant ? pod_note_grant(dir, a->grant) : 0;

	if (r == 0 && *container->pod.name)
		r = pod_note(dir, &container->pod);
	return r < 0 ? say_error("whose it is cannot be noted in %s: %s", dir, say_errno(r)) : 0;
}

/* Returns true if an earlier Pod had the tenant: of that name, by the same slot. */
static bool hook_is_former(const struct args *a, const struct container *container, const char *dir)
{
	struct pod former;

	return a->grant && !strncmp(a->grant, POD_SLOT, strlen(POD_SLOT)) && *container->pod.uid &&
	       pod_read(dir, &former) == 0 && strcmp(former.uid, container->pod.uid) != 0;
}

/* Ends the tenant of an earlier Pod, so that an `allot set` of that one does not hold for this Pod. */
static void hook_end_former(const struct args *a, const struct container *container)
{
	char runtime[PATH_MAX], dir[PATH_MAX];

	if (a->tenant && tenant_runtime_dir(runtime, sizeof(runtime)) == 0 &&
	    tenant_path(runtime, a->tenant, dir, sizeof(dir)) == 0 &&
	    hook_is_former(a, container, dir))
		tenants_remove(runtime, a->tenant, false);
}

/*
 * A tenant's name has a hash of its owner, but users choose Pods' names: of two grants with one
 * name the second is refused.
 */
static int hook_check_joined(const struct args *a, const struct container *container,
			     const struct enrolment *e)
{
	char grant[POD_GRANT_BYTES];

	if (!a->grant || !e->joined)
		return 0;
	if (pod_read_grant(e->dir, grant) == 0 && strcmp(grant, a->grant) != 0)
		return say_error("tenant \"%s\" is that of grant %s, and this container's is %s; give the "
				 "Pod another name",
				 e->name, grant, a->grant);
	if (hook_is_former(a, container, e->dir))
		return say_error("tenant \"%s\" is an earlier Pod's, which has not ended; it is tried "
				 "again when that has ended",
				 e->name);
	return 0;
}

static int hook_enroll(const struct args *a, const struct container *container,
		       const struct enroll_request *req, struct enrolment *e)
{
	hook_end_former(a, container);
	if (enroll(req, e) < 0 || hook_check_joined(a, container, e))
		return EXIT_ALLOT;
	if (e->joined && !req->keep)
		return say_error("there is a tenant \"%s\", which lives: it is none of this "
				 "container's",
				 req->name);
	return hook_note(a, container, e->dir);
}

static int hook_give_tenant(const struct args *a, const struct container *container)
{
	static struct devices devices;
	struct selection gpus = {.n = 0};
	char name[POLICY_NAME_BYTES];
	struct enroll_request req = {.name = name,
				     .options = &a->tenant_options,
				     .gpus = a->gpus ? &gpus : NULL,
				     .devices = &devices,
				     .swappable = a->swappable,
				     .overcommit = a->overcommit,
				     .container = container->pid};
	static struct enrolment e;
	int r;

	hook_name_tenant(container->id, name);
	if (a->tenant)
		hook_ask_for_kept(a, &req);
	if ((a->gpus && hook_take_devices(a->gpus, &devices, &gpus) < 0) ||
	    hook_find_runtime(&req.container_user))
		return EXIT_ALLOT;
	r = hook_enroll(a, container, &req, &e);
	if (r)
		return r;
	r = hook_furnish_apart(container, &e);
	if (r)
		enroll_undo(&e);
	return r;
}

int hook_run(int argc, char **argv)
{
	struct container container = {.pid = 0};
	char why[CONTAINER_WHY];
	static struct args a;
	int r;

	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_ALLOT;
	if (container_read(stdin, &container, why) < 0)
		r = say_error("%s", why);
	else if (!container.has_owner)
		r = say_error("the container's user namespace has no root that we know, and its first "
			      "process is not of our user, so nobody can own the tenant's files; "
			      "run it with a user namespace that has user 0");
	else
		r = hook_give_tenant(&a, &container);
	container_done(&container);
	return r;
}
