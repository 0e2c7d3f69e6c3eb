/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program: launches kernels, takes memory until it is refused, and prints what it saw as one line
 * of JSON. Then it waits for its input to end. programs.py compiles it in several ways, and as a
 * part of a Go program; so it needs nothing but libc and a driver to open.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAUNCHES 20
#define BLOCKS	 1024
#define BLOCK	 ((size_t)16 << 20)

static void *driver;

static void *program_find(const char *name)
{
	void *found = dlsym(driver, name);

	if (!found) {
		fprintf(stderr, "program: no %s\n", name);
		exit(1);
	}
	return found;
}

static void program_must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "program: %s: error %d\n", what, result);
	exit(1);
}

static void program_launch(void)
{
	int (*load)(void **, const void *) = program_find("cuModuleLoadData");
	int (*function)(void **, void *, const char *) = program_find("cuModuleGetFunction");
	int (*launch)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		      unsigned int, unsigned int, void *, void **, void **) =
		program_find("cuLaunchKernel");
	int (*synchronize)(void) = program_find("cuCtxSynchronize");
	void *module, *spin;
	uint64_t us = 500;
	void *params[] = {&us};

	program_must(load(&module, "allot-sim-module\n"), "module");
	program_must(function(&spin, module, "sim_spin"), "function");
	for (int i = 0; i < LAUNCHES; i++)
		program_must(launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
	program_must(synchronize(), "synchronize");
}

/* Bytes taken until the driver refused, and by which error. */
static size_t program_take(int *ret_error)
{
	int (*alloc)(unsigned long long *, size_t) = program_find("cuMemAlloc_v2");
	unsigned long long ptr;
	size_t n = 0;

	while (n < BLOCKS && !(*ret_error = alloc(&ptr, BLOCK)))
		n++;
	return n * BLOCK;
}

/* A file that is opened by io_uring, by bare system calls. 0, or -1: there is no io_uring here. */
static int program_uring(const char *path)
{
	struct io_uring_params p = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 1, &p);
	char *sq, *cq;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;

	if (ring < 0)
		return -1;
	sq = mmap(NULL, p.sq_off.array + sizeof(unsigned int), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqe), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	sqe = mmap(NULL, sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		   IORING_OFF_SQES);
	program_must(sq == MAP_FAILED || cq == MAP_FAILED || sqe == MAP_FAILED, "io_uring");
	*sqe = (struct io_uring_sqe){.opcode = IORING_OP_OPENAT,
				     .fd = AT_FDCWD,
				     .addr = (uintptr_t)path,
				     .open_flags = O_RDWR | O_CLOEXEC};
	*(unsigned int *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((unsigned int *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	program_must(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1,
		     "io_uring_enter");
	cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	program_must(cqe->res < 0, "open by io_uring");
	close(cqe->res);
	close(ring);
	return 0;
}

int main(int argc, char **argv)
{
	int (*init)(unsigned int), (*retain)(void **, int), (*current)(void *),
		(*total)(size_t *, int);
	size_t total_bytes = 0, taken_bytes;
	void *context;
	int error = 0;

	if (argc > 1 && program_uring(argv[1]) < 0) {
		printf("{\"skip\": \"no io_uring here\"}\n");
		return 0;
	}
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "program: %s\n", dlerror());
		return 1;
	}
	init = program_find("cuInit");
	retain = program_find("cuDevicePrimaryCtxRetain");
	current = program_find("cuCtxSetCurrent");
	total = program_find("cuDeviceTotalMem_v2");
	program_must(init(0), "init");
	program_must(retain(&context, 0), "retain");
	program_must(current(context), "current");
	program_must(total(&total_bytes, 0), "total");
	program_launch();
	taken_bytes = program_take(&error);
	printf("{\"total\": %zu, \"taken\": %zu, \"error\": %d}\n", total_bytes, taken_bytes, error);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
