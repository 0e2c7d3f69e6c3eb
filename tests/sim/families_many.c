/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes of one tenant on one device, and another tenant's on another, all at random:
 * at no time above the quota, and after each round, when all hold still, the ledger says what the
 * simulator says. One of the processes is killed in every round and another takes its place.
 *
 *     families_many <liballot.so> <families_crowd> <kinds> [seed [rounds]]
 */
#include "families_host.h"

#define TENANTS 2
#define PROCESSES 3
#define ROUNDS "4"

static struct program programs[TENANTS][PROCESSES];
static struct tenant tenants[TENANTS];
static char *crowd, *rounds, *kinds;
static unsigned long seed;

static void start(int t, int i)
{
	char device[8], number[24];
	char *argv[] = {crowd, device, number, rounds, kinds, NULL};

	snprintf(device, sizeof(device), "%d", t);
	snprintf(number, sizeof(number), "%lu", seed++);
	program_start(&programs[t][i], &tenants[t], t ? "second tenant" : "first tenant", argv);
}

static bool is_done(struct program *p)
{
	int status;

	close(p->socket);
	p->socket = -1;
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	if (status)
		fprintf(stderr, "%s: status %#x, seed %lu\n", p->label, (unsigned int)status, seed);
	CHECK_EQ(status, 0);
	return true;
}

/* Until all of a tenant's processes hold still, or are done. The last note, if there is one. */
static bool all_still(int t, struct note *ret)
{
	bool any = false;

	for (int i = 0; i < PROCESSES; i++) {
		struct program *p = &programs[t][i];

		if (p->socket < 0)
			continue;
		if (recv(p->socket, ret, sizeof(*ret), 0) != sizeof(*ret))
			is_done(p);
		else
			any = true;
	}
	return any;
}

static void kill_one(int t, int i)
{
	struct program *p = &programs[t][i];
	int status;

	if (p->socket < 0)
		return;
	kill(p->pid, SIGKILL);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	close(p->socket);
	p->socket = -1;
}

int main(int argc, char **argv)
{
	uint64_t quota[TENANTS] = {260 * MIB + 4096, 400 * MIB};
	int failures = 0, round = 0;
	bool any = true;

	if (argc < 4)
		return 2;
	crowd = argv[2];
	kinds = argv[3];
	seed = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
	rounds = argc > 5 ? argv[5] : (char *)(uintptr_t)ROUNDS;
	host_begin(argv[1], "2", "1GiB", "20MiB");
	for (int t = 0; t < TENANTS; t++) {
		tenant_new(&tenants[t], t ? "second" : "first", &quota[t], 1, 0);
		for (int i = 0; i < PROCESSES; i++)
			start(t, i);
	}
	for (; any && !failures; round++) {
		any = false;
		for (int t = 0; t < TENANTS; t++) {
			struct note note;
			const char *wrong;

			if (!all_still(t, &note))
				continue;
			any = true;
			if (round < 3) {
				kill_one(t, round % PROCESSES);
				usleep(1000);
			}
			wrong = judge(&programs[t][0], &note);
			if (wrong)
				complain(&programs[t][0], &note, wrong);
			failures += wrong != NULL;
			for (int i = 0; i < PROCESSES; i++)
				if (programs[t][i].socket >= 0)
					send(programs[t][i].socket, wrong ? "n" : "y", 1,
					     MSG_NOSIGNAL);
			if (round < 3)
				start(t, round % PROCESSES);
		}
	}
	for (int t = 0; t < TENANTS && failures; t++)
		for (int i = 0; i < PROCESSES; i++)
			kill_one(t, i);
	for (int t = 0; t < TENANTS; t++)
		if (!host_clean(&tenants[t], t ? "second" : "first"))
			failures++;
	printf("%d rounds, %d fail\n", round, failures);
	return failures != 0;
}
