/* SPDX-License-Identifier: Apache-2.0 */
/* The file: what is created, what is accepted, what a full disk does. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include "base/fault.h"
#include "ledger/map.h"
#include "tests/unit/tenant_fixture.h"

static char *path_in(const char *dir, const char *name)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int try_open(const char *dir, enum ledger_mode mode)
{
	struct ledger *l = (void *)1;
	int r = ledger_open(dir, mode, &l);

	if (r == 0)
		ledger_close(l);
	else
		CHECK(l == (void *)1);
	return r;
}

static void check_both(const char *dir, int expected)
{
	CHECK_EQ(try_open(dir, LEDGER_GUEST), expected);
	CHECK_EQ(try_open(dir, LEDGER_READ), expected);
}

static void check_file(void)
{
	const char *dir = fixture_tenant("file");
	struct stat st;

	umask(0);
	CHECK_EQ(stat(dir, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	CHECK_EQ(stat(path_in(dir, "ledger"), &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(st.st_size, sizeof(struct ledger_file));
	CHECK(st.st_blocks * 512 < 600 * 1024); /* sparse: the devices' rows come later */
	CHECK_EQ(ledger_create(dir), -EEXIST);
	check_both(dir, 0);
	ledger_close(NULL);
	umask(077);
}

/* Overwrites bytes, looks, and puts the old ones back. */
static void check_patched(const char *dir, size_t at, const void *bytes, size_t len, int expected)
{
	int fd = open(path_in(dir, "ledger"), O_RDWR);
	char old[64];

	CHECK(fd >= 0 && len <= sizeof(old));
	CHECK_EQ(pread(fd, old, len, (off_t)at), len);
	CHECK_EQ(pwrite(fd, bytes, len, (off_t)at), len);
	check_both(dir, expected);
	CHECK_EQ(pwrite(fd, old, len, (off_t)at), len);
	close(fd);
	check_both(dir, 0);
}

static void check_refusals(void)
{
	const char *dir = fixture_tenant("refusals");
	uint32_t version = 1, many = 1 << 30;
	uint64_t zero = 0;
	char other[PATH_MAX + 64];

	check_patched(dir, 0, &zero, sizeof(zero), -EPROTO);
	check_patched(dir, offsetof(struct ledger_header, version), &version, 4, -EPROTO);
	check_patched(dir, offsetof(struct ledger_header, nslots), &many, 4, -EPROTO);
	check_patched(dir, offsetof(struct ledger_header, file_bytes), &zero, 8, -EPROTO);

	CHECK_EQ(truncate(path_in(dir, "ledger"), sizeof(struct ledger_file) + 1), 0);
	check_both(dir, -EPROTO);
	CHECK_EQ(truncate(path_in(dir, "ledger"), sizeof(struct ledger_file) - 1), 0);
	check_both(dir, -EPROTO);
	CHECK_EQ(truncate(path_in(dir, "ledger"), 0), 0);
	check_both(dir, -EPROTO);
	CHECK_EQ(truncate(path_in(dir, "ledger"), sizeof(struct ledger_file)), 0);
	check_both(dir, -EPROTO); /* all zero */
	CHECK_EQ(unlink(path_in(dir, "ledger")), 0);
	check_both(dir, -ENOENT);
	CHECK_EQ(ledger_create(dir), 0);
	check_both(dir, 0);

	CHECK_EQ(chmod(path_in(dir, "ledger"), 0640), 0);
	check_both(dir, -EPERM);
	CHECK_EQ(chmod(path_in(dir, "ledger"), 0602), 0);
	check_both(dir, -EPERM);
	CHECK_EQ(chmod(path_in(dir, "ledger"), 0600), 0);
	CHECK_EQ(chmod(dir, 0770), 0);
	check_both(dir, -EPERM);
	CHECK_EQ(chmod(dir, 0700), 0);
	if (geteuid() == 0) {
		CHECK_EQ(chown(path_in(dir, "ledger"), 4711, 4711), 0);
		check_both(dir, -EPERM);
		CHECK_EQ(chown(path_in(dir, "ledger"), 0, 0), 0);
		CHECK_EQ(chown(dir, 4711, 4711), 0);
		check_both(dir, -EPERM);
		CHECK_EQ(chown(dir, 0, 0), 0);
	}
	check_both(dir, 0);

	snprintf(other, sizeof(other), "%s/elsewhere", dir);
	CHECK_EQ(rename(path_in(dir, "ledger"), other), 0);
	CHECK_EQ(symlink("elsewhere", path_in(dir, "ledger")), 0);
	check_both(dir, -ELOOP);
	CHECK_EQ(unlink(path_in(dir, "ledger")), 0);
	CHECK_EQ(mkfifo(path_in(dir, "ledger"), 0600), 0);
	CHECK_EQ(try_open(dir, LEDGER_GUEST), -EPERM);
	CHECK_EQ(try_open(dir, LEDGER_READ), -EPERM); /* and does not wait for a writer */
	CHECK_EQ(unlink(path_in(dir, "ledger")), 0);
	CHECK_EQ(mkdir(path_in(dir, "ledger"), 0700), 0);
	CHECK_EQ(try_open(dir, LEDGER_READ), -EPERM);
	CHECK_EQ(rmdir(path_in(dir, "ledger")), 0);
	snprintf(other, sizeof(other), "%s-link", dir);
	CHECK_EQ(symlink(dir, other), 0);
	check_both(other, -ENOTDIR);
	check_both("/nonexistent/allot", -ENOENT);
}

