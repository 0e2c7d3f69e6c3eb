/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/roster.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/now.h"
#include "sim/mutex.h"
#include "sim/shared.h"

#define MAGIC	  UINT64_C(0x32534f52424d4153) /* "SAMBROS2" */
#define PROCESSES 1024
#define LOCK_BASE (INT64_C(1) << 40) /* a process's lock is at its number behind this */

struct row {
	uint64_t used;
	uint32_t process;
	uint32_t pad;
	uint64_t begin_ns, since_ns; /* when the queue was made, and when its state last changed */
	uint64_t active_ns, busy_ns; /* up to since_ns */
	struct roster_queue queue;
};

struct table {
	uint64_t magic;
	struct sim_mutex lock;
	uint64_t rows; /* ever used: scans end here */
	struct row row[ROSTER_QUEUES];
};

struct roster {
	struct table *table;
	char path[PATH_MAX];
	uint32_t process;
};

static void roster_lock(struct table *table)
{
	/*
	 * A process that dies with the lock may leave a row of its own half written. Nobody reads
	 * it: a row is in use from the store of `used` on, which comes last.
	 */
	if (sim_mutex_lock(&table->lock) == EOWNERDEAD)
		sim_mutex_repaired(&table->lock);
}

static void roster_unlock(struct table *table)
{
	sim_mutex_unlock(&table->lock);
}

static int roster_init_table(void *map)
{
	struct table *table = map;

	table->magic = MAGIC;
	return sim_mutex_init(&table->lock);
}

/*
 * Takes a number for this process. First it removes the rows that a dead process left under that
 * number, so that others do not take them for this one's.
 */
static int roster_join_as(struct table *table, int fd, uint32_t *ret_process)
{
	int seat;

	roster_lock(table);
	seat = sim_seat_take(fd, LOCK_BASE, PROCESSES);
	for (uint64_t i = 0; seat >= 0 && i < table->rows; i++)
		if (table->row[i].process == (uint32_t)seat)
			table->row[i].used = 0;
	roster_unlock(table);
	if (seat < 0)
		return seat;
	*ret_process = (uint32_t)seat;
	return 0;
}

int roster_open(const char *root, bool join, struct roster **ret)
{
	struct roster *r;
	void *map = NULL;
	int fd, err;

	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	snprintf(r->path, sizeof(r->path), "%.*s/queues", PATH_MAX - 16, root);
	err = sim_shared_open(r->path, sizeof(*r->table), roster_init_table, &map, &fd);
	if (err < 0) {
		free(r);
		return err;
	}
	r->table = map;
	if (r->table->magic != MAGIC)
		err = -EPROTO;
	else if (join)
		err = roster_join_as(r->table, fd, &r->process);
	close(fd); /* the mapping keeps the lock */
	if (err < 0) {
		roster_close(r);
		return err;
	}
	*ret = r;
	return 0;
}

void roster_close(struct roster *r)
{
	if (!r)
		return;
	munmap(r->table, sizeof(*r->table));
	free(r);
}

/*
 * Finds the living processes by their locks. The file is opened anew for this: a process does not
 * see its own lock through the description that has it.
 */
static void roster_find_living(const struct roster *r, bool ret_living[PROCESSES])
{
	int fd = open(r->path, O_RDWR | O_CLOEXEC);

	for (uint32_t i = 0; i < PROCESSES; i++)
		ret_living[i] = fd < 0;
	for (uint64_t i = 0; fd >= 0 && i < r->table->rows; i++) {
		const struct row *row = &r->table->row[i];

		if (row->used && !ret_living[row->process])
			ret_living[row->process] = sim_byte_locked(fd, LOCK_BASE + row->process);
	}
	if (fd >= 0)
		close(fd);
}

static struct row *roster_free_row(const struct roster *r)
{
	struct table *table = r->table;
	bool living[PROCESSES];

	for (uint64_t i = 0; i < table->rows; i++)
		if (!table->row[i].used)
			return &table->row[i];
	if (table->rows < ROSTER_QUEUES)
		return &table->row[table->rows++];
	roster_find_living(r, living);
	for (uint64_t i = 0; i < table->rows; i++)
		if (!living[table->row[i].process])
			return &table->row[i];
	return NULL;
}

int roster_add(struct roster *r, const struct roster_queue *queue, uint32_t *ret_number)
{
	uint64_t now = now_monotonic_ns();
	struct row *row;

	roster_lock(r->table);
	row = roster_free_row(r);
	if (row) {
		*row = (struct row){
			.process = r->process, .begin_ns = now, .since_ns = now, .queue = *queue};
		__atomic_store_n(&row->used, 1, __ATOMIC_RELEASE);
		*ret_number = (uint32_t)(row - r->table->row);
	}
	roster_unlock(r->table);
	return row ? 0 : -ENOMEM;
}

static struct roster_times roster_times_of(const struct row *row, uint64_t now)
{
	uint64_t last = now - row->since_ns;

	return (struct roster_times){.life_ns = now - row->begin_ns,
				     .active_ns = row->active_ns + (row->queue.active ? last : 0),
				     .busy_ns = row->busy_ns +
						(row->queue.active && row->queue.busy ? last : 0)};
}

void roster_change(struct roster *r, uint32_t number, const struct roster_queue *queue)
{
	struct row *row = &r->table->row[number];
	struct roster_times times;
	uint64_t now;

	roster_lock(r->table);
	now = now_monotonic_ns();
	times = roster_times_of(row, now);
	row->active_ns = times.active_ns;
	row->busy_ns = times.busy_ns;
	row->since_ns = now;
	row->queue = *queue;
	roster_unlock(r->table);
}

void roster_remove(struct roster *r, uint32_t number, struct roster_times *ret)
{
	struct row *row = &r->table->row[number];

	roster_lock(r->table);
	*ret = roster_times_of(row, now_monotonic_ns());
	row->used = 0;
	roster_unlock(r->table);
}

uint32_t roster_read(struct roster *r, uint32_t room, struct roster_queue *ret_queues,
		     struct roster_times *ret_times)
{
	struct table *table = r->table;
	bool living[PROCESSES];
	uint32_t n = 0;
	uint64_t now;

	roster_lock(table);
	roster_find_living(r, living);
	now = now_monotonic_ns();
	for (uint64_t i = 0; i < table->rows; i++) {
		const struct row *row = &table->row[i];

		if (!row->used || !living[row->process])
			continue;
		if (n < room) {
			ret_queues[n] = row->queue;
			ret_times[n] = roster_times_of(row, now);
		}
		n++;
	}
	roster_unlock(table);
	return n;
}
