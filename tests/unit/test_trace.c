/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of a tenant: threads that write, a reader beside them, writers that are killed, forged files. */
#include "ledger/trace/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/now.h"
#include "ledger/reader/trace_read.h"
#include "ledger/shared_file.h"
#include "tests/unit/tenant_fixture.h"

#define THREADS 4
#define EACH	20000

static struct trace_list load(const char *dir)
{
	struct trace_list list;

	CHECK_EQ(trace_load(dir, 0, &list), 0);
	return list;
}

static int open_ring(const char *dir, unsigned int number, int flags)
{
	char path[PATH_MAX + 32], name[16];
	int fd;

	tenant_ring_name(number, name);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd;
}

static bool is_there(const char *dir, unsigned int number)
{
	int fd = open_ring(dir, number, O_RDONLY);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The numbers of a record say that they belong together. */
static void put(struct trace *trace, uint64_t i)
{
	trace_put(trace, (enum trace_event)(i % TRACE_EVENTS), (int)(i % 8), i, i * 3, ~i);
}

static void check_whole(const struct trace_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct trace_said *said = &list->said[i];
		uint64_t n = said->number[0];

		CHECK_EQ(said->event, n % TRACE_EVENTS);
		CHECK_EQ(said->device, n % 8);
		CHECK(said->number[1] == n * 3 && said->number[2] == ~n);
		CHECK(!i || said[-1].at_ns <= said->at_ns);
	}
}

static void check_one(void)
{
	const char *dir = fixture_tenant("one");
	struct trace *trace = NULL;
	struct trace_list list = load(dir);
	uint64_t begin, said_at;

	CHECK_EQ(list.n, 0);
	CHECK_EQ(list.rings, 0);
	trace_list_free(&list);
	CHECK_EQ(trace_open(dir, &trace), 0);
	begin = said_at = now_monotonic_ns();
	trace_put(trace, TRACE_HELD, -1, TRACE_WHY_DEBT, 5, 6);
	trace_to(trace, TRACE_BILL, 63, 100, 2, begin - 10);
	trace_to(NULL, TRACE_BILL, 63, 100, 2, 10);
	list = load(dir);
	CHECK_EQ(list.n, 2);
	CHECK_EQ(list.rings, 1);
	CHECK_EQ(list.said[0].event, TRACE_HELD);
	CHECK_EQ(list.said[0].device, -1);
	CHECK_EQ(list.said[0].pid, getpid());
	CHECK_EQ(list.said[0].thread, getpid());
	CHECK(list.said[0].at_ns >= begin && list.said[0].at_ns <= now_monotonic_ns());
	CHECK_EQ(trace_lasted_ns(&list.said[0]), 0);
	CHECK_EQ(list.said[1].device, 63);
	CHECK_EQ(trace_lasted_ns(&list.said[1]), 100);
	CHECK_EQ(trace_ended_ns(&list.said[1]), said_at - 10);
	begin = list.said[1].at_ns;
	trace_list_free(&list);
	/* From an instant on. */
	CHECK_EQ(trace_load(dir, begin, &list), 0);
	CHECK_EQ(list.n, 1);
	trace_list_free(&list);
	trace_close(trace);
	trace_close(NULL);
}

/* The last of them are there, whatever came before. */
static void check_wraps(void)
{
	const char *dir = fixture_tenant("wraps");
	struct trace *trace = NULL;
	struct trace_list list;

	CHECK_EQ(trace_open(dir, &trace), 0);
	for (uint64_t i = 0; i < 3 * TRACE_RECORDS + 7; i++)
		put(trace, i);
	list = load(dir);
	CHECK_EQ(list.n, TRACE_RECORDS);
	check_whole(&list);
	CHECK_EQ(list.said[0].number[0], 2 * TRACE_RECORDS + 7);
	trace_list_free(&list);
	trace_close(trace);
}

struct crowd {
	struct trace *trace;
	_Atomic uint64_t next;
	_Atomic int writing;
};

static void *write_many(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < EACH; i++)
		put(crowd->trace, atomic_fetch_add(&crowd->next, 1));
	atomic_fetch_sub(&crowd->writing, 1);
	return NULL;
}

/* Threads pass each other by rounds: no record is a mixture, whenever it is read. */
static void check_crowd(void)
{
	const char *dir = fixture_tenant("crowd");
	struct crowd crowd = {.writing = THREADS};
	pthread_t thread[THREADS];
	struct trace_list list;

	CHECK_EQ(trace_open(dir, &crowd.trace), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, write_many, &crowd), 0);
	do {
		list = load(dir);
		check_whole(&list);
		trace_list_free(&list);
	} while (atomic_load(&crowd.writing));
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	list = load(dir);
	check_whole(&list);
	/* A thread that was stopped for a whole round may have written over a later record. */
	CHECK(list.n > TRACE_RECORDS - 2 * THREADS && list.n <= TRACE_RECORDS);
	trace_list_free(&list);
	trace_close(crowd.trace);
}

