/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot run: makes or joins a tenant, sets the environment and replaces itself by the command, so
 * that pid, signals, terminal and exit status are the command's own. With a guard it stays as the
 * command's parent.
 */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "base/now.h"
#include "base/parse.h"
#include "cli/cmd/command.h"
#include "cli/device/cuda.h"
#include "cli/device/limits.h"
#include "cli/device/selection.h"
#include "cli/device/visible.h"
#include "cli/exec/guarded.h"
#include "cli/exec/identity.h"
#include "cli/exec/launch.h"
#include "cli/exec/launcher.h"
#include "cli/exec/report.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/dmem.h"
#include "cli/tenant/elsewhere.h"
#include "cli/tenant/enroll.h"
#include "cli/tenant/options.h"
#include "cli/tenant/program.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/space.h"
#include "cli/tenant/swap_dir.h"
#include "node/compute_words.h"
#include "node/library.h"
#include "node/tenants.h"

enum { KEY_ALLOW_ESCAPE = 256, KEY_GUARD, KEY_PRINT_ENV, KEY_REPORT, KEY_SWAPPABLE, KEY_OVERCOMMIT, KEY_HOST_MEMORY,
       KEY_SWAP_DIR, KEY_TRACE, KEY_USER };

enum { GROUP_MOVED = TENANT_GROUPS, GROUP_AMD, GROUP_CONTAINERS };

static const struct argp_option options[] = {
	{"name", 'n', "NAME", 0, "tenant to make or to join (default: a new one for this run)", 0},
	{"gpu", 'g', "LIST", 0,
	 "devices, in this order: indices (NVIDIA's as nvidia-smi counts, then AMD's), 0-3, all, "
	 "or names",
	 0},
	{"user", KEY_USER, "USER", 0,
	 "for root: make the tenant and run the command as this user (a name, or UID:GID)", 0},
	{"allow-escape", KEY_ALLOW_ESCAPE, NULL, 0, "run the command even if allot cannot limit it",
	 0},
	{"report", KEY_REPORT, NULL, 0,
	 "at the end, print the tenant's peak memory, device time and refusals", 0},
	{"trace", KEY_TRACE, NULL, 0, "record what its processes decide, for \"allot trace\"", 0},
	{"verbose", 'v', NULL, 0, "say what is set up", 0},
	{"accounting", 'a', "ledger|driver", 0,
	 "count memory by allot's ledger (default) or by the driver's figure", TENANT_GROUP_MEMORY},
	{NULL, 0, NULL, 0, "Memory that moves to the host:", GROUP_MOVED},
	{"swappable", KEY_SWAPPABLE, NULL, 0,
	 "let \"allot suspend\" move the tenant's memory to the host, and \"allot resume\" back",
	 GROUP_MOVED},
	{"overcommit", KEY_OVERCOMMIT, NULL, 0,
	 "as --swappable, and take turns on the device's memory with other such tenants, whose "
	 "quotas together may exceed it",
	 GROUP_MOVED},
	{"host-memory", KEY_HOST_MEMORY, "SIZE", 0,
	 "most of the tenant's memory that may be on the host (default: what is free, less 10%)",
	 GROUP_MOVED},
	{"swap-dir", KEY_SWAP_DIR, "DIR", 0,
	 "a directory on a disk, for memory that has no room on the host", GROUP_MOVED},
	{NULL, 0, NULL, 0, "AMD GPUs:", GROUP_AMD},
	{"guard", KEY_GUARD, NULL, 0,
	 "let the kernel report ioctls, so that static programs and bare system calls are limited, "
	 "too",
	 GROUP_AMD},
	{NULL, 0, NULL, 0, "Containers and other launchers:", GROUP_CONTAINERS},
	{"print-env", KEY_PRINT_ENV, NULL, 0,
	 "run nothing: print the variables that put a program into the tenant, which stays until "
	 "\"allot rm\"",
	 GROUP_CONTAINERS},
	{0},
};

