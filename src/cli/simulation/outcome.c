/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulation/outcome.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/say/say.h"
#include "text/text.h"
#include "text/units.h"

#define FOLDER "report"

static const char *const kinds[SIM_REPORT_KINDS] = {
	[SIM_REPORT_MEMORY] = "cuMemAlloc",	[SIM_REPORT_ASYNC] = "cuMemAllocAsync",
	[SIM_REPORT_MANAGED] = "cuMemAllocManaged", [SIM_REPORT_PHYSICAL] = "cuMemCreate",
	[SIM_REPORT_ARRAY] = "cuArrayCreate",	[SIM_REPORT_HOST] = "cuMemHostAlloc",
};

/* With --dir several commands may have the same devices at once: each has a folder of its own. */
int outcome_prepare(const char *dir, char ret_folder[static PATH_MAX])
{
	if (snprintf(ret_folder, PATH_MAX, "%s/" FOLDER "-%d", dir, (int)getpid()) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (mkdir(ret_folder, 0700) < 0 || setenv("ALLOT_SIM_REPORT", ret_folder, 1) < 0)
		return err_errno();
	return 0;
}

static void outcome_end_text(char *text, size_t len)
{
	text[len - 1] = '\0';
	text_make_printable(text);
}

/* False: it is no outcome, or one that was never begun. */
static bool outcome_read_file(int folder, const char *name, struct outcome_process *ret)
{
	CLEANUP_CLOSE int fd = fd_openat(folder, name, O_RDONLY, 0);
	struct sim_report *was = &ret->was;

	if (fd < 0 || fd_pread_all(fd, was, sizeof(*was), 0) < 0 || was->magic != SIM_REPORT_MAGIC ||
	    was->version != SIM_REPORT_VERSION)
		return false;
	outcome_end_text(was->command, sizeof(was->command));
	for (int i = 0; i < SIM_REPORT_ERRORS; i++) {
		outcome_end_text(was->error[i].call, sizeof(was->error[i].call));
		outcome_end_text(was->error[i].result, sizeof(was->error[i].result));
	}
	ret->ended = was->ended;
	ret->lives = !was->ended && was->pid > 0 && kill(was->pid, 0) == 0;
	return true;
}

static int outcome_compare(const void *a, const void *b)
{
	const struct outcome_process *x = a, *y = b;

	return (x->was.pid > y->was.pid) - (x->was.pid < y->was.pid);
}

int outcome_read(const char *folder, struct outcome *ret)
{
	struct outcome outcome = {.n = 0};
	CLEANUP_DIR DIR *dir = opendir(folder);
	int r = dir ? 0 : err_errno();
	const char *name;

	while (!r && (name = dir_next(dir))) {
		struct outcome_process *more =
			reallocarray(outcome.process, outcome.n + 1, sizeof(*more));

		if (more) {
			outcome.process = more;
			outcome.n += outcome_read_file(dirfd(dir), name, &more[outcome.n]);
			unlinkat(dirfd(dir), name, 0);
		} else {
			r = -ENOMEM;
		}
	}
	rmdir(folder);
	if (r < 0) {
		outcome_free(&outcome);
		return r;
	}
	if (outcome.n)
		qsort(outcome.process, outcome.n, sizeof(*outcome.process), outcome_compare);
	*ret = outcome;
	return 0;
}

void outcome_free(struct outcome *outcome)
{
	free(outcome->process);
	*outcome = (struct outcome){.n = 0};
}

bool outcome_next_left(const struct outcome_process *process, unsigned int *at, struct outcome_left *ret)
{
	for (; *at < SIM_MAX_DEVICES * SIM_REPORT_KINDS; ++*at) {
		unsigned int device = *at / SIM_REPORT_KINDS, kind = *at % SIM_REPORT_KINDS;
		const struct sim_report_held *held = &process->was.device[device].held[kind];

		if (!held->n)
			continue;
		*ret = (struct outcome_left){device, kinds[kind], held->n, held->bytes};
		++*at;
		return true;
	}
	return false;
}

const struct sim_report_error *outcome_next_error(const struct outcome_process *process, unsigned int *at)
{
	while (*at < SIM_REPORT_ERRORS) {
		const struct sim_report_error *error = &process->was.error[(*at)++];

		if (error->code && error->n)
			return error;
	}
	return NULL;
}

bool outcome_is_fault(const struct sim_report_error *error)
{
	return strcmp(error->result, "CUDA_ERROR_NOT_SUPPORTED") != 0;
}

bool outcome_has_left(const struct outcome_process *process)
{
	struct outcome_left left;
	unsigned int at = 0;

	return process->ended && outcome_next_left(process, &at, &left);
}

bool outcome_has_faults(const struct outcome_process *process)
{
	const struct sim_report_error *error;
	unsigned int at = 0;

	while ((error = outcome_next_error(process, &at)))
		if (outcome_is_fault(error))
			return true;
	return process->was.more_errors;
}

uint64_t outcome_made(const struct outcome_process *process)
{
	uint64_t made = 0;

	for (int d = 0; d < SIM_MAX_DEVICES; d++)
		for (int k = 0; k < SIM_REPORT_KINDS; k++)
			made += process->was.device[d].held[k].made;
	return made;
}

static void outcome_print_errors(const struct outcome_process *process)
{
	const struct sim_report_error *error;
	unsigned int at = 0;

	while ((error = outcome_next_error(process, &at)))
		say_note("  %s: %s, %" PRIu64 " time%s%s", error->call, error->result, error->n,
			 error->n == 1 ? "" : "s",
			 outcome_is_fault(error) ? "" : " (the simulator does not have it)");
	if (process->was.more_errors)
		say_note("  and %" PRIu64 " calls more that did not succeed", process->was.more_errors);
}

static void outcome_print_left(const struct outcome_process *process)
{
	const char *what = process->ended ? "never freed" :
			   process->lives ? "held now, as it still runs"
					  : "held when it was killed, or ended without exit handlers";
	struct outcome_left left;
	unsigned int at = 0;

	while (outcome_next_left(process, &at, &left))
		say_note("  GPU %u: %s of %s, %s, %s", left.device,
			 units_count(left.n, "allocation", "allocations").s, left.call,
			 units_bytes(left.bytes).s, what);
}

static void outcome_print_process(const struct outcome_process *process)
{
	say_note("process %d (%s): %s", (int)process->was.pid, process->was.command,
		 units_count(outcome_made(process), "allocation", "allocations").s);
	for (unsigned int d = 0; d < SIM_MAX_DEVICES; d++)
		if (process->was.device[d].peak_bytes)
			say_note("  GPU %u: peak %s", d,
				 units_bytes(process->was.device[d].peak_bytes).s);
	outcome_print_left(process);
	outcome_print_errors(process);
}

void outcome_print(const struct outcome *outcome)
{
	size_t left = 0, faults = 0;

	for (size_t i = 0; i < outcome->n; i++) {
		outcome_print_process(&outcome->process[i]);
		left += outcome_has_left(&outcome->process[i]);
		faults += outcome_has_faults(&outcome->process[i]);
	}
	if (!outcome->n)
		say_note("report: no process began to use CUDA (cuInit)");
	else
		say_note("report: of %s %zu left memory, and %zu had calls that did not succeed",
			 units_count(outcome->n, "process", "processes").s, left, faults);
}
