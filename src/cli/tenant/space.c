/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/space.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/mps_daemon.h"
#include "cli/tenant/runtime.h"
#include "ledger/tenant.h"
#include "nvidia/mps.h"
#include "text/units.h"

/* Programs that saw their work fail end soon, most of them. */
#define RECOVERY_S 3

static int space_locate_daemon(struct mps_daemon *daemon)
{
	char runtime[PATH_MAX];

	if (runtime_find(runtime) < 0)
		return EXIT_ALLOT;
	if (mps_daemon_at(runtime, daemon) < 0)
		return say_error("--mode space: the sockets of MPS do not fit into %s/.mps/pipe, "
				 "because a socket's path ends at %zu bytes; set ALLOT_RUNTIME_DIR "
				 "to a shorter path",
				 runtime, sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	return 0;
}

/* A client has one daemon; another's would not keep this tenant apart from ours. */
static int space_check_nested(const struct mps_daemon *daemon)
{
	const char *pipe = getenv(MPS_PIPE);

	if (!pipe || !*pipe || !strcmp(pipe, daemon->pipe))
		return 0;
	return say_error("--mode space: " MPS_PIPE "=%s is set already, for another MPS daemon; "
			 "unset it, or use --mode turns",
			 pipe);
}

static int space_find_control(struct mps_daemon *daemon)
{
	const char *chosen = getenv("ALLOT_MPS_CONTROL");
	int r = mps_daemon_find(daemon);

	if (!r)
		return 0;
	if (chosen && *chosen && r != -ENOPKG)
		return say_error("--mode space: ALLOT_MPS_CONTROL=%s: %s; set it to the path of "
				 "nvidia-cuda-mps-control, or unset it",
				 chosen, say_errno(r));
	return say_error("--mode space: %s is not in PATH; install the driver's package that has "
			 "it (Debian: nvidia-cuda-mps, Ubuntu: nvidia-compute-utils), or use "
			 "--mode turns",
			 r == -ENOPKG ? "nvidia-cuda-mps-server" : "nvidia-cuda-mps-control");
}

int space_check(void)
{
	static struct mps_daemon daemon;
	int r = space_locate_daemon(&daemon);

	if (!r)
		r = space_check_nested(&daemon);
	return r ? r : space_find_control(&daemon);
}

int space_check_part(const struct policy *policy)
{
	uint32_t permille;
	int r = policy_part(policy, &permille);

	if (r == -EINVAL)
		return say_error("--mode space: MPS knows one part for all devices, not one for "
				 "each; give --compute one value, or use --mode turns");
	if (r < 0)
		return say_error("--mode space: which part of the SMs? give --compute a value "
				 "below 100%%, like --compute 25, or use --mode turns");
	return 0;
}

static int space_start_daemon(struct mps_daemon *daemon)
{
	int r = mps_daemon_start(daemon);

	if (!r)
		return 0;
	if (r == -ETIMEDOUT)
		return say_error("--mode space: the MPS daemon in %s does not answer; end it "
				 "(\"fuser -k %s/control\") and run again, or use --mode turns",
				 daemon->pipe, daemon->pipe);
	return say_error("--mode space: cannot start the MPS daemon (%s): %s; see %s, or use "
			 "--mode turns",
			 daemon->control,
			 r != -EPROTO	 ? say_errno(r)
			 : *daemon->said ? daemon->said
					 : "it ended without a word",
			 daemon->log);
}

/* The command would get no GPU, for a reason that nothing else tells. */
static int space_check_server(struct mps_daemon *daemon)
{
	long server = mps_daemon_failed_server(daemon, RECOVERY_S);

	if (!server)
		return 0;
	return say_error("--mode space: the MPS server (process %ld) failed, as it does when a "
			 "program under it makes an illegal access or is killed with work on the "
			 "device, and takes none until all that it had have ended; end them "
			 "(\"allot ps\" shows their tenants), or use --mode turns",
			 server);
}

int space_enter(const struct policy *policy)
{
	static struct mps_daemon daemon;
	uint32_t permille;
	int r = space_check_part(policy);

	if (r || (r = space_locate_daemon(&daemon)) || (r = space_check_nested(&daemon)) ||
	    (r = space_find_control(&daemon)) || (r = space_start_daemon(&daemon)) ||
	    (r = space_check_server(&daemon)))
		return r;
	if (policy_part(policy, &permille) < 0 || setenv(MPS_PIPE, daemon.pipe, 1) < 0 ||
	    setenv(MPS_LOG, daemon.log, 1) < 0 ||
	    setenv(MPS_PART, mps_part_text(permille).s, 1) < 0 ||
	    setenv(MPS_PRIORITY,
		   policy_yields(policy) ? MPS_PRIORITY_BELOW : MPS_PRIORITY_NORMAL, 1) < 0)
		return say_error("--mode space: cannot set the command's environment: %s",
				 say_errno(errno));
	return 0;
}

static int space_tenant_needs_daemon(const char *name, const char *dir, void *arg)
{
	static struct policy policy;

	(void)name;
	(void)arg;
	/* A policy that cannot be read may be of another version, and in use. */
	return policy_load(dir, &policy) < 0 || policy.mode == POLICY_MODE_SPACE;
}

static bool space_is_needed(const void *runtime)
{
	/* An error counts: better a daemon too many than one too few. */
	return tenant_list(runtime, space_tenant_needs_daemon, NULL) != 0;
}

bool space_sweep(const char *runtime)
{
	static struct mps_daemon daemon;

	return !mps_daemon_at(runtime, &daemon) &&
	       mps_daemon_end(&daemon, space_is_needed, runtime) > 0;
}

static void space_report_part(const struct policy *before, const struct policy *after)
{
	uint32_t was, is;

	if (policy_part(before, &was) < 0 || policy_part(after, &is) < 0 || was == is)
		return;
	printf("  programs that run keep %s of the SMs; those that allot run starts get %s\n",
	       units_permille(was).s, units_permille(is).s);
	if (is < was)
		printf("  what the running ones start asks for the old part, and gets no GPU\n");
}

static void space_report_priority(const struct policy *before, const struct policy *after)
{
	bool yields = policy_yields(after);

	if (policy_yields(before) == yields)
		return;
	printf("  programs that run %s to high priority; those that allot run starts %s\n",
	       yields ? "do not yield" : "yield", yields ? "do" : "do not");
	if (yields)
		printf("  what the running ones start asks for the old priority, and gets no "
		       "GPU\n");
}

void space_report(const struct policy *before, const struct policy *after)
{
	if (after->mode != POLICY_MODE_SPACE)
		return;
	space_report_part(before, after);
	space_report_priority(before, after);
}

int space_daemon(const char *runtime)
{
	static struct mps_daemon daemon;

	if (mps_daemon_at(runtime, &daemon) < 0)
		return -ENOENT;
	/* Without the program to ask it with, that its socket is open must do. */
	if (mps_daemon_find(&daemon) < 0)
		return mps_probe(daemon.pipe) ? -ENOENT : 0;
	return mps_daemon_ask(&daemon);
}

void space_describe(const struct policy *policy)
{
	if (policy->mode == POLICY_MODE_SPACE)
		say_note("  in space: " MPS_PART "=%s " MPS_PRIORITY "=%s " MPS_PIPE "=%s",
			 getenv(MPS_PART), getenv(MPS_PRIORITY), getenv(MPS_PIPE));
}
