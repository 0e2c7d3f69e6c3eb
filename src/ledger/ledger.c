/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/pages.h"
#include "ledger/ledger.h"
#include "ledger/map.h"
#include "ledger/shared.h"
#include "ledger/shared_file.h"
#include "ledger/slot_priv.h"

/* The part of the file that is allocated at once; rows are allocated with their device. */
#define FIXED_BYTES offsetof(struct ledger_file, rows)

DEFINE_CLEANUP(struct ledger, ledger_close)

static struct ledger_header ledger_expected_header(void)
{
	return (struct ledger_header){
		.magic = LEDGER_MAGIC,
		.version = LEDGER_VERSION,
		.header_bytes = sizeof(struct ledger_header),
		.file_bytes = sizeof(struct ledger_file),
		.nslots = LEDGER_SLOTS,
		.ndevices = LEDGER_DEVICES,
		.nshared = LEDGER_SHARED,
	};
}

int ledger_create(const char *dir)
{
	struct ledger_header header = ledger_expected_header();
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	fd = shared_file_create(dir, LEDGER_FILE);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, sizeof(struct ledger_file)) < 0)
		return err_errno();
	r = map_allocate(fd, 0, FIXED_BYTES);
	if (r < 0)
		return r;
	/* Last, so that an unfinished file has no magic. */
	return fd_pwrite_all(fd, &header, offsetof(struct ledger_header, slot_high), 0);
}

static int ledger_check_header(const struct ledger_header *header)
{
	struct ledger_header expected = ledger_expected_header();

	if (memcmp(header, &expected, offsetof(struct ledger_header, slot_high)) != 0)
		return -EPROTO;
	return 0;
}

static int ledger_read_header(int fd)
{
	struct ledger_header header;
	int r = fd_pread_all(fd, &header, sizeof(header), 0);

	return r < 0 ? r : ledger_check_header(&header);
}

int ledger_check(const char *dir)
{
	CLEANUP_CLOSE int fd = map_open(dir, O_RDONLY);

	return fd < 0 ? fd : ledger_read_header(fd);
}

/* Guests. The pages that are read before any device is known must exist, forged file or not. */
static int ledger_map_shared(struct ledger *ledger, int fd)
{
	int r = ledger_read_header(fd);

	if (r < 0)
		return r;
	r = map_allocate(fd, 0, FIXED_BYTES);
	if (r < 0)
		return r;
	return map_file(ledger, fd);
}

/*
 * Memory of a closed copy, zero again, for the next one: a reader of many tenants would otherwise
 * spend most of its time on pages. Only copies of few processes and devices are kept; others may
 * have megabytes.
 */
#define SPARE_SLOTS   32
#define SPARE_SHARED  32
#define SPARE_DEVICES 16
static _Atomic(struct ledger_file *) spare;

static int ledger_map_private(struct ledger *ledger)
{
	void *map = atomic_exchange(&spare, NULL);

	if (!map)
		map = pages_reserve(sizeof(struct ledger_file));
	if (!map)
		return err_errno();
	ledger->map = map;
	return ledger_refresh(ledger);
}

