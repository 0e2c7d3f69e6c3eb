/* SPDX-License-Identifier: Apache-2.0 */
/* Limits as other systems give them: what is accepted, and that anything else is an error. */
#include "dropin/variables.h"
#include "dropin/vgpu_file.h"

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
	return variables_read(&config, block);
}

static int file(const char *text)
{
	return vgpu_file_parse(&config, text, strlen(text));
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
		{"1024k", MIB, 0}, {"10GB", 10000000000u, 0}, {"8GiB", 8 * GIB, 0},
		{"25%", 0, 250},
	};
	static const char *const bad[] = {
		"", "0", "0g", "-1g", "+1g", "g", "junk", "8 g", " 8g", "8g ", "8gg", "8x", "0x10",
		"1e9", "nan", "inf", "unlimited", "99999999999999999999g", "101%", "8g;", "8,5g",
		"\xff", "1..5g", ".", "%", "1024", "4k", "1048575", "8g\r", "8g\n", "\t8g", "8g 8g", "0.0001g",
		"1152921504606846977", "18446744073709551616", "-18446744073709551615",
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
	/* Twice: the smaller one, and of a size and a part whichever is smaller on the device. */
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT_1=2g", "CUDA_DEVICE_MEMORY_LIMIT_1=1g",
			     "CUDA_DEVICE_MEMORY_LIMIT_01=4g"),
		 0);
	CHECK_EQ(config_limit(&config, 1, 64 * GIB).bytes, GIB);
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=50%", "CUDA_DEVICE_MEMORY_LIMIT=4g",
			     "CUDA_DEVICE_MEMORY_LIMIT=60%"),
		 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 4 * GIB);
	CHECK_EQ(config_limit(&config, 0, 4 * GIB).permille, 500);
	CHECK_EQ(config_limit(&config, 0, 0).bytes, 4 * GIB);
	CHECK_EQ(config_limit_bytes(&config, 0, 4 * GIB), 2 * GIB);
	CHECK_EQ(config_limit_bytes(&config, 0, GIB), GIB / 2);
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=8g", NULL, NULL), 0);
	CHECK_EQ(config_limit_bytes(&config, 0, 4 * GIB), 4 * GIB);
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
	static char text[VGPU_FILE_BYTES];

	CHECK_EQ(only_file("UsedMem:8192\nUsedCores:25\n"), 0);
	CHECK(config.present);
	CHECK_EQ(config_limit(&config, 5, 64 * GIB).bytes, 8192 * MIB);
	CHECK_EQ(config_share_permille(&config, 5), 250);
	CHECK_EQ(config_compute(&config), POLICY_COMPUTE_CAP);
	/* As published: remarks behind values. */
	CHECK_EQ(only_file("UsedMem: 400  # MiB\nUsedCores: 30\t# percent\r\n"), 0);
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
	CHECK_EQ(only_file("UsedCores:50"), 0);
	CHECK(config.present);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).permille, 1000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		refused(only_file(bad[i]), VGPU_FILE);
		/* Whatever the environment said. */
		CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=1g", NULL, NULL), 0);
		refused(file(bad[i]), VGPU_FILE);
	}
	memset(&config, 0, sizeof(config));
	CHECK_EQ(vgpu_file_parse(&config, "UsedMem:1\0:2", 12), -EINVAL);
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
	CHECK_EQ(vgpu_file_parse(&config, text, sizeof(text) - 2), 0);
	refused(vgpu_file_parse(&config, text, sizeof(text) - 1), "of which nobody reads the rest");
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

/* More than a line has room for: it says so, and its end is there. */
static void many_keys(void)
{
	char text[8192] = "UsedMem:400\n", *end = text + strlen(text);

	for (int i = 0; i < 100; i++)
		end += sprintf(end, "%024dAnotherKeyThatIsLong%024d:1\n", i, i);
	CHECK_EQ(only_file(text), 0);
	CHECK(strstr(config.remark, "0AnotherKeyThatIs"));
	CHECK(strstr(config.remark, "\" and others are not keys, and limit nothing; write "
				    "UsedMem:MIB or UsedCores:PERCENT"));
	refused(only_file(text + strlen("UsedMem:400\n")), "\" and others are not keys");
	CHECK(strstr(config.complaint, "write UsedMem:MIB or UsedCores:PERCENT"));
}

