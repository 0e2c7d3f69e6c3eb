/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant is told: CUDA and NVML, in both their forms, tell one story, whatever the order in
 * which a program sees its devices; other tenants are in it no more than the device's rest. And
 * what a running tenant is told when its quota changes.
 *
 *     view <liballot.so> <share_puppet> [n]
 */
#include "base/number.h"
#include "share_stage.h"

#define CONTEXT (20 * MIB)

struct seen {
	struct puppet_answer info, v1;
	uint64_t v2[4]; /* total, free, used, reserved */
};

static struct puppet_ask about(int op, int device)
{
	struct puppet_ask ask = {.op = op, .device = device};

	sim_truth_uuid(truth, device, ask.blob);
	return ask;
}

static void nvml_story(struct program *p, int device, uint64_t quota, struct seen *seen)
{
	seen->v1 = puppet(p, about(DO_MEMORY, device));
	memcpy(seen->v2, seen->v1.blob, sizeof(seen->v2));
	EXPECT("NVML's total", seen->v1.a, quota);
	EXPECT("NVML's free and used", seen->v1.b + seen->v1.c, quota);
	EXPECT("v2's total", seen->v2[0], quota);
	EXPECT("v2's sum", seen->v2[1] + seen->v2[2] + seen->v2[3], quota);
	EXPECT("v2's free", seen->v2[1], seen->v1.b);
}

/* With the device's context current. `used` is what the tenant uses, above the quota or not. */
static void one_story(struct program *p, int device, int ordinal, uint64_t used)
{
	uint64_t quota = p->tenant->quota[device], told = min_u64(used, quota);
	struct puppet_answer total;
	struct seen seen;

	seen.info = puppet(p, (struct puppet_ask){.op = DO_INFO});
	EXPECT("CUDA's total", seen.info.b, quota);
	EXPECT("CUDA's free", seen.info.a, quota - told);
	EXPECT("the 32-bit total", seen.info.d, quota);
	EXPECT("the 32-bit free", seen.info.c, seen.info.a);
	total = puppet(p, (struct puppet_ask){.op = DO_TOTAL, .device = ordinal});
	EXPECT("cuDeviceTotalMem", total.a, quota);
	EXPECT("the 32-bit cuDeviceTotalMem", total.b, quota);
	nvml_story(p, device, quota, &seen);
	EXPECT("NVML's used", seen.v1.c, told);
	EXPECT("v2's used", seen.v2[2], told);
	EXPECT("charged", charged(p->tenant, device), used);
	EXPECT("the simulator's count", given(device) >= used, true);
}

static int make(struct program *p, int device, enum puppet_kind kind, uint64_t bytes)
{
	return (int)puppet(p, (struct puppet_ask){.op = DO_MAKE, .kind = kind, .device = device,
						  .bytes = bytes})
		.a;
}

static void free_slot(struct program *p, int slot)
{
	puppet(p, (struct puppet_ask){.op = DO_FREE, .slot = slot});
}

static void make_refused(struct program *p, int device, uint64_t bytes)
{
	EXPECT("refusal",
	       puppet_try(p, (struct puppet_ask){.op = DO_MAKE, .device = device, .bytes = bytes},
			  -1, NULL)
		       .result,
	       CUDA_ERROR_OUT_OF_MEMORY);
}

static void start(struct program *p, struct tenant *t, bool nvml_first)
{
	puppet_start(p, t);
	if (nvml_first)
		puppet(p, (struct puppet_ask){.op = DO_NVML});
	puppet(p, (struct puppet_ask){.op = DO_INIT});
	if (!nvml_first)
		puppet(p, (struct puppet_ask){.op = DO_NVML});
}

static void done(struct tenant *t)
{
	if (!host_clean(t, stage_scene))
		exit(1);
	tenant_end(t);
}

static void while_filling(void)
{
	static const enum puppet_kind kinds[] = {PLAIN, HANDLE, POOLED, MANAGED};
	uint64_t quota[2] = {300 * MIB, 200 * MIB + 12345}, used[2] = {0, 0};
	struct tenant t;
	struct program p;
	struct seen seen;
	int slots[2][4];

	tenant_new(&t, "filling", quota, 2, 0);
	start(&p, &t, false);
	for (int d = 0; d < 2; d++) {
		nvml_story(&p, d, quota[d], &seen);
		EXPECT("used before", seen.v1.c, 0);
		puppet(&p, (struct puppet_ask){.op = DO_CONTEXT, .device = d});
		used[d] = CONTEXT;
		one_story(&p, d, d, used[d]);
		for (int k = 0; k < 4; k++) {
			uint64_t bytes = (uint64_t)(32 + 32 * (d == 0)) * MIB;

			slots[d][k] = make(&p, d, kinds[k], bytes);
			used[d] += bytes;
			one_story(&p, d, d, used[d]);
			nvml_story(&p, 1 - d, quota[1 - d], &seen);
			EXPECT("the other's used", seen.v1.c, used[1 - d]);
		}
		make_refused(&p, d, 128 * MIB);
		one_story(&p, d, d, used[d]);
	}
	for (int d = 0; d < 2; d++) {
		puppet(&p, (struct puppet_ask){.op = DO_CONTEXT, .device = d});
		for (int k = 0; k < 4; k++) {
			free_slot(&p, slots[d][k]);
			used[d] -= (uint64_t)(32 + 32 * (d == 0)) * MIB;
			one_story(&p, d, d, used[d]);
		}
	}
	puppet_end(&p);
	done(&t);
}

