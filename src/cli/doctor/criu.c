/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/criu.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/doctor/finding.h"
#include "cli/exit_status.h"
#include "cli/out/say.h"
#include "text/text.h"

/* The first that restores on kernels whose vDSO is as it is since 2025. */
#define CRIU_MAJOR 4
#define KERNEL_MAJOR 6
#define KERNEL_MINOR 13
#define PATIENCE_S 10

#define CRIU_TODO                                                                                  \
	"install CRIU 4.0 or later: the package criu of Debian 13 (4.1.1) or later, also in a "    \
	"chroot; Debian 12 has 3.17.1"

/* What `criu --version` says: the number of bytes, or -ENOENT without one, -errno. */
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

static bool criu_kernel_is_new(const char *release)
{
	unsigned int major = 0, minor = 0;

	return sscanf(release, "%u.%u", &major, &minor) == 2 &&
	       (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR));
}

/* "Version: 4.1.1" to both of its forms; "GitID: ..." may follow. */
static bool criu_version(const char *said, unsigned int *ret_major, char ret[32])
{
	const char *at = strstr(said, "Version:");

	return at && sscanf(at, "Version: %31s", ret) == 1 && sscanf(ret, "%u.", ret_major) == 1;
}

void criu_check(void)
{
	char said[512], version[32], what[256];
	unsigned int major = 0;
	struct utsname kernel;
	int r = criu_ask(said, sizeof(said));

	if (r == -ENOENT) {
		finding_say(FINDING_OK, "no CRIU here: only checkpoints to disk need it", CRIU_TODO);
		return;
	}
	if (r < 0 || !criu_version(said, &major, version)) {
		said[r < 0 ? 0 : strcspn(said, "\n")] = 0;
		text_make_printable(said);
		snprintf(what, sizeof(what), "criu --version does not tell its version: %.128s",
			 r < 0 ? say_errno(r) : said);
		finding_say(FINDING_WARN, what, CRIU_TODO);
		return;
	}
	text_make_printable(version);
	if (uname(&kernel) < 0)
		kernel.release[0] = 0;
	if (major >= CRIU_MAJOR) {
		snprintf(what, sizeof(what), "CRIU %s", version);
		finding_say(FINDING_OK, what, NULL);
	} else if (criu_kernel_is_new(kernel.release)) {
		snprintf(what, sizeof(what), "CRIU %s does not work on this kernel (%.64s)", version,
			 kernel.release);
		finding_say(FINDING_WARN, what, CRIU_TODO);
	} else {
		snprintf(what, sizeof(what),
			 "CRIU %s, which this kernel (%.64s) takes; those of 2025 and later do not",
			 version, kernel.release);
		finding_say(FINDING_OK, what, NULL);
	}
}