struct args {
	const char *name, *gpu;
	struct identity user; /* zeroed: the user who runs allot */
	struct tenant_options tenant;
	struct config elsewhere; /* limits of other systems' variables and file */
	struct tenant_options first; /* with that, of a tenant that this run makes */
	enum enroll_accounting accounting;
	bool allow_escape, guard, print_env, report, swappable, overcommit, verbose;
	uint64_t host_bytes; /* 0: not said */
	const char *swap_dir;		  /* as given */
	char swap_path[POLICY_DIR_BYTES]; /* its absolute path */
	char **command;
};

static error_t run_refuse_accounting(const char *arg)
{
	return say_fail(EINVAL, "--accounting \"%s\": write --accounting ledger or --accounting "
			"driver", arg);
}

static error_t run_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->tenant;
		return 0;
	case KEY_TRACE:
		return tenant_options_take_trace("on", &a->tenant);
	case 'n':
		a->name = arg;
		return 0;
	case 'g':
		a->gpu = arg;
		return 0;
	case 'a':
		if (!strcmp(arg, "ledger"))
			a->accounting = ENROLL_ACCOUNTING_LEDGER;
		else if (!strcmp(arg, "driver"))
			a->accounting = ENROLL_ACCOUNTING_DRIVER;
		else
			return run_refuse_accounting(arg);
		return 0;
	case 'v':
		a->verbose = true;
		return 0;
	case KEY_ALLOW_ESCAPE:
		a->allow_escape = true;
		return 0;
	case KEY_GUARD:
		a->guard = true;
		return 0;
	case KEY_REPORT:
		a->report = true;
		return 0;
	case KEY_SWAPPABLE:
		a->swappable = true;
		return 0;
	case KEY_OVERCOMMIT:
		a->swappable = a->overcommit = true;
		return 0;
	case KEY_HOST_MEMORY:
		if (!parse_size(arg, host_memory_total(), &a->host_bytes))
			return 0;
		return say_fail(EINVAL, "--host-memory \"%s\": not a size; write it like "
				"--host-memory 64GiB or --host-memory 50%%", arg);
	case KEY_SWAP_DIR:
		a->swap_dir = arg;
		return 0;
	case KEY_PRINT_ENV:
		a->print_env = true;
		return 0;
	case KEY_USER:
		return identity_find(arg, &a->user) < 0 ? EINVAL : 0;
	case ARGP_KEY_ARG:
		/* The rest is the command's, options and all. */
		a->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&tenant_options_argp}, {0}};

static const struct argp argp = {
	.options = options,
	.children = children,
	.parser = run_parse_option,
	.args_doc = "-- COMMAND [ARG...]",
	.doc = "Run a command as a tenant with a hard GPU memory quota and a share of compute.\v"
	       "Several runs with the same --name share one quota. Sizes: 8GiB 512M 1.5G "
	       "(1024-based), 8GB (1000-based), plain bytes, 25% of the device.\n"
	       "\n"
	       "  allot run --memory 8GiB -- python train.py\n"
	       "  allot run --name jobA --gpu 0,1 --memory 8GiB,25% -- ./app args\n"
	       "  allot run --memory 8GiB --compute 25 -- ./app\n"
	       "  allot run --weight 3 -- ./app\n",
};

/* 0, or an exit status: a command that would run without its quota is refused. */
static int run_check_command(const struct args *a)
{
	struct program program;
	int r = program_examine(a->command[0], &program);

	if (r == -ENOEXEC) /* the kernel will report its fault */
		return 0;
	if (r < 0)
		return launch_cannot(a->command[0], r);
	if (program.kind == PROGRAM_OK)
		return 0;
	/* The guard needs nothing preloaded; NVIDIA's devices it does not know. */
	if (a->guard && program.kind != PROGRAM_MACHINE && access("/dev/nvidiactl", F_OK))
		return 0;
	if (a->allow_escape) {
		say_note("warning: %s %s: it runs without a quota", program.path,
			 program_kind_words(program.kind));
		return 0;
	}
	return say_error("\"%s\" would escape its quota: %s %s; use another build of it, or "
			 "%s--allow-escape to run it without a quota",
			 a->command[0], program.path, program_kind_words(program.kind),
			 access("/dev/kfd", F_OK) ? "" : "--guard for AMD GPUs alone, or ");
}