/* The program's number of each device, and the environment that gives it. */
static void as_visible(const char *visible, const char *order, int first, int second,
		       bool nvml_first)
{
	uint64_t quota[2] = {100 * MIB, 150 * MIB};
	int device[2] = {first, second}, n = 1 + (second >= 0);
	struct puppet_answer answer;
	struct tenant t;
	struct program p;
	struct seen seen;

	if (visible)
		setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	if (order)
		setenv("CUDA_DEVICE_ORDER", order, 1);
	tenant_new(&t, "visible", quota, 2, 0);
	puppet_start(&p, &t);
	if (nvml_first) {
		EXPECT("NVML's devices", puppet(&p, (struct puppet_ask){.op = DO_NVML}).a, 2);
		nvml_story(&p, 0, quota[0], &seen);
	}
	EXPECT("CUDA's devices", puppet(&p, (struct puppet_ask){.op = DO_INIT}).a, n);
	if (!nvml_first)
		EXPECT("NVML's devices", puppet(&p, (struct puppet_ask){.op = DO_NVML}).a, 2);
	for (int i = 0; i < n; i++) {
		uint8_t uuid[16];

		answer = puppet(&p, (struct puppet_ask){.op = DO_UUID, .device = i});
		sim_truth_uuid(truth, device[i], uuid);
		EXPECT("which device", memcmp(uuid, answer.blob, 16), 0);
		puppet(&p, (struct puppet_ask){.op = DO_CONTEXT, .device = i});
		make(&p, i, PLAIN, 40 * MIB);
		make(&p, i, HANDLE, 20 * MIB);
		one_story(&p, device[i], i, CONTEXT + 60 * MIB);
		make_refused(&p, i, quota[device[i]] - CONTEXT - 60 * MIB + 1);
		make(&p, i, PLAIN, quota[device[i]] - CONTEXT - 60 * MIB);
		one_story(&p, device[i], i, quota[device[i]]);
	}
	puppet_end(&p);
	done(&t);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
}

static void in_any_order(void)
{
	char text[2][64];

	for (int d = 0; d < 2; d++) {
		uint8_t u[16];

		sim_truth_uuid(truth, d, u);
		snprintf(text[d], sizeof(text[d]),
			 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
			 u[12], u[13], u[14], u[15]);
	}
	for (int nvml_first = 0; nvml_first < 2; nvml_first++) {
		as_visible(NULL, NULL, 0, 1, nvml_first);
		as_visible("0,1", "PCI_BUS_ID", 0, 1, nvml_first);
		as_visible("1,0", NULL, 1, 0, nvml_first);
		as_visible("1", NULL, 1, -1, nvml_first);
		as_visible("0", "FASTEST_FIRST", 0, -1, nvml_first);
		as_visible(text[1], NULL, 1, -1, nvml_first);
		text[0][13] = '\0'; /* a beginning is enough */
		as_visible(text[0], NULL, 0, -1, nvml_first);
	}
}

