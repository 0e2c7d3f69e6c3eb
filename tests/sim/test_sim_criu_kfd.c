/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that share buffers of /dev/kfd, each with some of the other's, are saved, and come
 * back on a machine where the GPUs have changed places:
 *
 *     test_sim_criu_kfd ALLOT LINKS OTHER_LINKS
 *
 * runs itself in both machines, the first time to save and the second to restore. What is shared is
 * shared again, what is not is not, though the numbers of handles are the same in both; content
 * stands in the image once; everything is where it was, holes among the handles included.
 */
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "amd/topology_read.h"
#include "criu/kfd/kfd_content.h"
#include "criu/kfd/kfd_dump.h"
#include "criu/kfd/kfd_restore.h"
#include "criu/kfd/match.h"
#include "image/object_reader.h"
#include "tests/sim/kfd_criu.h"

#define PROCESSES 2
#define BYTES	  (2 * MIB)
#define FLAGS	  (VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)

/* Addresses of GPUs; the other process's buffer is at the same one as there. */
#define PRIVATE_AT    (UINT64_C(1) << 33)
#define SHARED_AT(of) ((UINT64_C(4) + (of)) << 33)
#define SMALL_AT(i)   ((UINT64_C(16) << 33) + (i)*MIB)

/* The offsets of the render node at which a process has its buffers, which a restore changes. */
struct places {
	uint64_t private, own, others;
	uint32_t first_gpu_id, zero;
};

static char why[KFD_WHY_BYTES];

static void must(int r)
{
	if (r < 0)
		fprintf(stderr, "%d: %s\n", r, why);
	CHECK_EQ(r, 0);
}

static char *map_at(int fd, uint64_t offset)
{
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	CHECK(at != MAP_FAILED);
	return at;
}

/* --- The first machine -------------------------------------------------------------------------
 */

/* Handles 0 to n - 1 are taken, and every other one of them is free again. */
static void make_holes(uint32_t n)
{
	uint64_t handle;

	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(alloc_at(0, SMALL_AT(i), 4096, FLAGS, &handle, NULL), 0);
		CHECK_EQ((uint32_t)handle, i);
	}
}

static void free_holes(uint32_t n)
{
	for (uint32_t i = 1; i < n; i += 2)
		CHECK_EQ(free_memory((uint64_t)ids[0] << 32 | i), 0);
}

/* A buffer with something in it, on the first GPU and, so far as they are joined, the second. */
static uint64_t make_buffer(uint64_t at, const char *text, int number, uint64_t *ret_offset)
{
	uint64_t handle;
	uint32_t done = 0;
	char *here;

	*ret_offset = 0;
	CHECK_EQ(alloc_at(0, at, BYTES, FLAGS, &handle, ret_offset), 0);
	CHECK_EQ(map(handle, ids, 2, &done), 0);
	here = map_at(render[0], *ret_offset);
	snprintf(here + BYTES / 2, 64, "%s of %d", text, number);
	munmap(here, BYTES);
	return handle;
}

/* Has a private buffer and a shared one, and takes the other's; handles differ by `holes`. */
static void run_process(int socket, int number)
{
	struct kfd_ioctl_export_dmabuf_args export = {.flags = O_CLOEXEC};
	struct kfd_ioctl_import_dmabuf_args import = {.va_addr = SHARED_AT(!number)};
	uint32_t holes = number ? 5 : 2, done = 0;
	struct places places = {0};
	int dmabuf, unused;

	open_devices();
	acquire_devices();
	make_holes(holes);
	make_buffer(PRIVATE_AT, "private", number, &places.private);
	export.handle = make_buffer(SHARED_AT(number), "shared", number, &places.own);
	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, export), &export), 0);
	message_send(socket, &kfd, sizeof(kfd), (int)export.dmabuf_fd);
	message_receive(socket, &unused, sizeof(unused), &dmabuf);
	import.gpu_id = ids[0];
	import.dmabuf_fd = (uint32_t)dmabuf;
	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, import), &import), 0);
	CHECK_EQ(map(import.handle, ids, 1, &done), 0);
	places.others = ((import.handle & UINT32_MAX) + 1) << 40; /* as the emulator has it */
	places.first_gpu_id = ids[0];
	free_holes(holes);
	message_send(socket, &places, sizeof(places), -1);
	pause();
}

