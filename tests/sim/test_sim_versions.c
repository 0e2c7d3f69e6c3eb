/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: every exported symbol by its name, its version and its stream, and no other. */
#include "tests/sim/sim_test.h"

#include <dlfcn.h>

#include "nvidia/cuda_api.h"

enum { ANY, PER_THREAD };

static const struct {
	const char *symbol, *name;
	int version, streams;
} rows[] = {
#define CUDA_VERSION_ROW(symbol, name, version, streams) {#symbol, #name, version, streams},
#include "sim/cuda/versions.def"
};

#define N (sizeof(rows) / sizeof(rows[0]))

static void *ask(const char *name, int version, int flags, int *ret_status)
{
	CUdriverProcAddressQueryResult status = -1;
	void *p = (void *)1;

	OK(cuGetProcAddress_v2(name, &p, version, (cuuint64_t)flags, &status));
	*ret_status = status;
	return p;
}

int main(void)
{
	int status;
	void *p;

	CHECK_EQ(N, CUDA_FN_N); /* none without a version, none twice */
	for (unsigned int i = 0; i < N; i++) {
		void *symbol = dlsym(RTLD_DEFAULT, rows[i].symbol);

		CHECK(symbol && cuda_find(rows[i].symbol) >= 0);
		p = ask(rows[i].name, rows[i].version, rows[i].streams == PER_THREAD ? 2 : 0,
			&status);
		CHECK_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
		CHECK(p == symbol);
		/* A version less is an older form, or nothing. */
		p = ask(rows[i].name, rows[i].version - 1, rows[i].streams == PER_THREAD ? 2 : 0,
			&status);
		CHECK(p != symbol);
		CHECK((status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT) == !p);
		/* Without the flag, never the per-thread form. */
		if (rows[i].streams == PER_THREAD)
			CHECK(ask(rows[i].name, 99999, 0, &status) != symbol &&
			      ask(rows[i].name, 99999, 1, &status) != symbol);
	}
	p = ask("cuMemAlloc", 13000, 0, &status);
	CHECK(p == (void *)cuMemAlloc_v2);
	p = ask("cuMemAlloc", 3010, 0, &status);
	CHECK(p == (void *)cuMemAlloc);
	p = ask("cuNothing", 13000, 0, &status);
	CHECK(!p);
	CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	p = ask("cuMemAlloc_v2", 13000, 0, &status); /* a symbol is not a name */
	CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	p = ask("cuLaunchKernel", 6050, 2, &status);
	CHECK(!p);
	CHECK_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	p = ask("cuLaunchKernel", 13000, 3, &status);
	CHECK(p == (void *)cuLaunchKernel_ptsz);
	p = ask("cuMemAlloc", 13000, 2, &status); /* which has but one form */
	CHECK(p == (void *)cuMemAlloc_v2);
	p = &status;
	GIVES(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNothing", &p, 13000, 0));
	CHECK(p == &status);
	OK(cuGetProcAddress_v2("cuNothing", &p, 13000, 0, NULL));
	CHECK(!p);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", &p, 13000, 8));
	return 0;
}
