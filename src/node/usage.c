/* SPDX-License-Identifier: Apache-2.0 */
#include "node/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "amd/topology_read.h"
#include "base/dir.h"
#include "base/parse.h"
#include "node/amd_gauge.h"
#include "node/amd_usage.h"
#include "nvidia/nvml.h"

#define UNKNOWN UINT64_MAX
/* How many times a few processes are read in place of all. */
#define LOOKS 30

struct usage_reader {
	struct nvml *nvml;	   /* NULL: not here */
	struct topology *topology; /* likewise, of AMD's */
	unsigned int n;
	uint8_t nvidia[POLICY_DEVICES][16]; /* by NVML's index, as they were in the beginning */
	uint64_t nvidia_bytes[POLICY_DEVICES];
	/* As all processes were asked last. */
	unsigned int amd_looks; /* before they are asked again; 0: a round is under way */
	pid_t amd_from;		/* where its next walk begins */
	uint64_t amd_covered;	/* how far it has come */
	struct usage_list amd;
	uint64_t amd_used[POLICY_DEVICES]; /* of each GPU's memory, before that */
};

/* By an index NVML means the same device for as long as it is open. 0 or -errno. */
static int usage_name_nvidia(struct usage_reader *reader, unsigned int index)
{
	static const uint8_t unknown[16];
	struct nvml_device device;
	int r;

	if (memcmp(reader->nvidia[index], unknown, sizeof(unknown)) != 0)
		return 0;
	r = nvml_device_get(reader->nvml, index, &device);
	if (!r) {
		memcpy(reader->nvidia[index], device.uuid, sizeof(device.uuid));
		reader->nvidia_bytes[index] = device.total_bytes;
	}
	return r;
}

static void usage_find_nvidia(struct usage_reader *reader)
{
	unsigned int n = 0;

	if (nvml_device_count(reader->nvml, &n))
		return;
	reader->n = n < POLICY_DEVICES ? n : POLICY_DEVICES;
	for (unsigned int i = 0; i < reader->n; i++)
		usage_name_nvidia(reader, i);
}

int usage_open(struct usage_reader **ret)
{
	struct usage_reader *reader = calloc(1, sizeof(*reader));
	struct topology_complaint complaint;

	if (!reader)
		return -ENOMEM;
	if (nvml_open(NULL, &reader->nvml))
		reader->nvml = NULL;
	else
		usage_find_nvidia(reader);
	if (topology_read(NULL, &reader->topology, &complaint))
		reader->topology = NULL;
	if (!reader->nvml && !reader->topology) {
		usage_close(reader);
		return -ENODEV;
	}
	*ret = reader;
	return 0;
}

bool usage_is_current(struct usage_reader *reader)
{
	unsigned int n;

	return !reader->nvml || nvml_device_count(reader->nvml, &n) ||
	       (n < POLICY_DEVICES ? n : POLICY_DEVICES) == reader->n;
}

void usage_close(struct usage_reader *reader)
{
	if (!reader)
		return;
	nvml_close(reader->nvml);
	topology_free(reader->topology);
	usage_free(&reader->amd);
	free(reader);
}

void usage_free(struct usage_list *list)
{
	free(list->list);
	*list = (struct usage_list){.n = 0};
}

