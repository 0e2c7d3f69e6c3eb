/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' use is written once and whole, whatever the tenants, the clock and the disk do. */
#include "daemon/accrual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "node/ended.h"
#include "node/journal.h"
#include "tests/unit/tenant_fixture.h"

#define UP (100000 * NS_PER_S) /* CLOCK_BOOTTIME at the beginning */

static char dir[PATH_MAX], runtime[PATH_MAX];
static struct snapshot_device on[2];
static struct snapshot snapshot = {.ndevices = 1, .device = on};
static struct tenant_entry entry = {.name = "job@1000", .snapshot = &snapshot};
static struct tenants tenants = {.n = 1, .list = &entry};
static struct devices devices = {.n = 1};
static struct accrual *accrual;
static int64_t began_s, now_s;
static uint64_t boot_ns;

struct sum {
	int lines, last;
	uint64_t busy_ns, alive_ns, byte_s, refusals, peak_bytes, energy_uj;
	char name[POLICY_NAME_BYTES];
};

static int add(uid_t uid, const struct ended *e, void *arg)
{
	struct sum *sum = arg;

	sum->lines++;
	sum->last += e->last;
	sum->busy_ns += e->busy_ns;
	sum->alive_ns += e->alive_ns;
	sum->byte_s += e->byte_s;
	sum->refusals += e->refusals;
	sum->energy_uj += e->energy_uj;
	sum->peak_bytes = e->peak_bytes;
	strcpy(sum->name, e->name);
	return 0;
}

static struct sum written(uid_t uid)
{
	struct sum sum = {.lines = 0};

	CHECK_EQ(journal_read(dir, uid, 0, add, &sum), 0);
	return sum;
}

static void look_after(int64_t seconds)
{
	now_s += seconds;
	boot_ns += (uint64_t)seconds * NS_PER_S;
	accrual_note(accrual, &tenants, &devices, now_s, boot_ns);
}

static void restart(void)
{
	accrual_close(accrual);
	CHECK_EQ(accrual_open(runtime, dir, &accrual), 0);
}

/* The tenant's directory, with a time at which it began: ten minutes past an hour, at which lines are written. */
static void begin(void)
{
	time_t past = time(NULL) / 3600 * 3600 - 3000;
	const struct timespec began[] = {{.tv_sec = past}, {.tv_sec = past}};
	static int number;

	snprintf(runtime, sizeof(runtime), "%.*s/%d", PATH_MAX - 32, fixture_runtime_dir(), number++);
	snprintf(dir, sizeof(dir), "%.*s/history", PATH_MAX - 32, runtime);
	snprintf(entry.dir, sizeof(entry.dir), "%.*s-users/job@1000", PATH_MAX - 32, runtime);
	CHECK_EQ(tenant_make_users(runtime), 0);
	CHECK_EQ(mkdir(entry.dir, 0700), 0);
	CHECK_EQ(journal_make(runtime, dir), 0);
	CHECK_EQ(utimensat(AT_FDCWD, entry.dir, began, 0), 0);
	began_s = tenants_began(entry.dir);
	CHECK_EQ(began_s, past);
	now_s = began_s;
	boot_ns = UP;
	on[0] = (struct snapshot_device){.uuid = {1}, .limit_bytes = 100, .used_bytes = 10,
					 .peak_bytes = 20};
	memcpy(devices.list[0].uuid, on[0].uuid, 16);
	devices.list[0].total_bytes = 1000;
	tenants.n = 1;
	CHECK_EQ(accrual_open(runtime, dir, &accrual), 0);
}

static void end(void)
{
	accrual_close(accrual);
	accrual = NULL;
}

/* As the process does that removes a tenant. */
static void remove_tenant(void)
{
	tenants.n = 0;
	rmdir(entry.dir);
	CHECK_EQ(ended_note(runtime, entry.name, &snapshot, began_s), 0);
}

static void use(uint64_t busy_s, uint64_t refusals)
{
	on[0].compute.busy_ns += busy_s * NS_PER_S;
	on[0].energy_uj += busy_s * 100;
	on[0].refusals += refusals;
}

