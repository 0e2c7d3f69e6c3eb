/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/queue_puppet.h"

#include <dirent.h>

#include "tests/sim/kfd_queue.h"

static struct queue made[1024];
static volatile uint32_t *words[1024];

static int make(const struct queue_ask *ask, struct queue_told *told)
{
	struct kfd_ioctl_create_queue_args a = {.ring_size = RING_BYTES,
						.gpu_id = ids[ask->gpu],
						.queue_type = ask->type,
						.queue_percentage = ask->percent};
	char *memory = queue_memory();
	int r;

	a.ring_base_address = (uintptr_t)memory;
	a.read_pointer_address = (uintptr_t)memory + RING_BYTES;
	a.write_pointer_address = (uintptr_t)memory + RING_BYTES + 8;
	r = call(KFD_IOWR(CREATE_QUEUE, a), &a);
	told->id = a.queue_id;
	told->percent = a.queue_percentage;
	if (r)
		return r;
	made[a.queue_id] = (struct queue){
		.id = a.queue_id,
		.ring = memory,
		.read = (uint64_t *)(memory + RING_BYTES),
		.write = (uint64_t *)(memory + RING_BYTES + 8),
		.doorbell = map_doorbell(a.doorbell_offset),
	};
	return 0;
}

static int update(const struct queue_ask *ask, struct queue_told *told)
{
	struct kfd_ioctl_update_queue_args a = {
		.ring_base_address = (uintptr_t)made[ask->id & 1023].ring,
		.queue_id = ask->id,
		.ring_size = RING_BYTES,
		.queue_percentage = ask->percent};
	int r = call(_IOW('K', KFD_NR_UPDATE_QUEUE, a), &a);

	told->percent = a.queue_percentage;
	return r;
}

static int mask(const struct queue_ask *ask)
{
	struct kfd_ioctl_set_cu_mask_args a = {.queue_id = ask->id,
					       .num_cu_mask = ask->bits,
					       .cu_mask_ptr = ask->wild ? ask->wild
									: (uintptr_t)ask->mask};

	return call(_IOW('K', KFD_NR_SET_CU_MASK, a), &a);
}

/* A copy queue that waits for a word to become something else has work all the time. */
static int keep_busy(uint32_t id)
{
	volatile uint32_t *word = words[id] = host_memory(4096);
	uint32_t poll[] = {8 | 3u << 28 | 1u << 31,
			   LOW((uintptr_t)word),
			   HIGH((uintptr_t)word),
			   1,
			   UINT32_MAX,
			   0};

	put(&made[id], poll, 6);
	ring(&made[id]);
	return 0;
}

static void open_again(void)
{
	close(kfd);
	for (int i = 0; i < GPUS; i++)
		close(render[i]);
	open_devices();
	acquire_devices();
}

static void go_on_as_child(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open_again();
		return;
	}
	close(0);
	close(1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

static int close_all(void)
{
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (int i = 0; i < 32; i++)
		CHECK(open("/dev/null", O_RDWR | O_CLOEXEC) >= 0);
	return 0;
}

static int do_one(const struct queue_ask *ask, struct queue_told *told)
{
	struct kfd_ioctl_destroy_queue_args destroy = {.queue_id = ask->id};

	switch (ask->op) {
	case QUEUE_MAKE:
		return make(ask, told);
	case QUEUE_DESTROY:
		return call(KFD_IOWR(DESTROY_QUEUE, destroy), &destroy);
	case QUEUE_UPDATE:
		return update(ask, told);
	case QUEUE_MASK:
		return mask(ask);
	case QUEUE_BUSY:
		return keep_busy(ask->id);
	case QUEUE_IDLE:
		*words[ask->id] = 1;
		return 0;
	case QUEUE_FORK:
		go_on_as_child();
		return 0;
	case QUEUE_NOTHING:
		return 0;
	case QUEUE_CLOSE:
		return close_all();
	case QUEUE_RAW:
		return call(ask->request, (void *)(uintptr_t)ask->wild);
	}
	return -EINVAL;
}

int main(void)
{
	struct queue_ask ask;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_devices();
	acquire_devices();
	while (read(0, &ask, sizeof(ask)) == sizeof(ask)) {
		struct queue_told told = {0};

		told.result = do_one(&ask, &told);
		told.pid = getpid();
		CHECK_EQ(write(1, &told, sizeof(told)), sizeof(told));
	}
	return 0;
}
