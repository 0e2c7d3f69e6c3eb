/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "base/fault.h"
#include "ledger/life.h"
#include "ledger/policy_file.h"
#include "ledger/shared_file.h"
#include "tests/unit/tenant_fixture.h"

static void check_runtime_dir(void)
{
	char buf[64] = "old";

	setenv("ALLOT_RUNTIME_DIR", "/some/where", 1);
	setenv("XDG_RUNTIME_DIR", "/run/user/4711", 1);
	CHECK_EQ(tenant_runtime_dir(buf, sizeof(buf)), 0);
	CHECK(!strcmp(buf, "/some/where"));
	CHECK_EQ(tenant_runtime_dir(buf, 5), -ENAMETOOLONG);
	/* Where no variable has a say. */
	CHECK_EQ(tenant_usual_dir(buf, sizeof(buf)), 0);
	CHECK(strncmp(buf, "/some", 5) && strncmp(buf, "/run/user/4711", 14));
	CHECK_EQ(tenant_usual_dir(buf, 5), -ENAMETOOLONG);
	setenv("ALLOT_RUNTIME_DIR", "relative", 1);
	CHECK_EQ(tenant_runtime_dir(buf, sizeof(buf)), -EINVAL);
	setenv("ALLOT_RUNTIME_DIR", "", 1);
	CHECK_EQ(tenant_runtime_dir(buf, sizeof(buf)), 0);
	if (geteuid())
		CHECK(!strcmp(buf, "/run/user/4711/allot"));
	else /* the latter where /run is part of a container's overlay */
		CHECK(!strcmp(buf, "/run/allot") || !strcmp(buf, "/dev/shm/allot"));
	unsetenv("ALLOT_RUNTIME_DIR");
	unsetenv("XDG_RUNTIME_DIR");
	CHECK_EQ(tenant_runtime_dir(buf, sizeof(buf)), 0);
	/* As any user: there is a place without any of them. */
	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(4711) || setuid(4711)))
			_exit(0);
		CHECK_EQ(tenant_runtime_dir(buf, sizeof(buf)), 0);
		if (geteuid() == 4711)
			CHECK(!strcmp(buf, "/dev/shm/allot-4711") ||
			      !strcmp(buf, "/run/user/4711/allot"));
		_exit(0);
	}
	fixture_wait(pid, 0);
}

static void check_runtime_of(void)
{
	char buf[8] = "old";

	CHECK_EQ(tenant_runtime_of("/run/a", buf, sizeof(buf)), 0);
	CHECK(!strcmp(buf, "/run"));
	CHECK_EQ(tenant_runtime_of("/run/a/", buf, 7), 0);
	CHECK(!strcmp(buf, "/run/a"));
	CHECK_EQ(tenant_runtime_of("/run/a/b", buf, 6), -ENAMETOOLONG);
	CHECK_EQ(tenant_runtime_of("/a", buf, sizeof(buf)), -EINVAL);
	CHECK_EQ(tenant_runtime_of("a", buf, sizeof(buf)), -EINVAL);
	CHECK(!strcmp(buf, "/run/a"));
}

/* Root of a user namespace is somebody else outside, and has that one's tenants. */
static void check_runtime_dir_of(void)
{
	char buf[64];

	CHECK_EQ(tenant_runtime_dir_of(4711, buf, sizeof(buf)), 0);
	CHECK(!strcmp(buf, "/dev/shm/allot-4711") || !strcmp(buf, "/run/user/4711/allot"));
	setenv("XDG_RUNTIME_DIR", "/run/user/4711", 1);
	CHECK_EQ(tenant_runtime_dir_of(4711, buf, sizeof(buf)), 0);
	CHECK(!strcmp(buf, "/run/user/4711/allot"));
	unsetenv("XDG_RUNTIME_DIR");
}

static mode_t mode_of(const char *dir, const char *file)
{
	char path[PATH_MAX + 8];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	CHECK_EQ(stat(path, &st), 0);
	return st.st_mode & ALLPERMS;
}