/* A file that limits nothing by mistake is none that says "no limit". */
static void keys(void)
{
	static const char *const bad[] = {
		"", "\n", "\r\n \t\n", "# UsedMem:4096\n", "\xef\xbb\xbf", "UsedMemory:4096\n",
		"UsedMem2:4096\n", "Used Mem:4096\n", "UsedMe:4096\n", ":4096\n", "\xc2\xa0UsedMem:4096\n",
		"UsedCores:0\nUsedMemory:4096\n", "\"UsedMem\":4096\n", "X: #\n", "UsedMem\v:4096\n",
		"used_mem:4096\n", "UsedCores:100\nOther: thing\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		refused(only_file(bad[i]), VGPU_FILE);
		CHECK(strstr(config.complaint, "UsedMem:"));
		CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=1g", NULL, NULL), 0);
		refused(file(bad[i]), VGPU_FILE);
	}
	refused(only_file("\n#\nUsedMemory:4096\n"), ":3: \"UsedMemory\" is not a key");
	refused(only_file("Used\tMem\x01:4096\n"), "\"Used?Mem?\"");
	refused(only_file("#\nUsedMemory:4096\nOther:3\n"),
		":2: \"UsedMemory\", \"Other\" are not keys, and nothing else limits anything");
	/* Beside a limit such keys are named, each once. */
	CHECK_EQ(only_file("UsedMem:400\nUsedCore:25\nOther: thing\nUsedCore:30\n"), 0);
	CHECK_EQ(config_limit(&config, 0, 64 * GIB).bytes, 400 * MIB);
	CHECK_EQ(config_share_permille(&config, 0), 0);
	CHECK(strstr(config.remark,
		     VGPU_FILE ":2: \"UsedCore\", \"Other\" are not keys, and limit nothing"));
	CHECK(!strchr(config.remark, '\n'));
	CHECK_EQ(only_file("UsedMem:400\nOther: thing\n"), 0);
	CHECK(strstr(config.remark, VGPU_FILE ":2: \"Other\" is not a key, and limits nothing"));
	many_keys();
	CHECK_EQ(only_file("UsedMem:400\n"), 0);
	CHECK(!*config.remark);
	/* To say that nothing is limited is to say something. */
	CHECK_EQ(only_file("UsedCores:0\n"), 0);
	CHECK(!config.present && !*config.remark);
}

/* What is no limit, and has an equal here. */
static void equivalents(void)
{
	static const struct {
		const char *text;
		uint32_t priority, compute;
		bool present;
	} levels[] = {
		{"CUDA_TASK_PRIORITY=0", POLICY_PRIORITY_HIGH, POLICY_COMPUTE_SHARE, true},
		{"CUDA_TASK_PRIORITY=1", POLICY_PRIORITY_NORMAL, POLICY_COMPUTE_OFF, false},
		{"CUDA_TASK_PRIORITY=2", POLICY_PRIORITY_LOW, POLICY_COMPUTE_SHARE, true},
		{"CUDA_TASK_PRIORITY=9", POLICY_PRIORITY_LOW, POLICY_COMPUTE_SHARE, true},
	};
	static const char *const bad[] = {
		"CUDA_TASK_PRIORITY=", "CUDA_TASK_PRIORITY=-1", "CUDA_TASK_PRIORITY=high",
		"CUDA_TASK_PRIORITY=0x0", "CUDA_TASK_PRIORITY=99999999999", "CUDA_TASK_PRIORITY=0 ",
		"CUDA_OVERSUBSCRIBE=", "CUDA_OVERSUBSCRIBE=yes", "CUDA_OVERSUBSCRIBE=true ",
		"CUDA_OVERSUBSCRIBE=2", "CUDA_OVERSUBSCRIBE=-1",
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		struct policy policy = {.ndevices = 1};

		CHECK_EQ(environment(levels[i].text, NULL, NULL), 0);
		CHECK_EQ(config.present, levels[i].present);
		config_apply(&config, &policy);
		CHECK_EQ(policy.priority, levels[i].priority);
		CHECK_EQ(policy.compute, levels[i].compute);
		CHECK_EQ(policy.flags, 0);
		policy.compute = POLICY_COMPUTE_CAP;
		config_apply(&config, &policy);
		CHECK_EQ(policy.compute, POLICY_COMPUTE_CAP);
	}
	for (int on = 0; on < 2; on++) {
		static const char *const said[2][3] = {{"false", "0", "FALSE"}, {"true", "1", "True"}};

		for (int i = 0; i < 3; i++) {
			struct policy policy = {.ndevices = 1};
			char text[64];

			snprintf(text, sizeof(text), "CUDA_OVERSUBSCRIBE=%s", said[on][i]);
			CHECK_EQ(environment(text, NULL, NULL), 0);
			CHECK_EQ(config.present, on);
			config_apply(&config, &policy);
			CHECK_EQ(policy.flags, on ? POLICY_SWAPPABLE | POLICY_OVERCOMMIT : 0);
		}
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(bad[i], "="), bad[i]);
		refused(environment(bad[i], "CUDA_DEVICE_MEMORY_LIMIT=1g", NULL), name);
	}
}

