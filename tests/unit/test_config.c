/* SPDX-License-Identifier: Apache-2.0 */
/* Limits as other systems give them: what is accepted, and that anything else is an error. */
#include "guest/core/config.h"

#include <errno.h>
#include <string.h>

#include "ledger/tenant.h"
#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct config config;

static int environment(const char *a, const char *b, const char *c)
{
	char *block[] = {(char *)(uintptr_t) "PATH=/bin", (char *)(uintptr_t)a,
			 (char *)(uintptr_t)b, (char *)(uintptr_t)c, NULL};

	memset(&config, 0, sizeof(config));
	return config_environment(&config, block);
}

static int file(const char *text)
{
	return config_file(&config, text, strlen(text));
}

static int only_file(const char *text)
{
	memset(&config, 0, sizeof(config));
	return file(text);
}

/* An error says what is wrong, in one line, and leaves no limit in force that nobody gave. */
static void refused(int r, const char *about)
{
	CHECK_EQ(r, -EINVAL);
	CHECK(strstr(config.complaint, about));
	CHECK(!strchr(config.complaint, '\n'));
}

static void sizes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		uint32_t permille;
	} good[] = {
		{"8g", 8 * GIB, 0}, {"4096m", 4 * GIB, 0}, {"1024M", GIB, 0}, {"3G", 3 * GIB, 0},
		{"1073741824", GIB, 0}, {"0.5g", GIB / 2, 0}, {"010g", 10 * GIB, 0},
		{"512k", MIB / 2, 0}, {"10GB", 10000000000u, 0}, {"8GiB", 8 * GIB, 0},
		{"25%", 0, 250},
	};
	static const char *const bad[] = {
		"", "0", "0g", "-1g", "+1g", "g", "junk", "8 g", " 8g", "8g ", "8gg", "8x", "0x10",
		"1e9", "nan", "inf", "unlimited", "99999999999999999999g", "101%", "8g;", "8,5g",
		"\xff", "1..5g", ".", "%",
	};
	char text[128];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "CUDA_DEVICE_MEMORY_LIMIT=%s", good[i].text);
		CHECK_EQ(environment(text, NULL, NULL), 0);
		CHECK(config.present);
		CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, good[i].bytes);
		CHECK_EQ(config_limit(&config, 63, 64 * GIB).permille, good[i].permille);
		CHECK(!strcmp(config.tenant, "drop-in"));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "CUDA_DEVICE_MEMORY_LIMIT=%s", bad[i]);
		refused(environment(text, NULL, NULL), "CUDA_DEVICE_MEMORY_LIMIT");
		snprintf(text, sizeof(text), "CUDA_DEVICE_MEMORY_LIMIT_3=%s", bad[i]);
		refused(environment("CUDA_DEVICE_MEMORY_LIMIT=1g", text, NULL),
			"CUDA_DEVICE_MEMORY_LIMIT_3");
	}
}

static void names(void)
{
	static const char *const bad[] = {"_", "_x", "_64", "_-1", "_1x", "_ 1", "_0x1",
					  "_99999999999999999999", "_1_2"};
	char text[128], long_name[600];

	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=4g", "CUDA_DEVICE_MEMORY_LIMIT_1=1g",
			     "CUDA_DEVICE_MEMORY_LIMIT_63=50%"),
		 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 4 * GIB);
	CHECK_EQ(config_limit(&config, 1, 64 * GIB).bytes, GIB);
	CHECK_EQ(config_limit(&config, 2, 64 * GIB).bytes, 4 * GIB);
	CHECK_EQ(config_limit(&config, 63, 64 * GIB).permille, 500);
	CHECK_EQ(config_limit(&config, 64, 64 * GIB).bytes, 4 * GIB);
	/* A device that nobody limited is whole. */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT_1=1g", NULL, NULL), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).permille, 1000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "CUDA_DEVICE_MEMORY_LIMIT%s=1g", bad[i]);
		refused(environment(text, NULL, NULL), "is not a device number");
	}
	/* Others' variables that begin alike. */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMITS=junk", "CUDA_DEVICE_MEMORY_LIMIT",
			     "XCUDA_DEVICE_MEMORY_LIMIT=junk"),
		 0);
	CHECK(!config.present);
	CHECK_EQ(environment(NULL, NULL, NULL), 0);
	CHECK(!config.present && !config.tenant[0]);
	memset(long_name, '7', sizeof(long_name));
	memcpy(long_name, "CUDA_DEVICE_MEMORY_LIMIT_", 25);
	strcpy(long_name + sizeof(long_name) - 4, "=1g");
	refused(environment(long_name, NULL, NULL), "is not a device number");
}