static int halve(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes /= 2;
	return 0;
}

/* Whoever reaches a container's tenant is of it. */
static void check_open_to_all(void)
{
	const char *runtime = fixture_runtime_dir(), *dir = fixture_tenant("container");
	struct policy policy;
	siginfo_t stopped;
	pid_t pid;
	int fd;

	CHECK_EQ(chmod(runtime, 0711), 0);
	CHECK_EQ(tenant_open_to_all(runtime, "container"), -EPERM);
	CHECK_EQ(mode_of(dir, "ledger"), 0600);
	CHECK_EQ(chmod(runtime, 0700), 0);
	CHECK_EQ(tenant_open_to_all(runtime, "container"), 0);
	CHECK_EQ(policy_update(dir, halve, NULL), 0);
	CHECK_EQ(mode_of(dir, "policy"), 0444);
	pid = fixture_fork();
	if (pid == 0) {
		/* As in a container, by a way that has no part of the runtime directory in it. */
		CHECK_EQ(chdir(dir), 0);
		if (geteuid() == 0)
			CHECK(!setgid(4711) && !setuid(4711));
		CHECK_EQ(policy_load(".", &policy), 0);
		CHECK_EQ(policy.device[0].limit_bytes, GIB / 2);
		if (geteuid() == 4711)
			CHECK(policy_update(".", halve, NULL) < 0);
		/* Who can read the policy can keep a lock of it, at which no writer waits. */
		fd = open("policy", O_RDONLY);
		CHECK_EQ(shared_file_share(fd, 0, 0), 0);
		CHECK_EQ(open("lock", O_RDONLY) < 0, geteuid() == 4711);
		CHECK_EQ(kill(getpid(), SIGSTOP), 0);
		fixture_join(".");
		_exit(0);
	}
	CHECK_EQ(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED | WEXITED), 0);
	CHECK_EQ(policy_update(dir, halve, NULL), 0);
	CHECK_EQ(kill(pid, SIGCONT), 0);
	fixture_wait(pid, 0);
	CHECK_EQ(policy_load(dir, &policy), 0);
	CHECK_EQ(policy.device[0].limit_bytes, GIB / 4);
	/* It is the directory that says so. */
	CHECK_EQ(chmod(dir, 0700), 0);
	CHECK_EQ(policy_load(dir, &policy), -EPERM);
	CHECK_EQ(tenant_remove(runtime, "container"), 0);
	CHECK_EQ(tenant_open_to_all(runtime, "container"), -ENOENT);
}

static int count_one(const char *name, const char *dir, void *arg)
{
	CHECK(tenant_name_valid(name));
	CHECK(strstr(dir, name));
	++*(int *)arg;
	return 0;
}

#define USER  4711
#define OTHER 4712

static void be_user(uid_t uid)
{
	CHECK(!setgid(uid) && !setuid(uid));
}

