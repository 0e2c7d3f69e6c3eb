/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/site.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/now.h"
#include "cli/doctor/finding.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "node/library.h"
#include "text/text.h"

#define COMPLAINT 512

static void site_exec_check(const char *allotd, const char *path, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	unsetenv("JOURNAL_STREAM"); /* its lines would begin in another way */
	execl(allotd, "allotd", "--check", "--config", path, NULL);
	_exit(EXIT_CANNOT_EXEC);
}

static void site_read_line(int out, char ret[static COMPLAINT])
{
	static const char name[] = "allotd: ";
	size_t len = 0;
	ssize_t n;

	while (len < COMPLAINT - 1 && !memchr(ret, '\n', len) &&
	       (n = read(out, ret + len, COMPLAINT - 1 - len)) > 0)
		len += (size_t)n;
	ret[len] = 0;
	ret[strcspn(ret, "\n")] = 0;
	if (!strncmp(ret, name, strlen(name)))
		memmove(ret, ret + strlen(name), strlen(ret + strlen(name)) + 1);
	text_make_printable(ret);
}

/*
 * The first complaint of "allotd --check", without the program's name; "": none. For a file that
 * does not answer, allotd says so after some seconds, and is not waited for any longer.
 */
static int site_try(const char *path, char ret[static COMPLAINT])
{
	CLEANUP_CLOSE int out = -EBADF, in = -EBADF;
	char allotd[PATH_MAX];
	int fds[2], status = 0, r = library_daemon(allotd);
	pid_t pid;

	if (r < 0)
		return r;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno();
	out = fds[0];
	in = fds[1];
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return err_errno();
	if (!pid)
		site_exec_check(allotd, path, in);
	close(TAKE_FD(in));
	site_read_line(out, ret);
	if (*ret)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return *ret || (WIFEXITED(status) && !WEXITSTATUS(status)) ? 0 : -EIO;
}

static bool site_is_same(const struct control_about *about, const struct stat *st)
{
	return about->dev == st->st_dev && about->ino == st->st_ino &&
	       about->bytes == (uint64_t)st->st_size &&
	       about->mtime_ns ==
		       (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

/* Returns true if nothing is wrong with it, or nothing could be found. */
static bool site_check_content(const char *path, bool has_daemon)
{
	char complaint[COMPLAINT], what[PATH_MAX + 128];
	/* Of a link that leads nowhere allotd says so itself. */
	int r = access(path, R_OK) < 0 && errno != ENOENT ? err_errno() : site_try(path, complaint);

	if (r == 0 && *complaint) {
		finding_say(FINDING_FAIL,
			    has_daemon
				    ? "put it right: until then allotd goes by what it said before"
				    : "put it right: allotd does not start by it",
			    "%s", complaint);
		return false;
	}
	if (r == 0)
		return true;
	if (r == -EACCES)
		snprintf(what, sizeof(what),
			 "%s is not for this user to read, so it is not checked", path);
	else if (r == -ENOENT)
		snprintf(what, sizeof(what),
			 "%s is not checked: there is no allotd beside this allot", path);
	else
		snprintf(what, sizeof(what), "%s cannot be checked: %s", path, say_errno(r));
	finding_say(r == -EACCES ? FINDING_OK : FINDING_WARN,
		    r == -EACCES   ? "root's \"allot doctor\" checks it"
		    : r == -ENOENT ? "install it together with allot"
				   : "see what \"allotd --check\" says",
		    "%s", what);
	return true;
}

static void site_say_gone(const char *path, const struct control_about *about)
{
	if (about && about->ino) {
		finding_say(FINDING_WARN,
			    "put it back; or have that forgotten: systemctl reload allotd",
			    "%s is not there any more; what it said is in force", path);
	} else if (about) {
		finding_say(FINDING_OK, NULL, "no %s: users are not bounded", path);
	}
}

void site_check(const struct control_about *about)
{
	const char *chosen = getenv("ALLOT_RUNTIME_DIR");
	char path[PATH_MAX] = CONTROL_CONFIG;
	struct stat st;

	if (about)
		snprintf(path, sizeof(path), "%.*s", (int)sizeof(about->config) - 1, about->config);
	else if (chosen && *chosen)
		return; /* it may have another file */
	if (stat(path, &st) < 0 && lstat(path, &st) < 0) {
		site_say_gone(path, about);
		return;
	}
	if (!site_check_content(path, about))
		return;
	if (about && !site_is_same(about, &st)) {
		finding_say(FINDING_WARN, "have it read: systemctl reload allotd",
			    "%s has changed since allotd read it", path);
	} else if (about) {
		finding_say(FINDING_OK, NULL, "%s is in force", path);
	}
}
