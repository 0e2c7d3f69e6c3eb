/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/word.h"
#include "ledger/policy.h"
#include "ledger/policy_file.h"
#include "ledger/shared_file.h"
#include "sched/controller.h"

/* Where the writers' lock lies: beyond the end. */
#define LOCK_WRITER (INT64_C(1) << 40)

/* A reader needs a second try only while a writer flips twice during one copy. */
#define READ_TRIES 64

DEFINE_CLEANUP(struct policy_map, policy_close)

/*
 * Over words: finds damage, not malice. Without the directory, which libraries from before do not know,
 * and which never changes.
 */
static uint64_t policy_checksum(uint64_t generation, const struct policy *policy)
{
	uint64_t hash = hash_word(HASH_SEED, generation), word;
	const char *at = (const char *)policy;

	_Static_assert(sizeof(*policy) % sizeof(word) == 0, "whole words");
	for (size_t i = 0; i < offsetof(struct policy, swap_dir); i += sizeof(word)) {
		memcpy(&word, at + i, sizeof(word));
		hash = hash_word(hash, word);
		hash ^= hash >> 29;
	}
	return hash;
}

static bool policy_compute_ok(const struct policy *policy)
{
	return policy->compute < POLICY_COMPUTES && policy->mode < POLICY_MODES &&
	       policy->controller < CONTROLLERS && policy->priority < POLICY_PRIORITIES &&
	       policy->weight <= POLICY_WEIGHT_MAX &&
	       (!policy->latency_us || (policy->latency_us >= POLICY_LATENCY_LEAST_US &&
					policy->latency_us <= POLICY_LATENCY_MOST_US)) &&
	       (policy->floor_permille <= POLICY_FLOOR_MOST ||
		policy->floor_permille == POLICY_FLOOR_NONE);
}

/* A path from the root, and of a tenant that has something to go there. */
static bool policy_swap_dir_ok(const struct policy *policy)
{
	if (!*policy->swap_dir)
		return true;
	return *policy->swap_dir == '/' && (policy->flags & POLICY_SWAPPABLE) &&
	       memchr(policy->swap_dir, '\0', sizeof(policy->swap_dir));
}

/* Only the first of two entries would count; all zero stands for any device. */
static bool policy_is_repeated(const struct policy *policy, uint32_t i)
{
	static const uint8_t any[16];

	return memcmp(policy->device[i].uuid, any, sizeof(any)) &&
	       policy_find(policy, policy->device[i].uuid) != &policy->device[i];
}

const char *policy_look(const struct policy *policy)
{
	if (policy->flags & POLICY_LOOK_OFF)
		return "off";
	return policy->flags & POLICY_LOOK_BYTES ? "bytes" : "hash";
}

int policy_check(const struct policy *policy)
{
	if (policy->ndevices < 1 || policy->ndevices > POLICY_DEVICES)
		return -EINVAL;
	if (policy->flags & ~(uint32_t)POLICY_FLAGS_KNOWN || policy->meter > 1 ||
	    policy->trace > 1)
		return -EINVAL;
	if (!policy_compute_ok(policy))
		return -EINVAL;
	if ((policy->flags & POLICY_OVERCOMMIT) && !(policy->flags & POLICY_SWAPPABLE))
		return -EINVAL;
	if ((policy->flags & POLICY_LOOKS) &&
	    (!(policy->flags & POLICY_SWAPPABLE) || (policy->flags & POLICY_LOOKS) == POLICY_LOOKS))
		return -EINVAL;
	if (policy->idle_s && !(policy->flags & POLICY_OVERCOMMIT)) /* nobody would bring it back */
		return -EINVAL;
	if (!memchr(policy->name, '\0', sizeof(policy->name)) || !policy_swap_dir_ok(policy))
		return -EINVAL;
	for (uint32_t i = 0; i < policy->ndevices; i++) {
		const struct policy_device *dev = &policy->device[i];

		if (!dev->limit_bytes == !dev->limit_permille)
			return -EINVAL;
		if (dev->limit_bytes > SIZE_MAX_BYTES || dev->limit_permille > 1000 ||
		    dev->share_permille > 1000 || policy_is_repeated(policy, i))
			return -EINVAL;
	}
	return 0;
}

uint32_t policy_floor(const struct policy *policy)
{
	if (policy->floor_permille == POLICY_FLOOR_NONE)
		return 0;
	return policy->floor_permille ? policy->floor_permille : POLICY_FLOOR_PERMILLE;
}

