/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are as long as a user likes, read in slices: nobody waits for another user's, and no
 * user takes all places.
 */
#include "node/process/reading.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)

/* Time is the test's own. */
static time_t seconds = 1000;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_process_read_mark(pid_t pid, struct process_mark *ret);
int __wrap_process_read_user(pid_t pid, uid_t *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	(void)id;
	*ret = (struct timespec){.tv_sec = seconds};
	return 0;
}

/* A process's number says whose it is. Each program is of one kind, which `image` names. */
#define PID(user, number) ((pid_t)((user)*100000 + (number)))

static uint64_t image;

int __wrap_process_read_mark(pid_t pid, struct process_mark *ret)
{
	*ret = (struct process_mark){.pid = pid, .start = 1, .image = image};
	return 0;
}

int __wrap_process_read_user(pid_t pid, uid_t *ret)
{
	*ret = (uid_t)(pid / 100000);
	return 0;
}

/* What is read is as long as this, in slices of 1 MiB; and its end says something or not. */
static uint64_t length = MIB;
static bool any = true;
static int slices, error;

struct content {
	uint64_t read;
	bool any;
};

static int content_read(pid_t pid, int *fd, void *begun, uint64_t *ret_cost)
{
	struct content *content = begun;

	(void)pid;
	if (*fd < 0)
		*fd = dup(STDERR_FILENO);
	CHECK(*fd >= 0);
	slices++;
	*ret_cost = MIB;
	content->read += MIB;
	content->any = any;
	return error ? error : content->read < length;
}

static bool content_is_any(const void *found)
{
	const struct content *content = found;

	return content->any;
}

static void content_free(void *found)
{
	CHECK(found);
}

static uint64_t content_keep_ns(const void *found)
{
	CHECK(found);
	return 0;
}

static const struct reading_kind kind = {
	.allowance = ALLOWANCE_MAPPINGS,
	.found_bytes = sizeof(struct content),
	.read = content_read,
	.is_any = content_is_any,
	.free = content_free,
	.keep_ns = content_keep_ns,
};

static struct reading_table table = {.kind = &kind, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns what is known; and how much of it was read. */
static int know(pid_t pid, uint64_t *ret_read)
{
	struct reading *k;
	int r = reading_know(&table, pid, &k);

	*ret_read = k && k->found ? ((struct content *)k->found)->read : 0;
	return r;
}

/* A user's long process takes that user's budget, which is half of 16 MiB, and nothing of another's. */
static void check_budget(void)
{
	uint64_t read;

	length = 20 * MIB;
	CHECK_EQ(know(PID(1, 1), &read), -EAGAIN);
	length = MIB;
	CHECK_EQ(know(PID(1, 2), &read), -EAGAIN);
	CHECK_EQ(know(PID(2, 1), &read), 0);
	CHECK_EQ(read, MIB);
	length = 20 * MIB;
	for (int i = 0; i < 2; i++) {
		seconds++;
		CHECK_EQ(know(PID(1, 1), &read), i ? 0 : -EAGAIN);
	}
	CHECK_EQ(read, 20 * MIB);

	/* What is being read again is what it was; another program of the process is not. */
	length = 40 * MIB;
	seconds++;
	CHECK_EQ(know(PID(1, 1), &read), 0);
	CHECK_EQ(read, 20 * MIB);
	CHECK(reading_find(&table, PID(1, 1))->put_off);
	image++;
	CHECK(!reading_find(&table, PID(1, 1)));
	seconds++;
	CHECK_EQ(know(PID(1, 1), &read), -EAGAIN);
	seconds += 61;
	CHECK_EQ(know(PID(1, 1), &read), -ETIME);
}

/* Errors are answered, and the next reading may have none. */
static void check_errors(void)
{
	uint64_t read;

	length = MIB;
	seconds += 2;
	error = -EACCES;
	CHECK_EQ(know(PID(3, 1), &read), -EACCES);
	error = 0;
	CHECK_EQ(know(PID(3, 1), &read), 0);
}

static bool has(pid_t pid)
{
	return reading_find(&table, pid);
}

/* A user with very many processes takes places of others only where these have nothing to be kept. */
static void check_places(void)
{
	uint64_t read;

	length = MIB;
	seconds += 2;
	CHECK_EQ(know(PID(4, 1), &read), 0);
	any = false;
	CHECK_EQ(know(PID(4, 2), &read), 0);
	any = true;
	for (int i = 0; i < 2 * READING_PROCESSES; i++)
		know(PID(5, i), &read);
	CHECK_EQ(table.n, READING_PROCESSES);
	CHECK(has(PID(4, 1)));
	CHECK(!has(PID(4, 2)));
	CHECK_EQ(know(PID(6, 1), &read), 0);
	CHECK(has(PID(6, 1)));
	CHECK(table.open <= 33);

	/* Those that nobody asks for are dropped in the end. */
	seconds += 11;
	know(PID(7, 1), &read);
	CHECK_EQ(table.n, 1);
	CHECK(table.open <= 1);
}

int main(void)
{
	allowance_serve();
	check_budget();
	check_errors();
	check_places();
	return 0;
}
