/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's share of an emulated AMD GPU, from what src/amd decides to what the emulator's own
 * roster says of the queues: CU masks of running queues, and time on the hardware where no mask
 * binds. The ioctls are the program's own here.
 */
#include <limits.h>
#include <time.h>

#include "amd/abi/drm.h"
#include "amd/cu_mask.h"
#include "amd/duty.h"
#include "amd/topology_read.h"
#include "sim/kfd/roster.h"
#include "tests/sim/kfd_queue.h"

#define MS	 UINT64_C(1000000)
#define DUTY_NS	 (10000 * MS)
#define POINTS	 3 /* of a hundred */
#define PERMILLE 300
#define TENANTS	 2

static struct roster *roster;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / (1000 * MS)),
			     .tv_nsec = (long)(ns % (1000 * MS))};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

static struct roster_times times_of(const struct queue *q, struct roster_queue *ret)
{
	struct roster_times times[8];
	struct roster_queue is[8];
	uint32_t n = roster_read(roster, 8, is, times);

	for (uint32_t i = 0; i < n && i < 8; i++)
		if (is[i].pid == getpid() && is[i].id == q->id) {
			*ret = is[i];
			return times[i];
		}
	CHECK(false);
	return times[0];
}

/* An SDMA queue, which no mask binds, with something to do all the time. */
static void keep_busy(struct queue *q, volatile uint32_t *word)
{
	uint32_t poll[] = {8 | 3u << 28 | 1u << 31,
			   LOW((uintptr_t)word),
			   HIGH((uintptr_t)word),
			   1,
			   UINT32_MAX,
			   0};

	put(q, poll, 6);
	ring(q);
}

/* As a tenant's keeper would: asked, told to the kernel, and asked again when that is due. */
static void steer(const struct queue *q, uint64_t until_ns)
{
	const struct share_params params = {.share_permille = PERMILLE, .slice_ns = DUTY_SLICE_NS};
	struct duty_queue duty = {.wanted = {.ring_base_address = (uintptr_t)q->ring,
					     .queue_id = q->id,
					     .ring_size = RING_BYTES,
					     .queue_percentage = 100},
				  .told = 100};
	uint64_t hot = 0, on_ns = now_ns(), now;
	struct kfd_ioctl_update_queue_args args;

	while ((now = now_ns()) < until_ns) {
		struct duty_answer answer = duty_step(&controller_deficit, &params, hot, on_ns,
						      duty.told ? now : on_ns, now);

		hot = answer.hot;
		on_ns = now;
		if (duty_queue_update(&duty, answer.open, &args)) {
			CHECK_EQ(call(_IOW('K', KFD_NR_UPDATE_QUEUE, args), &args), 0);
			duty.told = args.queue_percentage;
		}
		sleep_until(answer.next_ns);
	}
}