static void run_first(int socket)
{
	run_process(socket, 0);
}

static void run_second(int socket)
{
	run_process(socket, 1);
}

static struct topology *topology(void)
{
	struct topology_complaint complaint;
	struct topology *t;

	CHECK_EQ(topology_read(NULL, &t, &complaint), 0);
	return t;
}

static int open_dir(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(dir >= 0);
	return dir;
}

static void save_all(const char *path, const int files[PROCESSES])
{
	struct topology *t = topology();
	struct kfd_dump *dump;
	int dir = open_dir(path);

	CHECK_EQ(kfd_dump_open(&kfd_calls, t, &dump), 0);
	for (int i = 0; i < PROCESSES; i++)
		must(kfd_dump_add(dump, files[i], 100 + (uint32_t)i, why));
	must(kfd_dump_write(dump, dir, 0, why));
	kfd_dump_close(dump);
	topology_free(t);
	close(dir);
}

static void put_places(const char *path, const struct places places[PROCESSES])
{
	int dir = open_dir(path);

	must(contents_put_file(dir, "places", places, PROCESSES * sizeof(*places)));
	close(dir);
}

static void save(const char *path)
{
	void (*const run[PROCESSES])(int) = {run_first, run_second};
	int sockets[PROCESSES], files[PROCESSES], theirs[PROCESSES], dmabuf[PROCESSES], unused;
	struct places places[PROCESSES];
	pid_t pids[PROCESSES];

	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = start(run[i], &sockets[i]);
		message_receive(sockets[i], &theirs[i], sizeof(theirs[i]), &dmabuf[i]);
	}
	for (int i = 0; i < PROCESSES; i++) {
		message_send(sockets[i], &theirs[i], sizeof(theirs[i]), dmabuf[!i]);
		message_receive(sockets[i], &places[i], sizeof(places[i]), &unused);
		files[i] = take_descriptor(pids[i], theirs[i]);
	}
	open_devices();
	for (int i = 0; i < PROCESSES; i++) {
		seize(pids[i]);
		stop(pids[i]);
	}
	save_all(path, files);
	put_places(path, places);
	for (int i = 0; i < PROCESSES; i++)
		end(pids[i], SIGKILL);
}

/* --- The image ---------------------------------------------------------------------------------
 */

/* Counts objects and bytes of content in the file of a process's buffers. */
static void count_content(int dir, uint32_t process, uint32_t *objects, uint64_t *bytes)
{
	struct object_limits limits = {.ndevices = GPUS, .nprocesses = PROCESSES};
	struct object_reader *reader;
	struct object_extent extent;
	struct object object;
	struct damage damage;
	char name[64];
	int fd, r;

	snprintf(name, sizeof(name), KFD_IMAGE_OBJECTS, process);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(object_reader_open(fd, &limits, &reader, &damage), 0);
	while ((r = object_reader_next(reader, &object, &damage)) > 0) {
		++*objects;
		while ((r = object_reader_content(reader, &extent, &damage)) > 0)
			*bytes += extent.bytes;
	}
	CHECK_EQ(r, 0);
	object_reader_close(reader);
	close(fd);
}

/* Two private buffers, two shared ones, and what was made among the holes: each once. */
static void test_once(const char *path)
{
	uint32_t objects = 0;
	uint64_t bytes = 0;
	int dir = open_dir(path);

	for (uint32_t i = 0; i < PROCESSES; i++)
		count_content(dir, i, &objects, &bytes);
	CHECK_EQ(objects, 2 + 2 + 1 + 3);
	CHECK_EQ(bytes, 4 * 4096); /* what is zero takes no room */
	close(dir);
}

/* --- The second machine ------------------------------------------------------------------------
 */

/* What processes say to the one that restores, which keeps their descriptors for each other. */
struct message {
	enum { PUBLISH, TAKE, DONE } what;
	uint32_t buffer;
	int answer;
};

