/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a process's queues, before a kernel that notes what it is told, answers errors when
 * it is to, and takes its time.
 */
#include "guest/amd/queue/queues.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "amd/kfd_ioctl.h"
#include "guest/process/next.h"
#include "ledger/cu_grant.h"
#include "tests/unit/tenant_fixture.h"

_Thread_local unsigned int guest_depth;

static const struct topology_node node = {.simds = 440, .simds_per_cu = 4, .arrays = 8,
					  .arrays_per_engine = 1, .xccs = 1, .gfx_version = 90010};
static const char *dir;
static struct guest guest;
static struct amd amd;
static struct queues *queues;
static struct queue_device *device;

/* The kernel. */
static struct {
	int masks, updates, error; /* calls; what they answer, as errno */
	bool mask_was_first;
	struct cu_mask mask;
	struct kfd_ioctl_update_queue_args update;
	_Atomic bool slow, inside; /* stays inside while it is slow */
} kernel;

static int kernel_ioctl(int fd, unsigned long request, ...)
{
	const struct kfd_ioctl_set_cu_mask_args *mask;
	va_list ap;

	va_start(ap, request);
	mask = va_arg(ap, void *);
	va_end(ap);
	kernel.inside = true;
	while (kernel.slow)
		usleep(100);
	kernel.inside = false;
	if (_IOC_NR(request) == KFD_NR_SET_CU_MASK) {
		kernel.masks++;
		kernel.mask_was_first = !kernel.updates;
		memcpy(kernel.mask.word, (void *)(uintptr_t)mask->cu_mask_ptr,
		       mask->num_cu_mask / 8);
	} else {
		kernel.updates++;
		memcpy(&kernel.update, mask, sizeof(kernel.update));
	}
	errno = kernel.error;
	return kernel.error ? -1 : 0;
}

const struct next *next_libc(void)
{
	static const struct next next = {.ioctl = kernel_ioctl};

	return &next;
}

/* Number 3 and above are the device's, where it has any. */
static bool has_file = true;

int amd_file(int fd)
{
	return has_file ? AMD_FILE_KFD : AMD_FILE_NONE;
}

uint64_t guest_generation(const struct guest *g)
{
	return 1;
}

static struct queue queue_of(uint32_t id, enum queue_kind kind)
{
	return (struct queue){.kind = kind,
			      .duty = {.wanted = {.queue_id = id,
						  .ring_base_address = 0x1000 * (id + 1),
						  .ring_size = 4096,
						  .queue_percentage = 60 | 2 << 8},
				       .told = 60 | 2 << 8}};
}

/* As the hook does it. */
static uint64_t make(uint32_t id, enum queue_kind kind)
{
	struct queue queue = queue_of(id, kind);

	queues_expect(queues, 0);
	return queues_add(queues, &queue, 0);
}

static void destroy(uint32_t id)
{
	uint64_t version;

	CHECK(queues_claim(queues, id, &version));
	queues_remove(queues, id, version);
}

static int wanted(void)
{
	struct ledger *ledger;
	int r;

	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	r = cu_grant_wanted(ledger, fixture_uuid);
	ledger_close(ledger);
	return r;
}

static void forget(void)
{
	kernel.masks = kernel.updates = kernel.error = 0;
	memset(&kernel.mask, 0, sizeof(kernel.mask));
}

static void hold(uint32_t permille)
{
	struct cu_share share = {.permille = permille};

	if (permille)
		CHECK_EQ(cu_mask_allot(&device->map, &share, 1), 0);
	device->hold = (struct queue_hold){
		.limited = permille, .masks = permille, .mask = share.mask};
	device->turn[0].closed = device->turn[1].closed = false;
}

/* The mask comes first, and what the kernel knows is not told again. */
static void test_settle(void)
{
	uint64_t version;

	hold(250);
	device->turn[QUEUE_COMPUTES].closed = true;
	version = make(5, QUEUE_COMPUTES);
	CHECK_EQ(wanted(), 0);
	forget();
	CHECK_EQ(queues_settle(queues, 3, 5), 0);
	CHECK(kernel.masks == 1 && kernel.updates == 1 && kernel.mask_was_first);
	CHECK(!memcmp(&kernel.mask, &device->hold.mask, sizeof(kernel.mask)));
	CHECK_EQ(kernel.update.queue_percentage, 2 << 8);
	CHECK_EQ(kernel.update.ring_base_address, 0x6000);
	CHECK_EQ(queues_settle(queues, 3, 5), 0);
	CHECK(kernel.masks == 1 && kernel.updates == 1);
	device->turn[QUEUE_COMPUTES].closed = false;
	CHECK_EQ(queues_settle(queues, 3, 5), 0);
	CHECK(kernel.masks == 1 && kernel.updates == 2);
	CHECK_EQ(kernel.update.queue_percentage, 60 | 2 << 8);
	queues_release(queues, 5, version);
	destroy(5);
	CHECK_EQ(wanted(), -ENODEV);
	CHECK(!queues_claim(queues, 5, &version) && !queues_claim(queues, QUEUES, &version) &&
	      !queues_claim(queues, UINT32_MAX, &version));
}

/* What it refused is due still; and without its mask a queue is not put on the hardware. */
static void test_errors(void)
{
	uint64_t version;

	hold(250);
	device->turn[QUEUE_COMPUTES].closed = true;
	version = make(0, QUEUE_COMPUTES);
	forget();
	kernel.error = EINVAL;
	CHECK_EQ(queues_settle(queues, 3, 0), -EINVAL);
	CHECK(kernel.masks == 1 && kernel.updates == 0);
	kernel.error = 0;
	CHECK_EQ(queues_settle(queues, 3, 0), 0);
	CHECK(kernel.masks == 2 && kernel.updates == 1);
	queues_release(queues, 0, version);
	destroy(0);
}