/* A killed process leaves what it said, and its ring is another's when all were taken once. */
static void check_killed(void)
{
	static const char *const points[] = {"TRACE_PLACED:9", "TRACE_HALF:9", "TRACE_FILLED:9"};
	const char *dir = fixture_tenant("killed");
	struct trace *trace = NULL;
	struct trace_list list;
	unsigned int rings = 0;
	pid_t pid;

	for (size_t i = 0; i < 3 && fixture_has_faults(); i++) {
		pid = fixture_fork();
		if (pid == 0) {
			CHECK_EQ(trace_open(dir, &trace), 0);
			CHECK_EQ(fault_arm(points[i]), 0);
			for (uint64_t k = 0; k < 20; k++)
				put(trace, k);
			_exit(0);
		}
		fixture_wait(pid, SIGKILL);
		list = load(dir);
		CHECK_EQ(list.rings, ++rings);
		CHECK_EQ(list.n, 8 * rings);
		check_whole(&list);
		trace_list_free(&list);
	}
	/* One that is killed as it takes a ring leaves it to the next. */
	if (fixture_has_faults()) {
		pid = fixture_fork();
		if (pid == 0) {
			CHECK_EQ(fault_arm("TRACE_TAKEN"), 0);
			trace_open(dir, &trace);
			_exit(0);
		}
		fixture_wait(pid, SIGKILL);
		list = load(dir);
		CHECK_EQ(list.rings, rings);
		trace_list_free(&list);
	}
	CHECK_EQ(trace_open(dir, &trace), 0);
	CHECK(is_there(dir, rings) && !is_there(dir, rings + 1));
	trace_close(trace);
}

/* A process was killed before its ring's file had its length: nobody reads it, and the next one takes it. */
static void check_killed_before_its_length(void)
{
	const char *dir = fixture_tenant("short");
	struct trace *trace = NULL;
	struct trace_list list;
	int fd = shared_file_create(dir, "trace.0");

	CHECK(fd >= 0);
	close(fd);
	list = load(dir);
	CHECK_EQ(list.error, 0);
	CHECK_EQ(list.rings, 0);
	trace_list_free(&list);
	CHECK_EQ(trace_open(dir, &trace), 0);
	trace_close(trace);
	list = load(dir);
	CHECK_EQ(list.rings, 1);
	trace_list_free(&list);
}

/* Any instant will do: what is read is whole. */
static void check_killed_anywhere(void)
{
	const char *dir = fixture_tenant("anywhere");
	struct trace_list list;

	for (int i = 0; i < 20; i++) {
		struct trace *trace = NULL;
		pid_t pid = fixture_fork();

		if (pid == 0) {
			CHECK_EQ(trace_open(dir, &trace), 0);
			for (uint64_t k = 0;; k++)
				put(trace, k);
		}
		usleep(2000 + 500 * (useconds_t)i);
		fixture_kill(pid);
		list = load(dir);
		check_whole(&list);
		CHECK_EQ(list.error, 0);
		trace_list_free(&list);
	}
}

/* Living processes keep theirs; of the dead the first gives way; nothing of it is taken for new. */
static void check_taken(void)
{
	const char *dir = fixture_tenant("taken");
	struct trace *ring[TRACE_FILES] = {NULL}, *other = NULL;
	struct trace_list list;

	for (int i = 0; i < TRACE_FILES; i++) {
		CHECK_EQ(trace_open(dir, &ring[i]), 0);
		put(ring[i], (uint64_t)i);
		put(ring[i], 1);
		CHECK(is_there(dir, (unsigned int)i));
	}
	CHECK_EQ(trace_open(dir, &other), -EUSERS);
	CHECK(!other);
	trace_close(ring[7]);
	trace_close(ring[3]);
	CHECK_EQ(trace_open(dir, &other), 0);
	put(other, 40);
	list = load(dir);
	CHECK_EQ(list.n, 2 * TRACE_FILES - 1);
	for (size_t i = 0; i < list.n; i++)
		CHECK(list.said[i].number[0] != 3);
	trace_list_free(&list);
	trace_close(other);
	for (int i = 0; i < TRACE_FILES; i++)
		if (i != 3 && i != 7)
			trace_close(ring[i]);
}