/* A tenant's process must not get a new quota beside the one that it has. */
static int run_check_nested(const struct args *a)
{
	const char *dir = getenv("ALLOT_TENANT_DIR");

	if (!dir || !*dir || a->allow_escape)
		return 0;
	return say_error("already inside tenant \"%s\": another run would leave its quota; run the "
			 "command as it is, or use --allow-escape",
			 strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir);
}

/* Such a quota is refused its first allocation, which looks like a fault of the program. */
static void run_warn_of_context(const struct policy *policy)
{
	uint64_t context = cuda_context_bytes();

	for (unsigned int i = 0; i < policy->ndevices; i++)
		if (policy->device[i].limit_bytes && policy->device[i].limit_bytes < context) {
			say_note("warning: --memory %s is less than a CUDA context takes by itself "
				 "(about %s): programs are refused their first allocation",
				 units_bytes(policy->device[i].limit_bytes).s,
				 units_bytes(context).s);
			return;
		}
}

/* The loader continues without a library that it does not find, and so would the program. */
static int run_check_root(const struct args *a, const char *library)
{
	const char *root = a->command ? launcher_bare_root(a->command, library) : NULL;

	if (!root)
		return 0;
	if (a->allow_escape) {
		say_note("warning: %s has no %s: what runs there runs without a quota", root, library);
		return 0;
	}
	return say_error("\"%s\" would escape its quota: %s has no %s; put it there, with the tenant's "
			 "directory mounted, run allot inside, or use --allow-escape to run it "
			 "without a quota",
			 a->command[0], root, library);
}

static int run_find_library(char library[static PATH_MAX])
{
	const char *chosen = getenv("ALLOT_LIBRARY");
	int r = library_find(library);

	if (r == -EINVAL)
		return say_error("\"%s\" cannot be preloaded: its path has a space or a colon, where "
				 "LD_PRELOAD is split; set ALLOT_LIBRARY to a copy elsewhere",
				 library);
	if (r < 0 && chosen && *chosen)
		return say_error(
			"ALLOT_LIBRARY=%s: %s; set it to the path of liballot.so, or unset it",
			chosen, say_errno(r));
	if (r < 0)
		return say_error("liballot.so is not beside this allot; install both together, or "
				 "set ALLOT_LIBRARY to its path");
	return 0;
}

/*
 * From now on `library` is a path that stays this version's. In another root it is under the name
 * that people know, or not there.
 */
static void run_keep_library(const struct args *a, char library[static PATH_MAX])
{
	char kept[PATH_MAX];

	strcpy(kept, library);
	library_find_kept(kept);
	if (!a->command || !launcher_bare_root(a->command, kept))
		strcpy(library, kept);
}

/*
 * The library that allotd noted for a new tenant may be out of reach here; the run then uses its
 * own.
 */
static bool run_is_noted_in_vain(const struct args *a, const struct enrolment *e, const char *noted)
{
	return !e->joined && (access(noted, R_OK) < 0 ||
			      (a->command && launcher_bare_root(a->command, noted)));
}

/*
 * A tenant's processes have one library, that of the first, whatever has been installed meanwhile:
 * two versions could count differently. 0, or an exit status.
 */
static int run_take_library(const struct args *a, const struct enrolment *e,
			    char library[static PATH_MAX])
{
	const char *chosen = getenv("ALLOT_LIBRARY");
	char noted[PATH_MAX];
	bool asks = (e->joined || e->remote) && !(chosen && *chosen);
	int r = asks ? tenants_read_library(e->dir, noted) : -ENOENT;

	if (r == 0 && run_is_noted_in_vain(a, e, noted))
		r = -ENOENT;
	/* One by content that nobody noted may be removed before its processes begin. */
	if (r == -ENOENT && e->remote && a->print_env)
		return run_find_library(library);
	if (r == -ENOENT || (r == 0 && !strcmp(noted, library)))
		return 0;
	if (r == 0 && access(noted, R_OK) < 0)
		r = -errno;
	if (r < 0)
		return say_error("tenant \"%s\" began with another library than this one, which cannot "
				 "be had: %s; end it, and begin it anew",
				 e->name, say_errno(r));
	strcpy(library, noted);
	return run_check_root(a, library);
}

