/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls about queues, by several threads at once and beside the keeper, before a kernel that takes
 * its time, gives numbers again as soon as they are free, and knows whose ring is whose.
 */
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "amd/abi/kfd.h"
#include "amd/cu_mask.h"
#include "amd/identity.h"
#include "base/now.h"
#include "guest/amd/queue/queue.h"
#include "guest/amd/queue/queues.h"
#include "guest/process/next.h"
#include "tests/unit/tenant_fixture.h"

#define MS NS_PER_MS
#define RUN_NS	(600 * MS)
#define WAIT_NS (5000 * MS)
#define THREADS 4
#define ASLEEP_US 400000 /* by then nobody looks for any other reason */
#define GPU_ID	4711

_Thread_local unsigned int guest_depth;

static struct topology_node node = {.gpu_id = GPU_ID, .simds = 440, .simds_per_cu = 4, .arrays = 8,
				    .arrays_per_engine = 1, .xccs = 1, .gfx_version = 90010,
				    .unique_id = 47};
static struct guest guest;
static struct amd amd;

/* The kernel. */
static struct {
	pthread_mutex_t lock;
	int mask_error; /* what SET_CU_MASK answers, as errno */
	struct {
		bool used, masked;
		uint32_t type, percent;
		uint64_t ring;
		struct cu_mask mask;
	} queue[QUEUES];
} kernel = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int kernel_create(struct kfd_ioctl_create_queue_args *a)
{
	uint32_t id = 0;

	while (kernel.queue[id].used)
		id++;
	memset(&kernel.queue[id], 0, sizeof(kernel.queue[id]));
	kernel.queue[id].used = true;
	kernel.queue[id].type = a->queue_type;
	kernel.queue[id].percent = a->queue_percentage;
	kernel.queue[id].ring = a->ring_base_address;
	a->queue_id = id;
	return 0;
}