static void test_duty_cycle(void)
{
	volatile uint32_t *word = host_memory(4096);
	struct roster_times before, after;
	struct roster_queue is;
	uint64_t percent;
	struct queue q;

	make_queue(1, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	keep_busy(&q, word);
	before = times_of(&q, &is);
	steer(&q, now_ns() + DUTY_NS);
	after = times_of(&q, &is);
	percent = 100 * (after.active_ns - before.active_ns) / (after.life_ns - before.life_ns);
	fprintf(stderr, "active for %llu %% of the time\n", (unsigned long long)percent);
	CHECK(percent + POINTS >= PERMILLE / 10 && percent <= PERMILLE / 10 + POINTS);
	*word = 1;
	CHECK_EQ(update_queue(&q, 100), 0);
	CHECK_EQ(execute(1, &q), 0);
	CHECK_EQ(destroy_queue(&q), 0);
}

/* From sysfs, and where it has one XCC from what the render node says, too. */
static void read_map(struct cu_map *ret)
{
	struct drm_amdgpu_info_device device = {0};
	struct drm_amdgpu_info info = {.return_pointer = (uintptr_t)&device,
				       .return_size = sizeof(device),
				       .query = AMDGPU_INFO_DEV_INFO};
	struct topology_complaint complaint;
	const struct topology_node *node;
	struct cu_geometry geometry;
	struct topology *topology;

	CHECK_EQ(topology_read(NULL, &topology, &complaint), 0);
	node = topology_gpu(topology, ids[0]);
	CHECK_EQ(cu_geometry_of_node(node, &geometry), 0);
	CHECK_EQ(drm(render[0], _IOW('d', DRM_NR_AMDGPU_INFO, info), &info), 0);
	CHECK_EQ(cu_geometry_refine(&geometry, node, device.cu_bitmap),
		 node->xccs == 1 ? 0 : -EINVAL);
	CHECK_EQ(cu_map_init(&geometry, ret), 0);
	topology_free(topology);
}

/* Every queue of each tenant gets its mask; what the hardware has then, by tenant. */
static void tell(const struct cu_map *map, struct cu_share share[TENANTS],
		 struct queue queue[TENANTS][2], struct roster_queue ret[TENANTS])
{
	CHECK_EQ(cu_mask_allot(map, share, TENANTS), 0);
	for (int i = 0; i < TENANTS; i++)
		for (int j = 0; j < 2; j++) {
			struct kfd_ioctl_set_cu_mask_args a = {
				.queue_id = queue[i][j].id,
				.num_cu_mask = cu_mask_bits(map),
				.cu_mask_ptr = (uintptr_t)share[i].mask.word};

			CHECK_EQ(call(_IOW('K', KFD_NR_SET_CU_MASK, a), &a), 0);
			times_of(&queue[i][j], &ret[i]);
			CHECK(ret[i].active);
			CHECK(!memcmp(ret[i].mask, share[i].mask.word, sizeof(ret[i].mask)));
		}
}

static int bits_of(const struct roster_queue *is)
{
	int n = 0;

	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		n += __builtin_popcount(is->mask[i]);
	return n;
}

static int set_mask(const struct queue *q, uint32_t word)
{
	struct kfd_ioctl_set_cu_mask_args a = {
		.queue_id = q->id, .num_cu_mask = 32, .cu_mask_ptr = (uintptr_t)&word};

	return call(_IOW('K', KFD_NR_SET_CU_MASK, a), &a);
}

static bool disjoint(const struct roster_queue *a, const struct roster_queue *b)
{
	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		if (a->mask[i] & b->mask[i])
			return false;
	return true;
}

/* From GFX10 on units come in pairs. */
static bool in_pairs(const struct roster_queue *is)
{
	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		if ((is->mask[i] ^ is->mask[i] >> 1) & 0x55555555)
			return false;
	return true;
}

/* A quarter and then half of the units, beside 40 %, in every queue of a tenant. */
static void test_masks(int quarter, int half, int other, bool pairs)
{
	struct cu_share share[TENANTS] = {{.permille = 250}, {.permille = 400}};
	struct queue queue[TENANTS][2];
	struct roster_queue is[TENANTS];
	struct cu_map map;

	read_map(&map);
	for (int i = 0; i < TENANTS; i++)
		for (int j = 0; j < 2; j++)
			make_queue(0, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &queue[i][j]);
	tell(&map, share, queue, is);
	CHECK(bits_of(&is[0]) == quarter && bits_of(&is[1]) == other);
	CHECK(disjoint(&is[0], &is[1]));
	share[0].permille = 500; /* while they run */
	tell(&map, share, queue, is);
	CHECK(bits_of(&is[0]) == half && bits_of(&is[1]) == other);
	CHECK(disjoint(&is[0], &is[1]));
	CHECK(!pairs || (in_pairs(&is[0]) && in_pairs(&is[1])));
	CHECK_EQ(set_mask(&queue[0][0], 0x6), pairs ? -EINVAL : 0);
	CHECK_EQ(set_mask(&queue[0][0], 0xc), 0);
	for (int i = 0; i < TENANTS; i++)
		for (int j = 0; j < 2; j++)
			CHECK_EQ(destroy_queue(&queue[i][j]), 0);
}

/* With the model's name: its masks alone. */
int main(int argc, char **argv)
{
	const char *model = argc > 1 ? argv[1] : "gfx90a";
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	CHECK_EQ(roster_open(root, false, &roster), 0);
	open_devices();
	acquire_devices();
	if (!strcmp(model, "gfx1030"))
		test_masks(20, 40, 32, true); /* of 80 */
	else if (!strcmp(model, "gfx942"))
		test_masks(76, 152, 121, false); /* of 304 */
	else
		test_masks(27, 55, 44, false); /* of 110 */
	if (argc == 1)
		test_duty_cycle();
	roster_close(roster);
	return 0;
}