bool policy_limits_compute(const struct policy *policy)
{
	bool limited = policy->weight || policy->priority;

	for (uint32_t i = 0; i < policy->ndevices; i++) {
		uint32_t share = policy->device[i].share_permille;

		limited |= share && share < 1000;
	}
	return policy->compute == POLICY_COMPUTE_SHARE ||
	       (policy->compute == POLICY_COMPUTE_CAP && limited);
}

bool policy_meters(const struct policy *policy)
{
	return policy->meter || policy_limits_compute(policy);
}

static uint32_t policy_gate_bits(const struct policy *policy)
{
	return (policy_meters(policy) ? POLICY_GATE_METERED : 0u) |
	       (policy->flags & POLICY_SWAPPABLE ? POLICY_GATE_SWAPPABLE : 0u);
}

/*
 * Overwrites what the caller wrote there, which may be a user's word. `was` NULL: the policy is a
 * new one. The entry for all devices stays the first.
 */
static void policy_note_before(const struct policy *was, struct policy *policy)
{
	for (uint32_t i = 0; i < policy->ndevices; i++) {
		struct policy_device *dev = &policy->device[i];
		const struct policy_device *old = NULL;

		if (was)
			old = !i && policy->flags & POLICY_ALL_DEVICES ? was->device
								       : policy_find(was, dev->uuid);
		dev->before_bytes = old ? max_u64(old->before_bytes, old->limit_bytes) : 0;
		dev->before_permille =
			old ? (uint32_t)max_u64(old->before_permille, old->limit_permille) : 0;
	}
}

int policy_create(const char *dir, const struct policy *policy)
{
	CLEANUP_FREE struct policy_file *file = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	r = policy_check(policy);
	if (r < 0)
		return r;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->version = POLICY_VERSION;
	file->file_bytes = sizeof(*file);
	file->generation = 2; /* even: copy 0 */
	file->gate = policy_gate_bits(policy);
	file->copy[0].generation = file->generation;
	file->copy[0].policy = *policy;
	policy_note_before(NULL, &file->copy[0].policy);
	file->copy[0].checksum = policy_checksum(file->generation, &file->copy[0].policy);
	fd = shared_file_create(dir, POLICY_FILE);
	if (fd < 0)
		return fd;
	r = fd_pwrite_all(fd, file, sizeof(*file), 0);
	if (r < 0)
		return r;
	/* Last, so that an unfinished file has no magic. */
	file->magic = POLICY_MAGIC;
	r = fd_pwrite_all(fd, &file->magic, sizeof(file->magic), 0);
	policy_file_guard(fd);
	return r;
}

/*
 * Word by word and in order (releases and acquires), because a writer may be at work meanwhile. A
 * writer fills the copy that file->generation does not name. So a reader that got a word of a newer
 * content here also sees that file->generation has changed: it tries again, and does not call the
 * file damaged.
 */
static void policy_copy_in(struct policy *to, const struct policy *from)
{
	uint64_t word;

	for (size_t i = 0; i < sizeof(*to); i += sizeof(word)) {
		word = word_acquire((const uint64_t *)((const char *)from + i));
		memcpy((char *)to + i, &word, sizeof(word));
	}
}

static void policy_copy_out(struct policy *to, const struct policy *from, size_t begin, size_t end)
{
	uint64_t word;

	for (size_t i = begin; i < end; i += sizeof(word)) {
		memcpy(&word, (const char *)from + i, sizeof(word));
		word_release((uint64_t *)((char *)to + i), word);
	}
}

static int policy_read_file(const struct policy_file *file, struct policy *ret)
{
	struct policy policy;

	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t generation = word_acquire(&file->generation);
		const struct policy_copy *copy = &file->copy[generation & 1];
		uint64_t own = word_acquire(&copy->generation);
		uint64_t sum = word_acquire(&copy->checksum);

		policy_copy_in(&policy, &copy->policy);
		if (own == generation && sum == policy_checksum(generation, &policy)) {
			if (policy_check(&policy) < 0)
				return -EBADMSG;
			*ret = policy;
			return 0;
		}
		if (word_acquire(&file->generation) == generation)
			return -EBADMSG;
	}
	return -EAGAIN;
}

int policy_open(const char *dir, struct policy_map **ret)
{
	CLEANUP(cleanup_policy_close) struct policy_map *map = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct policy policy;
	struct stat st;
	int r;

	map = calloc(1, sizeof(*map));
	if (!map)
		return -ENOMEM;
	fd = shared_file_open(dir, POLICY_FILE, O_RDONLY, sizeof(struct policy_file));
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	map->dev = st.st_dev;
	map->ino = st.st_ino;
	r = policy_file_map(fd, PROT_READ, &map->file);
	if (r < 0)
		return r;
	r = policy_read_file(map->file, &policy);
	if (r < 0 && r != -EAGAIN)
		return -EPROTO;
	*ret = TAKE_PTR(map);
	return 0;
}

