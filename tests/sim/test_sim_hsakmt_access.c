/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROCm's own user-space library (libhsakmt), as it is installed, on the emulated KFD: where each
 * GPU reaches memory, and memory of two processes. The library makes memory, mappings and queues;
 * events are this program's own. Run by `allot sim --amd 3 --memory 64MiB`; skipped where there is
 * no such library.
 */
#include "tests/sim/hsakmt.h"
#include "tests/sim/kfd_queue.h"
#include "tests/sim/message.h"

#define SIZE (64 * MIB)
#define NODE 2 /* that of the memory */

static void open_library(void)
{
	struct system_properties properties = {0};

	hsakmt_load();
	CHECK_EQ(hsakmt.open(), 0);
	CHECK_EQ(hsakmt.acquire(&properties), 0);
	CHECK_EQ(properties.nodes, 1 + GPUS);
	open_devices(); /* once more, for events */
	fault_event = make_event(KFD_IOC_EVENT_MEMORY, true);
}

static void *library_memory(uint32_t node, uint64_t size)
{
	void *memory;

	CHECK_EQ(hsakmt.alloc(node, size, HOST_ACCESS | (node ? NON_PAGED : 0), &memory), 0);
	return memory;
}

static void *everywhere(void *memory, uint64_t size)
{
	uint64_t address = 0;

	CHECK_EQ(hsakmt.map(memory, size, &address), 0);
	return memory;
}

/*
 * Has a GPU copy 16 bytes on a queue of the library's; 0, or the page that it does not reach. GPUs
 * here are numbered from 0 on.
 */
static uint64_t gpu_copy(int gpu, const volatile void *to, const volatile void *from)
{
	struct hsakmt_queue resource = {0};
	struct queue q;
	uint64_t fault;

	if (!fence)
		fence = everywhere(library_memory(0, 4096), 4096);
	q = (struct queue){.ring = everywhere(library_memory(0, RING_BYTES), RING_BYTES),
			   .done = make_event(KFD_IOC_EVENT_SIGNAL, true)};
	CHECK_EQ(hsakmt.create_queue((uint32_t)gpu + 1, HSAKMT_QUEUE_SDMA, 100, 0, q.ring,
				     RING_BYTES, NULL, &resource),
		 0);
	q.doorbell = resource.doorbell;
	q.read = resource.read;
	q.write = resource.write;
	put_copy(&q, (uintptr_t)to, (uintptr_t)from, 16);
	fault = execute_once(gpu, &q);
	CHECK_EQ(hsakmt.destroy_queue(resource.id), 0);
	CHECK_EQ(hsakmt.unmap(q.ring), 0);
	CHECK_EQ(hsakmt.free(q.ring, RING_BYTES), 0);
	return fault;
}

/* The memory, which is the only one of its size, as a descriptor: this library cannot do that. */
static int export(void)
{
	struct kfd_ioctl_get_dmabuf_info_args info = {.size = 0};

	for (uint32_t i = 1; i < 64; i++) {
		struct kfd_ioctl_export_dmabuf_args a = {
			.handle = (uint64_t)ids[NODE - 1] << 32 | i, .flags = O_CLOEXEC};

		if (call(KFD_IOWR(EXPORT_DMABUF, a), &a) < 0)
			continue;
		info = (struct kfd_ioctl_get_dmabuf_info_args){.dmabuf_fd = a.dmabuf_fd};
		CHECK_EQ(call(KFD_IOWR(GET_DMABUF_INFO, info), &info), 0);
		if (info.size == SIZE)
			return (int)a.dmabuf_fd;
		close((int)a.dmabuf_fd);
	}
	CHECK(!"there is no such memory");
	return -1;
}

static void import(int socket)
{
	static const uint32_t nodes[GPUS] = {1, 2, 3};
	struct hsakmt_buffer buffer = {0};
	char *host, byte;
	int fd;

	CHECK_EQ(message_receive(socket, &byte, 1, &fd), 1);
	open_library();
	host = everywhere(library_memory(0, 4096), 4096);
	CHECK_EQ(hsakmt.register_buffer((uint64_t)fd, &buffer, GPUS, nodes), 0);
	CHECK_EQ(buffer.size, SIZE);
	CHECK_EQ(close(fd), 0);
	for (int i = 0; i < GPUS; i++)
		CHECK_EQ(gpu_copy(i, host, buffer.memory), (uintptr_t)buffer.memory);
	everywhere(buffer.memory, SIZE);
	for (int i = 0; i < GPUS; i++) {
		memset(host, 0, 16);
		CHECK_EQ(gpu_copy(i, host, buffer.memory), 0);
		CHECK(!strcmp(host, "of the owner"));
	}
	strcpy(host, "of the importer");
	CHECK_EQ(gpu_copy(2, buffer.memory + SIZE - 16, host), 0);
	CHECK_EQ(hsakmt.unmap(buffer.memory), 0);
	CHECK_EQ(gpu_copy(1, host, buffer.memory), (uintptr_t)buffer.memory);
	CHECK_EQ(hsakmt.deregister(buffer.memory), 0);
	say(socket);
	hear(socket);
	_exit(0);
}

int main(void)
{
	char *memory, *host;
	int socket, fd;
	pid_t child;

	hsakmt_load();
	child = start(import, &socket); /* before this process has anything to do with a GPU */
	open_library();
	memory = library_memory(NODE, SIZE);
	host = everywhere(library_memory(0, 4096), 4096);
	for (int i = 0; i < GPUS; i++)
		CHECK_EQ(gpu_copy(i, host, memory), (uintptr_t)memory);
	everywhere(memory, SIZE);
	for (int i = 0; i < GPUS; i++) {
		memset(host, '1' + i, 16);
		CHECK_EQ(gpu_copy(i, memory + SIZE - 16 * (i + 1), host), 0);
	}
	CHECK(!memcmp(memory + SIZE - 48, "333333333333333322222222222222221111111111111111", 48));
	strcpy(host, "of the owner");
	CHECK_EQ(gpu_copy(0, memory, host), 0);

	fd = export();
	CHECK_EQ(message_send(socket, "", 1, fd), 1);
	CHECK_EQ(close(fd), 0);
	hear(socket);
	CHECK_EQ(gpu_copy(1, host, memory + SIZE - 16), 0);
	CHECK(!strcmp(host, "of the importer"));
	say(socket);
	end(child, 0);

	CHECK_EQ(hsakmt.unmap(memory), 0);
	for (int i = 0; i < GPUS; i++)
		CHECK_EQ(gpu_copy(i, host, memory), (uintptr_t)memory);
	CHECK_EQ(hsakmt.free(memory, SIZE), 0);
	CHECK_EQ(available(NODE - 1), SIZE);
	return 0;
}