struct library_path {
	char s[PATH_MAX + 2];
};

/*
 * The same file by a path that marks programs of a tenant, see guest/process/environment.h: a program
 * that has lost its tenant's directory is then not taken for one without a tenant.
 */
static struct library_path run_library_path(const char *library)
{
	const char *name = strrchr(library, '/');
	struct library_path path;

	snprintf(path.s, sizeof(path.s), "%.*s/.%s", (int)(name - library), library, name);
	return path;
}

static void run_note_tenant(const struct enrolment *e, const struct config *elsewhere,
			    const char *library)
{
	say_note("tenant %s (%s) in %s", e->name,
		 e->joined	? "joined"
		 : e->generated ? "for this run alone"
				: "new",
		 e->dir);
	for (unsigned int i = 0; i < e->policy.ndevices; i++) {
		bool all = (e->policy.flags & POLICY_ALL_DEVICES) && i == 0;

		say_note("  %s: %s%s%s",
			 all ? "each device" : units_uuid(e->policy.device[i].uuid).s,
			 limits_words(&e->policy.device[i]).s,
			 e->policy.compute == POLICY_COMPUTE_OFF ? "" : ", compute ",
			 e->policy.compute == POLICY_COMPUTE_OFF ? ""
								 : compute_words(&e->policy, i).s);
	}
	if (e->policy.flags & POLICY_SWAPPABLE)
		say_note("  swappable%s%s%s%s%s%s%s",
			 e->policy.flags & POLICY_OVERCOMMIT ? ", overcommits" : "",
			 e->policy.host_bytes ? ", host memory " : "",
			 e->policy.host_bytes ? units_bytes(e->policy.host_bytes).s : "",
			 *e->policy.swap_dir ? ", then files in " : "", e->policy.swap_dir,
			 e->policy.idle_s ? ", leaves when unused for " : "",
			 e->policy.idle_s ? units_duration(e->policy.idle_s * NS_PER_S).s : "");
	if (e->policy.gtt_mib)
		say_note("  gtt: %s", limits_gtt_words(&e->policy).s);
	say_note("  accounting: %s",
		 e->policy.flags & POLICY_ACCOUNTING_DRIVER ? "driver" : "ledger");
	elsewhere_describe(elsewhere, &e->policy);
	space_describe(&e->policy);
	say_note("  LD_PRELOAD=%s%s", library, visible_words().s);
}

/*
 * Has the kernel limit the command, too, where it can. Elsewhere the command runs all the same, and
 * `allot doctor` says why.
 */
static void run_limit_by_kernel(const struct enrolment *e, bool verbose, struct dmem_entry *cgroup)
{
	static struct dmem_trouble trouble;
	static struct devices amd;
	char runtime[PATH_MAX];
	int r;

	if (!dmem_offered() || runtime_find(runtime) < 0)
		return;
	devices_read_amd(&amd);
	r = dmem_enter(runtime, e->name, &amd, cgroup, &trouble);
	if (verbose && r == 0)
		say_note("  dmem.max of cgroup %s", cgroup->cgroup);
	else if (verbose && r != -ENODEV)
		say_note("  no dmem.max: %s", trouble.what);
}