/* What does nothing is known by name, and so is what looks like one that limits. */
static void unheeded(void)
{
	static const char *const named[] = {
		"ACTIVE_OOM_KILLER=true", "LIBCUDA_LOG_LEVEL=3", "CUDA_DISABLE_CONTROL=true",
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G", "RECORD_KERNEL_INTERVAL=1", "CUDA_REDIRECT=/x",
		"CUDA_MEM_LIMIT_0=1g", "CUDA_MEM_LIMIT=1g", "CUDA_CORE_LIMIT_0=30",
		"CUDA_DEVICE_MEMORY_LIMITS=1g", "CUDA_DEVICE_MEMORY_LIMIT1=1g",
		"CUDA_DEVICE_SM_LIMITS=30", "GPU_CORE_UTILIZATION_POLICY_0=force",
		"CUDA_TASK_PRIORITIES=0", "CUDA_OVERSUBSCRIPTION=true",
	};
	static const char *const silent[] = {
		"CUDA_DEVICE_MEMORY_LIMIT=1g", "CUDA_DEVICE_MEMORY_LIMIT_0=1g",
		"CUDA_DEVICE_MEMORY_SHARED_CACHE=/x", "CUDA_DEVICE_SM_LIMIT=30", "CUDA_TASK_PRIORITY=0",
		"CUDA_OVERSUBSCRIBE=true", "CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
		"CUDA_MPS_PIPE_DIRECTORY=/x", "PATH=/bin", "ACTIVE_OOM_KILLERS=1", "CUDA_MEM_LIMIT", "",
	};

	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		CHECK(variables_why_unheeded(named[i]));
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
		CHECK(!variables_why_unheeded(silent[i]));
}

/* What a limit for all devices can say: where one has its own, only the file does. */
static void everywhere(void)
{
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=4g", "CUDA_DEVICE_SM_LIMIT=30", NULL), 0);
	CHECK_EQ(config_everywhere(&config).bytes, 4 * GIB);
	CHECK_EQ(config_share_everywhere(&config), 300);
	CHECK_EQ(environment("CUDA_DEVICE_MEMORY_LIMIT=4g", "CUDA_DEVICE_MEMORY_LIMIT_1=8g",
			     "CUDA_DEVICE_SM_LIMIT_1=30"), 0);
	CHECK_EQ(config_everywhere(&config).permille, 1000);
	CHECK_EQ(config_share_everywhere(&config), 0);
	CHECK_EQ(file("UsedMem:6144\nUsedCores:40\n"), 0);
	CHECK_EQ(config_everywhere(&config).bytes, 6 * GIB);
	CHECK_EQ(config_share_everywhere(&config), 400);
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
	CHECK_EQ(environment("CUDA_DEVICE_SM_LIMIT=50", "CUDA_DEVICE_SM_LIMIT=10",
			     "CUDA_DEVICE_SM_LIMIT=0"),
		 0);
	CHECK_EQ(config_share_permille(&config, 0), 100);
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
	keys();
	equivalents();
	unheeded();
	everywhere();
	shares();
	policies();
	visible();
	return 0;
}