static void not_granted(void)
{
	uint64_t quota[2] = {0, 150 * MIB};
	struct puppet_answer answer;
	struct tenant t;
	struct program p;
	struct seen seen;

	tenant_new(&t, "granted", quota, 2, 0);
	start(&p, &t, true);
	EXPECT("cuDeviceTotalMem", puppet(&p, (struct puppet_ask){.op = DO_TOTAL}).a, 0);
	nvml_story(&p, 0, 0, &seen);
	EXPECT("NVML's used", seen.v1.c, 0);
	answer = puppet_try(&p, (struct puppet_ask){.op = DO_CONTEXT}, -1, NULL);
	EXPECT("a context there", answer.result, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT("the simulator's count", given(0), 0);
	/* Without a context of it, too. */
	puppet(&p, (struct puppet_ask){.op = DO_CONTEXT, .device = 1});
	answer = puppet_try(&p, (struct puppet_ask){.op = DO_MAKE, .kind = HANDLE,
							.bytes = 2 * MIB}, -1, NULL);
	EXPECT("a handle there", answer.result, CUDA_ERROR_OUT_OF_MEMORY);
	answer = puppet_try(&p, (struct puppet_ask){.op = DO_MAKE, .kind = POOLED,
							.bytes = 2 * MIB}, -1, NULL);
	EXPECT("a pool there", answer.result, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT("the simulator's count", given(0), 0);
	make(&p, 1, PLAIN, 100 * MIB);
	one_story(&p, 1, 1, CONTEXT + 100 * MIB);
	puppet_end(&p);
	done(&t);
}

static bool lists(const struct puppet_answer *answer, pid_t pid)
{
	for (uint64_t i = 0; i < answer->a; i++)
		if (answer->pid[i] == pid)
			return true;
	return false;
}

static void own_processes(void)
{
	uint64_t quota = 300 * MIB;
	struct puppet_answer answer;
	struct program p[2][2], idle;
	struct tenant t[2];

	for (int k = 0; k < 2; k++) {
		tenant_new(&t[k], k ? "one" : "other", &quota, 1, 0);
		for (int i = 0; i < 2; i++) {
			start(&p[k][i], &t[k], i);
			puppet(&p[k][i], (struct puppet_ask){.op = DO_CONTEXT});
			make(&p[k][i], 0, PLAIN, (uint64_t)(2 + 2 * i) * MIB);
		}
	}
	start(&idle, &t[0], true); /* has no context, so the driver lists it nowhere */
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < 2; i++) {
			answer = puppet(&p[k][i], about(DO_PIDS, 0));
			EXPECT("processes", answer.a, 2);
			EXPECT("itself", lists(&answer, p[k][i].pid), true);
			EXPECT("its peer", lists(&answer, p[k][!i].pid), true);
			EXPECT("its bytes", answer.b, CONTEXT + (uint64_t)(2 + 2 * i) * MIB);
			answer = puppet(&p[k][i], about(DO_PIDS, 1));
			EXPECT("processes elsewhere", answer.a, 0);
			one_story(&p[k][i], 0, 0, 2 * CONTEXT + 6 * MIB);
		}
	EXPECT("seen by the idle one", puppet(&idle, about(DO_PIDS, 0)).a, 2);
	puppet_kill(&p[0][0]);
	answer = puppet(&p[0][1], about(DO_PIDS, 0));
	EXPECT("the living", answer.a, 1);
	EXPECT("is itself", lists(&answer, p[0][1].pid), true);
	one_story(&p[0][1], 0, 0, CONTEXT + 4 * MIB);
	puppet_end(&idle);
	puppet_end(&p[0][1]);
	puppet_end(&p[1][0]);
	puppet_end(&p[1][1]);
	done(&t[0]);
	done(&t[1]);
}

static void quota_moves(void)
{
	uint64_t quota = 300 * MIB;
	struct program p, q;
	struct tenant t;
	int slot;

	tenant_new(&t, "moves", &quota, 1, 0);
	start(&p, &t, false);
	start(&q, &t, false);
	puppet(&p, (struct puppet_ask){.op = DO_CONTEXT});
	puppet(&q, (struct puppet_ask){.op = DO_CONTEXT});
	slot = make(&p, 0, PLAIN, 100 * MIB);
	make(&q, 0, PLAIN, 50 * MIB);
	one_story(&p, 0, 0, 2 * CONTEXT + 150 * MIB);
	tenant_set(&t, 120 * MIB);
	one_story(&p, 0, 0, 2 * CONTEXT + 150 * MIB);
	one_story(&q, 0, 0, 2 * CONTEXT + 150 * MIB);
	make_refused(&p, 0, 4096);
	make_refused(&q, 0, 4096);
	free_slot(&p, slot);
	one_story(&q, 0, 0, 2 * CONTEXT + 50 * MIB);
	make(&q, 0, PLAIN, 30 * MIB);
	make_refused(&p, 0, 4096);
	tenant_set(&t, 400 * MIB);
	one_story(&p, 0, 0, 2 * CONTEXT + 80 * MIB);
	make(&p, 0, PLAIN, 280 * MIB);
	make_refused(&q, 0, 4096);
	puppet_end(&p);
	puppet_end(&q);
	done(&t);
}

static const struct {
	const char *name;
	void (*play)(void);
} scenes[] = {
	{"while filling", while_filling}, {"in any order", in_any_order},
	{"not granted", not_granted},	  {"own processes", own_processes},
	{"quota moves", quota_moves},
};

int main(int argc, char **argv)
{
	int failures = 0, n = sizeof(scenes) / sizeof(scenes[0]);

	if (argc < 3)
		return 2;
	host_begin(argv[1], "2", "1GiB", "20MiB");
	stage_program = argv[2];
	for (int i = 0; i < n; i++) {
		int status;
		pid_t pid;

		if (argc > 3 && atoi(argv[3]) != i)
			continue;
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			host_again();
			stage_scene = scenes[i].name;
			scenes[i].play();
			exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		failures += status != 0;
	}
	printf("%d scenes, %d fail\n", n, failures);
	return failures != 0;
}
