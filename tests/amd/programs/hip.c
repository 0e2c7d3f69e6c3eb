/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests/amd/run does by HIP, where it is installed:
 *	malloc BYTES MORE	takes memory of the first GPU, step by step
 *	rate			how often a kernel of many groups runs in a second
 * A kernel that keeps all units busy takes as much longer as it has fewer of them.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/gpu/programs/steered.h"

#define SECONDS 120
#define GROUPS	16384
#define LANES	256
#define SAMPLES 5

static const char source[] =
	"extern \"C\" __global__ void spin(float *to) {\n"
	"	float x = threadIdx.x;\n"
	"	for (int i = 0; i < 20000; i++)\n"
	"		x = x * 1.0001f + 0.5f;\n"
	"	if (x == 1.0f)\n"
	"		*to = x;\n"
	"}\n";

static struct {
	int (*hipInit)(unsigned int flags);
	int (*hipMalloc)(void **ret, size_t bytes);
	int (*hipFree)(void *memory);
	int (*hipModuleLoadData)(void **ret, const void *code);
	int (*hipModuleGetFunction)(void **ret, void *module, const char *name);
	int (*hipModuleLaunchKernel)(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
				     unsigned int bx, unsigned int by, unsigned int bz,
				     unsigned int shared, void *stream, void **arguments, void **extra);
	int (*hipDeviceSynchronize)(void);
} hip;

static struct {
	int (*hiprtcCreateProgram)(void **ret, const char *source, const char *name, int n,
				   const char **headers, const char **names);
	int (*hiprtcCompileProgram)(void *program, int n, const char **options);
	int (*hiprtcGetCodeSize)(void *program, size_t *ret);
	int (*hiprtcGetCode)(void *program, char *ret);
} rtc;

static void absent(const char *why)
{
	printf("{\"stage\": \"absent\", \"why\": \"no %s\"}\n", why);
	exit(77);
}

static void *open_one_of(const char *const names[])
{
	for (int i = 0; names[i]; i++) {
		void *library = dlopen(names[i], RTLD_NOW);

		if (library)
			return library;
	}
	absent(names[0]);
	return NULL;
}

#define LOAD(table, library, name)                                                                 \
	do {                                                                                       \
		*(void **)&(table).name = dlsym(library, #name);                                   \
		CHECK((table).name);                                                               \
	} while (0)

static void load_hip(void)
{
	static const char *const names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
					    "libamdhip64.so.5", NULL};
	void *library = open_one_of(names);

	LOAD(hip, library, hipInit);
	LOAD(hip, library, hipMalloc);
	LOAD(hip, library, hipFree);
	LOAD(hip, library, hipModuleLoadData);
	LOAD(hip, library, hipModuleGetFunction);
	LOAD(hip, library, hipModuleLaunchKernel);
	LOAD(hip, library, hipDeviceSynchronize);
	CHECK_EQ(hip.hipInit(0), 0);
}

static void load_rtc(void)
{
	static const char *const names[] = {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6",
					    "libhiprtc.so.5", NULL};
	void *library = open_one_of(names);

	LOAD(rtc, library, hiprtcCreateProgram);
	LOAD(rtc, library, hiprtcCompileProgram);
	LOAD(rtc, library, hiprtcGetCodeSize);
	LOAD(rtc, library, hiprtcGetCode);
}

static void say(const char *stage, int result)
{
	char word[32];

	printf("{\"stage\": \"%s\", \"result\": %d, \"error\": \"%s\"}\n", stage, result,
	       result ? "of HIP" : "");
	if (!child_told(word))
		exit(0);
}

static void take(uint64_t bytes, uint64_t more)
{
	void *taken = NULL, *beside = NULL, *first;
	int r;

	/* What HIP has for itself is there before the figure is looked at. */
	CHECK_EQ(hip.hipMalloc(&first, 1), 0);
	say("open", 0);
	say("taken", hip.hipMalloc(&taken, bytes));
	r = hip.hipMalloc(&beside, more);
	say("more", r);
	if (!r)
		hip.hipFree(beside);
	if (taken)
		CHECK_EQ(hip.hipFree(taken), 0);
	say("given", 0);
	say("again", hip.hipMalloc(&taken, more / 4 * 3));
}

static void *compiled(void)
{
	void *program, *module, *function;
	size_t bytes;
	char *code;

	CHECK_EQ(rtc.hiprtcCreateProgram(&program, source, "spin", 0, NULL, NULL), 0);
	CHECK_EQ(rtc.hiprtcCompileProgram(program, 0, NULL), 0);
	CHECK_EQ(rtc.hiprtcGetCodeSize(program, &bytes), 0);
	code = malloc(bytes);
	CHECK(code);
	CHECK_EQ(rtc.hiprtcGetCode(program, code), 0);
	CHECK_EQ(hip.hipModuleLoadData(&module, code), 0);
	CHECK_EQ(hip.hipModuleGetFunction(&function, module, "spin"), 0);
	return function;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds_of_one(void *function)
{
	void *to = NULL, *arguments[] = {&to};
	double begin = now_s();

	CHECK_EQ(hip.hipModuleLaunchKernel(function, GROUPS, 1, 1, LANES, 1, 1, 0, NULL, arguments,
					   NULL),
		 0);
	CHECK_EQ(hip.hipDeviceSynchronize(), 0);
	return now_s() - begin;
}

static void rate(void)
{
	void *function = compiled();
	double best = 1e9;

	seconds_of_one(function);
	for (int i = 0; i < SAMPLES; i++) {
		double took = seconds_of_one(function);

		best = took < best ? took : best;
	}
	printf("{\"stage\": \"rate\", \"per_s\": %.4f}\n", 1 / best);
}

int main(int argc, char **argv)
{
	child_watched(SECONDS);
	load_hip();
	if (argc == 4 && !strcmp(argv[1], "malloc")) {
		take(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	} else {
		load_rtc();
		rate();
	}
	fflush(stdout);
	_exit(0);
}