/* Masks are for queues that compute, the program's own are inside, and none is left behind. */
static void test_masks(void)
{
	struct cu_mask all = cu_mask_all(&device->map);
	uint64_t version;

	hold(250);
	version = make(1, QUEUE_COPIES);
	forget();
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	CHECK_EQ(kernel.masks + kernel.updates, 0);
	queues_remove(queues, 1, version);

	hold(0);
	version = make(1, QUEUE_COMPUTES);
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	CHECK_EQ(kernel.masks + kernel.updates, 0);
	queues->queue[1].own_bits = 32;
	queues->queue[1].own[0] = 0xf;
	hold(250);
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	CHECK_EQ(kernel.masks, 1);
	CHECK_EQ(kernel.mask.word[0], 0xf & device->hold.mask.word[0]);
	CHECK_EQ(kernel.mask.word[1], 0);
	hold(0);
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	CHECK_EQ(kernel.mask.word[0], 0xf);
	queues->queue[1].own_bits = 0;
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	hold(500);
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	hold(0);
	CHECK_EQ(queues_settle(queues, 3, 1), 0);
	CHECK(!memcmp(&kernel.mask, &all, sizeof(all)));
	queues_remove(queues, 1, version);
}

static void *keep(void *arg)
{
	queues_tell(queues, 0);
	return NULL;
}

static void *claim(void *arg)
{
	uint64_t version;

	CHECK(queues_claim(queues, 2, &version));
	*(_Atomic bool *)arg = true;
	queues_remove(queues, 2, version);
	return NULL;
}

/* Of one queue the kernel is asked by one at a time; of others, nobody waits. */
static void test_claims(void)
{
	uint64_t first = make(2, QUEUE_COMPUTES), second = make(3, QUEUE_COMPUTES), version;
	_Atomic bool claimed = false;
	pthread_t keeper, program;

	hold(250);
	forget();
	queues_tell(queues, 0); /* both are claimed */
	CHECK_EQ(kernel.masks, 0);
	queues_release(queues, 2, first);
	kernel.slow = true;
	CHECK_EQ(pthread_create(&keeper, NULL, keep, NULL), 0);
	while (!kernel.inside)
		usleep(100);
	CHECK_EQ(pthread_create(&program, NULL, claim, (void *)&claimed), 0);
	queues_release(queues, 3, second);
	CHECK(queues_claim(queues, 3, &second));
	usleep(20000);
	CHECK(!claimed);
	kernel.slow = false;
	CHECK_EQ(pthread_join(keeper, NULL), 0);
	CHECK_EQ(pthread_join(program, NULL), 0);
	CHECK(claimed && kernel.masks == 1);
	CHECK(!queues_claim(queues, 2, &version));
	queues_remove(queues, 3, second);
	CHECK_EQ(wanted(), -ENODEV);
}

/* The kernel gives a number to another before who destroyed the first one comes to say so. */
static void test_numbers(void)
{
	uint64_t first, second, version;

	hold(0);
	queues_release(queues, 4, make(4, QUEUE_COMPUTES));
	CHECK(queues_claim(queues, 4, &first));
	second = make(4, QUEUE_COPIES);
	CHECK(first != second);
	queues_remove(queues, 4, first);
	CHECK_EQ(wanted(), 0);
	CHECK_EQ(queues->queue[4].claims, 1);
	queues_release(queues, 4, first);
	CHECK_EQ(queues->queue[4].claims, 1);
	queues_release(queues, 4, second);
	CHECK(queues_claim(queues, 4, &version) && version == second);
	queues_remove(queues, 4, second);
	CHECK_EQ(wanted(), -ENODEV);
	CHECK_EQ(queues->n, 0);
}

/* Without the device's file nothing is told to whatever has its number, but later. */
static void test_file(void)
{
	uint64_t version = make(6, QUEUE_COMPUTES);

	hold(250);
	forget();
	queues_release(queues, 6, version);
	has_file = false;
	queues_tell(queues, 0);
	CHECK_EQ(kernel.masks, 0);
	has_file = true;
	queues_tell(queues, 0);
	CHECK_EQ(kernel.masks, 1);
	destroy(6);
}

/* A program that has used up its descriptors is held all the same, and its file stays open. */
static void test_no_descriptor(void)
{
	uint64_t version = make(7, QUEUE_COMPUTES);
	struct rlimit was, none;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 3;
	hold(250);
	forget();
	queues_release(queues, 7, version);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	queues_tell(queues, 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	CHECK_EQ(kernel.masks, 1);
	CHECK(fcntl(0, F_GETFD) >= 0);
	destroy(7);
}

int main(void)
{
	struct cu_geometry geometry;

	dir = fixture_tenant("queues");
	snprintf(guest.dir, sizeof(guest.dir), "%.255s", dir);
	amd.slot = fixture_join(dir);
	amd.ndevices = 1;
	queues = queues_get(&guest, &amd);
	CHECK(queues && queues == queues_made(&amd) && queues == queues_get(&guest, &amd));
	device = &queues->device[0];
	CHECK_EQ(cu_geometry_of_node(&node, &geometry), 0);
	CHECK_EQ(cu_map_init(&geometry, &device->map), 0);
	device->has_map = true;
	test_settle();
	test_errors();
	test_masks();
	test_claims();
	test_numbers();
	test_file();
	test_no_descriptor();
	ledger_close(slot_ledger(amd.slot));
	return 0;
}