/* Nobody but the program says anything that is not so. */
static int kernel_do(unsigned int nr, void *block)
{
	const struct kfd_ioctl_update_queue_args *update = block;
	const struct kfd_ioctl_set_cu_mask_args *mask = block;
	const struct kfd_ioctl_destroy_queue_args *destroy = block;

	switch (nr) {
	case KFD_NR_CREATE_QUEUE:
		return kernel_create(block);
	case KFD_NR_UPDATE_QUEUE:
		CHECK(kernel.queue[update->queue_id].used);
		CHECK_EQ(kernel.queue[update->queue_id].ring, update->ring_base_address);
		kernel.queue[update->queue_id].percent = update->queue_percentage;
		return 0;
	case KFD_NR_SET_CU_MASK:
		CHECK(kernel.queue[mask->queue_id].used);
		CHECK_EQ(kernel.queue[mask->queue_id].type, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
		memcpy(kernel.queue[mask->queue_id].mask.word, (void *)(uintptr_t)mask->cu_mask_ptr,
		       mask->num_cu_mask / 8);
		kernel.queue[mask->queue_id].masked = !kernel.mask_error;
		return -kernel.mask_error;
	default:
		CHECK(kernel.queue[destroy->queue_id].used);
		kernel.queue[destroy->queue_id].used = false;
		return 0;
	}
}

static int kernel_ioctl(int fd, unsigned long request, ...)
{
	static _Thread_local unsigned int seed = 1;
	va_list ap;
	void *block;
	int r;

	va_start(ap, request);
	block = va_arg(ap, void *);
	va_end(ap);
	if (_IOC_TYPE(request) != 'K') /* the render node's */
		return -1;
	if (rand_r(&seed) % 4 == 0)
		usleep((unsigned int)rand_r(&seed) % 500);
	pthread_mutex_lock(&kernel.lock);
	r = kernel_do(_IOC_NR(request), block);
	pthread_mutex_unlock(&kernel.lock);
	errno = -r;
	return r < 0 ? -1 : 0;
}

const struct next *next_libc(void)
{
	static const struct next next = {.ioctl = kernel_ioctl};

	return &next;
}

int amd_file(int fd)
{
	return AMD_FILE_KFD;
}

struct amd_device *amd_device(struct amd *a, uint32_t gpu_id)
{
	return gpu_id == GPU_ID ? &a->device[0] : NULL;
}

int amd_call_kernel(struct amd_call *call)
{
	int r = kernel_ioctl(call->fd, call->request, call->block);

	return r < 0 ? -errno : r;
}

uint64_t guest_generation(const struct guest *g)
{
	return policy_generation(g->policy_map) + 1;
}

/* The C library, which may have no thread to give, and finds out late. */
static struct {
	_Atomic bool refuses, inside;
} library;

int __real_thread_start(void *(*run)(void *), void *arg);
int __wrap_thread_start(void *(*run)(void *), void *arg);

int __wrap_thread_start(void *(*run)(void *), void *arg)
{
	if (!library.refuses)
		return __real_thread_start(run, arg);
	library.inside = true;
	while (library.refuses)
		usleep(100);
	return -EAGAIN;
}

/* The program. */
static int call(unsigned int nr, void *block, size_t bytes)
{
	_Alignas(16) char copy[256] = {0};
	struct amd_call c = {.guest = &guest,
			     .amd = &amd,
			     .request = _IOC(_IOC_READ | _IOC_WRITE, 'K', nr, bytes),
			     .bytes = bytes,
			     .block = copy};
	int r;

	memcpy(copy, block, bytes);
	r = amd_queue_call(&c);
	memcpy(block, copy, bytes);
	return r;
}

static int create(uint32_t type, uint64_t ring, uint32_t *ret_id)
{
	struct kfd_ioctl_create_queue_args a = {.gpu_id = GPU_ID,
						.queue_type = type,
						.ring_base_address = ring,
						.ring_size = 4096,
						.queue_percentage = 100};
	int r = call(KFD_NR_CREATE_QUEUE, &a, sizeof(a));

	CHECK_EQ(a.queue_percentage, 100);
	*ret_id = a.queue_id;
	return r;
}

static void update(uint32_t id, uint64_t ring, uint32_t percent)
{
	struct kfd_ioctl_update_queue_args a = {.queue_id = id,
						.ring_base_address = ring,
						.ring_size = 4096,
						.queue_percentage = percent};

	CHECK_EQ(call(KFD_NR_UPDATE_QUEUE, &a, sizeof(a)), 0);
	CHECK_EQ(a.queue_percentage, percent);
}

static void destroy(uint32_t id)
{
	struct kfd_ioctl_destroy_queue_args a = {.queue_id = id};

	CHECK_EQ(call(KFD_NR_DESTROY_QUEUE, &a, sizeof(a)), 0);
}

static int set_share(struct policy *policy, void *arg)
{
	uint32_t permille = *(const uint32_t *)arg;

	policy->compute = permille ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_OFF;
	policy->device[0].share_permille = permille;
	return 0;
}

static void share(uint32_t permille)
{
	CHECK_EQ(policy_update(guest.dir, set_share, &permille), 0);
}

static _Atomic bool stop;

/* Each ring is another, so that who tells the kernel an old one is found out. */
static void *churn(void *arg)
{
	uint64_t ring = (uintptr_t)arg << 32;
	uint32_t id;

	while (!stop) {
		bool computes = ring / 4096 % 2;

		ring += 4096;
		CHECK_EQ(create(computes ? KFD_IOC_QUEUE_TYPE_COMPUTE_AQL
					 : KFD_IOC_QUEUE_TYPE_SDMA,
				ring, &id),
			 0);
		if (ring / 4096 % 3)
			update(id, ring, 50);
		destroy(id);
	}
	return NULL;
}

static void test_churn(void)
{
	static const uint32_t shares[] = {300, 700, 0, 1, 500};
	pthread_t threads[THREADS];
	uint64_t until = now_monotonic_ns() + RUN_NS;

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; now_monotonic_ns() < until; i++) {
		share(shares[i % 5]);
		usleep(2000);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!kernel.queue[i].used);
}

/* How many units the kernel knows of; 0: no mask. */
static uint32_t cus(uint32_t id)
{
	uint32_t n = 0;

	pthread_mutex_lock(&kernel.lock);
	for (int i = 0; i < CU_MASK_WORDS && kernel.queue[id].masked; i++)
		n += (uint32_t)__builtin_popcount(kernel.queue[id].mask.word[i]);
	pthread_mutex_unlock(&kernel.lock);
	return n;
}

static uint32_t percent(uint32_t id)
{
	uint32_t is;

	pthread_mutex_lock(&kernel.lock);
	is = kernel.queue[id].percent;
	pthread_mutex_unlock(&kernel.lock);
	return is;
}

static void wait_cus(uint32_t id, uint32_t n)
{
	uint64_t until = now_monotonic_ns() + WAIT_NS;

	while (cus(id) != n && now_monotonic_ns() < until)
		usleep(500);
	CHECK_EQ(cus(id), n);
}

