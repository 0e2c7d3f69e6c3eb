/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory in two processes: a descriptor goes over a socket, and both see what the other
 * writes. `test_sim_peer_share amd|nvidia`, by `allot sim` with two devices of 64 MiB or more; with
 * `without` behind it where the driver cannot export.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/message.h"
#include "tests/sim/peer_program.h"

#define MIB  (UINT64_C(1) << 20)
#define SIZE (32 * MIB)

static enum allot_peer_vendor vendor;

static uint64_t alloc(uint32_t device, enum allot_peer_kind kind, uint64_t bytes)
{
	struct allot_peer_request what = {
		.kind = kind, .device = device, .bytes = bytes, .flags = ALLOT_PEER_HOST};
	uint64_t address = 0;

	CHECK_EQ(allot_peer_alloc(peer, &what, &address), 0);
	return address;
}

/* At that address, or anywhere; 0 or -errno. */
static int import(int fd, uint32_t device, uint64_t bytes, uint64_t address, uint64_t *ret_address)
{
	struct allot_peer_request as = {
		.device = device, .bytes = bytes, .address = address, .flags = ALLOT_PEER_HOST};

	return allot_peer_import(peer, fd, &as, ret_address);
}

static void put(uint64_t address, const char *text)
{
	CHECK_EQ(allot_peer_write(peer, address, text, strlen(text) + 1), 0);
}

static bool has(uint64_t address, const char *text)
{
	char found[32] = "";

	CHECK_EQ(allot_peer_read(peer, address, found, strlen(text) + 1), 0);
	return !strcmp(found, text);
}

static void destroy(uint64_t address)
{
	CHECK_EQ(allot_peer_unmap(peer, address, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, address), 0);
}

static void send_to(int to, uint64_t word, int fd)
{
	CHECK_EQ(message_send(to, &word, sizeof(word), fd), sizeof(word));
}

static uint64_t receive(int from, int *ret_fd)
{
	uint64_t word = 0;
	int fd;

	CHECK_EQ(message_receive(from, &word, sizeof(word), &fd), sizeof(word));
	CHECK_EQ(fd >= 0, ret_fd != NULL);
	if (ret_fd)
		*ret_fd = fd;
	return word;
}

/* It has the memory at the exporter's address, and keeps it when the exporter is gone. */
static void run_importer(int from)
{
	uint64_t address, inode, at = 0, reachable;
	struct allot_peer_object object;
	int fd;

	CHECK_EQ(allot_peer_open(vendor, &peer), 0);
	address = receive(from, &fd);
	inode = receive(from, NULL);
	CHECK_EQ(import(fd, 1, SIZE, address, &at), 0);
	CHECK_EQ(at, address);
	CHECK_EQ(import(fd, 1, SIZE, address, &at), -EEXIST);
	CHECK(strstr(allot_peer_error(), "import: "));
	object = find(at);
	CHECK(object.imported && object.device == 1 && object.bytes == SIZE);
	CHECK_EQ(object.charged_bytes, 0);
	CHECK_EQ(object.inode, inode);
	CHECK(has(at + 5 * MIB, "exporter"));
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_reachable(peer, 1, &reachable), 0);
	CHECK_EQ(find(at).devices, reachable);
	put(at + 7 * MIB, "importer");
	send_to(from, 1, -1);

	receive(from, NULL); /* the exporter has freed it */
	CHECK(has(at + 5 * MIB, "exporter"));
	put(at + 5 * MIB, "afterwards");
	CHECK_EQ(import(fd, 1, SIZE, 0, &address), 0);
	CHECK(has(address + 5 * MIB, "afterwards"));
	CHECK_EQ(find(address).inode, inode);
	CHECK_EQ(close(fd), 0);
	destroy(address);
	CHECK(has(at + 5 * MIB, "afterwards"));
	destroy(at);
	allot_peer_close(peer);
}