static const uint8_t *uuid_n(int n)
{
	static uint8_t uuid[16];

	memset(uuid, 1 + n, sizeof(uuid));
	return uuid;
}

static void check_devices(void)
{
	struct slot *slot = fixture_join(fixture_tenant("devices"));
	struct ledger *l = slot_ledger(slot), *reader;
	struct ledger_device_info info;
	uint8_t halfzero[16] = { 1 }, same_lo[16];

	CHECK_EQ(ledger_device(l, uuid_n(1), 0), 1);
	CHECK_EQ(ledger_device(l, uuid_n(1), 80 * GIB), 1);
	CHECK_EQ(ledger_device(l, fixture_uuid, 0), 0);
	CHECK_EQ(ledger_device(l, halfzero, 0), -EINVAL);
	memcpy(same_lo, uuid_n(1), 16);
	same_lo[15] = 99;
	CHECK_EQ(ledger_device(l, same_lo, 0), 2);
	CHECK_EQ(ledger_device_info(l, 1, &info), 0);
	CHECK(!memcmp(info.uuid, uuid_n(1), 16));
	CHECK_EQ(info.total_bytes, 80 * GIB);
	CHECK_EQ(ledger_device_info(l, 3, &info), -ENODEV);
	CHECK_EQ(ledger_device_info(l, 64, &info), -ENODEV);
	CHECK_EQ(ledger_device_info(l, -1, &info), -ENODEV);

	quota_charge(slot, 1, CAT_POOL, MIB);
	CHECK_EQ(ledger_open(l->dir, LEDGER_READ, &reader), 0);
	CHECK_EQ(ledger_device(reader, uuid_n(1), 0), 1);
	CHECK_EQ(ledger_device(reader, uuid_n(9), 0), -ENODEV);
	CHECK_EQ(quota_used(reader, 1), MIB);
	quota_charge(slot, 1, CAT_POOL, MIB);
	CHECK_EQ(quota_used(reader, 1), MIB);
	CHECK_EQ(ledger_refresh(reader), 0);
	CHECK_EQ(quota_used(reader, 1), 2 * MIB);
	CHECK_EQ(quota_used_live(reader, 1), 2 * MIB);
	CHECK_EQ(quota_reclaim(reader), -EINVAL);
	CHECK_EQ(ledger_refresh(l), -EINVAL);
	ledger_close(reader);

	for (int n = 3; n < LEDGER_DEVICES; n++)
		CHECK_EQ(ledger_device(l, uuid_n(n), 0), n);
	CHECK_EQ(ledger_device(l, uuid_n(100), 0), -ENOSPC);
	ledger_close(l);
}

/* Killed between the halves of a name: the next device has its place, and none is behind a gap. */
static void check_half_named(void)
{
	const char *dir = fixture_tenant("half");
	struct ledger_device_info info;
	struct ledger *l;
	pid_t pid;

	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &l), 0);
	pid = fork();
	if (pid == 0) {
		CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &l), 0);
		CHECK_EQ(fault_arm("DEVICE_HALF_NAMED"), 0);
		ledger_device(l, uuid_n(1), 0);
		_exit(1);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(ledger_device_info(l, 0, &info), -ENODEV);
	CHECK_EQ(ledger_device(l, uuid_n(2), 0), 0);
	CHECK_EQ(ledger_device(l, uuid_n(1), 0), 1);
	CHECK_EQ(ledger_device(l, uuid_n(2), 0), 0);
	CHECK(ledger_knows(l, 0) && ledger_knows(l, 1) && !ledger_knows(l, 2));
	CHECK_EQ(ledger_allocate(l, 1), 0);
	CHECK_EQ(ledger_allocate(l, 2), -ENODEV);
	ledger_close(l);
}

/* A reader of a file that shrinks gets an error; its last copy stays usable. */
static void check_truncated_under_reader(void)
{
	const char *dir = fixture_tenant("shrinks");
	struct ledger *reader;

	CHECK_EQ(ledger_open(dir, LEDGER_READ, &reader), 0);
	CHECK_EQ(truncate(path_in(dir, "ledger"), 5000), 0);
	CHECK_EQ(ledger_refresh(reader), -ENODATA);
	CHECK_EQ(quota_used(reader, 0), 0);
	ledger_close(reader);
}

