/* SPDX-License-Identifier: Apache-2.0 */
/* Who counts as alive: the process that claimed the slot, exactly as long as it has it mapped. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "ledger/map.h"
#include "tests/files.h"
#include "tests/unit/tenant_fixture.h"

/* Two pipes: the child says that it got somewhere, and waits until it is let go. */
struct pair {
	int said[2], go[2];
};

static struct pair pair_make(void)
{
	struct pair p;

	CHECK_EQ(pipe(p.said), 0);
	CHECK_EQ(pipe(p.go), 0);
	return p;
}

static void pair_say(struct pair *p)
{
	char c = 1;

	CHECK_EQ(write(p->said[1], &c, 1), 1);
	/* End of file counts too: the test itself is gone. */
	close(p->go[1]);
	CHECK(read(p->go[0], &c, 1) >= 0);
}

static void pair_hear(struct pair *p)
{
	char c;

	CHECK_EQ(read(p->said[0], &c, 1), 1);
}

static void pair_close(struct pair *p)
{
	close(p->said[0]);
	close(p->said[1]);
	close(p->go[0]);
	close(p->go[1]);
}

static void check_claims(void)
{
	struct slot *a, *b, *ignored;
	struct slot_info info;
	struct ledger *l;
	int fds = count_files();
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", fixture_tenant("claims"));
	CHECK(!slot_any_alive(dir));
	a = fixture_join(dir);
	l = slot_ledger(a);
	CHECK(slot_any_alive(dir));
	b = fixture_join(l->dir);
	CHECK_EQ(count_files(), fds); /* nothing to leak */
	CHECK_EQ(slot_index(a), 0);
	CHECK_EQ(slot_index(b), 1);
	CHECK_EQ(slot_count(l), 2);
	CHECK_EQ(slot_claim(l, &ignored), -EINVAL);
	CHECK(slot_alive(l, 0));
	CHECK(slot_alive(l, 1));
	CHECK(!slot_alive(l, 2));
	CHECK(!slot_alive(l, -1));
	CHECK(!slot_alive(l, LEDGER_SLOTS));
	CHECK_EQ(slot_info(l, 1, &info), 0);
	CHECK_EQ(info.pid, getpid());
	CHECK(info.start_ns > 0);
	CHECK(!strcmp(info.comm, "test_slot"));
	CHECK(strstr(info.command, "test_slot"));
	CHECK_EQ(slot_info(l, 2, &info), -ENOENT);
	CHECK_EQ(slot_info(l, -1, &info), -ENOENT);
	CHECK_EQ(quota_reserve(b, 0, MIB, GIB), 0);
	ledger_close(slot_ledger(b));
	CHECK(!slot_alive(l, 1));
	CHECK_EQ(slot_info(l, 1, &info), -ENOENT);
	CHECK_EQ(quota_used(l, 0), 0);
	b = fixture_join(l->dir);
	CHECK_EQ(slot_index(b), 1);
	/* Text of an untrusted peer is made printable and ends. */
	memset(l->map->slots[1].comm, '\033', sizeof(l->map->slots[1].comm));
	memset(l->map->slots[1].command, 'x', sizeof(l->map->slots[1].command));
	CHECK_EQ(slot_info(l, 1, &info), 0);
	CHECK(!strcmp(info.comm, "???????????????"));
	CHECK_EQ(strlen(info.command), sizeof(info.command) - 1);
	ledger_close(l);
	CHECK(slot_any_alive(dir)); /* b's */
	ledger_close(slot_ledger(b));
	CHECK(!slot_any_alive(dir));
	CHECK_EQ(count_files(), fds);
}

/* By which number a driver lists a process is known when somebody says it, of that process alone. */
static void check_driver_pid(void)
{
	struct slot *slot = fixture_join(fixture_tenant("driver-pid"));
	struct ledger *l = slot_ledger(slot);
	struct slot_info info, other;
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", l->dir);
	CHECK_EQ(slot_info(l, 0, &info), 0);
	CHECK_EQ(info.driver_pid, getpid());
	slot_tell_driver_pid(l, 0, &info, 4711);
	slot_tell_driver_pid(l, -1, &info, 1);
	slot_tell_driver_pid(l, LEDGER_SLOTS, &info, 1);
	CHECK_EQ(slot_info(l, 0, &info), 0);
	CHECK_EQ(info.driver_pid, 4711);
	CHECK_EQ(info.pid, getpid());
	other = info;
	other.pid++;
	slot_tell_driver_pid(l, 0, &other, 1);
	CHECK_EQ(slot_info(l, 0, &info), 0);
	CHECK_EQ(info.driver_pid, 4711);
	/* Who comes next in this slot is somebody else. */
	ledger_close(l);
	slot = fixture_join(dir);
	CHECK_EQ(slot_info(slot_ledger(slot), 0, &info), 0);
	CHECK_EQ(info.driver_pid, getpid());
	ledger_close(slot_ledger(slot));
}