/* Of a user, made by root: the ledger is that user's, the rest is root's, and others have no part. */
static void check_users(void)
{
	char runtime[PATH_MAX], users[PATH_MAX], name[POLICY_NAME_BYTES], dir[PATH_MAX];
	struct policy policy = fixture_policy(GIB);
	struct ledger *ledger;
	uid_t owner;
	int n = 0;
	pid_t pid;

	CHECK_EQ(tenant_name_of("job", USER, name), 0);
	CHECK(!strcmp(name, "job@4711"));
	CHECK(tenant_name_owner(name, &owner) && owner == USER);
	CHECK_EQ(tenant_name_of("job@1", USER, name), -EINVAL);
	CHECK_EQ(tenant_name_of("../job", USER, name), -EINVAL);
	CHECK_EQ(tenant_name_of("job", 0, name), -EINVAL);
	if (geteuid())
		return;
	/* A way to it that others may go, which /tmp's own directory is not. */
	CHECK_EQ(chmod(fixture_runtime_dir(), 0711), 0);
	snprintf(runtime, sizeof(runtime), "%s/system", fixture_runtime_dir());
	CHECK_EQ(tenant_create(runtime, name, &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(tenant_create(runtime, name, &policy, dir, sizeof(dir)), -EEXIST);
	CHECK_EQ(tenant_users_dir(runtime, users, sizeof(users)), 0);
	CHECK_EQ(mode_of(runtime, ""), 0700);
	CHECK_EQ(mode_of(users, ""), 0755);
	CHECK_EQ(mode_of(dir, "ledger"), 0600);
	CHECK_EQ(mode_of(dir, "policy"), 0444);
	/* Root reads and writes what the user has. */
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	ledger_close(ledger);
	CHECK_EQ(policy_update(dir, halve, NULL), 0);
	pid = fixture_fork();
	if (pid == 0) {
		be_user(USER);
		CHECK_EQ(policy_load(dir, &policy), 0);
		CHECK_EQ(policy.device[0].limit_bytes, GIB / 2);
		CHECK(policy_update(dir, halve, NULL) < 0);
		CHECK(tenant_remove(runtime, name) < 0);
		CHECK(open(dir, O_RDONLY | O_DIRECTORY) < 0);
		CHECK_EQ(policy_file_open_lock(dir), -EACCES);
		fixture_join(dir);
		_exit(0);
	}
	fixture_wait(pid, 0);
	pid = fixture_fork();
	if (pid == 0) {
		be_user(OTHER);
		CHECK_EQ(policy_load(dir, &policy), 0);
		CHECK_EQ(ledger_open(dir, LEDGER_READ, &ledger), -EACCES);
		CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), -EACCES);
		CHECK_EQ(life_hold(dir), -EACCES);
		CHECK_EQ(tenant_list_users(runtime, count_one, &n), 0);
		CHECK_EQ(n, 1);
		_exit(0);
	}
	fixture_wait(pid, 0);
	CHECK_EQ(tenant_list(runtime, count_one, &n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(tenant_remove(runtime, name), 0);
	CHECK_EQ(tenant_list(runtime, count_one, &n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(rmdir(users), 0);
	/* What another one put there, where all may write, is neither opened to all nor used. */
	CHECK_EQ(symlink(runtime, users), 0);
	CHECK_EQ(tenant_create(runtime, name, &policy, dir, sizeof(dir)), -ENOTDIR);
	CHECK_EQ(mode_of(runtime, ""), 0700);
	CHECK_EQ(unlink(users), 0);
	CHECK_EQ(mkdir(users, 0700), 0);
	CHECK_EQ(chown(users, USER, USER), 0);
	CHECK_EQ(tenant_create(runtime, name, &policy, dir, sizeof(dir)), -EPERM);
	CHECK_EQ(mode_of(users, ""), 0700);
	CHECK_EQ(rmdir(users), 0);
	CHECK_EQ(chmod(fixture_runtime_dir(), 0700), 0);
}

/* A container of a user's: the user reaches the files, others do not, and in it all are of the tenant. */
static void check_open_to_user(void)
{
	char runtime[PATH_MAX], dir[PATH_MAX];
	struct policy policy = fixture_policy(GIB);
	struct ledger *ledger;
	pid_t pid;
	int r;

	if (geteuid())
		return;
	CHECK_EQ(chmod(fixture_runtime_dir(), 0711), 0);
	snprintf(runtime, sizeof(runtime), "%s/contained", fixture_runtime_dir());
	CHECK_EQ(tenant_create(runtime, "c@4711", &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(tenant_open_to_user(runtime, "d@4711"), -ENOENT);
	CHECK_EQ(tenant_open_to_user(runtime, "c"), -EINVAL);
	r = tenant_open_to_user(runtime, "c@4711");
	if (r != -EOPNOTSUPP) {
		CHECK_EQ(r, 0);
		CHECK_EQ(mode_of(dir, "ledger"), 0666);
		for (uid_t uid = USER; uid <= OTHER; uid++) {
			pid = fixture_fork();
			if (pid == 0) {
				be_user(uid);
				CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger),
					 uid == USER ? 0 : -EACCES);
				CHECK_EQ(policy_load(dir, &policy), uid == USER ? 0 : -EACCES);
				CHECK(policy_update(dir, halve, NULL) < 0);
				CHECK(open(dir, O_RDONLY | O_DIRECTORY) < 0);
				_exit(0);
			}
			fixture_wait(pid, 0);
		}
		CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
		ledger_close(ledger);
	}
	CHECK_EQ(tenant_remove(runtime, "c@4711"), 0);
	CHECK_EQ(chmod(fixture_runtime_dir(), 0700), 0);
}

/* As the containers' hook does it: a directory of its own file system, and the policy in it. */
static void mount_policy(const char *dir, const char *place)
{
	char from[PATH_MAX + 8], to[PATH_MAX + 8];
	int fd;

	CHECK_EQ(mount("none", place, "tmpfs", 0, "mode=1755"), 0);
	snprintf(from, sizeof(from), "%s/policy", dir);
	snprintf(to, sizeof(to), "%s/policy", place);
	fd = open(to, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(chown(from, 4711, 4711), 0);
	CHECK_EQ(mount(from, to, NULL, MS_BIND, NULL), 0);
}

static int load_as(uid_t uid, const char *dir)
{
	struct policy policy;
	int r;

	CHECK_EQ(seteuid(uid), 0);
	r = policy_load(dir, &policy);
	CHECK_EQ(seteuid(0), 0);
	return r;
}

/* Believed by everybody in a directory of root's, or one's own, that says that its files are for all. */
static void check_place(const char *place)
{
	for (uid_t uid = 4710; uid <= 4711; uid++)
		CHECK_EQ(load_as(uid, place), 0);
	CHECK_EQ(load_as(0, place), 0);
	CHECK_EQ(chown(place, 4711, 4711), 0);
	CHECK_EQ(load_as(4710, place), -EPERM);
	CHECK_EQ(chown(place, 0, 0), 0);
	CHECK_EQ(chmod(place, 01775), 0);
	CHECK_EQ(load_as(4710, place), -EPERM);
	CHECK_EQ(chmod(place, 0755), 0);
	CHECK_EQ(load_as(4710, place), -EPERM);
	CHECK_EQ(chmod(place, 01755), 0);
}

/* The same file where nobody mounted it. */
static void check_no_mount(const char *dir, const char *place, const char *policy)
{
	CHECK_EQ(load_as(0, dir), -EPERM);
	CHECK_EQ(umount(policy), 0);
	CHECK_EQ(chown(policy, 4711, 4711), 0);
	CHECK_EQ(chmod(policy, 0444), 0);
	CHECK_EQ(load_as(0, place), -EPERM);
}

/* In a user namespace a tenant's files may be anybody's. */
static void check_mounted(void)
{
	const char *dir = fixture_tenant("mounted");
	pid_t pid = geteuid() ? -1 : fixture_fork();
	char place[] = "/tmp/allot-mounted-XXXXXX", policy[64];

	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(0);
		CHECK_EQ(tenant_open_to_all(fixture_runtime_dir(), "mounted"), 0);
		CHECK(mkdtemp(place));
		snprintf(policy, sizeof(policy), "%s/policy", place);
		mount_policy(dir, place);
		check_place(place);
		check_no_mount(dir, place, policy);
		CHECK_EQ(umount(place), 0);
		CHECK_EQ(rmdir(place), 0);
		_exit(0);
	}
	if (pid > 0)
		fixture_wait(pid, 0);
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), "mounted"), 0);
}

/* A process that may write no file of that size ends by SIGXFSZ when it tries. */
static void check_file_size_limit(void)
{
	struct policy policy = fixture_policy(GIB);
	char dir[PATH_MAX];
	pid_t pid = fixture_fork();

	if (pid == 0) {
		for (rlim_t bytes = 0; bytes < 8 * MIB; bytes = bytes * 4 + 1) {
			CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY}),
				 0);
			CHECK_EQ(tenant_create(fixture_runtime_dir(), "large", &policy, dir,
					       sizeof(dir)), -EFBIG);
			CHECK_EQ(shared_file_join(fixture_runtime_dir(), "file", 8 * MIB), -EFBIG);
		}
		_exit(0);
	}
	fixture_wait(pid, 0);
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "large", &policy, dir, sizeof(dir)), 0);
}