/* 0, or an exit status: there is a command to run, or there are variables to print. */
static int run_check_usage(const struct args *a)
{
	if (a->print_env && a->command)
		return say_error("--print-env runs nothing; leave \"%s\" out, and start it with what "
				 "is printed",
				 a->command[0]);
	if (a->print_env && !a->name)
		return say_error("--print-env: a tenant that stays needs a --name, by which \"allot "
				 "rm\" removes it");
	if (a->print_env && a->guard)
		return say_error("--guard: there is no command to guard; leave --print-env out");
	if (a->user.uid && (a->guard || a->report))
		return say_error("--user: the command takes allot's place as that user; leave %s out",
				 a->guard ? "--guard" : "--report");
	if (a->user.uid && a->overcommit)
		return say_error("--overcommit: tenants of different users do not leave for each other; "
				 "leave it out, or --user");
	if (a->user.uid && (a->tenant.said & TENANT_MODE) && a->tenant.mode == POLICY_MODE_SPACE)
		return say_error("--mode space: its partition is one MPS daemon's, which is one user's; "
				 "leave it out, or --user");
	if (a->host_bytes && !a->swappable)
		return say_error("--host-memory: only what is swappable goes there; write --swappable or "
				 "--overcommit, too");
	if (a->swap_dir && !a->swappable)
		return say_error("--swap-dir: only what is swappable goes there; write --swappable or "
				 "--overcommit, too");
	if (a->tenant.idle_s && !a->overcommit)
		return say_error("--idle-suspend: nobody would bring the tenant back; write --overcommit, "
				 "too");
	if (a->overcommit && a->accounting == ENROLL_ACCOUNTING_DRIVER)
		return say_error("--overcommit: it is decided by the ledger who leaves; leave "
				 "--accounting driver out");
	if (!a->print_env && !a->command)
		return say_error("no command; write it after --, like: allot run --memory 8GiB -- "
				 "python train.py");
	return 0;
}