/* A child that outlives the claiming process does not keep its slot alive. */
static void check_fork(struct ledger *l)
{
	struct pair p = pair_make(), c = pair_make();
	pid_t pid = fixture_fork();

	if (pid == 0) {
		struct slot *slot = fixture_join(l->dir);

		CHECK_EQ(slot_index(slot), 1);
		if (fork() == 0) {
			pair_say(&c);
			_exit(0);
		}
		pair_say(&p);
		_exit(0);
	}
	pair_hear(&p);
	pair_hear(&c);
	CHECK(slot_alive(l, 1));
	kill(pid, SIGKILL);
	fixture_wait(pid, SIGKILL);
	CHECK(!slot_alive(l, 1)); /* the grandchild still waits */
	pair_close(&p);
	pair_close(&c);
}

/* vfork and exec, as system() and Python's subprocess do: the program started holds nothing. */
static void check_spawn(struct ledger *l)
{
	struct pair p = pair_make();
	pid_t pid = fixture_fork();

	if (pid == 0) {
		char *argv[] = { (char *)"sleep", (char *)"60", NULL };
		pid_t spawned;

		fixture_join(l->dir);
		CHECK_EQ(posix_spawnp(&spawned, "sleep", NULL, NULL, argv, environ), 0);
		CHECK_EQ(write(p.said[1], &spawned, sizeof(spawned)), sizeof(spawned));
		pause();
	}
	pid_t spawned;

	CHECK_EQ(read(p.said[0], &spawned, sizeof(spawned)), sizeof(spawned));
	CHECK(slot_alive(l, 1));
	kill(pid, SIGKILL);
	fixture_wait(pid, SIGKILL);
	CHECK(!slot_alive(l, 1));
	CHECK_EQ(kill(spawned, SIGKILL), 0);
	pair_close(&p);
}

/* A program that closes what it did not open does not lose its slot; exec does. */
static void check_closefrom_and_exec(struct ledger *l)
{
	struct pair p = pair_make();
	pid_t pid = fixture_fork();

	if (pid == 0) {
		char *argv[] = { (char *)"cat", NULL };

		fixture_join(l->dir);
		CHECK(dup2(p.said[1], 1) == 1 && dup2(p.go[0], 0) == 0);
		closefrom(3);
		CHECK_EQ(write(1, "x", 1), 1);
		char c;

		CHECK_EQ(read(0, &c, 1), 1);
		execvp("cat", argv);
		_exit(1);
	}
	pair_hear(&p);
	CHECK(slot_alive(l, 1));
	CHECK_EQ(write(p.go[1], "xy", 2), 2);
	pair_hear(&p); /* from cat: the process runs something else */
	CHECK(!slot_alive(l, 1));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	fixture_wait(pid, SIGKILL);
	pair_close(&p);
}

static void *claim_and_leave(void *arg)
{
	return fixture_join(arg);
}

static void check_thread(struct ledger *l)
{
	pthread_t thread;
	void *slot;

	CHECK_EQ(pthread_create(&thread, NULL, claim_and_leave, l->dir), 0);
	CHECK_EQ(pthread_join(thread, &slot), 0);
	CHECK(slot_alive(l, slot_index(slot)));
	ledger_close(slot_ledger(slot));
}

