/* SPDX-License-Identifier: Apache-2.0 */
/* Units of a GPU in a tenant's ledger: whole or none; and who of its processes has queues. */
#include "ledger/cu_grant.h"

#include <string.h>

#include "ledger/device_time.h"
#include "tests/unit/tenant_fixture.h"

static struct cu_grant some(uint64_t seed)
{
	struct cu_grant grant = {.made_ns = seed, .of = seed * 3, .permille = 250};

	for (int i = 0; i < CU_GRANT_WORDS; i++)
		grant.word[i] = (uint32_t)(seed * (uint64_t)(i + 1));
	return grant;
}

/* What stands there after any kill is what was, what was to be, or nothing. */
static void test_whole(void)
{
	static struct device_time block;
	struct cu_grant one = some(1001), two = some(70007), is;

	CHECK_EQ(cu_grant_read(&block, &is), -ENODATA);
	cu_grant_write(&block, &one);
	CHECK_EQ(cu_grant_read(&block, &is), 0);
	CHECK(!memcmp(&is, &one, sizeof(is)));
	cu_grant_write(&block, &two);
	CHECK_EQ(cu_grant_read(&block, &is), 0);
	CHECK(!memcmp(&is, &two, sizeof(is)));
	for (size_t i = 0; i < sizeof(one) / 8; i++) {
		cu_grant_write(&block, &one);
		memcpy(&block.cu_grant, &two, i * 8);
		CHECK_EQ(cu_grant_read(&block, &is), i ? -ENODATA : 0);
	}
	memset(&block, 0xff, sizeof(block));
	CHECK_EQ(cu_grant_read(&block, &is), -ENODATA);
}

static int wanted(const char *dir)
{
	struct ledger *ledger;
	int r;

	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	r = cu_grant_wanted(ledger, fixture_uuid);
	ledger_close(ledger);
	return r;
}

static pid_t start(const char *dir, uint32_t n)
{
	int said[2];
	char byte;
	pid_t pid;

	CHECK_EQ(pipe(said), 0);
	pid = fixture_fork();
	if (!pid) {
		cu_grant_set_queues(fixture_join(dir), 0, n);
		CHECK_EQ(write(said[1], "", 1), 1);
		for (;;)
			pause();
	}
	CHECK_EQ(read(said[0], &byte, 1), 1);
	close(said[0]);
	close(said[1]);
	return pid;
}

/* As long as one lives that has some; a later one in its slot has none of them. */
static void test_wanted(void)
{
	const char *dir = fixture_tenant("wanted");
	pid_t one, none;

	CHECK_EQ(wanted(dir), -ENODEV);
	one = start(dir, 2);
	CHECK_EQ(wanted(dir), 0);
	none = start(dir, 0);
	fixture_kill(one);
	CHECK_EQ(wanted(dir), -ENODEV);
	fixture_kill(none);
	none = start(dir, 0);
	CHECK_EQ(wanted(dir), -ENODEV);
	one = start(dir, 1);
	CHECK_EQ(wanted(dir), 0);
	fixture_kill(none);
	CHECK_EQ(wanted(dir), 0);
	fixture_kill(one);
}

int main(void)
{
	test_whole();
	test_wanted();
	return 0;
}
