/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory where NVIDIA's driver fails half way: run by `allot sim --gpus 2 --memory 64MiB`. The
 * library finds the driver's functions by dlsym(); this program's puts its own before two of them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "nvidia/abi/cuda.h"
#include "tests/sim/peer_program.h"

#define MIB (UINT64_C(1) << 20)

static struct {
	unsigned int in; /* calls of either until it fails, this one included; 0: it does not */
	CUresult result;
} failure;

static CUresult (*real_set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
static CUresult (*real_map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
			    unsigned long long);

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t n)
{
	if (failure.in && !--failure.in)
		return failure.result;
	return real_set_access(at, bytes, desc, n);
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset,
		    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (failure.in && !--failure.in)
		return failure.result;
	return real_map(at, bytes, offset, handle, flags);
}

/* By version, since libc's dlsym cannot be asked for itself. */
static void *libc_dlsym(void *library, const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
	static void *(*real)(void *, const char *);

	for (size_t i = 0; !real && i < sizeof(versions) / sizeof(versions[0]); i++)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	CHECK(real);
	return real(library, name);
}

__attribute__((visibility("default"))) void *dlsym(void *library, const char *name)
{
	void *found = libc_dlsym(library, name);

	if (!strcmp(name, "cuMemSetAccess")) {
		real_set_access = (__typeof__(real_set_access))found;
		return (void *)set_access;
	}
	if (!strcmp(name, "cuMemMap")) {
		real_map = (__typeof__(real_map))found;
		return (void *)map;
	}
	return found;
}

static void fail_in(unsigned int calls)
{
	failure.in = calls;
	failure.result = CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t alloc(void)
{
	uint64_t at = 0;

	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 48 * MIB, .flags = ALLOT_PEER_HOST},
			  &at),
		 0);
	return at;
}

static void check_words(const char *begin)
{
	CHECK(!strncmp(allot_peer_error(), begin, strlen(begin)));
	CHECK(strstr(allot_peer_error(), " at 0x"));
	CHECK(strstr(allot_peer_error(), "nvidia0 ("));
	CHECK(strstr(allot_peer_error(), "CUDA_ERROR_OUT_OF_MEMORY"));
}

/* Those that map it are those that did, or those that still do. */
static void test_mapping(void)
{
	uint64_t at = alloc();

	fail_in(2);
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), -ENOMEM);
	check_words("map: ");
	CHECK_EQ(find(at).devices, 0);
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), 0);
	fail_in(1);
	CHECK_EQ(allot_peer_unmap(peer, at, ALLOT_PEER_ALL), -ENOMEM);
	check_words("unmap: ");
	CHECK_EQ(find(at).devices, 3);
	CHECK_EQ(allot_peer_unmap(peer, at, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
}

/* To copy, its device maps it for a moment; if that does not end, it is said. */
static void test_content(void)
{
	uint64_t at = alloc();
	char text[8] = "";

	fail_in(1);
	CHECK_EQ(allot_peer_write(peer, at, "content", 8), -ENOMEM);
	check_words("write: ");
	CHECK_EQ(find(at).devices, 0);
	CHECK_EQ(allot_peer_write(peer, at, "content", 8), 0);
	fail_in(2);
	CHECK_EQ(allot_peer_read(peer, at, text, 8), -ENOMEM);
	check_words("read: ");
	CHECK_EQ(find(at).devices, 1);
	CHECK_EQ(allot_peer_free(peer, at), -EBUSY);
	CHECK_EQ(allot_peer_read(peer, at, text, 8), 0);
	CHECK(!strcmp(text, "content"));
	CHECK_EQ(allot_peer_unmap(peer, at, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
}

/* Most of the device, each time: half an object keeps none of it. */
static void test_halves(void)
{
	struct allot_peer_object object;
	uint64_t at = 0;

	for (int i = 0; i < 3; i++) {
		fail_in(1);
		CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 48 * MIB}, &at), -ENOMEM);
		CHECK_EQ(at, 0);
		CHECK_EQ(allot_peer_next(peer, 0, &object), -ENOENT);
	}
	CHECK_EQ(allot_peer_free(peer, alloc()), 0);
}

int main(void)
{
	CHECK_EQ(allot_peer_open(ALLOT_PEER_NVIDIA, &peer), 0);
	CHECK(real_set_access && real_map);
	test_halves();
	test_mapping();
	test_content();
	allot_peer_close(peer);
	return 0;
}