static int say_publish(void *arg, uint32_t buffer, int dmabuf)
{
	struct message m = {.what = PUBLISH, .buffer = buffer};

	CHECK(message_send(*(int *)arg, &m, sizeof(m), dmabuf) > 0);
	return 0;
}

static int say_take(void *arg, uint32_t buffer)
{
	struct message m = {.what = TAKE, .buffer = buffer};
	int fd;

	CHECK(message_send(*(int *)arg, &m, sizeof(m), -1) > 0);
	CHECK(message_receive(*(int *)arg, &m, sizeof(m), &fd) > 0);
	return m.answer < 0 ? m.answer : fd;
}

static struct kfd_restore *restore;
static int images; /* their directory */
static struct places was[PROCESSES];

/* Each sees what it had, at its new offset. */
static char *find_at(struct kfd_restored *restored, uint64_t offset, const char *text, int of)
{
	char expected[64], *at;
	uint64_t now;
	uint32_t file;

	CHECK_EQ(kfd_restored_offset(restored, 129, offset, &now, &file), 0);
	at = map_at(kfd_restored_files(restored)[file], now);
	snprintf(expected, sizeof(expected), "%s of %d", text, of);
	if (strcmp(at + BYTES / 2, expected))
		fprintf(stderr, "\"%.64s\" is not \"%s\"\n", at + BYTES / 2, expected);
	CHECK(!strcmp(at + BYTES / 2, expected));
	return at;
}

static void come_back(int socket, int number)
{
	struct kfd_exchange exchange = {say_publish, say_take, NULL, &socket};
	struct message done = {.what = DONE};
	struct kfd_restored *restored;
	volatile char *own, *others;
	uint32_t process;
	uint64_t handle;
	int r;

	if (!number) /* the second one comes first, too early for what it wants */
		hear(socket);
	CHECK_EQ(kfd_restore_find(restore, 100 + (uint32_t)number, &process), 0);
	must(kfd_restored_open(restore, process, images, &exchange, &restored, why));
	while ((r = kfd_restored_import(restored, &exchange, why)) == -EAGAIN)
		usleep(1000);
	must(r);
	find_at(restored, was[number].private, "private", number);
	own = find_at(restored, was[number].own, "shared", number);
	others = find_at(restored, was[number].others, "shared", !number);
	own[0] = (char)('A' + number);
	CHECK(message_send(socket, &done, sizeof(done), -1) > 0);
	hear(socket);
	CHECK_EQ(others[0], 'A' + !number);
	kfd = kfd_restored_files(restored)[0];
	kfd_restored_close(restored);
	ids[0] = was[number].first_gpu_id; /* whatever it is called here */
	/* The holes are holes again: the lowest handle that is free is the first of them. */
	CHECK_EQ(alloc_at(0, SMALL_AT(1), 4096, FLAGS, &handle, NULL), 0);
	CHECK_EQ((uint32_t)handle, 1);
	say(socket);
}

static void come_back_first(int socket)
{
	come_back(socket, 0);
}

static void come_back_second(int socket)
{
	come_back(socket, 1);
}

/* Until both are done: keeps what is published, gives what is there. */
static void serve(int sockets[PROCESSES])
{
	int published[64], done = 0, asked = 0;

	for (int i = 0; i < 64; i++)
		published[i] = -EAGAIN;
	while (done < PROCESSES) {
		struct pollfd ready[PROCESSES] = {{.fd = sockets[0], .events = POLLIN},
						  {.fd = sockets[1], .events = POLLIN}};
		struct message m;
		int fd;

		CHECK(poll(ready, PROCESSES, -1) > 0);
		for (int i = 0; i < PROCESSES; i++) {
			if (!(ready[i].revents & (POLLIN | POLLHUP)))
				continue;
			CHECK(message_receive(sockets[i], &m, sizeof(m), &fd) == sizeof(m));
			done += m.what == DONE;
			if (m.what == PUBLISH)
				published[m.buffer] = fd;
			if (m.what != TAKE)
				continue;
			m.answer = published[m.buffer] < 0 ? -EAGAIN : 0;
			CHECK(message_send(sockets[i], &m, sizeof(m),
					   m.answer < 0 ? -1 : published[m.buffer]) > 0);
			if (asked++ == 3) /* the second has come back in vain by now */
				say(sockets[0]);
		}
	}
}