static int ledger_map_watched(struct ledger *ledger, int fd)
{
	void *map = mmap(NULL, sizeof(struct ledger_file), PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return err_errno();
	ledger->watched = map;
	return madvise(map, sizeof(struct ledger_file), MADV_DONTFORK) < 0 ? err_errno() : 0;
}

/* The name of the machine's memory, which no device has: the letters "the machine's". */
static const uint64_t host_name[2] = {UINT64_C(0x6863616d20656874), UINT64_C(0x2020207327656e69)};

static void ledger_unmap_private(struct ledger *ledger)
{
	struct ledger_file *map = ledger->map, *none = NULL;

	if (ledger->most_slots > SPARE_SLOTS || ledger->most_shared > SPARE_SHARED ||
	    ledger->most_devices > SPARE_DEVICES) {
		munmap(map, sizeof(*map));
		return;
	}
	memset(map, 0, offsetof(struct ledger_file, slots));
	memset(map->slots, 0, ledger->most_slots * sizeof(map->slots[0]));
	memset(map->shared, 0, ledger->most_shared * sizeof(map->shared[0]));
	memset(map->device_time, 0, ledger->most_devices * sizeof(map->device_time[0]));
	for (unsigned int d = 0; d < LEDGER_DEVICES; d++) {
		if (d >= ledger->most_devices && d != LEDGER_HOST)
			continue;
		memset(map->rows[d], 0, ledger->most_slots * sizeof(map->rows[0][0]));
		memset(map->info[d], 0, ledger->most_slots * sizeof(map->info[0][0]));
	}
	if (!atomic_compare_exchange_strong(&spare, &none, map))
		munmap(map, sizeof(*map));
}

static struct ledger *ledger_new(const char *dir, enum ledger_mode mode)
{
	size_t len = strlen(dir) + 1;
	struct ledger *ledger = calloc(1, sizeof(*ledger) + len);

	if (!ledger)
		return NULL;
	memcpy(ledger->dir, dir, len);
	ledger->is_copy = mode != LEDGER_GUEST;
	ledger->slot = (struct slot){ .ledger = ledger, .index = -1 };
	ledger->fd = -EBADF;
	return ledger;
}

int ledger_open_file(int fd, struct ledger **ret)
{
	CLEANUP(cleanup_ledger_close) struct ledger *ledger = ledger_new("", LEDGER_READ);
	int r;

	if (!ledger)
		return -ENOMEM;
	ledger->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = ledger->fd < 0 ? err_errno() : shared_file_check(fd, sizeof(struct ledger_file));
	if (r == 0)
		r = ledger_map_private(ledger);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ledger);
	return 0;
}

int ledger_open(const char *dir, enum ledger_mode mode, struct ledger **ret)
{
	CLEANUP(cleanup_ledger_close) struct ledger *ledger = ledger_new(dir, mode);
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	if (!ledger)
		return -ENOMEM;
	fd = map_open_noted(ledger, mode == LEDGER_GUEST ? O_RDWR : O_RDONLY);
	if (fd < 0)
		return fd;
	if (mode == LEDGER_GUEST) {
		r = ledger_map_shared(ledger, fd);
	} else if (mode == LEDGER_WATCH) {
		r = ledger_map_watched(ledger, fd);
		if (r == 0)
			r = ledger_map_private(ledger);
	} else {
		ledger->fd = TAKE_FD(fd);
		r = ledger_map_private(ledger);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ledger);
	return 0;
}

void ledger_close(struct ledger *ledger)
{
	if (!ledger)
		return;
	if (map_own_slot(ledger) >= 0)
		slot_done(&ledger->slot);
	if (ledger->watched)
		munmap(ledger->watched, sizeof(struct ledger_file));
	if (ledger->map && ledger->is_copy)
		ledger_unmap_private(ledger);
	else if (ledger->map)
		munmap(ledger->map, sizeof(struct ledger_file));
	if (ledger->fd >= 0)
		close(ledger->fd);
	free(ledger);
}

/* Whole pages, those that are zero left out: most of the file is. */
#define COPY_BYTES (64 << 10)

static int ledger_copy(int from, int to)
{
	static const char zero[COPY_BYTES];
	char part[COPY_BYTES];
	int r = ftruncate(to, 0) < 0 || ftruncate(to, sizeof(struct ledger_file)) < 0 ? err_errno()
										       : 0;

	for (size_t at = 0, n; r == 0 && at < sizeof(struct ledger_file); at += n) {
		n = sizeof(struct ledger_file) - at;
		n = n < sizeof(part) ? n : sizeof(part);
		r = fd_pread_all(from, part, n, (off_t)at);
		if (r == 0 && memcmp(part, zero, n) != 0)
			r = fd_pwrite_all(to, part, n, (off_t)at);
	}
	return r;
}

