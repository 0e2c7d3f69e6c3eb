/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/criu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/checkpoint/breakpoint.h"
#include "cli/checkpoint/tree.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "image/parts.h"
#include "node/library.h"
#include "text/text.h"

#define PATIENCE_S 10

/* --- Which one ------------------------------------------------------------------------------ */

/*
 * Reads the output of `criu --version`. Returns the number of bytes, -ENOENT without a CRIU, or
 * -errno.
 */
static int criu_ask(char *ret, size_t size)
{
	CLEANUP_CLOSE int out = -EBADF, in = -EBADF;
	size_t len = 0;
	int fds[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno();
	out = fds[0];
	in = fds[1];
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return err_errno();
	if (!pid) {
		dup2(in, STDOUT_FILENO);
		dup2(in, STDERR_FILENO);
		alarm(PATIENCE_S);
		execlp("criu", "criu", "--version", NULL);
		_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC);
	}
	close(TAKE_FD(in));
	while (len < size - 1 && (n = read(out, ret + len, size - 1 - len)) > 0)
		len += (size_t)n;
	ret[len] = 0;
	close(TAKE_FD(out)); /* one that has more to say does not wait for us */
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND)
		return -ENOENT;
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CANNOT_EXEC ? -EACCES : (int)len;
}

/* "Version: 4.1.1" to both of its forms; "GitID: ..." may follow. */
static bool criu_read_version(const char *said, unsigned int *ret_major, char *ret)
{
	const char *at = strstr(said, "Version:");

	return at && sscanf(at, "Version: %31s", ret) == 1 && sscanf(ret, "%u.", ret_major) == 1;
}

int criu_find(unsigned int *ret_major, char ret_version[static CRIU_VERSION_BYTES],
	      char said[static 512])
{
	int r = criu_ask(said, 512);

	if (r < 0)
		return r;
	if (!criu_read_version(said, ret_major, ret_version)) {
		said[strcspn(said, "\n")] = 0;
		text_make_printable(said);
		return -EPROTO;
	}
	text_make_printable(ret_version);
	return 0;
}

int criu_check(void)
{
	char version[CRIU_VERSION_BYTES], said[512];
	unsigned int major;
	int r;

	if (geteuid())
		return say_error("CRIU takes and makes processes: this takes root");
	r = criu_find(&major, version, said);
	if (r == -ENOENT)
		return say_error("there is no criu on PATH; " CRIU_TODO);
	if (r < 0)
		return say_error("criu does not tell its version: %s; " CRIU_TODO,
				 r == -EPROTO ? said : say_errno(r));
	if (major < CRIU_MAJOR)
		return say_error("CRIU %s is too old; " CRIU_TODO, version);
	return 0;
}

/* --- Running it ----------------------------------------------------------------------------- */

#define LOG PARTS_CRIU_LOG

static FILE *criu_open_log(int at)
{
	CLEANUP_CLOSE int fd = fd_openat(at, LOG, O_RDONLY, 0);
	FILE *log = fd < 0 ? NULL : fdopen(fd, "r");

	if (log)
		TAKE_FD(fd);
	return log;
}

/* The last error in CRIU's own log is about the whole; the first is the reason. */
static bool criu_reason(int at, const char *dir, const char *error, char ret[static 256])
{
	FILE *log = criu_open_log(at);
	bool found = false;
	char line[512];

	snprintf(ret, 256, "see %s/" LOG, dir);
	while (log && !found && fgets(line, sizeof(line), log)) {
		const char *said = strstr(line, error);

		/* CRIU prints this if it may not raise a limit, and continues. */
		if (!said || strstr(said, "RLIMIT_NOFILE"))
			continue;
		line[strcspn(line, "\n")] = 0;
		text_make_printable(line);
		snprintf(ret, 256, "%.200s", said);
		found = true;
	}
	if (log)
		fclose(log);
	return found;
}

static int criu_run(const char *const *argv, int keep)
{
	bool fires = breakpoint_fires();
	int status = 0, null;
	pid_t pid;

	/* It has children of its own, which are ours to end when it cannot. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return err_errno();
	if (!pid) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null < 0 || (keep >= 0 && fcntl(keep, F_SETFD, 0) < 0))
			_exit(EXIT_CANNOT_EXEC);
		/* Files that others may write to would be refused at the next restore. */
		umask(umask(S_IWGRP | S_IWOTH) | S_IWGRP | S_IWOTH);
		if (!fires)
			setenv(BREAKPOINT_VARIABLE, BREAKPOINT_WITHOUT, 0);
		/* Its log has all. */
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvp("criu", (char *const *)argv);
		_exit(EXIT_CANNOT_EXEC);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return -ECHILD;
	return WEXITSTATUS(status) ? -EIO : 0;
}