static void run_exporter(int to, pid_t child)
{
	uint64_t address = alloc(1, ALLOT_PEER_MEMORY, SIZE), offset = 7;
	struct stat st;
	int fd = -1, status;

	CHECK_EQ(find(address).inode, 0);
	put(address + 5 * MIB, "exporter");
	CHECK_EQ(allot_peer_export(peer, address + SIZE - MIB, MIB + 1, &fd, &offset), -ERANGE);
	CHECK_EQ(allot_peer_export(peer, 64, 1, &fd, &offset), -ENOENT);
	CHECK(fd == -1 && offset == 7);
	CHECK_EQ(allot_peer_export(peer, address + SIZE - MIB, MIB, &fd, &offset), 0);
	CHECK_EQ(offset, SIZE - MIB);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(find(address).inode, st.st_ino);
	CHECK_EQ(find(address).charged_bytes, SIZE);
	send_to(to, address, fd);
	send_to(to, st.st_ino, -1);
	CHECK_EQ(close(fd), 0);
	receive(to, NULL);
	CHECK(has(address + 7 * MIB, "importer"));
	destroy(address);
	send_to(to, 1, -1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

/* What has no address gets one by being imported. */
static void test_handle(void)
{
	uint64_t name = alloc(0, ALLOT_PEER_HANDLE, 4 * MIB), at, again, offset;
	int fd;

	CHECK_EQ(allot_peer_export(peer, name, 4 * MIB, &fd, &offset), 0);
	CHECK_EQ(import(fd, 0, 4 * MIB, 0, &at), 0);
	CHECK_EQ(import(fd, 0, 4 * MIB, 0, &again), 0);
	CHECK_EQ(close(fd), 0);
	CHECK(at != again && find(at).inode && find(at).inode == find(again).inode);
	CHECK_EQ(find(at).inode, find(name).inode);
	CHECK_EQ(find(name).charged_bytes, 4 * MIB);
	put(at + MIB, "by a handle");
	CHECK(has(again + MIB, "by a handle"));
	CHECK_EQ(allot_peer_free(peer, name), 0);
	CHECK(has(again + MIB, "by a handle"));
	destroy(at);
	destroy(again);

	/* Nobody's CPU may look at what was not made for it. */
	if (vendor == ALLOT_PEER_AMD) {
		struct allot_peer_request what = {.kind = ALLOT_PEER_HANDLE, .bytes = 4 * MIB};

		CHECK_EQ(allot_peer_alloc(peer, &what, &name), 0);
		CHECK_EQ(allot_peer_export(peer, name, 1, &fd, &offset), 0);
		CHECK_EQ(import(fd, 0, 4 * MIB, 0, &at), 0);
		CHECK_EQ(close(fd), 0);
		CHECK_EQ(allot_peer_write(peer, at, "", 1), -EACCES);
		destroy(at);
		destroy(name);
	}
}

static void test_wrong(void)
{
	struct allot_peer_request as = {.bytes = 4 * MIB, .flags = 1u << 31};
	int ends[2], fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	uint64_t at = 5;

	CHECK_EQ(pipe(ends), 0);
	CHECK(import(fd, 0, 4 * MIB, 0, &at) < 0);
	CHECK(import(ends[0], 0, 4 * MIB, 0, &at) < 0);
	CHECK(import(-1, 0, 4 * MIB, 0, &at) < 0);
	CHECK(strstr(allot_peer_error(), "import"));
	if (vendor == ALLOT_PEER_NVIDIA) { /* the other driver tells which it has */
		CHECK_EQ(allot_peer_import(peer, fd, &as, &at), -EINVAL);
		CHECK(strstr(allot_peer_error(), "no such flags: 0x80000000"));
	}
	CHECK_EQ(at, 5);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

static void test_without(void)
{
	uint64_t address, offset;
	int fd;

	CHECK_EQ(allot_peer_open(vendor, &peer), 0);
	address = alloc(0, ALLOT_PEER_MEMORY, 2 * MIB);
	CHECK_EQ(allot_peer_export(peer, address, MIB, &fd, &offset), -ENOTSUP);
	CHECK(strstr(allot_peer_error(), "1.12"));
	CHECK_EQ(find(address).inode, 0);
	allot_peer_close(peer);
}

int main(int argc, char **argv)
{
	int ends[2];
	pid_t child;

	CHECK(argc > 1);
	vendor = strcmp(argv[1], "nvidia") ? ALLOT_PEER_AMD : ALLOT_PEER_NVIDIA;
	if (argc > 2) {
		test_without();
		return 0;
	}
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(ends[0]); /* so that it ends when the other does */
		run_importer(ends[1]);
		return 0;
	}
	close(ends[1]);
	CHECK_EQ(allot_peer_open(vendor, &peer), 0);
	run_exporter(ends[0], child);
	test_handle();
	test_wrong();
	allot_peer_close(peer);
	return 0;
}
