/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared own: memory by cuMemCreate, mapped twice, once to be read alone; "look" compares content,
 * both mappings, who may reach them, and the handle that an address answers.
 *
 * shared lend MIB: memory by cuMemAlloc; says its IPC handle. "look VALUE" compares every word.
 * shared borrow HANDLE MIB: opens it; "look VALUE" compares, and writes VALUE + 1.
 */
#include <time.h>

#include "child.h"

#define OWN (64 * MIB)

static unsigned int *stage;

static uint64_t wrong_words(CUdeviceptr at, uint64_t bytes, unsigned int value)
{
	uint64_t wrong = 0;

	for (uint64_t done = 0; done < bytes; done += MIB) {
		MUST(cu.cuMemcpyDtoH_v2(stage, at + done, MIB));
		for (uint64_t i = 0; i < MIB / 4; i++)
			wrong += stage[i] != value;
	}
	return wrong;
}

static void begin(void)
{
	child_begin(300);
	MUST(cu.cuInit(0));
	child_context(0);
	MUST(cu.cuMemHostAlloc((void **)&stage, MIB, 0));
}

static unsigned long long access_of(CUdeviceptr at)
{
	const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	unsigned long long flags = 0;

	MUST(cu.cuMemGetAccess(&flags, &location, at));
	return flags;
}

static void own(void)
{
	const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = location};
	CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, same;
	unsigned int value = 7;
	CUdeviceptr at;
	char word[32];

	MUST(cu.cuMemCreate(&handle, OWN, &prop, 0));
	MUST(cu.cuMemAddressReserve(&at, 2 * OWN, 0, 0, 0));
	MUST(cu.cuMemMap(at, OWN, 0, handle, 0));
	MUST(cu.cuMemSetAccess(at, OWN, &access, 1));
	MUST(cu.cuMemMap(at + OWN, OWN, 0, handle, 0));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	MUST(cu.cuMemSetAccess(at + OWN, OWN, &access, 1));
	MUST(cu.cuMemsetD32_v2(at, value, OWN / 4));
	printf("{\"stage\": \"mapped\", \"pid\": %d}\n", getpid());
	for (; child_told(word); value++) {
		uint64_t wrong = wrong_words(at, OWN, value) +
				 wrong_words(at + OWN, OWN, value);
		unsigned long long writes = access_of(at), reads = access_of(at + OWN);

		MUST(cu.cuMemsetD32_v2(at, value + 1, OWN / 4));
		wrong += wrong_words(at + OWN, OWN, value + 1);
		MUST(cu.cuMemRetainAllocationHandle(&same, (void *)(at + OWN)));
		MUST(cu.cuMemRelease(same));
		printf("{\"stage\": \"looked\", \"wrong\": %" PRIu64 ", \"writes\": %llu, "
		       "\"reads\": %llu, \"same\": %s}\n",
		       wrong, writes, reads, same == handle ? "true" : "false");
	}
}

static void look(CUdeviceptr at, uint64_t bytes, bool writes)
{
	char word[32];

	while (child_told(word)) {
		unsigned int value = (unsigned int)strtoul(word, NULL, 10);
		uint64_t wrong = wrong_words(at, bytes, value);

		if (writes)
			MUST(cu.cuMemsetD32_v2(at, value + 1, bytes / 4));
		MUST(cu.cuCtxSynchronize());
		printf("{\"stage\": \"looked\", \"wrong\": %" PRIu64 "}\n", wrong);
	}
}

static void lend(uint64_t bytes)
{
	CUipcMemHandle handle;
	CUdeviceptr at;

	MUST(cu.cuMemAlloc_v2(&at, bytes));
	MUST(cu.cuMemsetD32_v2(at, 0, bytes / 4));
	MUST(cu.cuCtxSynchronize());
	MUST(cu.cuIpcGetMemHandle(&handle, at));
	printf("{\"stage\": \"lent\", \"pid\": %d, \"handle\": \"", getpid());
	for (size_t i = 0; i < sizeof(handle); i++)
		printf("%02x", ((const unsigned char *)&handle)[i]);
	puts("\"}");
	look(at, bytes, false);
}

static void borrow(const char *text, uint64_t bytes)
{
	CUipcMemHandle handle;
	CUdeviceptr at;

	for (size_t i = 0; i < sizeof(handle); i++)
		if (sscanf(text + 2 * i, "%2hhx", (unsigned char *)&handle + i) != 1)
			exit(2);
	MUST(cu.cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	printf("{\"stage\": \"borrowed\", \"pid\": %d}\n", getpid());
	look(at, bytes, true);
}

int main(int argc, char **argv)
{
	begin();
	if (argc == 2 && !strcmp(argv[1], "own"))
		own();
	else if (argc == 3 && !strcmp(argv[1], "lend"))
		lend(strtoull(argv[2], NULL, 10) * MIB);
	else if (argc == 4 && !strcmp(argv[1], "borrow"))
		borrow(argv[2], strtoull(argv[3], NULL, 10) * MIB);
	else
		return 2;
	return 0;
}
