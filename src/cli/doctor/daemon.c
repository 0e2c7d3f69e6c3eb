/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/fd.h"
#include "base/parse.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/site.h"
#include "cli/say/say.h"
#include "control/ask.h"
#include "node/process/mapped.h"
#include "node/process/process.h"
#include "node/process/user.h"
#include "roles/arbiter_host.h"

/* For an answer that takes allotd no time. */
#define PATIENCE_S 1

#define RESTART "have it restarted: systemctl restart allotd"

/* --- The machine's -------------------------------------------------------------------------- */

/* "allotd (process 7)", or without an unknown part. */
static const char *daemon_words(pid_t pid, char ret[static 48])
{
	snprintf(ret, 48, pid > 0 ? "allotd (process %ld)" : "allotd", (long)pid);
	return ret;
}

static void daemon_say_silent(const char *runtime, int r, pid_t pid)
{
	char what[PATH_MAX + 256], who[48];

	if (r == -ETIMEDOUT)
		snprintf(what, sizeof(what), "%s does not answer within %d s",
			 daemon_words(pid, who), PATIENCE_S);
	else if (r == -ECONNREFUSED)
		snprintf(what, sizeof(what),
			 "no allotd answers at %s-users/" CONTROL_SOCKET
			 ": it was killed, and tenants decide themselves whose turn it is",
			 runtime);
	else if (r == -EPROTO)
		snprintf(what, sizeof(what), "%s is of another version than this allot",
			 daemon_words(pid, who));
	else
		snprintf(what, sizeof(what),
			 "allotd cannot be asked at %s-users/" CONTROL_SOCKET ": %s", runtime,
			 say_errno(r));
	finding_say(
		FINDING_FAIL,
		r == -ECONNREFUSED
			? "users' \"allot run\" starts nothing until one does; have it started: "
			  "systemctl start allotd"
			: "users' \"allot run\" starts nothing until it does; " RESTART,
		"%s", what);
}

/* Asks the daemon. Returns true if *ret is its configuration. */
static bool daemon_ask(const char *runtime, struct control_about *ret)
{
	struct control_request request = {.verb = CONTROL_ABOUT};
	struct control_answer answer;
	char who[48];
	pid_t pid;
	int r = control_ask_within(runtime, PATIENCE_S, &request, &answer, &pid);

	if (r < 0) {
		daemon_say_silent(runtime, r, pid);
		return false;
	}
	finding_say(FINDING_OK, NULL, "%s answers, and decides whose turn it is",
		    daemon_words(pid, who));
	if (answer.error == -EUSERS)
		finding_say(FINDING_WARN, "try again",
			    "it has too many requests to tell which configuration is in force");
	else if (answer.error)
		finding_say(FINDING_WARN, RESTART,
			    "it is older than this allot, and does not tell which "
			    "configuration is in force");
	else
		*ret = answer.about;
	return !answer.error;
}

static void daemon_say_not_found(const char *runtime, int r)
{
	char what[PATH_MAX + 128];

	if (r == -ENOTCONN) {
		finding_say(FINDING_FAIL,
			    "until then users' \"allot run\" starts nothing; have it started: "
			    "systemctl start allotd",
			    "no allotd runs, and by " CONTROL_CONFIG
			    " users' tenants are made by one");
		return;
	}
	if (r == -EPERM)
		snprintf(what, sizeof(what),
			 "allotd's socket %s-users/" CONTROL_SOCKET " is not root's", runtime);
	else
		snprintf(what, sizeof(what), "allotd's socket %s-users/" CONTROL_SOCKET ": %s",
			 runtime, say_errno(r));
	finding_say(FINDING_FAIL,
		    "have root remove it: until then users' \"allot run\" starts nothing", "%s",
		    what);
}

/* --- A runtime directory's -------------------------------------------------------------------- */

static bool daemon_is_called_so(pid_t pid)
{
	char path[64], name[32];

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	return fd_read_text(AT_FDCWD, path, name, sizeof(name)) > 0 && !strcmp(name, "allotd\n");
}

/* The one that has the role's file of that directory mapped; 0: it is not to be seen. */
static pid_t daemon_find(const char *runtime)
{
	CLEANUP_DIR DIR *proc = opendir("/proc");
	struct stat file = {0};
	int r = arbiter_host_find_file(runtime, &file), pid;

	while (!r && (pid = dir_next_number(proc)) >= 0)
		if (daemon_is_called_so(pid) && !mapped_by(pid, &file))
			return pid;
	return 0;
}

static void daemon_say_other(const char *runtime)
{
	char who[48], name[USER_BYTES] = "";
	pid_t pid = daemon_find(runtime);
	uid_t uid = geteuid();
	bool others = pid && process_read_user(pid, &uid) != -ESRCH && uid != geteuid();

	if (others)
		user_name(uid, name);
	finding_say(FINDING_OK, NULL,
		    "%s%s%s decides whose turn it is in %s, and makes no tenants for users",
		    daemon_words(pid, who), others ? " of user " : "", name, runtime);
}

void daemon_check(const char *runtime)
{
	struct control_about about;
	char system[PATH_MAX];
	int r = control_find(system);
	bool told = r > 0 && daemon_ask(system, &about);
	bool elsewhere = r <= 0 || strcmp(runtime, system) != 0;
	bool decides = elsewhere && arbiter_host_has_daemon(runtime);

	if (r < 0)
		daemon_say_not_found(system, r);
	if (decides)
		daemon_say_other(runtime);
	else if (r == 0)
		finding_say(FINDING_OK, NULL,
			    "no allotd: tenants decide themselves whose turn it is");
	site_check(told ? &about : NULL);
}