/* Prints lines for `env`, `docker run --env-file` and the like: the variables that a run sets. */
static int run_print_environment(void)
{
	static const char *const names[] = {
		"ALLOT_TENANT_DIR", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
		"HIP_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_CLIENT_PRIORITY",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			printf("%s=%s\n", names[i], getenv(names[i]));
	return 0;
}

/* Which of users' tenants leave for each other is one user's affair: see run_check_usage(). */
static bool run_overcommits_by_variable(const struct args *a)
{
	return a->elsewhere.overcommit && !a->overcommit && !a->user.uid &&
	       a->accounting != ENROLL_ACCOUNTING_DRIVER;
}

/* 0, or an exit status: all that can be wrong before there is a tenant. */
static int run_check(struct args *a, char library[PATH_MAX])
{
	int r;

	if ((r = run_check_usage(a)) || (r = run_check_nested(a)) ||
	    (r = elsewhere_read(&a->elsewhere)) || (r = run_find_library(library)))
		return r;
	elsewhere_apply(&a->elsewhere, &a->tenant, &a->first);
	if (run_overcommits_by_variable(a))
		a->first.elsewhere.overcommit = "CUDA_OVERSUBSCRIBE";
	if (a->swap_dir && swap_dir_find(a->swap_dir, a->user.uid, a->swap_path) < 0)
		return EXIT_ALLOT;
	run_keep_library(a, library);
	r = a->command ? run_check_command(a) : 0;
	return r ? r : run_check_root(a, library);
}

/*
 * Other tenants can be evicted, but no device becomes larger: a tenant with a larger quota would
 * wait forever.
 */
static bool run_refuse_too_large(const char *why, const struct devices *devices,
				 const struct policy *policy)
{
	for (unsigned int i = 0; i < policy->ndevices; i++) {
		const struct policy_device *limit = &policy->device[i];
		bool all = i == 0 && (policy->flags & POLICY_ALL_DEVICES);
		uint64_t most = 0;

		for (unsigned int d = 0; d < devices->n; d++)
			if ((all || !memcmp(devices->list[d].uuid, limit->uuid, 16)) &&
			    devices->list[d].total_bytes > most)
				most = devices->list[d].total_bytes;
		if (!most || limit->limit_bytes <= most)
			continue;
		say_error("%s: a quota of %s is more than %s has (%s), so it would not fit "
			  "there even alone; give less --memory",
			  why,
			  units_bytes(limit->limit_bytes).s, all ? "any device" : "the device",
			  units_bytes(most).s);
		return true;
	}
	return false;
}

/* The tenant that the options ask for, made or joined; 0, or -errno with a message. */
static int run_enroll(const struct args *a, const char *library, struct devices *devices,
		      struct selection *gpus, struct enrolment *ret)
{
	struct enroll_request req = {.devices = devices,
				     .options = &a->tenant,
				     .name = a->name,
				     .gpus = a->gpu ? gpus : NULL,
				     .accounting = a->accounting,
				     .swappable = a->swappable,
				     .overcommit = a->overcommit,
				     .first_options = &a->first,
				     .first_overcommits = run_overcommits_by_variable(a),
				     .host_bytes = a->host_bytes,
				     .swap_dir = a->swap_path,
				     .user = a->user.uid,
				     .keep = a->print_env,
				     .library = library};
	int r;

	/*
	 * The driver takes its time to answer, and limits that are the same for all devices need no
	 * answer, unless they may be more than there is.
	 */
	if (a->gpu || tenant_options_by_device(&a->tenant) || a->overcommit ||
	    a->elsewhere.overcommit || limits_may_exceed(&a->first.memory))
		devices_read(devices);
	if (a->gpu &&
	    (selection_parse(devices, a->gpu, gpus) < 0 || visible_check(a->gpu, devices, gpus)))
		return -EINVAL;
	r = enroll(&req, ret);
	if (r == 0 && (a->overcommit || a->elsewhere.overcommit) &&
	    (ret->policy.flags & POLICY_OVERCOMMIT) &&
	    run_refuse_too_large(a->overcommit ? "--overcommit" : "CUDA_OVERSUBSCRIBE", devices,
				 &ret->policy)) {
		enroll_undo(ret);
		r = -E2BIG;
	}
	if (r == 0 && (a->first.said & TENANT_MEMORY))
		limits_note_excess(&ret->policy, devices);
	return r;
}

/* 0, or an exit status with a message. */
static int run_set_environment(const struct enrolment *e, const struct config *elsewhere,
			       const char *library, const struct devices *devices,
			       const struct selection *gpus)
{
	struct policy lowered = e->policy;
	int r;

	elsewhere_lower(elsewhere, &lowered);
	r = lowered.mode == POLICY_MODE_SPACE ? space_enter(&lowered) : 0;
	if (r)
		return r;
	if (setenv("ALLOT_TENANT_DIR", e->dir, 1) < 0 ||
	    launch_prepend("LD_PRELOAD", run_library_path(library).s, ": ") < 0 ||
	    visible_set(devices, gpus, &e->policy) < 0)
		return say_error("cannot set the command's environment: %s", say_errno(errno));
	return 0;
}

int cmd_run(int argc, char **argv)
{
	static struct devices devices;
	static struct dmem_entry cgroup;
	static struct enrolment e;
	static struct args a;
	struct selection gpus;
	char library[PATH_MAX];
	int r;

	if (arguments_parse(&argp, argc, argv, ARGP_IN_ORDER, &a))
		return EXIT_ALLOT;
	r = run_check(&a, library);
	if (r)
		return r;
	if (run_enroll(&a, library, &devices, &gpus, &e) < 0)
		return EXIT_ALLOT;
	r = run_take_library(&a, &e, library);
	if (!r)
		r = run_set_environment(&e, &a.elsewhere, library, &devices, a.gpu ? &gpus : NULL);
	if (r) {
		enroll_undo(&e);
		return r;
	}
	if (a.verbose)
		run_note_tenant(&e, &a.elsewhere, library);
	else if (e.joined)
		say_note("joined tenant %s: memory %s%s, compute %s", e.name,
			 limits_words(&e.policy.device[0]).s, e.policy.ndevices > 1 ? ",..." : "",
			 compute_words(&e.policy, 0).s);
	if (a.print_env)
		return run_print_environment();
	launcher_warn(a.command);
	if (!e.joined)
		run_warn_of_context(&e.policy);
	tenant_options_note_unused(&a.tenant, &e.policy);
	run_limit_by_kernel(&e, a.verbose, &cgroup);
	if (a.guard)
		return guarded_launch(&e, &cgroup, a.command, a.report);
	if (a.report)
		return report_launch(&e, &cgroup, a.command);
	r = identity_take(&a.user);
	if (!r)
		r = launch_exec(a.command);
	dmem_leave(&cgroup);
	enroll_undo(&e);
	return r;
}
