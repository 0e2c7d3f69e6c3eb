/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look MIB: has the device hash so much of its memory by the library's code for that
 * (nvidia/look_code.h), compares with the formula, for some of it, and says how fast it was. Then one
 * bit after the other is changed, and each time that granule alone has to have another hash.
 */
#include "child.h"
#include "nvidia/look_code.h"
#include "sim/cuda/look.h"

#define COMPARED 64 /* granules */
#define CHANGES	 64
#define TIMES	 5
#define BLOCKS	 4 /* for each multiprocessor, as in swap/look.c */

static struct {
	CUdeviceptr at;
	uint32_t n; /* granules */
	uint64_t *granule;
	struct look_seen *seen, *before;
	struct look_key *key;
	CUfunction function;
	unsigned int blocks;
	uint64_t state; /* of the numbers that are drawn */
} look;

static uint32_t draw(void)
{
	look.state ^= look.state << 13;
	look.state ^= look.state >> 7;
	look.state ^= look.state << 17;
	return (uint32_t)(look.state >> 16);
}

static void *host_memory(size_t bytes)
{
	void *at;

	MUST(cu.cuMemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	return at;
}

/* Every eighth granule is zero, every eighth one repeated word, and the others are anything. */
static void fill(void)
{
	uint32_t *words = host_memory(LOOK_BYTES);

	for (uint32_t g = 0; g < look.n; g++) {
		for (size_t i = 0; g % 8 > 1 && (g < COMPARED || i < 4096); i++) {
			if (i == LOOK_BYTES / 4)
				break;
			words[i] = draw();
		}
		if (g % 8 < 2)
			MUST(cu.cuMemsetD32_v2(look.granule[g], g % 8 ? 0x7fc00000 + g : 0, LOOK_BYTES / 4));
		else
			MUST(cu.cuMemcpyHtoD_v2(look.granule[g], words, LOOK_BYTES));
	}
	MUST(cu.cuMemFreeHost(words));
}

static void begin(uint64_t mib)
{
	CUmodule module;
	int processors = 0;

	MUST(cu.cuInit(0));
	child_context(0);
	look.n = (uint32_t)(mib * MIB / LOOK_BYTES);
	look.state = 88172645463325252u;
	MUST(cu.cuMemAlloc_v2(&look.at, look.n * LOOK_BYTES));
	MUST(cu.cuModuleLoadData(&module, look_code));
	MUST(cu.cuModuleGetFunction(&look.function, module, LOOK_NAME));
	MUST(cu.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	look.blocks = (unsigned int)processors * BLOCKS;
	look.blocks = look.blocks < look.n ? look.blocks : look.n;
	look.key = host_memory(sizeof(*look.key));
	look.granule = host_memory(look.n * sizeof(*look.granule));
	look.seen = host_memory(look.n * sizeof(*look.seen));
	look.before = calloc(look.n, sizeof(*look.before));
	for (size_t i = 0; i < sizeof(*look.key) / 4; i++)
		((uint32_t *)look.key)[i] = draw();
	for (uint32_t g = 0; g < look.n; g++)
		look.granule[g] = look.at + g * LOOK_BYTES;
}

/* Returns how long it took, in ms. */
static float run(void)
{
	void *args[] = {&look.granule, &look.seen, &look.key, &look.n};
	CUevent from, to;
	float ms = 0;

	memset(look.seen, 0xee, look.n * sizeof(*look.seen));
	MUST(cu.cuEventCreate(&from, 0));
	MUST(cu.cuEventCreate(&to, 0));
	MUST(cu.cuEventRecord(from, NULL));
	MUST(cu.cuLaunchKernel(look.function, look.blocks, 1, 1, LOOK_THREADS, 1, 1, 0, NULL, args, NULL));
	MUST(cu.cuEventRecord(to, NULL));
	MUST(cu.cuEventSynchronize(to));
	MUST(cu.cuEventElapsedTime_v2(&ms, from, to));
	MUST(cu.cuEventDestroy_v2(from));
	MUST(cu.cuEventDestroy_v2(to));
	return ms;
}

/* Granules of which the device saw something else than the formula says. */
static uint32_t compare(void)
{
	void *words = host_memory(LOOK_BYTES);
	struct look_seen want;
	uint32_t wrong = 0;

	for (uint32_t g = 0; g < look.n && g < COMPARED; g++) {
		MUST(cu.cuMemcpyDtoH_v2(words, look.granule[g], LOOK_BYTES));
		want = sim_look(words, look.key);
		wrong += memcmp(&want, &look.seen[g], sizeof(want)) != 0;
	}
	MUST(cu.cuMemFreeHost(words));
	return wrong;
}

/* Granules whose hash changed and whose content did not, or the other way round. */
static uint32_t change(void)
{
	uint32_t wrong = 0, g, word;

	memcpy(look.before, look.seen, look.n * sizeof(*look.seen));
	for (int i = 0; i < CHANGES; i++) {
		CUdeviceptr at = look.granule[g = draw() % look.n] + draw() % (LOOK_BYTES / 4) * 4;

		MUST(cu.cuMemcpyDtoH_v2(&word, at, 4));
		MUST(cu.cuMemsetD32_v2(at, word ^ UINT32_C(1) << draw() % 32, 1));
		run();
		for (uint32_t other = 0; other < look.n; other++)
			wrong += (memcmp(look.seen[other].hash, look.before[other].hash,
					 sizeof(look.seen->hash)) != 0) != (other == g);
		MUST(cu.cuMemsetD32_v2(at, word, 1));
	}
	return wrong;
}

int main(int argc, char **argv)
{
	float ms, least = 0;
	uint32_t wrong, missed;

	if (argc < 2)
		return 2;
	child_begin(300);
	begin(strtoull(argv[1], NULL, 0));
	fill();
	for (int i = 0; i < TIMES; i++) {
		ms = run();
		least = !least || ms < least ? ms : least;
	}
	wrong = compare();
	missed = change();
	printf("{\"stage\": \"looked\", \"wrong\": %" PRIu32 ", \"missed\": %" PRIu32 ", \"gb_s\": %.1f}\n",
	       wrong, missed, (double)look.n * LOOK_BYTES / 1e6 / least);
	return 0;
}
