/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress through liballot against the bare driver, for every name, version and flag:
 * the same status and the same answer, but for a hooked function, where the answer is the hook of
 * exactly that symbol. Runs against a real driver as well (tests/gpu/run), which may lack rows of
 * the list: what is missing there must be missing through liballot too.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/process/lookup_elf.h"
#include "nvidia/cuda_api.h"
#include "owner.h"
#include "tests/check.h"

static const int versions[] = {0,     8000,  9000,  10000, 10010, 10020, 11000, 11010, 11020, 11030,
			       11040, 11050, 11060, 11070, 11080, 12000, 12010, 12020, 12030, 12040,
			       12050, 12060, 12080, 12090, 13000, 99999};

typedef CUresult get_v1(const char *, void **, int, cuuint64_t);
typedef CUresult get_v2(const char *, void **, int, cuuint64_t,
			CUdriverProcAddressQueryResult *);

static get_v1 *bare_v1, *hook_v1;
static get_v2 *bare_v2, *hook_v2;
static void *bare[CUDA_FN_N], *hooks[CUDA_FN_N];
static int answers, hooked;

static void *symbol_of(void *handle, const char *name)
{
	struct link_map *map = handle;

	return lookup_elf_symbol(map->l_addr, map->l_ld, name);
}

static void *replaced(void *address)
{
	for (int i = 0; address && i < CUDA_FN_N; i++)
		if (bare[i] == address && cuda_rows[i].decision == CUDA_DECISION_HOOK)
			return hooks[i];
	return address;
}

static void compare(const char *name, int version, cuuint64_t flags)
{
	int untouched;
	void *p = &untouched, *q = &untouched;
	CUdriverProcAddressQueryResult sp = 77, sq = 77;

	CHECK_EQ(bare_v2(name, &p, version, flags, &sp), hook_v2(name, &q, version, flags, &sq));
	CHECK_EQ(sp, sq);
	CHECK(replaced(p) == q);
	answers += p && p != &untouched;
	hooked += p != q;
	if (!bare_v1)
		return;
	p = q = &untouched;
	CHECK_EQ(bare_v1(name, &p, version, flags), hook_v1(name, &q, version, flags));
	CHECK(replaced(p) == q);
}

static void compare_all(const char *name)
{
	for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
		for (cuuint64_t flags = 0; flags <= 4; flags++)
			compare(name, versions[v], flags);
}

/* A caller asks for "cuMemAlloc", not for "cuMemAlloc_v2": without each suffix as well. */
static void compare_name(const char *name)
{
	char base[128];
	char *suffix;

	compare_all(name);
	snprintf(base, sizeof(base), "%s", name);
	while ((suffix = strrchr(base, '_'))) {
		*suffix = '\0';
		compare_all(base);
	}
}

/* How a call without a place for the answer ends: nobody promises that it returns. */
static int end_of(get_v2 *get, const char *name)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(get(name, NULL, 12000, 0, NULL) & 0x7f);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void *opened(const char *name, int mode)
{
	void *handle = dlopen(name, mode);

	if (!handle)
		fprintf(stderr,
			"%s is not in this process: run with liballot preloaded and a driver: %s\n",
			name, dlerror());
	CHECK(handle);
	return handle;
}

int main(void)
{
	void *driver = opened("libcuda.so.1", RTLD_NOW);
	void *allot = opened("liballot.so", RTLD_NOW | RTLD_NOLOAD);
	int absent = 0;

	for (int i = 0; i < CUDA_FN_N; i++) {
		bare[i] = symbol_of(driver, cuda_rows[i].name);
		hooks[i] = symbol_of(allot, cuda_rows[i].name);
		CHECK(!hooks[i] == (cuda_rows[i].decision != CUDA_DECISION_HOOK));
		absent += !bare[i];
	}
	bare_v1 = (get_v1 *)bare[CUDA_FN_cuGetProcAddress];
	bare_v2 = (get_v2 *)bare[CUDA_FN_cuGetProcAddress_v2];
	hook_v1 = (get_v1 *)hooks[CUDA_FN_cuGetProcAddress];
	hook_v2 = (get_v2 *)hooks[CUDA_FN_cuGetProcAddress_v2];
	CHECK(bare_v2); /* the driver of CUDA 12 or later */

	for (int i = 0; i < CUDA_FN_N; i++)
		compare_name(cuda_rows[i].name);
	compare_all("");
	compare_all("cu");
	compare_all("malloc");
	compare_all("cuNoSuchFunction");
	CHECK_EQ(end_of(bare_v2, NULL), end_of(hook_v2, NULL));
	CHECK_EQ(end_of(bare_v2, "cuInit"), end_of(hook_v2, "cuInit"));
	printf("%d answers, %d of them hooks; %d of %d rows are not in this driver\n", answers,
	       hooked, absent, CUDA_FN_N);
	CHECK(answers > CUDA_FN_N && hooked > 100);
	return 0;
}