/* With all descriptors used up: nobody is declared dead, nothing fails that need not. */
static void check_fd_limit(struct ledger *l)
{
	struct rlimit old, none;
	struct slot *slot = &l->slot;
	pid_t pid = fixture_fork();

	if (pid == 0) {
		struct slot *b = fixture_join(l->dir);

		quota_charge(b, 0, CAT_DATA, 10 * MIB);
		kill(getpid(), SIGKILL);
	}
	fixture_wait(pid, SIGKILL);
	CHECK(!slot_alive(l, 1));
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK(slot_alive(l, 1));
	CHECK_EQ(quota_used_live(l, 0), 10 * MIB);
	CHECK_EQ(quota_reclaim(l), -EMFILE);
	CHECK_EQ(quota_lock(l), -EMFILE);
	CHECK_EQ(quota_reserve_slow(slot, 0, 90 * MIB, 100 * MIB), 0);
	CHECK_EQ(quota_reserve_slow(slot, 0, MIB, 100 * MIB), -EDQUOT);
	CHECK_EQ(ledger_device(l, fixture_uuid, 0), 0);
	CHECK_EQ(ledger_device(l, (const uint8_t *)"device-1 (uuid)", 0), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(quota_reserve_slow(slot, 0, MIB, 100 * MIB), 0);
	quota_cancel(slot, 0, 91 * MIB);
	CHECK_EQ(quota_used(l, 0), 0);
}

/* A child has no ledger: neither map nor lock; it joins by itself and gets another slot. */
static void check_child_joins(struct ledger *l)
{
	pid_t pid = fixture_fork();

	if (pid == 0) {
		struct slot *b = fixture_join(l->dir);

		CHECK_EQ(slot_index(b), 1);
		CHECK(slot_alive(slot_ledger(b), 0));
		ledger_close(slot_ledger(b));
		_exit(0);
	}
	fixture_wait(pid, 0);
}

/* Every slot taken: a clear answer. Locks stand in for processes. */
static void check_full(void)
{
	const char *dir = fixture_tenant("full");
	char path[PATH_MAX + 8];
	struct ledger *l;
	struct slot *slot;
	int fd;

	snprintf(path, sizeof(path), "%s/ledger", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	struct flock lock = {
		.l_type = F_WRLCK, .l_start = LEDGER_LOCK_SLOTS, .l_len = LEDGER_SLOTS,
	};

	CHECK_EQ(fcntl(fd, F_OFD_SETLK, &lock), 0);
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &l), 0);
	CHECK_EQ(slot_claim(l, &slot), -EUSERS);
	close(fd);
	CHECK_EQ(slot_claim(l, &slot), 0);
	ledger_close(l);
}

/* Many at once: everyone gets a slot, no two the same, and all dead ones are cleared at need. */
#define CROWD 300

static void check_crowd(void)
{
	struct slot *slot = fixture_join(fixture_tenant("crowd"));
	struct ledger *l = slot_ledger(slot);
	struct pair p = pair_make();
	bool seen[LEDGER_SLOTS] = { false };
	static pid_t pids[CROWD];

	for (int i = 0; i < CROWD; i++) {
		pids[i] = fixture_fork();
		if (pids[i] == 0) {
			struct slot *own;
			int index;
			char c;

			CHECK_EQ(read(p.go[0], &c, 1), 1);
			own = fixture_join(l->dir);
			index = slot_index(own);
			CHECK_EQ(quota_reserve(own, 0, MIB, CROWD * MIB), 0);
			quota_commit(own, 0, MIB, CAT_DATA, MIB);
			CHECK_EQ(write(p.said[1], &index, sizeof(index)), sizeof(index));
			pause();
		}
	}
	for (int i = 0; i < CROWD; i++)
		CHECK_EQ(write(p.go[1], "x", 1), 1);
	for (int i = 0; i < CROWD; i++) {
		int index;

		CHECK_EQ(read(p.said[0], &index, sizeof(index)), sizeof(index));
		CHECK(index > 0 && index <= CROWD);
		CHECK(!seen[index]);
		seen[index] = true;
	}
	CHECK_EQ(slot_count(l), CROWD + 1);
	CHECK_EQ(quota_used(l, 0), CROWD * MIB);
	CHECK_EQ(quota_used_live(l, 0), CROWD * MIB);
	for (int i = 0; i < CROWD; i++)
		CHECK_EQ(kill(pids[i], SIGKILL), 0);
	for (int i = 0; i < CROWD; i++)
		fixture_wait(pids[i], SIGKILL);
	CHECK_EQ(quota_used_live(l, 0), 0);
	CHECK_EQ(quota_reserve_slow(slot, 0, CROWD * MIB, CROWD * MIB), 0);
	CHECK_EQ(quota_used(l, 0), CROWD * MIB);
	ledger_close(l);
	pair_close(&p);
}

/*
 * Who reads a slot while it changes hands: owners are numbered by their names. More readers than
 * processors, so that some are stopped half-way.
 */
#define OWNERS	 1000
#define WATCHERS 4

static struct ledger *watched;
static atomic_bool watching;
static atomic_int saw;

