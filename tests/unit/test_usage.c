/* SPDX-License-Identifier: Apache-2.0 */
/* When all processes of the machine are asked what they have of AMD's GPUs, and when only few. */
#include "node/usage.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "node/amd_gauge.h"
#include "node/amd_usage.h"
#include "nvidia/nvml.h"
#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)

int __wrap_nvml_open(const char *path, struct nvml **ret);
int __wrap_topology_read(const char *root, struct topology **ret,
			 struct topology_complaint *complaint);
uint64_t __wrap_amd_gauge(uint32_t render_minor, const char *file, uint64_t most, uint64_t unknown);
int __wrap_amd_usage_search(const struct topology *topology, pid_t pid, struct amd_usage *ret);
int __wrap_amd_usage_read(const struct topology *topology, pid_t pid, struct amd_usage *ret);

static uint64_t used[2];       /* of the devices' memory */
static bool told = true;       /* ... by the kernel */
static uint64_t ours, parents; /* what two of all processes have of the second device */
static int asked, again;       /* so many processes: searched, and read again */
static int budget = INT_MAX;   /* so many can be searched */
static bool is_searched;       /* this process, wholly */

int __wrap_nvml_open(const char *path, struct nvml **ret)
{
	return -ENOENT;
}

int __wrap_topology_read(const char *root, struct topology **ret,
			 struct topology_complaint *complaint)
{
	struct topology *topology = calloc(1, sizeof(*topology));

	topology->nodes = calloc(3, sizeof(*topology->nodes));
	topology->node_count = 3; /* the first one is a processor */
	for (uint32_t i = 1; i < 3; i++) {
		topology->nodes[i].gpu_id = i;
		topology->nodes[i].render_minor = 127 + i;
	}
	*ret = topology;
	return 0;
}

uint64_t __wrap_amd_gauge(uint32_t render_minor, const char *file, uint64_t most, uint64_t unknown)
{
	CHECK(render_minor == 128 || render_minor == 129);
	return told ? used[render_minor - 128] : unknown;
}

/* Of the second device, which is the topology's last node. */
static void tell(pid_t pid, struct amd_usage *ret)
{
	uint64_t bytes = pid == getpid() ? ours : pid == getppid() ? parents : 0;

	ret->n = bytes ? 1 : 0;
	ret->gpu[0].node = 2;
	ret->gpu[0].bytes = bytes;
}

int __wrap_amd_usage_read(const struct topology *topology, pid_t pid, struct amd_usage *ret)
{
	again++;
	tell(pid, ret);
	return 0;
}

int __wrap_amd_usage_search(const struct topology *topology, pid_t pid, struct amd_usage *ret)
{
	asked++;
	tell(pid, ret);
	if (!budget)
		return -EAGAIN;
	budget--;
	is_searched |= pid == getpid();
	return 0;
}

/* Whether so many processes have something, of which this one has as much as it has. */
static void check(struct usage_reader *reader, size_t n)
{
	struct usage_list list;
	bool found = false;

	asked = again = 0;
	CHECK_EQ(usage_read(reader, &list), 0);
	CHECK_EQ(list.n, n);
	for (size_t i = 0; i < n; i++) {
		found |= list.list[i].pid == getpid();
		CHECK_EQ(list.list[i].bytes, list.list[i].pid == getpid() ? ours : parents);
	}
	CHECK_EQ(found, ours > 0);
	usage_free(&list);
}

/*
 * Where not all can be searched in a look, each look goes on behind the last one, also while more is
 * taken all the time; and once all were searched only those that have something are asked.
 */
static void check_rounds(struct usage_reader *reader)
{
	int looks = 0;

	for (int changes = 0; changes < 2; changes++) {
		is_searched = false;
		used[1] += MIB;
		do {
			budget = 5;
			used[1] += changes ? MIB : 0;
			check(reader, 0);
		} while (!is_searched && ++looks < 100000);
		CHECK(is_searched);
	}
	do {
		budget = 5;
		check(reader, 0);
	} while (asked && ++looks < 100000);
	CHECK_EQ(asked, 0);
	budget = INT_MAX;
}

int main(void)
{
	struct usage_reader *reader;
	int all, looks = 0;

	CHECK_EQ(usage_open(&reader), 0);
	check(reader, 0);
	all = asked;
	CHECK(all >= 2); /* this one and its parent */
	check(reader, 0);
	CHECK_EQ(asked, 0);

	/* Somebody has taken memory, whoever it is. */
	used[1] = ours = 3 * MIB;
	check(reader, 1);
	CHECK(asked >= 2);
	check(reader, 1);
	CHECK_EQ(asked, 0);
	CHECK_EQ(again, 1);

	/* Another one has as much as is given back: what is used is the same. */
	parents = 2 * MIB;
	ours = MIB;
	check(reader, 2);
	parents = 0;
	used[1] = MIB;
	check(reader, 1);
	ours = 0;
	parents = MIB;
	check(reader, 1);
	parents = used[1] = 0;
	check(reader, 0);
	check(reader, 0);
	CHECK_EQ(asked, 0);

	/* Somebody has what nobody was seen to have: that is found out in the end. */
	used[1] = MIB;
	check(reader, 0);
	parents = MIB;
	check(reader, 0);
	all = 0;
	do {
		struct usage_list list;

		CHECK_EQ(usage_read(reader, &list), 0);
		all = (int)list.n;
		usage_free(&list);
	} while (!all && looks++ < 100);
	CHECK_EQ(all, 1);
	parents = used[1] = 0;
	check(reader, 0);

	check_rounds(reader);

	/* A kernel that does not tell. */
	told = false;
	check(reader, 0);
	CHECK(asked >= 2);
	check(reader, 0);
	CHECK(asked >= 2);
	usage_close(reader);
	return 0;
}
