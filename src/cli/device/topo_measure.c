/* SPDX-License-Identifier: Apache-2.0 */
/* A program of its own measures, because the driver would stay in this process. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/device/topo.h"
#include "cli/say/say.h"
#include "control/ask.h"
#include "node/library.h"
#include "text/units.h"

#define PROGRAM "allot-links"
#define LINE                                                                                       \
	"{\"stage\": \"link\", \"from\": \"%47[^\"]\", \"to\": \"%47[^\"]\", "                     \
	"\"mb_per_s\": %" SCNu32

extern char **environ;

static size_t topo_measure_device_of(const struct topo *topo, const char *id)
{
	size_t i = 0;

	while (i < topo->n && strcmp(units_uuid(topo->device[i].device.uuid).s, id) != 0)
		i++;
	return i;
}

/* Other lines are passed over, and those of a device that NVML did not show. */
static void topo_measure_read_line(struct topo *topo, const char *line)
{
	char from[48], to[48];
	uint32_t mb_per_s;
	size_t i, j;

	if (sscanf(line, LINE, from, to, &mb_per_s) != 3)
		return;
	i = topo_measure_device_of(topo, from);
	j = topo_measure_device_of(topo, to);
	if (i < topo->n && j < topo->n && i != j)
		topo->link[i * topo->n + j].measured_mb_per_s = mb_per_s;
}

/*
 * Starts the program; its output is read from *ret_from, NULL if that cannot be opened. 0 or
 * -errno.
 */
static int topo_measure_start(const char *path, char *words[], FILE **ret_from, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int ends[2], r;
	FILE *from;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = posix_spawn_file_actions_init(&actions);
	if (!r) {
		r = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
		if (!r)
			r = posix_spawn(&pid, path, &actions, NULL, words, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	from = r ? NULL : fdopen(ends[0], "r");
	if (!from)
		close(ends[0]);
	if (r)
		return -r;
	*ret_from = from;
	*ret_pid = pid;
	return 0;
}

/*
 * Where allotd makes the users' tenants, it knows a user's program by its tenant alone, and may end
 * those that are in none.
 */
static bool topo_measure_needs_tenant(void)
{
	const char *inside = getenv("ALLOT_TENANT_DIR");
	char runtime[PATH_MAX];

	return geteuid() != 0 && !(inside && *inside) && control_find(runtime) == 1;
}

static int topo_measure_run(char *program, FILE **ret_from, pid_t *ret_pid)
{
	char allot[] = "allot", run[] = "run", end[] = "--", self[] = "/proc/self/exe";
	char *in_tenant[] = {allot, run, end, program, NULL}, *alone[] = {program, NULL};

	return topo_measure_needs_tenant() ? topo_measure_start(self, in_tenant, ret_from, ret_pid)
					   : topo_measure_start(program, alone, ret_from, ret_pid);
}

static bool topo_measure_has_nvidia_links(const struct topo *topo)
{
	for (size_t i = 0; i < topo->n; i++)
		for (size_t j = 0; j < topo->n; j++)
			if (i != j && topo->device[i].device.vendor == DEVICE_NVIDIA &&
			    topo_link(topo, i, j)->reach)
				return true;
	return false;
}

int topo_measure(struct topo *topo)
{
	char path[PATH_MAX], *line = NULL;
	int status = 0, r;
	FILE *from = NULL;
	pid_t pid = -1;
	size_t size = 0;

	if (!topo_measure_has_nvidia_links(topo))
		return 0;
	r = library_program(PROGRAM, path);
	if (r < 0)
		return say_fail(r, PROGRAM " is not beside this allot; install both together");
	r = topo_measure_run(path, &from, &pid);
	if (r < 0)
		return say_fail(r, "cannot run \"%s\": %s", path, say_errno(-r));
	while (from && getline(&line, &size, from) >= 0)
		topo_measure_read_line(topo, line);
	free(line);
	if (from)
		fclose(from);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (from && !status)
		return 0;
	return say_fail(-EIO, "bandwidth could not be measured on all devices: " PROGRAM
			      " failed; is there 256 MiB free on each, and for this user?");
}