/* Slots that say `from` and, where there is a `locks`, have no process, say `to` instead. */
static int ledger_mark_slots(int fd, int locks, enum slot_state from, enum slot_state to)
{
	for (int i = 0; i < LEDGER_SLOTS; i++) {
		uint64_t at = offsetof(struct ledger_file, slots) +
			      (size_t)i * sizeof(struct ledger_slot);
		uint64_t state;
		int r = fd_pread_all(fd, &state, sizeof(state), at);

		if (r == 0 && (state & 0xff) == from &&
		    (locks < 0 || !shared_file_locked(locks, LEDGER_LOCK_SLOTS + i, 1))) {
			state = (state & ~UINT64_C(0xff)) | to;
			r = fd_pwrite_all(fd, &state, sizeof(state), at);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int ledger_save(const char *dir, int fd)
{
	CLEANUP_CLOSE int from = map_open(dir, O_RDONLY);
	int r = from < 0 ? from : ledger_copy(from, fd);

	/* No process will return to the slots of dead ones. */
	if (r == 0)
		r = ledger_mark_slots(fd, from, SLOT_LIVE, SLOT_SCRUBBING);
	return r < 0 ? r : fsync(fd) < 0 ? err_errno() : 0;
}

static int ledger_age(int fd)
{
	for (int i = 0; i < LEDGER_SHARED; i++) {
		uint64_t at = offsetof(struct ledger_file, shared) +
			      (size_t)i * sizeof(struct ledger_shared);
		struct shared_key key;
		int r = fd_pread_all(fd, &key, sizeof(key), (off_t)at);

		key = shared_aged(key);
		if (r == 0)
			r = fd_pwrite_all(fd, &key, sizeof(key), (off_t)at);
		if (r < 0)
			return r;
	}
	return 0;
}

int ledger_await(const char *dir, int fd, bool aged)
{
	CLEANUP_CLOSE int to = map_open(dir, O_RDWR);
	struct stat st;
	int r;

	if (to < 0)
		return to;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (st.st_size != sizeof(struct ledger_file))
		return -EPROTO;
	r = ledger_read_header(fd);
	if (r == 0)
		r = ledger_copy(fd, to);
	/* Its processes know which rows they had allocated. */
	if (r == 0)
		r = map_allocate(to, 0, sizeof(struct ledger_file));
	if (r == 0 && aged)
		r = ledger_age(to);
	return r < 0 ? r : ledger_mark_slots(to, -1, SLOT_LIVE, SLOT_AWAITED);
}

/* A part of the file, to its place in the copy. */
static int ledger_read_part(struct ledger *ledger, const void *part, size_t bytes)
{
	size_t at = (size_t)((const char *)part - (const char *)ledger->map);

	struct iovec to = {(char *)ledger->map + at, bytes}, from = {NULL, bytes};
	ssize_t n;

	if (!ledger->watched)
		return fd_pread_all(ledger->fd, to.iov_base, bytes, (off_t)at);
	from.iov_base = (char *)ledger->watched + at;
	n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	if (n < 0 && errno != EFAULT)
		return err_errno();
	return n == (ssize_t)bytes ? 0 : -ENODATA;
}

static void ledger_raise(unsigned int *most, unsigned int n)
{
	*most = n > *most ? n : *most;
}

/*
 * Reads the parts of the file that any process was ever in: the whole is 13 MB, and `allot run`
 * reads a tenant before each start. Beyond the marks all stays zero, as the memory was when it was
 * mapped.
 */
static int ledger_read_used(struct ledger *ledger)
{
	struct ledger_file *map = ledger->map;
	unsigned int high = map_slot_high(ledger), shared = map_shared_high(ledger), devices = 0;
	uint64_t ready = 0;
	int r;

	if (ledger->watched)
		high = shared = 0;
	for (unsigned int d = 0; d < LEDGER_DEVICES; d++)
		if (map->devices[d].uuid_hi &&
		    !(d == LEDGER_HOST && map->devices[d].uuid_hi == host_name[1]))
			devices = d + 1;
	ledger_raise(&ledger->most_slots, high);
	ledger_raise(&ledger->most_shared, shared);
	ledger_raise(&ledger->most_devices, devices);
	r = ledger_read_part(ledger, map->slots, high * sizeof(map->slots[0]));
	if (r == 0)
		r = ledger_read_part(ledger, map->shared, shared * sizeof(map->shared[0]));
	if (r == 0)
		r = ledger_read_part(ledger, map->device_time, devices * sizeof(map->device_time[0]));
	for (unsigned int d = 0; r == 0 && d < LEDGER_DEVICES && !ledger->watched; d++) {
		if (!map->devices[d].uuid_hi)
			continue;
		r = ledger_read_part(ledger, map->rows[d], high * sizeof(map->rows[0][0]));
		if (r == 0)
			r = ledger_read_part(ledger, map->info[d], high * sizeof(map->info[0][0]));
		ready |= UINT64_C(1) << d;
	}
	if (r == 0)
		word_release(&ledger->ready, ready);
	return r;
}

int ledger_refresh(struct ledger *ledger)
{
	struct ledger_file *map = ledger->map;
	int r;

	if (!ledger->is_copy)
		return -EINVAL;
	r = ledger_read_part(ledger, map, offsetof(struct ledger_file, slots));
	if (r < 0)
		return r;
	r = ledger_check_header(&map->header);
	return r < 0 ? r : ledger_read_used(ledger);
}

/*
 * The first half of a name is written before the second and read after it: an entry is nobody's as
 * long as it has no second half.
 */
static struct ledger_device *ledger_entry(struct ledger *ledger, int device,
					  uint64_t ret_uuid[static 2])
{
	struct ledger_device *dev;

	if ((unsigned int)device >= LEDGER_DEVICES)
		return NULL;
	dev = &ledger->map->devices[device];
	ret_uuid[1] = word_acquire(&dev->uuid_hi);
	ret_uuid[0] = word_acquire(&dev->uuid_lo);
	return ret_uuid[0] && ret_uuid[1] ? dev : NULL;
}

/* The index of a name, else that of the first entry from `d` on without one. */
static int ledger_find_device(struct ledger *ledger, const uint64_t uuid[static 2], int d)
{
	uint64_t other[2];

	while (ledger_entry(ledger, d, other) && memcmp(other, uuid, sizeof(other)) != 0)
		d++;
	return d;
}

/*
 * By one process at a time, so half a name is that of a process that was killed after it, and is
 * overwritten. All entries before the first without a name have one: a search for all devices of a
 * tenant ends there.
 */
static int ledger_name_device(struct ledger *ledger, int fd, const uint64_t uuid[static 2], int first)
{
	int d, r = shared_file_lock_wait(fd, LEDGER_LOCK_DEVICES, 1);

	if (r < 0)
		return r;
	d = ledger_find_device(ledger, uuid, first);
	if (d < LEDGER_DEVICES && !ledger_knows(ledger, d)) {
		word_release(&ledger->map->devices[d].uuid_lo, uuid[0]);
		FAULT_POINT(DEVICE_HALF_NAMED);
		word_release(&ledger->map->devices[d].uuid_hi, uuid[1]);
		FAULT_POINT(DEVICE_NAMED);
	}
	/* Explicitly, as in quota_unlock. */
	shared_file_unlock(fd, LEDGER_LOCK_DEVICES, 1);
	return d < LEDGER_DEVICES ? d : -ENOSPC;
}

static int ledger_add_device(struct ledger *ledger, const uint64_t uuid[static 2], int first)
{
	CLEANUP_CLOSE int own = -EBADF;
	int fd = map_fd(ledger, &own);

	return fd < 0 ? fd : ledger_name_device(ledger, fd, uuid, first);
}

int ledger_allocate(struct ledger *ledger, int device)
{
	CLEANUP_CLOSE int own = -EBADF;
	int fd;

	if (!ledger_knows(ledger, device))
		return -ENODEV;
	if (map_ready(ledger, device))
		return 0;
	fd = map_fd(ledger, &own);
	return fd < 0 ? fd : map_allocate_rows(ledger, fd, device);
}

/* As ledger_device, in the entries from `first` on. */
static int ledger_device_from(struct ledger *ledger, const uint64_t name[static 2], int first)
{
	int d = ledger_find_device(ledger, name, first), r;

	if (ledger->is_copy)
		return ledger_knows(ledger, d) ? d : -ENODEV;
	if (!ledger_knows(ledger, d))
		d = ledger_add_device(ledger, name, first);
	r = d < 0 ? d : ledger_allocate(ledger, d);
	return r < 0 ? r : d;
}

int ledger_find(struct ledger *ledger, const uint8_t uuid[16])
{
	uint64_t name[2];
	int d, r;

	memcpy(name, uuid, sizeof(name));
	d = ledger_find_device(ledger, name, 0);
	r = ledger_allocate(ledger, d);
	return r < 0 ? r : d;
}

int ledger_device(struct ledger *ledger, const uint8_t uuid[16], uint64_t total_bytes)
{
	uint64_t name[2];
	int d;

	memcpy(name, uuid, sizeof(name));
	if (!name[0] || !name[1])
		return -EINVAL;
	d = ledger_device_from(ledger, name, 0);
	if (d >= 0 && total_bytes && !ledger->is_copy)
		word_write(&ledger->map->devices[d].total_bytes, total_bytes);
	return d;
}

int ledger_host(struct ledger *ledger)
{
	return ledger_device_from(ledger, host_name, LEDGER_HOST);
}

bool ledger_knows(struct ledger *ledger, int device)
{
	uint64_t uuid[2];

	return ledger_entry(ledger, device, uuid);
}

static void ledger_read_info(const struct ledger_device *dev, const uint64_t uuid[static 2],
			     struct ledger_device_info *ret)
{
	memcpy(ret->uuid, uuid, sizeof(ret->uuid));
	ret->total_bytes = word_read(&dev->total_bytes);
	ret->context_bytes = word_read(&dev->context_bytes);
	ret->context_mps_bytes = word_read(&dev->context_mps_bytes);
	ret->refusals = word_read(&dev->refusals);
	ret->peak_bytes = word_read(&dev->peak_bytes);
}

static bool ledger_is_host(const uint64_t uuid[static 2])
{
	return !memcmp(uuid, host_name, sizeof(host_name));
}

int ledger_device_info(struct ledger *ledger, int device, struct ledger_device_info *ret)
{
	struct ledger_device *dev;
	uint64_t uuid[2];

	dev = ledger_entry(ledger, device, uuid);
	if (!dev || ledger_is_host(uuid))
		return -ENODEV;
	ledger_read_info(dev, uuid, ret);
	return 0;
}

int ledger_host_info(struct ledger *ledger, struct ledger_device_info *ret)
{
	struct ledger_device *dev;
	uint64_t uuid[2];

	dev = ledger_entry(ledger, LEDGER_HOST, uuid);
	if (!dev || !ledger_is_host(uuid))
		return -ENODEV;
	ledger_read_info(dev, uuid, ret);
	return LEDGER_HOST;
}

void ledger_learn_context(struct ledger *ledger, int device, bool mps, uint64_t bytes)
{
	struct ledger_device *dev;

	if ((unsigned int)device >= LEDGER_DEVICES || bytes >= QUOTA_ABSURD_BYTES)
		return;
	dev = &ledger->map->devices[device];
	word_write(mps ? &dev->context_mps_bytes : &dev->context_bytes, bytes);
}

int ledger_look(struct ledger *ledger)
{
	return ledger->watched ? ledger_refresh(ledger) : 0;
}

uint32_t *ledger_bell(struct ledger *ledger)
{
	return &(ledger->watched ? ledger->watched : ledger->map)->header.bell;
}

uint32_t ledger_rung(struct ledger *ledger)
{
	return word_check(&ledger->map->header.bell);
}