static void tenants(void)
{
	char first[POLICY_NAME_BYTES], path[400] = "CUDA_DEVICE_MEMORY_SHARED_CACHE=/";

	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/a b/vgpu.cache",
			     "CUDA_DEVICE_MEMORY_LIMIT=1g", NULL),
		 0);
	memcpy(first, config.tenant, sizeof(first));
	CHECK(tenant_name_valid(first));
	CHECK(strstr(first, "vgpu.cache"));
	/* The order of variables does not matter; equal paths are equal tenants, others not. */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=1g",
			     "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/a b/vgpu.cache", NULL),
		 0);
	CHECK(!strcmp(first, config.tenant));
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=1g",
			     "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/other/vgpu.cache", NULL),
		 0);
	CHECK(strcmp(first, config.tenant));
	refused(environment("CUDA_DEVICE_MEMORY_SHARED_CACHE=", "CUDA_DEVICE_MEMORY_LIMIT=1g",
			    NULL), "CUDA_DEVICE_MEMORY_SHARED_CACHE");
	memset(path + strlen(path), '/', 20);
	memset(path + strlen(path), 'x', 300);
	CHECK_EQ(environment(path, "CUDA_DEVICE_MEMORY_LIMIT=1g", NULL), 0);
	CHECK(tenant_name_valid(config.tenant));
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_SHARED_CACHE=/a/\xc3\xa4/../",
			     "CUDA_DEVICE_MEMORY_LIMIT=1g", NULL),
		 0);
	CHECK(tenant_name_valid(config.tenant));
	/* A name alone limits nothing. */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/x", NULL, NULL), 0);
	CHECK(!config.present);
}