/* --- Our plugin ----------------------------------------------------------------------------- */

/* Above all that there are. */
#define NO_PROCESS "2147483647"

/*
 * CRIU refuses a plugin with more hooks than its own before it looks for the process. The criu on
 * PATH may be a script, so its file is not searched.
 */
static bool criu_loads(const char *dir, const char *plugin)
{
	const char *argv[] = {"criu", "dump", "--tree", NO_PROCESS, "--images-dir", dir,
			      "--log-file", LOG, "-v2", "--libdir", plugin, NULL};
	char path[PATH_MAX], line[512];
	bool loads = true;
	FILE *log;

	criu_run(argv, -1);
	snprintf(path, sizeof(path), "%s/" LOG, dir);
	log = fopen(path, "re");
	while (log && loads && fgets(line, sizeof(line), log))
		loads = !strstr(line, "Corrupted plugin");
	if (log)
		fclose(log);
	unlink(path);
	return loads;
}

int criu_find_plugin(char ret[static PATH_MAX])
{
	char dir[] = P_tmpdir "/allot-criu-XXXXXX";
	unsigned int hooks = CRIU_NEWER_HOOKS;
	int r;

	if (!mkdtemp(dir))
		return say_error("%s: %s", dir, say_errno(errno));
	r = library_criu_plugin(hooks, ret);
	if (!r && !criu_loads(dir, ret)) {
		hooks = CRIU_OLDER_HOOKS;
		r = library_criu_plugin(hooks, ret);
	}
	rmdir(dir);
	return r < 0 ? say_error("CRIU's plugin for AMD GPUs, criu-%u/allot_amdgpu.so, is not here; "
				 CRIU_PLUGIN_TODO, hooks)
		     : 0;
}

/* --- Dump and restore ----------------------------------------------------------------------- */

static int criu_refuse(int at, const char *dir, const char *what, int r)
{
	char reason[256];

	if (r == -ECHILD)
		return say_error("CRIU was killed, and did not %s the processes", what);
	criu_reason(at, dir, "Error (", reason);
	return say_error("CRIU could not %s the processes: %s", what, reason);
}

/* A path through this process, also for programs that CRIU starts: we wait for its end. */
static void criu_name_images(int at, char ret[static 48])
{
	snprintf(ret, 48, "/proc/%ld/fd/%d", (long)getpid(), at);
}

int criu_dump(pid_t root, int at, const char *dir, int lock, const char *plugin)
{
	char pid[32], images[48];
	const char *argv[] = {"criu", "dump", "--tree", pid, "--images-dir", images, "--log-file", LOG,
			"-v2", "--shell-job", "--file-locks", "--link-remap", "--leave-stopped",
			*plugin ? "--libdir" : NULL, plugin, NULL};
	struct tree others;
	int r = tree_children(&others);

	if (r)
		return r;
	snprintf(pid, sizeof(pid), "%ld", (long)root);
	criu_name_images(at, images);
	r = criu_run(argv, lock);
	if (r < 0)
		tree_kill_own(&others);
	tree_free(&others);
	return r < 0 ? criu_refuse(at, dir, "dump", r) : 0;
}

int criu_restore(int at, const char *dir, const char *plugin)
{
	char images[48], reason[256];
	const char *argv[] = {"criu", "restore", "--images-dir", images, "--log-file", LOG, "-v2",
			"--shell-job", "--file-locks", "--link-remap", "--restore-detached",
			*plugin ? "--libdir" : NULL, plugin, NULL};
	int r;

	criu_name_images(at, images);
	r = criu_run(argv, -1);
	if (r < 0)
		return criu_refuse(at, dir, "restore", r);
	/* CRIU only notes that queues do not continue: their processes would wait forever. */
	return *plugin && criu_reason(at, dir, "Error (allot_amdgpu)", reason)
		       ? say_error("CRIU restored the processes, and its plugin not all of what they had: "
				   "%s", reason)
		       : 0;
}