/* The file goes away, or another takes its place: no lock, no reclaiming, and no crash. */
static void check_replaced(void)
{
	struct slot *slot = fixture_join(fixture_tenant("replaced"));
	struct ledger *l = slot_ledger(slot);

	CHECK_EQ(unlink(path_in(l->dir, "ledger")), 0);
	CHECK_EQ(quota_lock(l), -ESTALE);
	CHECK(slot_alive(l, 5));
	CHECK_EQ(quota_reserve_slow(slot, 0, MIB, MIB), 0);
	CHECK_EQ(quota_reserve_slow(slot, 0, MIB, MIB), -EDQUOT);
	CHECK_EQ(ledger_create(l->dir), 0);
	CHECK_EQ(quota_lock(l), -ESTALE);
	CHECK_EQ(quota_reclaim(l), -ESTALE);
	CHECK_EQ(ledger_device(l, uuid_n(1), 0), -ESTALE);
	CHECK_EQ(quota_used(l, 0), MIB);
	ledger_close(l);
}

static void fill_disk(const char *dir)
{
	static const char block[4096] = "x";
	int fd = open(path_in(dir, "filler"), O_WRONLY | O_CREAT, 0600);

	CHECK(fd >= 0);
	while (write(fd, block, sizeof(block)) > 0)
		;
	CHECK_EQ(errno, ENOSPC);
	close(fd);
}

/* In a mount namespace of its own. Writes and scans on a full disk: -ENOSPC, no SIGBUS. */
static void full_disk(const char *mountpoint)
{
	struct policy policy = fixture_policy(GIB);
	struct slot *a, *b;
	struct ledger *l;
	char dir[PATH_MAX];

	CHECK_EQ(mount("none", mountpoint, "tmpfs", 0, "size=256k,mode=700"), 0);
	CHECK_EQ(tenant_create(mountpoint, "t", &policy, dir, sizeof(dir)), -ENOSPC);
	CHECK_EQ(umount(mountpoint), 0);
	CHECK_EQ(mount("none", mountpoint, "tmpfs", 0, "size=2M,mode=700"), 0);
	CHECK_EQ(tenant_create(mountpoint, "t", &policy, dir, sizeof(dir)), 0);
	a = fixture_join(dir);
	l = slot_ledger(a);
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &l), 0); /* knows the device, has no slot yet */
	fill_disk(mountpoint);
	CHECK_EQ(ledger_device(l, uuid_n(1), 0), -ENOSPC);
	CHECK_EQ(quota_used(l, 1), 0);
	/* What exists goes on working, to the last slot. */
	CHECK_EQ(slot_claim(l, &b), 0);
	CHECK_EQ(ledger_device(l, fixture_uuid, 0), 0);
	CHECK_EQ(quota_reserve(b, 0, MIB, GIB), 0);
	quota_commit(b, 0, MIB, CAT_DATA, MIB);
	l->map->header.slot_high = LEDGER_SLOTS;
	CHECK_EQ(quota_used_live(l, 0), MIB);
	CHECK_EQ(quota_reserve_slow(a, 0, GIB, GIB), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, 0, MIB, GIB), 0);
	quota_set_driver(b, 0, MIB, 1);
	/* Rows of device 1 come with the first process that finds space for them. */
	CHECK_EQ(ledger_device(l, uuid_n(1), 0), -ENOSPC);
	CHECK_EQ(unlink(path_in(mountpoint, "filler")), 0);
	CHECK_EQ(ledger_device(l, uuid_n(1), 0), 1);
	CHECK_EQ(quota_reserve(b, 1, MIB, GIB), 0);
	ledger_close(l);
	ledger_close(slot_ledger(a));
}

static void check_full_disk(void)
{
	char mountpoint[PATH_MAX];
	pid_t pid;

	snprintf(mountpoint, sizeof(mountpoint), "%s/full-disk", fixture_runtime_dir());
	CHECK_EQ(mkdir(mountpoint, 0700), 0);
	pid = fork();
	if (pid == 0) {
		/*
		 * Not allowed to, or in a chroot, whose root is no mount point: the rest of the
		 * test has been run.
		 */
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			perror("ledger: a full disk was not tried: no mounts of our own");
		else
			full_disk(mountpoint);
		_exit(0);
	}
	fixture_wait(pid, 0);
}

int main(void)
{
	umask(077);
	check_file();
	check_refusals();
	check_devices();
	if (fixture_has_faults())
		check_half_named();
	check_truncated_under_reader();
	check_replaced();
	check_full_disk();
	return 0;
}