/* Off while a thread is about to write, and on again: at the same address. */
static void check_parked(void)
{
	const char *dir = fixture_tenant("parked");
	struct trace *trace = NULL, *before;
	struct trace_list list;
	pid_t pid;

	CHECK_EQ(trace_open(dir, &trace), 0);
	put(trace, 1);
	before = trace;
	trace_park(trace);
	put(trace, 2);
	CHECK_EQ(trace_open(dir, &trace), 0);
	CHECK(trace == before);
	put(trace, 3);
	list = load(dir);
	CHECK_EQ(list.n, 2);
	CHECK_EQ(list.said[0].number[0], 1);
	CHECK_EQ(list.said[1].number[0], 3);
	trace_list_free(&list);
	/* A child has no part of it, and its parent's lock is not its own. */
	pid = fixture_fork();
	if (pid == 0)
		_exit(msync(trace, 1, MS_ASYNC) == 0);
	fixture_wait(pid, 0);
	trace_close(trace);
}

static void check_roles(void)
{
	const char *dir = fixture_tenant("roles");
	struct trace *one = NULL, *two = NULL;
	struct trace_list list;

	trace_follow_roles(dir, false, &one);
	CHECK(!one && !is_there(dir, TRACE_ROLES));
	trace_follow_roles(dir, true, &one);
	trace_follow_roles(dir, true, &one);
	trace_follow_roles(dir, true, &two);
	CHECK(one && two && one != two);
	put(one, 1);
	put(two, 2);
	list = load(dir);
	CHECK_EQ(list.n, 2);
	CHECK_EQ(list.said[0].pid, 0);
	CHECK_EQ(list.said[1].place, 1);
	trace_list_free(&list);
	trace_follow_roles(dir, false, &one);
	CHECK(!one);
	trace_close(two);
	trace_follow_roles("/nowhere", true, &one);
	CHECK(!one);
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), "roles"), 0);
	CHECK(access(dir, F_OK) < 0);
}

static void forge(const char *dir, const struct trace_file *file)
{
	int fd = open_ring(dir, 0, O_RDWR);

	CHECK(fd >= 0);
	CHECK_EQ(pwrite(fd, file, sizeof(*file), 0), sizeof(*file));
	close(fd);
}

static void check_forged(void)
{
	const char *dir = fixture_tenant("forged");
	static struct trace_file good, bad;
	struct trace *trace = NULL;
	struct trace_list list;
	char path[PATH_MAX + 32];
	int fd;

	CHECK_EQ(trace_open(dir, &trace), 0);
	put(trace, 5);
	fd = open_ring(dir, 0, O_RDONLY);
	CHECK_EQ(pread(fd, &good, sizeof(good), 0), sizeof(good));
	close(fd);
	/* An event that nobody knows, rightly sealed; a device that cannot be. */
	bad = good;
	bad.header.next = 2;
	bad.record[0].event = TRACE_EVENTS;
	bad.record[0].seal = 0 ^ trace_hash(bad.header.born_ns, &bad.record[0]);
	bad.record[1] = good.record[0];
	bad.record[1].device = 64;
	bad.record[1].seal = 1 ^ trace_hash(bad.header.born_ns, &bad.record[1]);
	forge(dir, &bad);
	list = load(dir);
	CHECK_EQ(list.n, 1);
	CHECK_EQ(list.said[0].device, -1);
	trace_list_free(&list);
	/* A change without a seal; a seal of another place; one that is still to come. */
	bad = good;
	bad.record[0].number[1]++;
	bad.record[1] = good.record[0];
	bad.header.next = 2;
	forge(dir, &bad);
	list = load(dir);
	CHECK_EQ(list.n, 0);
	CHECK_EQ(list.rings, 1);
	trace_list_free(&list);
	bad = good;
	bad.header.next = 0;
	forge(dir, &bad);
	list = load(dir);
	CHECK_EQ(list.n, 0);
	trace_list_free(&list);
	/* A writer in a ring with a place far from here. */
	bad = good;
	bad.header.next = UINT64_MAX - 1;
	forge(dir, &bad);
	for (uint64_t i = 0; i < 5; i++)
		put(trace, i);
	bad = good;
	bad.header.records = 1;
	forge(dir, &bad);
	put(trace, 5);
	list = load(dir);
	CHECK_EQ(list.rings, 0);
	CHECK_EQ(list.error, -EPROTO);
	trace_list_free(&list);
	trace_close(trace);
	/* What is no file of a ring's size. */
	snprintf(path, sizeof(path), "%s/trace.0", dir);
	CHECK_EQ(truncate(path, 100), 0);
	list = load(dir);
	CHECK_EQ(list.error, -EPROTO);
	trace_list_free(&list);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(symlink("/etc/passwd", path), 0);
	list = load(dir);
	CHECK_EQ(list.error, -ELOOP);
	trace_list_free(&list);
	trace = NULL;
	CHECK_EQ(trace_open(dir, &trace), 0);
	CHECK(is_there(dir, 1));
	trace_close(trace);
}

int main(void)
{
	check_one();
	check_wraps();
	check_crowd();
	check_killed();
	check_killed_before_its_length();
	check_killed_anywhere();
	check_taken();
	check_parked();
	check_roles();
	check_forged();
	return 0;
}