static void check_names(void)
{
	char long_name[65];

	CHECK(tenant_name_valid("a"));
	CHECK(tenant_name_valid("Job-1_b.c"));
	CHECK(tenant_name_valid("0"));
	memset(long_name, 'x', sizeof(long_name));
	long_name[63] = '\0';
	CHECK(tenant_name_valid(long_name));
	long_name[63] = 'x';
	long_name[64] = '\0';
	CHECK(!tenant_name_valid(long_name));
	CHECK(!tenant_name_valid(""));
	CHECK(!tenant_name_valid("."));
	CHECK(!tenant_name_valid(".."));
	CHECK(!tenant_name_valid(".tmp-1"));
	CHECK(!tenant_name_valid("-rf"));
	CHECK(!tenant_name_valid("a/b"));
	CHECK(!tenant_name_valid("a b"));
	CHECK(!tenant_name_valid("a\n"));
	CHECK(!tenant_name_valid("\xc3\xa4"));
	CHECK(tenant_name_valid("a@1000"));
	CHECK(!tenant_name_valid("a@"));
	CHECK(!tenant_name_valid("a@0"));
	CHECK(!tenant_name_valid("a@01000"));
	CHECK(!tenant_name_valid("a@1000x"));
	CHECK(!tenant_name_valid("a@4294967295"));
	CHECK(!tenant_name_valid("@1000"));
	CHECK(!tenant_name_valid("a@1@1"));
	long_name[61] = '@';
	long_name[62] = '1';
	long_name[63] = '\0';
	CHECK(tenant_name_valid(long_name));
	memcpy(long_name + 61, "@10", 4);
	CHECK(!tenant_name_valid(long_name));
}