static int usage_add(struct usage_list *list, const uint8_t uuid[16], uint64_t total_bytes, pid_t pid,
		     uint64_t bytes)
{
	struct usage *more = reallocarray(list->list, list->n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	list->list = more;
	memset(&more[list->n], 0, sizeof(*more)); /* its padding, too: it is compared */
	more[list->n].pid = pid;
	more[list->n].bytes = bytes;
	more[list->n].total_bytes = total_bytes;
	memcpy(more[list->n++].uuid, uuid, 16);
	return 0;
}

static int usage_read_nvidia(struct usage_reader *reader, unsigned int index,
			     struct usage_list *list)
{
	struct nvml_process *process = NULL;
	size_t n = 0;
	int r = usage_name_nvidia(reader, index);

	if (!r)
		r = nvml_device_processes(reader->nvml, index, &process, &n);
	for (size_t i = 0; !r && i < n; i++)
		r = usage_add(list, reader->nvidia[index], reader->nvidia_bytes[index],
			      process[i].pid, process[i].used_bytes);
	free(process);
	return r;
}

/* Returns false if the device answered that it has no such list, or none for this user. */
static bool usage_is_lost(int r)
{
	return r < 0 && r != -ENOTSUP && r != -EACCES;
}

static int usage_read_all_nvidia(struct usage_reader *reader, struct usage_list *list)
{
	for (unsigned int i = 0; i < reader->n; i++) {
		int r = usage_read_nvidia(reader, i, list);

		if (r == -ENOMEM)
			return r;
		if (usage_is_lost(r))
			memcpy(list->lost[list->nlost++], reader->nvidia[i], 16);
	}
	return 0;
}

/* Adds a process's answer of amd_usage. 0 or -ENOMEM. */
static int usage_add_amd(const struct topology *topology, pid_t pid, const struct amd_usage *told,
			 struct usage_list *list)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < told->n; i++) {
		uint8_t uuid[16];

		if (!told->gpu[i].bytes)
			continue;
		amd_identity(&topology->nodes[told->gpu[i].node], uuid);
		r = usage_add(list, uuid, 0, pid, told->gpu[i].bytes);
	}
	return r;
}

/*
 * Returns true if the used memory of each GPU is as before, and notes it. Asking all processes takes
 * 0.1 ms for each, and more for those with many descriptors. If each process that had memory also
 * has as much as before, no other process has got any; except for processes that could not be asked,
 * or that got memory which nobody was seen to have.
 */
static bool usage_is_as_before(struct usage_reader *reader)
{
	const struct topology *topology = reader->topology;
	uint32_t gpus = 0;
	bool same = true;

	for (uint32_t i = 0; i < topology->node_count; i++) {
		uint64_t used;

		if (!topology->nodes[i].gpu_id)
			continue;
		if (gpus == POLICY_DEVICES)
			return false;
		used = amd_gauge(topology->nodes[i].render_minor, AMD_GAUGE_USED, UNKNOWN - 1,
				 UNKNOWN);
		same &= used != UNKNOWN && used == reader->amd_used[gpus];
		reader->amd_used[gpus++] = used;
	}
	return same;
}

/* Processes that had memory before are read first, while the budget of each user is whole. */
static int usage_ask_again(const struct usage_reader *reader, struct usage_list *list)
{
	struct amd_usage told;
	pid_t last = 0;
	int r = 0;

	/* Entries of one process are together. */
	for (size_t i = 0; !r && i < reader->amd.n; i++) {
		pid_t pid = reader->amd.list[i].pid;
		int read = pid == last ? -EALREADY : amd_usage_read(reader->topology, pid, &told);

		if (read == 0 || read == -EAGAIN)
			r = usage_add_amd(reader->topology, pid, &told, list);
		last = pid;
	}
	return r;
}

/* --- All processes, in rounds ------------------------------------------------------------------ */

/*
 * A user may have more processes than are read of one user at a time. A walk over all processes
 * then begins with the first one that the last walk did not read wholly, and goes around. So
 * processes of users with fewer are read in each walk; and a round is over when walks have advanced
 * by as much as all numbers of processes.
 */
#define ROUND (UINT64_C(1) << 31)

struct walk {
	pid_t from, put_off; /* the first one that was not wholly read; 0: none */
	struct usage_list list;
};

static int usage_ask(const struct topology *topology, pid_t pid, struct walk *walk)
{
	struct amd_usage told;
	int r = amd_usage_search(topology, pid, &told);

	if (r == -EAGAIN && !walk->put_off)
		walk->put_off = pid;
	return r == 0 || r == -EAGAIN ? usage_add_amd(topology, pid, &told, &walk->list) : 0;
}

/* The kernel lists processes by number. */
static int usage_ask_part(const struct topology *topology, DIR *dir, bool behind, struct walk *walk)
{
	pid_t pid;
	int r = 0;

	rewinddir(dir);
	while (!r && (pid = dir_next_number(dir)) >= 0)
		if ((pid >= walk->from) == behind)
			r = usage_ask(topology, pid, walk);
	return r;
}