static void check_hours(void)
{
	begin();
	now_s -= now_s % 3600;
	look_after(0);
	use(5, 1);
	look_after(1000);
	CHECK_EQ(written(1000).lines, 0);
	use(7, 1);
	look_after(3000);
	CHECK_EQ(written(1000).lines, 1);
	CHECK_EQ(written(1000).busy_ns, 5 * NS_PER_S);
	CHECK_EQ(written(1000).alive_ns, 1000 * NS_PER_S);
	end();
	CHECK_EQ(written(1000).lines, 2);
	CHECK_EQ(written(1000).busy_ns, 12 * NS_PER_S);
	CHECK_EQ(written(1000).energy_uj, 1200);
	CHECK_EQ(written(1000).alive_ns, 4000 * NS_PER_S);
	CHECK_EQ(written(1000).byte_s, 40000);
	CHECK_EQ(written(1000).refusals, 2);
	CHECK_EQ(written(1000).last, 0);
}

static void check_end(void)
{
	begin();
	look_after(0);
	use(5, 1);
	look_after(20);
	use(1, 2);
	remove_tenant();
	look_after(20);
	look_after(20);
	CHECK_EQ(written(1000).lines, 1);
	CHECK_EQ(written(1000).last, 1);
	CHECK_EQ(written(1000).refusals, 3);
	CHECK_EQ(written(1000).busy_ns, 6 * NS_PER_S);
	CHECK_EQ(written(1000).energy_uj, 600);
	restart();
	look_after(20);
	end();
	CHECK_EQ(written(1000).lines, 1);
	CHECK_EQ(written(1000).energy_uj, 600);
}

/* It has not lived for a second, by times on disk, when allotd stops. */
static void check_young(void)
{
	begin();
	on[0].compute.busy_ns = NS_PER_S / 2;
	on[0].refusals = 1;
	look_after(0);
	restart();
	look_after(0);
	restart();
	CHECK_EQ(written(1000).lines, 1);
	CHECK_EQ(written(1000).busy_ns, NS_PER_S / 2);
	CHECK_EQ(written(1000).refusals, 1);
	end();
}

/* It began and ended between two looks, or while there was no daemon. */
static void check_unseen(void)
{
	begin();
	use(3, 1);
	remove_tenant();
	look_after(20);
	CHECK_EQ(written(1000).lines, 1);
	CHECK_EQ(written(1000).refusals, 1);
	/* Busy for no longer than it lived. */
	CHECK(written(1000).busy_ns <= written(1000).alive_ns + NS_PER_S);
	end();
}

/* The directory is removed, and the next look comes before the note. */
static void check_note_is_late(void)
{
	begin();
	look_after(0);
	use(5, 0);
	look_after(20);
	tenants.n = 0;
	rmdir(entry.dir);
	look_after(20);
	look_after(20);
	remove_tenant();
	look_after(20);
	CHECK_EQ(written(1000).busy_ns, 5 * NS_PER_S);
	CHECK_EQ(written(1000).last, 1);
	end();
}

/* Its processes have ended, and a command removes it hours later. */
static void check_unremoved(void)
{
	begin();
	look_after(0);
	use(5, 0);
	look_after(20);
	tenants.n = 0;
	for (int i = 0; i < 100; i++)
		look_after(20);
	remove_tenant();
	look_after(20);
	end();
	CHECK_EQ(written(1000).busy_ns, 5 * NS_PER_S);
	CHECK_EQ(written(1000).last, 1);
	CHECK(written(1000).alive_ns <= 40 * NS_PER_S);
}