static void files(void)
{
	static const char *const bad[] = {
		"UsedMem:", "UsedMem:0", "UsedMem:-1", "UsedMem:8g", "UsedMem:8192 x",
		"UsedMem: 0x10", "UsedMem:99999999999999999999", "UsedMem 8192", "UsedMem:1 # MiB x\nUsedMem:#5",
		"UsedCores:-1", "UsedCores:25%", "UsedCores:0.5",
		"UsedCores:101", "UsedCores:x", "UsedCores:", "nonsense",
		"# fine\nUsedMem:1\nUsedMem:junk\n",
		"UsedMem:1111111111111111111111111111111111111111111111111111111111111111111111111",
	};
	static char text[CONFIG_FILE_BYTES];

	CHECK_EQ(only_file("UsedMem:8192\nUsedCores:25\n"), 0);
	CHECK(config.present);
	CHECK_EQ(config_limit(&config, 5, 64 * GIB).bytes, 8192 * MIB);
	CHECK_EQ(config_share_permille(&config, 5), 250);
	CHECK_EQ(config_compute(&config), POLICY_COMPUTE_CAP);
	/* As published: remarks behind values. */
	CHECK_EQ(only_file("UsedMem: 400  # MiB\nUsedCores: 30\t# percent\r\nX: #\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 400 * MIB);
	CHECK_EQ(config_share_permille(&config, 0), 300);
	/* However it is written. */
	CHECK_EQ(only_file("usedmem:400\nUSEDCORES \t: 30\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 400 * MIB);
	CHECK_EQ(config_share_permille(&config, 0), 300);
	/* Twice: the smaller one. */
	CHECK_EQ(only_file("UsedMem: 400\nUsedMem: 500\nUsedCores: 30\nUsedCores: 0\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 400 * MIB);
	CHECK_EQ(config_share_permille(&config, 0), 300);
	/* As CUDA_DEVICE_SM_LIMIT=0. */
	CHECK_EQ(only_file("UsedCores: 0\n"), 0);
	CHECK(!config.present);
	CHECK_EQ(only_file("  # limits\r\n\r\n\tUsedMem:\t100 \r\nOther: thing\nUsedCores:100"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 100 * MIB);
	CHECK_EQ(config_share_permille(&config, 0), 0); /* all of it is no limit */
	CHECK_EQ(config_compute(&config), POLICY_COMPUTE_OFF);
	CHECK_EQ(only_file(""), 0);
	CHECK(!config.present);
	CHECK_EQ(only_file("UsedCores:50"), 0);
	CHECK(config.present);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).permille, 1000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		refused(only_file(bad[i]), CONFIG_FILE);
		/* Whatever the environment said. */
		CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=1g", NULL, NULL), 0);
		refused(file(bad[i]), CONFIG_FILE);
	}
	memset(&config, 0, sizeof(config));
	CHECK_EQ(config_file(&config, "UsedMem:1\0:2", 12), -EINVAL);
	/* As an editor begins it. */
	CHECK_EQ(only_file("\xef\xbb\xbfUsedMem:400\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 400 * MIB);
	/* What is not read to its end could say more. */
	memset(text, '0', sizeof(text));
	memcpy(text, "UsedCores:", 10);
	memcpy(text + 90, "25\n", 4);
	refused(only_file(text), "000...");
	memset(text, '#', sizeof(text));
	memcpy(text, "UsedMem:400\n", 12);
	CHECK_EQ(config_file(&config, text, sizeof(text) - 2), 0);
	refused(config_file(&config, text, sizeof(text) - 1), "of which nobody reads the rest");
	refused(only_file("\n\n\nUsedMem:bad"), ":4:");
	/* The smaller one binds, in each quantity, on each device. */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=1g", NULL, NULL), 0);
	CHECK_EQ(file("UsedMem:2048\nUsedCores:10\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, GIB);
	CHECK_EQ(config_share_permille(&config, 0), 100);
	CHECK_EQ(environment("CUDA_DEVICE_SM_LIMIT=30", "CUDA_DEVICE_SM_LIMIT_2=0",
			     "CUDA_DEVICE_SM_LIMIT_3=5"), 0);
	CHECK_EQ(file("UsedCores:10\n"), 0);
	CHECK_EQ(config_share_permille(&config, 0), 100);
	CHECK_EQ(config_share_permille(&config, 2), 100);
	CHECK_EQ(config_share_permille(&config, 3), 50);
	CHECK_EQ(environment("CUDA_DEVICE_SM_LIMIT=5", "GPU_CORE_UTILIZATION_POLICY=disable", NULL),
		 0);
	CHECK_EQ(file("UsedCores:10\n"), 0);
	CHECK_EQ(config_share_permille(&config, 0), 100);
	CHECK_EQ(config_compute(&config), POLICY_COMPUTE_CAP);
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=8g", "CUDA_DEVICE_MEMORY_LIMIT_1=25%",
			     "CUDA_DEVICE_MEMORY_SHARED_CACHE=/own"), 0);
	CHECK_EQ(file("UsedMem:2048\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 2 * GIB);
	CHECK_EQ(config_limit(&config, 1, 64 * GIB).bytes, 2 * GIB);
	CHECK_EQ(config_limit(&config, 1, 4 * GIB).permille, 250);
	CHECK_EQ(config_limit(&config, 1, 0).bytes, 2 * GIB);
	CHECK(!strcmp(config.tenant, "drop-in")); /* one quota, under no other name */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT_1=1g", NULL, NULL), 0);
	CHECK_EQ(file("UsedMem:2048\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 2 * GIB);
	CHECK_EQ(config_limit(&config, 1, 64 * GIB).bytes, GIB);
}

static void shares(void)
{
	static const struct {
		const char *text;
		uint32_t permille;
	} good[] = {{"1", 10}, {"25", 250}, {"025", 250}, {"99", 990}, {"0", 0}, {"100", 0}};
	static const char *const bad[] = {
		"", "-1", "101", "25%", "25.5", "0.25", "1e1", "nan", "inf", "0x10", " 25", "25 ",
		"+25", "junk", "99999999999999999999", "\xff",
	};
	char text[128];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "CUDA_DEVICE_SM_LIMIT=%s", good[i].text);
		CHECK_EQ(environment(text, NULL, NULL), 0);
		CHECK_EQ(config_share_permille(&config, 0), good[i].permille);
		CHECK_EQ(config_share_permille(&config, 64), good[i].permille);
		/* A limit on compute alone is a limit; memory stays whole. */
		CHECK_EQ(config.present, good[i].permille > 0);
		CHECK_EQ(config_limit(&config, 0, 64 * GIB).permille, 1000);
		CHECK_EQ(config_compute(&config),
			 good[i].permille ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_OFF);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "CUDA_DEVICE_SM_LIMIT=%s", bad[i]);
		refused(environment(text, NULL, NULL), "CUDA_DEVICE_SM_LIMIT");
		snprintf(text, sizeof(text), "CUDA_DEVICE_SM_LIMIT_3=%s", bad[i]);
		refused(environment("CUDA_DEVICE_MEMORY_LIMIT=1g", text, NULL),
			"CUDA_DEVICE_SM_LIMIT_3");
	}
	CHECK_EQ(environment("CUDA_DEVICE_SM_LIMIT=50", "CUDA_DEVICE_SM_LIMIT_1=10",
			     "CUDA_DEVICE_SM_LIMIT_63=100"),
		 0);
	CHECK_EQ(config_share_permille(&config, 0), 500);
	CHECK_EQ(config_share_permille(&config, 1), 100);
	CHECK_EQ(config_share_permille(&config, 63), 0);
	CHECK_EQ(environment("CUDA_DEVICE_SM_LIMIT_1=10", NULL, NULL), 0);
	CHECK_EQ(config_share_permille(&config, 0), 0);
	CHECK_EQ(config_compute(&config), POLICY_COMPUTE_CAP);
	refused(environment("CUDA_DEVICE_SM_LIMIT_64=10", NULL, NULL), "is not a device number");
	refused(environment("CUDA_DEVICE_SM_LIMIT_=10", NULL, NULL), "is not a device number");
	CHECK_EQ(environment("CUDA_DEVICE_SM_LIMITS=junk", "CUDA_DEVICE_SM_LIMIT", NULL), 0);
	CHECK(!config.present);
}

/* What a share means. */
static void policies(void)
{
	static const struct {
		const char *text;
		enum policy_compute compute;
	} good[] = {
		{"0", POLICY_COMPUTE_CAP}, {"default", POLICY_COMPUTE_CAP},
		{"DEFAULT", POLICY_COMPUTE_CAP}, {"1", POLICY_COMPUTE_CAP},
		{"force", POLICY_COMPUTE_CAP}, {"Force", POLICY_COMPUTE_CAP},
		{"2", POLICY_COMPUTE_OFF}, {"DISABLE", POLICY_COMPUTE_OFF},
	};
	static const char *const bad[] = {"", "3", "00", "forced", "forc", "default ", "cap",
					  "\xff", "off", "FORCE\n"};
	char text[128];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "GPU_CORE_UTILIZATION_POLICY=%s", good[i].text);
		CHECK_EQ(environment(text, "CUDA_DEVICE_SM_LIMIT=25", NULL), 0);
		CHECK_EQ(config_compute(&config), good[i].compute);
		/* Alone it limits nothing. */
		CHECK_EQ(environment(text, NULL, NULL), 0);
		CHECK(!config.present);
		CHECK_EQ(config_compute(&config), POLICY_COMPUTE_OFF);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "GPU_CORE_UTILIZATION_POLICY=%s", bad[i]);
		CHECK_EQ(environment("CUDA_DEVICE_SM_LIMIT=25", text, NULL), -EINVAL);
		CHECK(strstr(config.complaint, "GPU_CORE_UTILIZATION_POLICY"));
	}
}

/* What the file does to a policy that somebody else made. */
static void lowered(void)
{
	static const struct {
		const char *file;
		uint32_t compute, share, becomes;
	} cases[] = {
		{"UsedMem:400\n", POLICY_COMPUTE_OFF, 0, 0},
		{"UsedCores:25\n", POLICY_COMPUTE_OFF, 0, 250},
		{"UsedCores:25\n", POLICY_COMPUTE_CAP, 100, 100},
		{"UsedCores:25\n", POLICY_COMPUTE_CAP, 900, 250},
		{"UsedCores:25\n", POLICY_COMPUTE_SHARE, 0, 250}, /* by weight */
		{"UsedCores:100\n", POLICY_COMPUTE_SHARE, 300, 300},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy policy = {.ndevices = 1, .compute = cases[i].compute};
		bool capped = cases[i].becomes != cases[i].share;

		policy.device[0].share_permille = cases[i].share;
		CHECK_EQ(only_file(cases[i].file), 0);
		config_lower(&config, &policy);
		CHECK_EQ(policy.device[0].share_permille, cases[i].becomes);
		CHECK_EQ(policy.compute, capped ? POLICY_COMPUTE_CAP : cases[i].compute);
	}
}

/* Which number a device will have, by what CUDA_VISIBLE_DEVICES says. */
static void visible(void)
{
	static const uint8_t uuid[16] = {0x5c, 0x84, 0x01, 0xab, 0xcd, 0xef, 1, 2,
					 3, 4, 5, 6, 7, 8, 9, 0xa0};
	static const char *const whole = "GPU-5c8401ab-cdef-0102-0304-0506070809a0";
	char list[128];

	CHECK_EQ(config_ordinal(NULL, 3, uuid), 3);
	CHECK_EQ(config_ordinal("0,1", 1, uuid), 1);
	CHECK_EQ(config_ordinal("1,0", 1, uuid), 0);
	CHECK_EQ(config_ordinal("1,0", 0, uuid), 1);
	CHECK_EQ(config_ordinal("2", 1, uuid), -1);
	CHECK_EQ(config_ordinal("", 0, uuid), -1);
	CHECK_EQ(config_ordinal("-1", 0, uuid), -1);
	CHECK_EQ(config_ordinal("0,-1,1", 1, uuid), -1); /* CUDA stops there */
	CHECK_EQ(config_ordinal("0,,1", 1, uuid), -1);
	CHECK_EQ(config_ordinal("junk,1", 1, uuid), -1);
	CHECK_EQ(config_ordinal(whole, 7, uuid), 0);
	CHECK_EQ(config_ordinal("GPU-5c84", 7, uuid), 0);
	CHECK_EQ(config_ordinal("GPU-5C84", 7, uuid), 0);
	CHECK_EQ(config_ordinal("GPU-5c85", 7, uuid), -1);
	CHECK_EQ(config_ordinal("GPU-", 7, uuid), -1);
	snprintf(list, sizeof(list), "GPU-11111111,%s", whole);
	CHECK_EQ(config_ordinal(list, 7, uuid), 1);
	snprintf(list, sizeof(list), "%s0", whole);
	CHECK_EQ(config_ordinal(list, 7, uuid), -1);
}

int main(void)
{
	sizes();
	names();
	tenants();
	files();
	shares();
	policies();
	lowered();
	visible();
	return 0;
}