bool policy_is_of(const struct policy_map *map, const char *dir)
{
	CLEANUP_CLOSE int fd = shared_file_open(dir, POLICY_FILE, O_RDONLY,
						sizeof(struct policy_file));
	struct stat st;

	if (fd == -EMFILE || fd == -ENFILE)
		return true;
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == map->dev && st.st_ino == map->ino;
}

uint64_t policy_key(const struct policy_map *map)
{
	uint64_t key = hash_word(hash_word(HASH_SEED, map->dev), map->ino);

	return key ? key : 1;
}

void policy_close(struct policy_map *map)
{
	if (!map)
		return;
	policy_file_unmap(&map->file);
	free(map);
}

int policy_read(struct policy_map *map, struct policy *ret)
{
	return policy_read_file(map->file, ret);
}

int policy_load_file(int fd, struct policy *ret, struct policy_told *ret_told)
{
	CLEANUP_FREE struct policy_file *file = NULL;
	int r = shared_file_check(fd, sizeof(*file));

	if (r < 0)
		return r;
	file = malloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	r = -EAGAIN;
	/* A flip in the middle of a read looks like damage once, not every time. */
	for (int i = 0; i < READ_TRIES && r < 0; i++) {
		if (fd_pread_all(fd, file, sizeof(*file), 0) < 0 || !policy_file_ok(file))
			return -EPROTO;
		r = policy_read_file(file, ret);
	}
	if (r < 0)
		return -EPROTO;
	*ret_told = (struct policy_told){file->turn, file->waits, file->swap};
	return 0;
}

int policy_load_all(const char *dir, struct policy *ret, struct policy_told *ret_told)
{
	CLEANUP_CLOSE int fd =
		shared_file_open(dir, POLICY_FILE, O_RDONLY, sizeof(struct policy_file));

	return fd < 0 ? fd : policy_load_file(fd, ret, ret_told);
}

int policy_load(const char *dir, struct policy *ret)
{
	struct policy_told told;

	return policy_load_all(dir, ret, &told);
}

uint64_t policy_generation(const struct policy_map *map)
{
	return word_acquire(&map->file->generation);
}

/* Every update changes the word; the gate may stay the same. */
const uint32_t *policy_generation_word(const struct policy_map *map)
{
	return (const uint32_t *)&map->file->generation;
}

void policy_wait(const struct policy_map *map, uint64_t generation)
{
	while (policy_generation(map) == generation)
		futex_wait(&map->file->generation, (uint32_t)generation);
}

const uint32_t *policy_gate(const struct policy_map *map)
{
	return &map->file->gate;
}

/* For writing, with the writers' lock, which goes with the descriptor. */
static int policy_open_locked(const char *dir, struct policy_file **ret_file, int *ret_lock)
{
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_CLOSE int lock = -EBADF;
	int r;

	fd = policy_file_open(dir);
	if (fd < 0)
		return fd;
	lock = policy_file_open_lock(dir);
	if (lock < 0 && lock != -ENOENT)
		return lock;
	r = policy_file_map(fd, PROT_READ | PROT_WRITE, ret_file);
	if (r < 0)
		return r;
	if (lock < 0)
		lock = TAKE_FD(fd);
	r = shared_file_lock_wait(lock, LOCK_WRITER, 1);
	if (r < 0)
		return r == -ETIMEDOUT ? -EBUSY : r;
	*ret_lock = TAKE_FD(lock);
	return 0;
}

/*
 * The idle copy may be torn by a writer that was killed; it is simply written again. Only the
 * store of the generation, which is also the index, makes it count.
 */
static void policy_flip(struct policy_file *file, const struct policy *policy)
{
	uint64_t generation = word_read(&file->generation) + 1;
	struct policy_copy *copy = &file->copy[generation & 1];
	size_t half = sizeof(*policy) / 2;

	/* A reader that still copies this one must find that it is neither old nor new. */
	word_write(&copy->generation, 0);
	policy_copy_out(&copy->policy, policy, 0, half);
	FAULT_POINT(POLICY_HALF_WRITTEN);
	policy_copy_out(&copy->policy, policy, half, sizeof(*policy));
	word_release(&copy->checksum, policy_checksum(generation, policy));
	word_release(&copy->generation, generation);
	FAULT_POINT(POLICY_WRITTEN);
	word_release(&file->generation, generation);
	FAULT_POINT(POLICY_FLIPPED);
}