/* Entries of a directory beside . and .. */
static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static int collect(const char *name, const char *dir, void *arg)
{
	char *all = arg;

	CHECK(!strncmp(dir, fixture_runtime_dir(), strlen(fixture_runtime_dir())));
	strcat(strcat(all, name), " ");
	return strcmp(name, "stop") == 0 ? 42 : 0;
}

static void check_life(void)
{
	char runtime[PATH_MAX + 64], dir[PATH_MAX + 64], names[256] = "", path[PATH_MAX + 128];
	struct policy policy = fixture_policy(GIB);
	struct stat st;

	/* The runtime directory is made where missing, closed whatever the umask. */
	snprintf(runtime, sizeof(runtime), "%s/run", fixture_runtime_dir());
	umask(0);
	CHECK_EQ(tenant_list(runtime, collect, names), 0);
	CHECK_EQ(tenant_create(runtime, "b", &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(stat(runtime, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	CHECK_EQ(stat(dir, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	umask(077);
	CHECK_EQ(tenant_create(runtime, "b", &policy, dir, sizeof(dir)), -EEXIST);
	CHECK_EQ(tenant_create(runtime, "a", &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(tenant_create(runtime, "../x", &policy, dir, sizeof(dir)), -EINVAL);
	policy.ndevices = 0;
	CHECK_EQ(tenant_create(runtime, "c", &policy, dir, sizeof(dir)), -EINVAL);
	policy.ndevices = 1;
	CHECK_EQ(tenant_create(runtime, "c", &policy, dir, 8), -ENAMETOOLONG);
	/* What is not a tenant is not listed. */
	snprintf(path, sizeof(path), "%s/file", runtime);
	fclose(fopen(path, "w"));
	snprintf(path, sizeof(path), "%s/zlink", runtime);
	CHECK_EQ(symlink("a", path), 0);
	CHECK_EQ(tenant_list(runtime, collect, names), 0);
	CHECK(!strcmp(names, "a b "));
	CHECK_EQ(tenant_create(runtime, "stop", &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(tenant_create(runtime, "x", &policy, dir, sizeof(dir)), 0);
	names[0] = '\0';
	CHECK_EQ(tenant_list(runtime, collect, names), 42);
	CHECK(!strcmp(names, "a b stop "));
	CHECK_EQ(tenant_remove(runtime, "nosuch"), -ENOENT);
	CHECK_EQ(tenant_remove(runtime, ".."), -EINVAL);
	CHECK_EQ(tenant_remove(runtime, "b"), 0);
	CHECK_EQ(tenant_remove(runtime, "b"), -ENOENT);
	CHECK_EQ(tenant_create(runtime, "b", &policy, dir, sizeof(dir)), 0);

	/* Others' runtime directories are not used. */
	CHECK_EQ(chmod(runtime, 0777), 0);
	CHECK_EQ(tenant_create(runtime, "d", &policy, dir, sizeof(dir)), -EPERM);
	CHECK_EQ(chmod(runtime, 0700), 0);
}

/* A tenant with a live process stays; one that is removed takes nobody in and hurts nobody. */
static void check_remove(void)
{
	struct slot *slot = fixture_join(fixture_tenant("busy"));
	struct ledger *late, *l = slot_ledger(slot);
	const char *runtime = fixture_runtime_dir();
	struct slot *ignored;
	pid_t pid;
	int fds[2];

	CHECK_EQ(tenant_remove(runtime, "busy"), -EBUSY);
	CHECK_EQ(quota_reserve(slot, 0, MIB, GIB), 0);
	ledger_close(l);

	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		/* A program under which the tenant is deleted by force. */
		char dir[PATH_MAX + 8];
		char c;

		snprintf(dir, sizeof(dir), "%s/busy", runtime);
		slot = fixture_join(dir);
		CHECK_EQ(write(fds[1], "x", 1), 1);
		while (access(dir, F_OK) == 0)
			usleep(100);
		CHECK_EQ(quota_reserve(slot, 0, MIB, MIB), 0);
		CHECK_EQ(quota_reserve(slot, 0, MIB, MIB), -EDQUOT);
		CHECK_EQ(quota_reserve_slow(slot, 0, MIB, MIB), -EDQUOT);
		quota_commit(slot, 0, MIB, CAT_DATA, MIB);
		quota_release(slot, 0, CAT_DATA, MIB);
		CHECK_EQ(quota_reserve_slow(slot, 0, MIB, MIB), 0);
		c = 0;
		_exit(c);
	}
	char c, dir[PATH_MAX + 64], path[PATH_MAX + 128];

	CHECK_EQ(read(fds[0], &c, 1), 1);
	CHECK_EQ(tenant_remove(runtime, "busy"), -EBUSY);
	snprintf(dir, sizeof(dir), "%s/busy", runtime);
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &late), 0);
	snprintf(path, sizeof(path), "%s/ledger", dir);
	CHECK_EQ(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/policy", dir);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(dir), 0);
	fixture_wait(pid, 0);
	/* Opened before, claimed after. */
	CHECK_EQ(slot_claim(late, &ignored), -ESTALE);
	ledger_close(late);
	close(fds[0]);
	close(fds[1]);
}

/* Whoever joins while the tenant is removed is in it, and it stays; or is told that it is gone. */
static void check_join_or_remove(void)
{
	const char *runtime = fixture_runtime_dir();

	for (int round = 0; round < 200; round++) {
		const char *dir = fixture_tenant("leaving");
		int joined[2], go[2], r, removed;
		struct ledger *l;
		struct slot *slot;
		char c;

		CHECK_EQ(pipe(joined), 0);
		CHECK_EQ(pipe(go), 0);
		if (fork() == 0) {
			close(go[1]);
			r = ledger_open(dir, LEDGER_GUEST, &l);
			if (r == 0)
				r = slot_claim(l, &slot);
			/* Removed before, during, or between the two. */
			CHECK(r == 0 || r == -ENOENT || r == -ESTALE || r == -EUSERS);
			CHECK_EQ(write(joined[1], r ? "n" : "y", 1), 1);
			CHECK_EQ(read(go[0], &c, 1), 0);
			_exit(0);
		}
		usleep((unsigned int)round % 40 * 20);
		removed = tenant_remove(runtime, "leaving");
		CHECK_EQ(read(joined[0], &c, 1), 1);
		CHECK_EQ(removed, c == 'y' ? -EBUSY : 0);
		close(go[1]);
		CHECK(wait(&r) > 0 && r == 0);
		close(go[0]);
		close(joined[0]);
		close(joined[1]);
		if (removed)
			CHECK_EQ(tenant_remove(runtime, "leaving"), 0);
	}
}

/* Killed while building or removing: never half a tenant, and the next one sweeps up. */
static void check_killed(void)
{
	char runtime[PATH_MAX + 64], dir[PATH_MAX + 128];
	struct policy policy = fixture_policy(GIB);
	struct ledger *l;
	pid_t pid;

	snprintf(runtime, sizeof(runtime), "%s/killed", fixture_runtime_dir());
	pid = fork();
	if (pid == 0) {
		CHECK_EQ(fault_arm("TENANT_BUILT"), 0);
		tenant_create(runtime, "t", &policy, dir, sizeof(dir));
		_exit(1);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(count_entries(runtime), 1);
	CHECK_EQ(tenant_remove(runtime, "t"), -ENOENT);
	CHECK_EQ(tenant_create(runtime, "t", &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(count_entries(runtime), 1);
	pid = fork();
	if (pid == 0) {
		CHECK_EQ(fault_arm("TENANT_HIDDEN"), 0);
		tenant_remove(runtime, "t");
		_exit(1);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(count_entries(runtime), 1);
	CHECK_EQ(ledger_open(dir, LEDGER_READ, &l), -ENOENT);
	CHECK_EQ(tenant_create(runtime, "t", &policy, dir, sizeof(dir)), 0);
	CHECK_EQ(count_entries(runtime), 1);
	CHECK_EQ(ledger_open(dir, LEDGER_READ, &l), 0);
	ledger_close(l);
}

/* Several programs start in the same new tenant: one creates it, all can join it at once. */
static void check_race(void)
{
	char runtime[PATH_MAX + 64], dir[PATH_MAX + 128], name[32];
	struct policy policy = fixture_policy(GIB);
	int status, created, fds[2];
	char c;

	snprintf(runtime, sizeof(runtime), "%s/race", fixture_runtime_dir());
	for (int round = 0; round < 20; round++) {
		snprintf(name, sizeof(name), "t%d", round);
		CHECK_EQ(pipe(fds), 0);
		for (int i = 0; i < 8; i++) {
			int r;

			if (fork())
				continue;
			close(fds[1]);
			CHECK_EQ(read(fds[0], &c, 1), 0); /* all at once */
			r = tenant_create(runtime, name, &policy, dir, sizeof(dir));
			if (r)
				CHECK_EQ(r, -EEXIST);
			fixture_join(dir);
			_exit(r == 0);
		}
		close(fds[1]);
		created = 0;
		for (int i = 0; i < 8; i++) {
			CHECK(wait(&status) > 0);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
			created += WEXITSTATUS(status);
		}
		close(fds[0]);
		CHECK_EQ(created, 1);
		CHECK_EQ(count_entries(runtime), round + 1);
	}
}

int main(void)
{
	umask(077);
	check_runtime_dir();
	check_runtime_of();
	check_runtime_dir_of();
	check_open_to_all();
	check_users();
	check_open_to_user();
	check_mounted();
	check_names();
	check_file_size_limit();
	check_life();
	check_remove();
	check_join_or_remove();
	if (fixture_has_faults())
		check_killed();
	check_race();
	return 0;
}