static int usage_walk(const struct topology *topology, struct walk *walk)
{
	CLEANUP_DIR DIR *dir = opendir("/proc");
	int r = dir ? 0 : -errno;

	if (!r)
		r = usage_ask_part(topology, dir, true, walk);
	if (!r)
		r = usage_ask_part(topology, dir, false, walk);
	return r;
}

static int usage_compare(const void *a, const void *b)
{
	const struct usage *x = a, *y = b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
				: memcmp(x->uuid, y->uuid, sizeof(x->uuid));
}

/* Asks all, and notes how far the round has come. Into `ret`, by number of process. */
static int usage_ask_all(struct usage_reader *reader, struct usage_list *ret)
{
	struct walk walk = {.from = reader->amd_from};
	int r = usage_walk(reader->topology, &walk);

	if (r < 0) {
		usage_free(&walk.list);
		return r;
	}
	reader->amd_covered += walk.put_off ? (uint64_t)(walk.put_off - walk.from) % ROUND : ROUND;
	reader->amd_from = walk.put_off;
	if (reader->amd_covered >= ROUND) {
		reader->amd_covered = 0;
		reader->amd_looks = LOOKS;
	}
	if (walk.list.n)
		qsort(walk.list.list, walk.list.n, sizeof(*walk.list.list), usage_compare);
	*ret = walk.list;
	return 0;
}

static bool usage_is_same(const struct usage_list *a, const struct usage_list *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->list, b->list, a->n * sizeof(*a->list)));
}

static int usage_read_all_amd(struct usage_reader *reader, struct usage_list *list)
{
	struct usage_list now = {.n = 0};
	bool same = usage_is_as_before(reader);
	int r = usage_ask_again(reader, &now);

	same = same && !r && usage_is_same(&now, &reader->amd);
	if (!r && same && reader->amd_looks) {
		reader->amd_looks--;
	} else if (!r) {
		usage_free(&now);
		reader->amd_looks = 0;
		reader->amd_covered = same ? reader->amd_covered : 0;
		r = usage_ask_all(reader, &now);
	}
	for (size_t i = 0; !r && i < now.n; i++)
		r = usage_add(list, now.list[i].uuid, 0, now.list[i].pid, now.list[i].bytes);
	usage_free(&reader->amd);
	reader->amd = now;
	reader->amd_looks = r ? 0 : reader->amd_looks;
	return r;
}

int usage_read(struct usage_reader *reader, struct usage_list *ret)
{
	struct usage_list list = {.n = 0};
	int r = usage_read_all_nvidia(reader, &list);

	if (!r && reader->topology)
		r = usage_read_all_amd(reader, &list);
	if (r < 0)
		usage_free(&list);
	else
		*ret = list;
	return r;
}

/* --- How busy --------------------------------------------------------------------------------- */

static void usage_add_busy(struct usage_busy *busy, const uint8_t uuid[16], uint64_t percent)
{
	if (percent > 100 || busy->n == POLICY_DEVICES)
		return;
	memcpy(busy->list[busy->n].uuid, uuid, 16);
	busy->list[busy->n++].percent = (uint32_t)percent;
}

/* The driver's figure is of the board, so it is nobody's where the board is in partitions. */
static bool usage_is_divided(const struct topology *topology, const struct topology_node *node)
{
	for (uint32_t i = 0; i < topology->node_count; i++) {
		const struct topology_node *other = &topology->nodes[i];

		if (other->gpu_id && other != node && other->domain == node->domain &&
		    topology_place(other) == topology_place(node))
			return true;
	}
	return false;
}

void usage_read_busy(struct usage_reader *reader, struct usage_busy *ret)
{
	const struct topology *topology = reader->topology;

	ret->n = 0;
	for (unsigned int i = 0; i < reader->n; i++)
		if (!usage_name_nvidia(reader, i))
			usage_add_busy(ret, reader->nvidia[i], nvml_device_busy(reader->nvml, i));
	for (uint32_t i = 0; topology && i < topology->node_count; i++) {
		const struct topology_node *node = &topology->nodes[i];
		uint8_t uuid[16];

		if (!node->gpu_id || usage_is_divided(topology, node))
			continue;
		amd_identity(node, uuid);
		usage_add_busy(ret, uuid,
			       amd_gauge(node->render_minor, AMD_GAUGE_BUSY, 100, UINT64_MAX));
	}
}