static void check_restart(void)
{
	begin();
	look_after(0);
	use(50, 5);
	look_after(100);
	restart();
	CHECK_EQ(written(1000).busy_ns, 50 * NS_PER_S);
	CHECK_EQ(written(1000).energy_uj, 5000);
	use(7, 1); /* without a daemon */
	look_after(100);
	restart();
	CHECK_EQ(written(1000).busy_ns, 57 * NS_PER_S);
	CHECK_EQ(written(1000).energy_uj, 5700);
	CHECK_EQ(written(1000).refusals, 6);
	CHECK_EQ(written(1000).alive_ns, 200 * NS_PER_S);
	remove_tenant();
	look_after(20);
	restart();
	look_after(20);
	end();
	CHECK_EQ(written(1000).busy_ns, 57 * NS_PER_S);
	CHECK_EQ(written(1000).last, 1);
}

static void check_clock(void)
{
	begin();
	look_after(0);
	for (int i = 0; i < 4; i++) {
		now_s += i % 2 ? -400 * 86400 : 400 * 86400;
		use(1, 0);
		look_after(20);
	}
	end();
	CHECK_EQ(written(1000).busy_ns, 4 * NS_PER_S);
	CHECK_EQ(written(1000).alive_ns, 80 * NS_PER_S);
}

/* Nothing is removed by a clock that is wrong for some minutes; all that is old by one that stays. */
static void check_prune(void)
{
	struct ended e = {.name = "old", .ended_s = 1, .used = true};

	begin();
	CHECK(journal_append(dir, 0, now_s - 60 * 86400, &e, UINT64_MAX) > 0);
	look_after(0);
	look_after(2 * 3600);
	now_s += 60 * 86400;
	look_after(20);
	look_after(1800);
	CHECK_EQ(written(0).lines, 1);
	look_after(3600);
	look_after(3600);
	CHECK_EQ(written(0).lines, 0);
	end();
}

/* Figures that a user wrote. */
static void check_forged(void)
{
	begin();
	look_after(0);
	on[0].compute.busy_ns = on[0].refusals = on[0].peak_bytes = on[0].used_bytes = UINT64_MAX;
	on[0].energy_uj = UINT64_MAX;
	look_after(20);
	look_after(20);
	restart();
	CHECK_EQ(written(1000).busy_ns, 41 * NS_PER_S);
	CHECK_EQ(written(1000).energy_uj, UINT64_C(41) * 5000 * 1000000);
	CHECK_EQ(written(1000).peak_bytes, 1000);
	CHECK(written(1000).byte_s <= 40 * 1000);
	/* Sums that fall count from where they are. */
	on[0].compute.busy_ns = 0;
	look_after(20);
	use(2, 0);
	look_after(20);
	end();
	CHECK_EQ(written(1000).busy_ns, 43 * NS_PER_S);
}

/* Devices that are made up, others each time: no lines, and no memory. */
static void check_made_up(void)
{
	begin();
	look_after(0);
	snapshot.ndevices = 2;
	for (int i = 0; i < 100; i++) {
		on[1] = (struct snapshot_device){.uuid = {2, (uint8_t)i}, .used_bytes = 1};
		look_after(20);
	}
	remove_tenant();
	look_after(20);
	end();
	CHECK_EQ(written(1000).last, 1);
	CHECK_EQ(written(JOURNAL_ALL).alive_ns, written(1000).alive_ns);
	CHECK(written(1000).alive_ns <= 2020 * NS_PER_S);
	snapshot.ndevices = 1;
}

/* Beyond the bound a user's tenants have lines together, and the disk no more than it. */
static void check_many(void)
{
	struct ended e = {.name = "x@1000", .used = true};
	struct sum before;

	begin();
	look_after(0);
	while (journal_append(dir, 1000, now_s, &e, ACCRUAL_OF_USER) > 0)
		;
	before = written(1000);
	for (int i = 0; i < 20; i++) {
		snprintf(entry.name, sizeof(entry.name), "job%d@1000", i);
		CHECK_EQ(ended_note(runtime, entry.name, &snapshot, began_s - 10), 0);
	}
	strcpy(entry.name, "job@1000");
	look_after(20);
	CHECK_EQ(written(1000).lines, before.lines);
	end();
	CHECK_EQ(written(1000).lines, before.lines + 1);
	CHECK(!strcmp(written(1000).name, "*@1000"));
	CHECK(written(1000).alive_ns >= 20 * 10 * NS_PER_S);
}

