/* SPDX-License-Identifier: Apache-2.0 */
/* Shared virtual memory of the emulated KFD: the program's own memory, on GPUs that may have it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/kfd_queue.h"

#define SVM_REQUEST(n)                                                                             \
	_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SVM,                                              \
	     sizeof(struct kfd_ioctl_svm_args) + (n) * sizeof(struct kfd_ioctl_svm_attribute))
#define NOWHERE UINT32_MAX

static int svm(uint32_t op, const void *at, uint64_t size, uint32_t n,
	       struct kfd_ioctl_svm_attribute *attributes)
{
	struct kfd_ioctl_svm_args *a = calloc(1, sizeof(*a) + n * sizeof(*attributes));
	int r;

	CHECK(a);
	a->start_addr = (uintptr_t)at;
	a->size = size;
	a->op = op;
	a->nattr = n;
	memcpy(a->attrs, attributes, n * sizeof(*attributes));
	r = call(SVM_REQUEST(n), a);
	memcpy(attributes, a->attrs, n * sizeof(*attributes));
	free(a);
	return r;
}

static int set(const void *at, uint64_t size, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute a = {type, value};

	return svm(KFD_IOCTL_SVM_OP_SET_ATTR, at, size, 1, &a);
}

/* The value; for an access of a GPU its kind. */
static uint32_t get(const void *at, uint64_t size, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute a = {type, value};

	CHECK_EQ(svm(KFD_IOCTL_SVM_OP_GET_ATTR, at, size, 1, &a), 0);
	return type == KFD_IOCTL_SVM_ATTR_ACCESS ? a.type : a.value;
}

static char *memory(uint64_t size)
{
	char *here = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(here != MAP_FAILED);
	return here;
}

static void test_arguments(void)
{
	char *here = memory(MIB);
	struct kfd_ioctl_svm_attribute many[300] = {0};
	uint32_t access = KFD_IOCTL_SVM_ATTR_ACCESS;

	CHECK_EQ(set(here, 0, access, ids[0]), -EINVAL);
	CHECK_EQ(set(NULL, MIB, access, ids[0]), -EINVAL);
	CHECK_EQ(set(here + 1, MIB, access, ids[0]), -EINVAL);
	CHECK_EQ(set(here, MIB - 1, access, ids[0]), -EINVAL);
	CHECK_EQ(set(here, MIB, access, 1), -EINVAL);
	CHECK_EQ(set(here, MIB, 99, 0), -EINVAL);
	CHECK_EQ(set(here, MIB, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 1), -EINVAL);
	CHECK_EQ(svm(2, here, MIB, 1, many), -EINVAL);
	CHECK_EQ(svm(0, here, MIB, 300, many), -EINVAL);
	CHECK_EQ(svm(0, here, MIB, 256, many), 0);
	CHECK_EQ(munmap(here, MIB), 0);
	CHECK_EQ(set(here, MIB, access, ids[0]), -EFAULT);
	CHECK_EQ(set((void *)(UINT64_MAX & ~4095), 8192, access, ids[0]), -EFAULT);
}

static void test_attributes(void)
{
	char *here = memory(MIB);

	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), NOWHERE);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), KFD_IOCTL_SVM_ATTR_NO_ACCESS);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 0), 9);
	CHECK_EQ(set(here, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, ids[1]), 0);
	CHECK_EQ(set(here, MIB, KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, ids[1]), 0);
	CHECK_EQ(set(here + 4096, 4096, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), 0);
	CHECK_EQ(set(here + 4096, 4096, KFD_IOCTL_SVM_ATTR_SET_FLAGS, 4), 0);
	CHECK_EQ(get(here, 4096, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), ids[1]);
	CHECK_EQ(get(here + 4096, 4096, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), 0);
	CHECK_EQ(get(here + 8192, MIB - 8192, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), ids[1]);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), NOWHERE);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, ids[1]),
		 KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE);
	CHECK_EQ(get(here + 4096, 4096, KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0), 7);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0), 3);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_CLR_FLAGS, 0), ~7u);
	CHECK_EQ(vacant(1), 64 * MIB); /* what is preferred is not there yet */
}

