/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc_stat.h"

/* Ancestors that are asked for, so that a chain of parents that changes meanwhile has an end. */
#define ANCESTORS_MOST 32

struct found {
	int at;	    /* of snapshot.process */
	int parent; /* of this list; -1: none is in it */
	uint64_t host_bytes;
	bool placed;
};

static int programs_find(const struct snapshot *s, const struct found *all, int n, pid_t pid)
{
	for (int i = 0; i < n; i++)
		if ((pid_t)s->process[all[i].at].host_pid == pid)
			return i;
	return -1;
}

/* The nearest ancestor that uses a GPU: a shell or a launcher may be between. */
static int programs_find_parent(const struct snapshot *s, const struct found *all, int n, int i)
{
	pid_t pid = (pid_t)s->process[all[i].at].host_pid;
	struct proc_stat stat;

	for (int up = 0; up < ANCESTORS_MOST && pid > 1; up++) {
		int found;

		if (proc_stat_read(pid, &stat) < 0)
			return -1;
		pid = (pid_t)stat.word[PROC_STAT_PARENT];
		found = pid > 1 ? programs_find(s, all, n, pid) : -1;
		if (found >= 0)
			return found == i ? -1 : found;
	}
	return -1;
}

static uint64_t programs_host_bytes(uint32_t pid)
{
	struct proc_stat stat;

	if (!pid || proc_stat_read((pid_t)pid, &stat) < 0)
		return UINT64_MAX;
	return stat.word[PROC_STAT_RESIDENT] * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Each is placed once: pids of two moments may make a circle, which then has no beginning. */
static void programs_place(struct found *all, int n, int i, int depth, struct programs *ret)
{
	all[i].placed = true;
	ret->list[ret->n++] = (struct program){all[i].at, depth, all[i].host_bytes};
	for (int k = 0; k < n && depth < ANCESTORS_MOST; k++)
		if (!all[k].placed && all[k].parent == i)
			programs_place(all, n, k, depth + 1, ret);
}

int programs_read(const struct snapshot *s, struct gauges_reader *gauges, struct programs *ret)
{
	struct programs programs = {.n = 0};
	struct found *all = calloc((size_t)s->nprocesses + 1, sizeof(*all));
	int n = 0, r;

	programs.list = calloc((size_t)s->nprocesses + 1, sizeof(*programs.list));
	r = all && programs.list ? gauges_read_busy(gauges, &programs.busy, &programs.nbusy)
				 : -ENOMEM;
	if (r < 0) {
		free(all);
		programs_free(&programs);
		return r;
	}
	for (int p = 0; p < s->nprocesses; p++)
		if (s->process[p].live)
			all[n++] = (struct found){
				p, -1, programs_host_bytes(s->process[p].host_pid), false};
	for (int i = 0; i < n; i++)
		all[i].parent = programs_find_parent(s, all, n, i);
	for (int i = 0; i < n; i++)
		if (all[i].parent < 0)
			programs_place(all, n, i, 0, &programs);
	for (int i = 0; i < n; i++)
		if (!all[i].placed)
			programs_place(all, n, i, 0, &programs);
	free(all);
	*ret = programs;
	return 0;
}

void programs_free(struct programs *programs)
{
	free(programs->list);
	free(programs->busy);
	*programs = (struct programs){.n = 0};
}

int programs_busy(const struct programs *programs, pid_t pid, const uint8_t uuid[static 16])
{
	int most = -1;

	for (size_t i = 0; i < programs->nbusy; i++) {
		const struct gauge_busy *busy = &programs->busy[i];

		if (busy->pid == pid && !memcmp(busy->uuid, uuid, 16) && (int)busy->percent > most)
			most = (int)busy->percent;
	}
	return most;
}