/* What the program wants is so again when nothing limits it. */
static void test_after(void)
{
	uint32_t computes, copies;
	uint64_t until;

	share(250);
	CHECK_EQ(create(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, 4096, &computes), 0);
	CHECK_EQ(create(KFD_IOC_QUEUE_TYPE_SDMA, 8192, &copies), 0);
	CHECK_EQ(cus(computes), 27);
	share(500);
	wait_cus(computes, 55);
	share(0);
	wait_cus(computes, 110);
	until = now_monotonic_ns() + WAIT_NS;
	while (percent(copies) != 100 && now_monotonic_ns() < until)
		usleep(500);
	CHECK_EQ(percent(copies), 100);
	CHECK_EQ(percent(computes), 100);
	destroy(computes);
	destroy(copies);
}

/* The first limit comes while the program does nothing, and so does the next after none. */
static void test_late(void)
{
	uint32_t id;

	share(0);
	CHECK_EQ(create(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, 4096, &id), 0);
	CHECK_EQ(cus(id), 0);
	for (int i = 0; i < 2; i++) {
		usleep(ASLEEP_US);
		share(250);
		wait_cus(id, 27);
		share(500);
		wait_cus(id, 55);
		share(0);
		wait_cus(id, 110);
	}
	destroy(id);
}

/* Without its mask there is no queue. */
static void test_refused(void)
{
	uint32_t id;

	share(250);
	kernel.mask_error = EPERM;
	CHECK_EQ(create(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, 4096, &id), -EPERM);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!kernel.queue[i].used);
	kernel.mask_error = 0;
	CHECK_EQ(create(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, 4096, &id), 0);
	CHECK_EQ(cus(id), 27);
	destroy(id);
}

static void *create_one(void *arg)
{
	uint32_t id;

	return (void *)(intptr_t)create(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, 4096, &id);
}

/* One thread gets no keeper, another relies on it meanwhile. */
static void test_no_thread(void)
{
	pthread_t first, second;
	uint32_t id;
	void *r;

	share(250);
	library.refuses = true;
	CHECK_EQ(pthread_create(&first, NULL, create_one, NULL), 0);
	while (!library.inside)
		usleep(100);
	CHECK_EQ(pthread_create(&second, NULL, create_one, NULL), 0);
	usleep(20000);
	library.refuses = false;
	CHECK_EQ(pthread_join(first, &r), 0);
	CHECK_EQ((intptr_t)r, -ENOMEM);
	CHECK_EQ(pthread_join(second, &r), 0);
	CHECK_EQ((intptr_t)r, 0);
	/* Its number is the first one's where that was destroyed by then. */
	id = kernel.queue[1].used;
	CHECK_EQ(kernel.queue[!id].used, false);
	share(500);
	wait_cus(id, 55);
	destroy(id);
}

/* Blocks without room for the answer, and GPUs that are not the tenant's. */
static void test_blocks(void)
{
	struct kfd_ioctl_create_queue_args a = {.gpu_id = GPU_ID};

	CHECK_EQ(call(KFD_NR_CREATE_QUEUE, &a,
		      offsetof(struct kfd_ioctl_create_queue_args, queue_id)),
		 -EINVAL);
	CHECK_EQ(call(KFD_NR_CREATE_QUEUE, &a, 0), -EINVAL);
	a.gpu_id = 1;
	CHECK_EQ(call(KFD_NR_CREATE_QUEUE, &a, sizeof(a)), -EINVAL);
	amd.device[0].ours = false;
	a.gpu_id = GPU_ID;
	CHECK_EQ(call(KFD_NR_CREATE_QUEUE, &a, sizeof(a)), -EINVAL);
	amd.device[0].ours = true;
}

int main(void)
{
	const char *dir = fixture_tenant("queues");

	snprintf(guest.dir, sizeof(guest.dir), "%.255s", dir);
	CHECK_EQ(policy_open(dir, &guest.policy_map), 0);
	amd.slot = fixture_join(dir);
	guest.ledger = slot_ledger(amd.slot);
	amd.ndevices = 1;
	amd.device[0].node = &node;
	amd.device[0].ours = true;
	amd_identity(&node, amd.device[0].uuid);
	amd.device[0].ledger = ledger_device(guest.ledger, amd.device[0].uuid, GIB);
	CHECK(amd.device[0].ledger >= 0);
	test_blocks();
	test_no_thread();
	test_refused();
	test_churn();
	test_after();
	test_late();
	return 0;
}