int policy_update(const char *dir, int (*edit)(struct policy *policy, void *arg), void *arg)
{
	CLEANUP(policy_file_unmap) struct policy_file *file = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct policy policy, was;
	int r;

	r = policy_open_locked(dir, &file, &fd);
	if (r < 0)
		return r;
	r = policy_read_file(file, &was);
	if (r < 0)
		return r;
	policy = was;
	r = edit(&policy, arg);
	if (r < 0)
		return r;
	r = policy_check(&policy);
	if (r < 0)
		return r;
	policy_note_before(&was, &policy);
	/* Killed in between, the gate is one that looks at a policy which has nothing to say. */
	word_set_bits(&file->gate, policy_gate_bits(&policy));
	policy_flip(file, &policy);
	if (!policy_meters(&policy))
		word_clear_bits(&file->gate, (uint32_t)POLICY_GATE_METERED);
	futex_wake_all(&file->gate);
	futex_wake_all(&file->generation);
	/* The mapping holds the description, too: do not leave the lock to its end. */
	shared_file_unlock(fd, LOCK_WRITER, 1);
	return 0;
}

const struct policy_device *policy_find(const struct policy *policy, const uint8_t uuid[16])
{
	uint32_t first = policy->flags & POLICY_ALL_DEVICES ? 1 : 0;

	for (uint32_t i = first; i < policy->ndevices && i < POLICY_DEVICES; i++)
		if (!memcmp(policy->device[i].uuid, uuid, 16))
			return &policy->device[i];
	return first ? &policy->device[0] : NULL;
}

static int policy_resolve(const struct policy_device *dev, struct size_spec spec,
			  uint64_t total_bytes, uint64_t *ret_bytes)
{
	uint64_t bytes;

	if (!total_bytes)
		total_bytes = dev->total_bytes;
	if (!spec.bytes && !total_bytes)
		return -ENODATA;
	bytes = size_spec_resolve(spec, total_bytes);
	*ret_bytes = total_bytes && bytes > total_bytes ? total_bytes : bytes;
	return 0;
}

int policy_limit(const struct policy *policy, const uint8_t uuid[16], uint64_t total_bytes,
		 uint64_t *ret_bytes)
{
	const struct policy_device *dev = policy_find(policy, uuid);

	if (!dev)
		return -ENODEV;
	return policy_resolve(dev, (struct size_spec){dev->limit_bytes, dev->limit_permille},
			      total_bytes, ret_bytes);
}

int policy_limit_ever(const struct policy *policy, const uint8_t uuid[16], uint64_t total_bytes,
		      uint64_t *ret_bytes)
{
	const struct policy_device *dev = policy_find(policy, uuid);
	struct size_spec before[2];
	uint64_t most, bytes;
	int r = policy_limit(policy, uuid, total_bytes, &most);

	if (r < 0)
		return r;
	before[0] = (struct size_spec){.bytes = dev->before_bytes};
	before[1] = (struct size_spec){.permille = dev->before_permille};
	for (int i = 0; i < 2; i++) {
		r = size_spec_is_said(before[i]) ? policy_resolve(dev, before[i], total_bytes, &bytes)
						 : -ENODEV;
		if (r == -ENODATA)
			return r;
		if (r == 0)
			most = max_u64(most, bytes);
	}
	*ret_bytes = most;
	return 0;
}

uint32_t policy_share(const struct policy *policy, const uint8_t uuid[16])
{
	const struct policy_device *dev = policy_find(policy, uuid);

	return dev && dev->share_permille ? dev->share_permille : 1000;
}

int policy_part(const struct policy *policy, uint32_t *ret_permille)
{
	uint32_t permille = policy->device[0].share_permille;

	for (uint32_t i = 1; i < policy->ndevices; i++)
		if (policy->device[i].share_permille != permille)
			return -EINVAL;
	if (policy->compute == POLICY_COMPUTE_OFF || !permille || permille >= 1000)
		return -ENODATA;
	*ret_permille = permille;
	return 0;
}

bool policy_yields(const struct policy *policy)
{
	return policy->priority != POLICY_PRIORITY_HIGH;
}

uint32_t policy_weight(const struct policy *policy, const uint8_t uuid[16])
{
	const struct policy_device *dev = policy_find(policy, uuid);

	if (policy->weight)
		return policy->weight * POLICY_WEIGHT_PERMILLE;
	return dev && dev->share_permille ? dev->share_permille : POLICY_WEIGHT_PERMILLE;
}
