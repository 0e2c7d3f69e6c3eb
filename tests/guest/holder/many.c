/* SPDX-License-Identifier: Apache-2.0 */
/* Eight processes on eight devices. */
#include <unistd.h>

#include "holder.h"

static uint32_t tag(int process, int k, int round)
{
	return 0x5a000000u | (uint32_t)round << 16 | (uint32_t)process << 8 | (uint32_t)k;
}

/* The k-th buffer that process p shares is on device p, and is imported by another on device k. */
static int importer_of(int p, int k)
{
	return (p + 1 + k % (PROCS - 1)) % PROCS;
}

void one_of_many(int self)
{
	void *own[PROCS], *shared[PROCS], *from[PROCS][PROCS] = {{NULL}};
	uint32_t import_of[PROCS][PROCS] = {{0}};
	int fd[PROCS];

	for (int d = 0; d < PROCS; d++) {
		fd[d] = node(d);
		own[d] = map(fd[d], create(fd[d]));
		fill(own[d], 0xe0000000u | (uint32_t)(self << 8 | d));
	}
	for (int k = 0; k < PROCS; k++) {
		uint32_t handle = create(fd[self]);

		shared[k] = map(fd[self], handle);
		fill(shared[k], tag(self, k, 1));
		common->dmabuf[self][k] = export(fd[self], handle);
	}
	common->pid[self] = getpid();
	atomic_store(&common->step[self], 1);
	for (int p = 0; p < PROCS; p++)
		for (int k = 0; k < PROCS; k++) {
			wait_for(&common->step[p], 1, "another's buffers");
			if (importer_of(p, k) == self)
				import_of[p][k] = import(fd[k], take(common->pid[p],
								     common->dmabuf[p][k]));
		}
	atomic_store(&common->step[self], 2);
	for (int p = 0; p < PROCS; p++)
		wait_for(&common->step[p], 2, "another's imports");
	for (int k = 0; k < PROCS; k++)
		close(common->dmabuf[self][k]);
	rest();
	for (int k = 0; k < PROCS; k++) {
		check_filled("own", own[k], 0, 0xe0000000u | (uint32_t)(self << 8 | k));
		check_filled("shared", shared[k], 0, tag(self, k, 1));
	}
	for (int p = 0; p < PROCS; p++)
		for (int k = 0; k < PROCS; k++)
			if (import_of[p][k]) {
				from[p][k] = map(fd[k], import_of[p][k]);
				check_filled("imported", from[p][k], 0, tag(p, k, 1));
			}
	atomic_store(&common->step[self], 3);
	for (int p = 0; p < PROCS; p++)
		wait_for(&common->step[p], 3, "another's look");
	for (int k = 0; k < PROCS; k++)
		fill(shared[k], tag(self, k, 2));
	atomic_store(&common->step[self], 4);
	for (int p = 0; p < PROCS; p++)
		wait_for(&common->step[p], 4, "another's write");
	for (int p = 0; p < PROCS; p++)
		for (int k = 0; k < PROCS; k++)
			if (from[p][k])
				check_filled("imported, then written", from[p][k], 0, tag(p, k, 2));
	for (int d = 0; d < PROCS; d++)
		check_filled("own, after all", own[d], 0, 0xe0000000u | (uint32_t)(self << 8 | d));
}