/* What a GPU may access it finds at the program's address, page by page. */
static void test_access(void)
{
	char *here = memory(5 * 4096), *to = host_memory(4096);
	uint64_t at = (uintptr_t)here;
	struct queue q[2];

	make_queue(0, KFD_IOC_QUEUE_TYPE_SDMA, &q[0]);
	make_queue(1, KFD_IOC_QUEUE_TYPE_SDMA, &q[1]);
	put_copy(&q[0], (uintptr_t)to, at, 16);
	CHECK_EQ(execute(0, &q[0]), at);
	strcpy(here, "content");
	CHECK_EQ(set(here, 5 * 4096, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), 0);
	put_copy(&q[0], (uintptr_t)to, at, 16);
	CHECK_EQ(execute(0, &q[0]), 0);
	CHECK(!strcmp(to, "content"));
	put_copy(&q[1], (uintptr_t)to, at, 16);
	CHECK_EQ(execute(1, &q[1]), at);

	CHECK_EQ(set(here + 8192, 4096, KFD_IOCTL_SVM_ATTR_NO_ACCESS, ids[0]), 0);
	put_fill(&q[0], at, 1, 5 * 4096);
	CHECK_EQ(execute(0, &q[0]), at + 8192);
	CHECK_EQ(set(here + 8192, 4096, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), 0);
	put_fill(&q[0], at, 1, 5 * 4096);
	CHECK_EQ(execute(0, &q[0]), 0);
	CHECK(here[5 * 4096 - 4] == 1);
	CHECK_EQ(set(here, 4096, KFD_IOCTL_SVM_ATTR_SET_FLAGS, 8), 0); /* GPUs only read it */
	put_fill(&q[0], at, 2, 4);
	CHECK_EQ(execute(0, &q[0]), at);
	put_copy(&q[0], (uintptr_t)to, at, 4);
	CHECK_EQ(execute(0, &q[0]), 0);
	CHECK_EQ(to[0], 1);
	CHECK_EQ(set(to, 4096, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), -EADDRINUSE);
	CHECK(destroy_queue(&q[0]) == 0 && destroy_queue(&q[1]) == 0);
}

/* What is fetched takes a GPU's memory, as much as it has, until it goes elsewhere. */
static void test_prefetch(void)
{
	char *here = memory(80 * MIB);
	uint32_t fetch = KFD_IOCTL_SVM_ATTR_PREFETCH_LOC;
	uint64_t handle;

	CHECK_EQ(set(here, 80 * MIB, fetch, ids[1]), 0); /* and it stays where it is */
	CHECK_EQ(vacant(1), 64 * MIB);
	strcpy(here, "content");
	CHECK_EQ(set(here, 48 * MIB, fetch, ids[1]), 0);
	CHECK_EQ(set(here, 48 * MIB, fetch, ids[1]), 0);
	CHECK_EQ(vacant(1), 16 * MIB);
	CHECK_EQ(alloc_vram(1, 32 * MIB, &handle), -ENOMEM);
	CHECK_EQ(get(here, 48 * MIB, fetch, 0), ids[1]);
	/* That something else is asked of a part of it moves nothing. */
	CHECK_EQ(set(here + MIB, 4096, KFD_IOCTL_SVM_ATTR_SET_FLAGS, 4), 0);
	CHECK_EQ(vacant(1), 16 * MIB);
	CHECK(!strcmp(here, "content"));
	CHECK_EQ(set(here, 48 * MIB, fetch, ids[0]), 0);
	CHECK(vacant(0) == 16 * MIB && vacant(1) == 64 * MIB);
	CHECK_EQ(set(here, 48 * MIB, fetch, 0), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
	CHECK_EQ(set(here + 10 * MIB, 20 * MIB, fetch, ids[2]), 0);
	CHECK_EQ(vacant(2), 44 * MIB);
	CHECK_EQ(set(here, 80 * MIB, fetch, 0), 0);
	CHECK_EQ(vacant(2), 64 * MIB);
	CHECK_EQ(set(here, 30 * MIB, fetch, ids[2]), 0);
	CHECK_EQ(munmap(here + 10 * MIB, 10 * MIB), 0);
	CHECK_EQ(vacant(2), 44 * MIB);
	CHECK_EQ(munmap(here, 80 * MIB), 0);
	CHECK_EQ(vacant(2), 64 * MIB);
}

static void fetch_and_wait(int socket)
{
	open_devices();
	acquire_devices();
	CHECK_EQ(set(memory(MIB), MIB, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, ids[0]), 0);
	say(socket);
	pause();
}

/* Memory that goes as in free(), unseen, leaves nothing to what comes to its place. */
static void test_replaced(void)
{
	char *here = memory(MIB);

	CHECK_EQ(set(here, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), 0);
	CHECK_EQ(syscall(SYS_munmap, here, MIB), 0);
	CHECK(mmap(here, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0) == here);
	CHECK_EQ(get(here, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), KFD_IOCTL_SVM_ATTR_NO_ACCESS);
	CHECK_EQ(munmap(here, MIB), 0);
}

static void test_process(void)
{
	int socket;
	pid_t child = start(fetch_and_wait, &socket);

	hear(socket);
	CHECK_EQ(vacant(0), 63 * MIB);
	end(child, SIGKILL);
	CHECK_EQ(vacant(0), 64 * MIB);
}

int main(int argc, char **argv)
{
	open_devices();
	acquire_devices();
	if (argc > 1) {
		CHECK_EQ(set(memory(MIB), MIB, KFD_IOCTL_SVM_ATTR_ACCESS, ids[0]), -ENOTTY);
		return 0;
	}
	test_arguments();
	test_attributes();
	test_access();
	test_prefetch();
	test_replaced();
	test_process();
	run_on_older_kernel(argv[0], "SVM", NULL);
	return 0;
}