static void *watch(void *arg)
{
	struct slot_info info, last = {0};

	while (atomic_load(&watching)) {
		if (slot_info(watched, 1, &info))
			continue;
		CHECK(info.generation >= last.generation);
		if (info.generation == last.generation)
			CHECK(!strcmp(info.comm, last.comm));
		else
			CHECK(atoi(info.comm) > atoi(last.comm));
		if (!last.generation)
			atomic_fetch_add(&saw, 1);
		last = info;
	}
	return NULL;
}

/* As after kill -9: the lock is gone, the slot says that it is live. */
static void abandon(struct ledger *l)
{
	CHECK_EQ(munmap(l->map, sizeof(*l->map)), 0);
	l->map = NULL;
	l->slot.index = -1;
	ledger_close(l);
}

static void check_watched(void)
{
	pthread_t thread[WATCHERS];

	watched = slot_ledger(fixture_join(fixture_tenant("watched")));
	atomic_store(&watching, true);
	for (int i = 0; i < WATCHERS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, watch, NULL), 0);
	for (int i = 1; i <= OWNERS; i++) {
		char name[16];
		struct ledger *l;

		snprintf(name, sizeof(name), "%d", i);
		CHECK_EQ(prctl(PR_SET_NAME, name), 0);
		l = slot_ledger(fixture_join(watched->dir));
		while (atomic_load(&saw) < WATCHERS)
			usleep(100);
		if (i % 2) {
			ledger_close(l);
		} else {
			abandon(l);
			CHECK_EQ(quota_reclaim(watched), 1);
		}
	}
	atomic_store(&watching, false);
	for (int i = 0; i < WATCHERS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	ledger_close(watched);
}

/*
 * Back from an image: the tenant's files are others by the same names, and the process has its memory
 * and no lock. Meanwhile nobody else gets its slot, nor clears what it holds.
 */
static void check_adopt(void)
{
	const char *dir = fixture_tenant("image");
	struct ledger *ledger, *other;
	struct slot *slot, *late;
	struct slot_info info;
	char path[PATH_MAX];
	int fd, files, device;

	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	device = ledger_device(ledger, fixture_uuid, 0);
	CHECK_EQ(slot_claim(ledger, &slot), 0);
	CHECK_EQ(quota_reserve(slot, device, 5 * MIB, GIB), 0);
	quota_commit(slot, device, 5 * MIB, CAT_DATA, 5 * MIB);
	snprintf(path, sizeof(path), "%s/saved", fixture_runtime_dir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(ledger_save(dir, fd), 0);
	snprintf(path, sizeof(path), "%s/ledger", dir);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(ledger_create(dir), 0);
	CHECK_EQ(ledger_await(dir, fd, false), 0);
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &other), 0);
	CHECK_EQ(slot_info(other, 0, &info), -ENOENT);
	CHECK(!slot_alive(other, 0));
	CHECK_EQ(slot_claim(other, &late), 0);
	CHECK_EQ(slot_index(late), 1);
	CHECK_EQ(quota_used(other, device), 5 * MIB);
	CHECK_EQ(slot_awaited(other), 1);
	CHECK_EQ(slot_adopt(slot), 0); /* as far as it sees, until what it has mapped is the new file */
	files = open(path, O_RDWR | O_CLOEXEC);
	CHECK(files >= 0);
	CHECK_EQ(map_file(ledger, files), 0);
	close(files);
	CHECK_EQ(slot_adopt(slot), 1);
	CHECK_EQ(slot_adopt(slot), 0); /* it has it */
	CHECK_EQ(slot_awaited(other), 0);
	CHECK(slot_alive(other, 0));
	CHECK_EQ(slot_info(other, 0, &info), 0);
	CHECK_EQ(info.pid, (uint32_t)getpid());
	quota_release(slot, device, CAT_DATA, 5 * MIB);
	CHECK_EQ(quota_used(other, device), 0);
	ledger_close(other);
	ledger_close(ledger);
	CHECK_EQ(ftruncate(fd, 4096), 0);
	CHECK_EQ(ledger_await(dir, fd, false), -EPROTO);
	close(fd);
}

int main(void)
{
	struct slot *slot;
	struct ledger *l;

	check_claims();
	check_driver_pid();
	check_full();
	slot = fixture_join(fixture_tenant("liveness"));
	l = slot_ledger(slot);
	check_fork(l);
	check_spawn(l);
	check_closefrom_and_exec(l);
	check_thread(l);
	check_fd_limit(l);
	check_child_joins(l);
	ledger_close(l);
	check_crowd();
	check_watched();
	check_adopt();
	return 0;
}