/* A full or missing disk: kept, and written later. */
static void check_disk(void)
{
	char away[PATH_MAX + 8];

	begin();
	now_s -= now_s % 3600;
	look_after(0);
	use(5, 1);
	look_after(20);
	snprintf(away, sizeof(away), "%s.away", dir);
	CHECK_EQ(rename(dir, away), 0);
	look_after(3600);
	look_after(3600);
	CHECK_EQ(rename(away, dir), 0);
	look_after(3600);
	end();
	CHECK_EQ(written(1000).busy_ns, 5 * NS_PER_S);
	CHECK_EQ(written(1000).alive_ns, (20 + 3 * 3600) * NS_PER_S);
}

/* A tenant in a container: nobody notes its end, and its beginning is not known. */
static void begin_apart(void)
{
	begin();
	entry.apart = 1;
	strcpy(entry.name, "0123456789ab/job");
}

static void end_apart(void)
{
	end();
	entry.apart = 0;
	entry.ledger.st_ino = 0;
	strcpy(entry.name, "job@1000");
}

static void check_apart(void)
{
	begin_apart();
	look_after(0);
	use(5, 1);
	look_after(20);
	tenants.n = 0;
	look_after(20);
	end_apart();
	CHECK_EQ(written(0).lines, 1);
	CHECK_EQ(written(0).last, 1);
	CHECK_EQ(written(0).busy_ns, 5 * NS_PER_S);
	CHECK_EQ(written(0).alive_ns, 20 * NS_PER_S);
}

/* Programs of a container, one after the other: each has a ledger of its own under one name. */
static void check_apart_again(void)
{
	begin_apart();
	for (int i = 1; i <= 3; i++) {
		entry.ledger.st_ino = (ino_t)i;
		on[0].compute.busy_ns = on[0].refusals = 0;
		look_after(20);
		use(15, 2);
		look_after(20);
	}
	/* One that was there before this daemon was: what it had is written, or nobody's. */
	restart();
	look_after(20);
	use(3, 1);
	look_after(20);
	end_apart();
	CHECK_EQ(written(0).busy_ns, 48 * NS_PER_S);
	CHECK_EQ(written(0).refusals, 7);
}

/* allotd begins before the driver is there, or could not read a tenant at first. */
static void check_late(void)
{
	begin();
	look_after(0);
	use(50, 5);
	look_after(100);
	restart();
	devices.n = 0;
	look_after(20);
	devices.n = 1;
	use(1, 0);
	look_after(20);
	restart();
	CHECK_EQ(written(1000).busy_ns, 51 * NS_PER_S);
	entry.snapshot = NULL;
	look_after(20);
	entry.snapshot = &snapshot;
	look_after(20);
	use(2, 0);
	look_after(20);
	end();
	CHECK_EQ(written(1000).busy_ns, 53 * NS_PER_S);
	CHECK_EQ(written(1000).refusals, 5);
}

/* A peak is in the part in which it was reached. */
static void check_peak(void)
{
	begin();
	now_s -= now_s % 3600;
	look_after(0);
	on[0].peak_bytes = 700;
	on[0].used_bytes = 30;
	look_after(20);
	look_after(3600);
	CHECK_EQ(written(1000).peak_bytes, 700);
	look_after(3600);
	CHECK_EQ(written(1000).peak_bytes, 30);
	restart();
	look_after(20);
	end();
	CHECK_EQ(written(1000).peak_bytes, 30);
}

int main(void)
{
	if (geteuid())
		SKIP("users' tenants are made by root alone");
	check_hours();
	check_end();
	check_young();
	check_unseen();
	check_note_is_late();
	check_unremoved();
	check_restart();
	check_clock();
	check_prune();
	check_forged();
	check_made_up();
	check_many();
	check_disk();
	check_apart();
	check_apart_again();
	check_late();
	check_peak();
	return 0;
}