static void resume(const pid_t pids[PROCESSES])
{
	for (int i = 0; i < PROCESSES; i++)
		must(kfd_restore_resume(&kfd_calls, kfd, pids[i], why));
}

static void come_back_all(const char *path, unsigned int relax)
{
	struct topology *t = topology();
	int sockets[PROCESSES], dir = open_dir(path);
	pid_t pids[PROCESSES];
	size_t len;
	void *places;

	must(contents_get_file(dir, "places", sizeof(was), &places, &len));
	memcpy(was, places, sizeof(was));
	free(places);
	images = dir;
	must(kfd_restore_open(&kfd_calls, t, dir, relax, &restore, why));
	pids[0] = start(come_back_first, &sockets[0]);
	pids[1] = start(come_back_second, &sockets[1]);
	open_devices();
	serve(sockets);
	resume(pids);
	for (int i = 0; i < PROCESSES; i++)
		say(sockets[i]);
	for (int i = 0; i < PROCESSES; i++)
		hear(sockets[i]);
	for (int i = 0; i < PROCESSES; i++)
		end(pids[i], 0);
	kfd_restore_close(restore);
	topology_free(t);
	close(dir);
}

static int drop(void *arg, uint32_t buffer, int dmabuf)
{
	return 0;
}

static int take_null(void *arg, uint32_t buffer)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* GPUs have less memory here, which is refused unless somebody says that it will do. */
static void come_back_smaller(const char *path)
{
	struct topology *t = topology();
	int dir = open_dir(path);

	CHECK_EQ(kfd_restore_open(&kfd_calls, t, dir, 0, &restore, why), -ENODEV);
	CHECK(strstr(why, "vram_bytes was 67108864 there, and is 33554432"));
	topology_free(t);
	close(dir);
	come_back_all(path, MATCH_SMALLER_MEMORY);
}

/* What the kernel refuses the process is told, and does not go without. */
static void come_back_refused(const char *path)
{
	struct topology *t = topology();
	struct kfd_exchange exchange = {drop, take_null, NULL, NULL};
	struct kfd_restored *restored;
	int dir = open_dir(path);

	must(kfd_restore_open(&kfd_calls, t, dir, 0, &restore, why));
	must(kfd_restored_open(restore, 1, dir, &exchange, &restored, why));
	CHECK_EQ(kfd_restored_import(restored, &exchange, why), -EINVAL); /* it is no dma-buf */
	CHECK(strstr(why, "is not imported"));
	close(kfd_restored_files(restored)[0]);
	kfd_restored_close(restored);
	kfd_restore_close(restore);
	topology_free(t);
	close(dir);
}

/* --- Both --------------------------------------------------------------------------------------
 */

static void remove_all(const char *path)
{
	const char *names[] = {KFD_IMAGE_FILE, "allot-kfd-objects.0", "allot-kfd-objects.1",
			       "places"};
	int dir = open_dir(path);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_EQ(unlinkat(dir, names[i], 0), 0);
	close(dir);
	CHECK_EQ(rmdir(path), 0);
}

int main(int argc, char *argv[])
{
	char path[] = "/tmp/allot-criu-kfd-XXXXXX";

	if (argc == 3 && !strcmp(argv[1], "save")) {
		save(argv[2]);
		test_once(argv[2]);
		return 0;
	}
	if (argc == 3) {
		if (!strcmp(argv[1], "restore"))
			come_back_all(argv[2], 0);
		else if (!strcmp(argv[1], "smaller"))
			come_back_smaller(argv[2]);
		else
			come_back_refused(argv[2]);
		return 0;
	}
	CHECK(argc == 4 && mkdtemp(path));
	run_in_machine(argv, argv[2], "64MiB", "save", path, NULL);
	run_in_machine(argv, argv[2], "64MiB", "restore", path, NULL);
	run_in_machine(argv, argv[3], "64MiB", "restore", path, NULL);
	run_in_machine(argv, argv[2], "32MiB", "smaller", path, NULL);
	run_in_machine(argv, argv[2], "64MiB", "refused", path, NULL);
	remove_all(path);
	return 0;
}
