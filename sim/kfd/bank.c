/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/bank.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "sim/kfd/handles.h"
#include "sim/kfd/tree.h"
#include "sim/mutex.h"
#include "sim/shared.h"

#define MAGIC	UINT64_C(0x354b4e4142414d41) /* "AMABANK5" */
#define PIECES	65536
#define VRAM	KFD_IOC_ALLOC_MEM_FLAGS_VRAM
#define GTT	KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define HOLD_AT (INT64_C(1) << 60) /* far behind the content */

/* Processes have a lock each at their number behind this, in the table. */
#define PROCESSES  1024
#define PROCESS_AT (INT64_C(1) << 40)

/* A piece, as all processes see it. */
struct row {
	uint64_t key; /* 0: free */
	uint64_t size;
	uint64_t ino;
	uint32_t gpu, flags;
	uint32_t owner; /* the number of the process that took it and holds it; 0: ask the kernel */
	uint32_t elsewhere; /* 1: in the machine's memory, though it is to be in the GPU's */
	uint64_t alignment, domain_flags;
};

struct region {
	uint64_t magic;
	struct sim_mutex lock, files;
	uint64_t next_key;
	uint64_t rows; /* ever used: scans end here */
	uint64_t peak_bytes[TREE_GPUS];
	int32_t pid[PROCESSES]; /* by number: the last one that had it */
	struct row row[PIECES];
};

struct bank {
	struct region *region;
	struct handles *handles;
	uint32_t process; /* from 1 on; 0: it has no number, and its pieces cost more */
	char dir[PATH_MAX - 32];
};

static int bank_init_region(void *map)
{
	struct region *region = map;
	int r = sim_mutex_init(&region->lock);

	region->magic = MAGIC;
	return r < 0 ? r : sim_mutex_init(&region->files);
}

static void bank_reap_all(const struct bank *bank);

/*
 * A process may die with the lock. Each change is one store and is whole or not there, except for
 * freeing a piece: first its file goes, then its row. A row whose file is gone must not stay,
 * because a new file may get the same inode and would be taken for this piece. bank_reap_all
 * removes it.
 */
static void bank_lock_region(const struct bank *bank)
{
	if (sim_mutex_lock(&bank->region->lock) != EOWNERDEAD)
		return;
	sim_mutex_repaired(&bank->region->lock);
	bank_reap_all(bank);
}

static void bank_unlock_region(const struct bank *bank)
{
	sim_mutex_unlock(&bank->region->lock);
}

/*
 * Takes a number for this process. A dead process may have had it before, and may have left rows
 * under it. Those rows lose their owner, so that from now on the kernel is asked whether somebody
 * still holds them.
 */
static void bank_join(struct bank *bank, int fd, pid_t pid)
{
	struct region *region = bank->region;
	int seat;

	bank_lock_region(bank); /* else others would take the dead process's pieces for ours */
	seat = sim_seat_take(fd, PROCESS_AT + 1, PROCESSES - 1);
	bank->process = seat < 0 ? 0 : (uint32_t)seat + 1;
	for (uint64_t i = 0; bank->process && i < region->rows; i++)
		if (region->row[i].owner == bank->process)
			region->row[i].owner = 0;
	region->pid[bank->process] = pid;
	bank_unlock_region(bank);
}

static int bank_open_region(const char *root, struct bank *bank, pid_t pid)
{
	char path[PATH_MAX];
	void *map;
	int fd, r;

	if (snprintf(bank->dir, sizeof(bank->dir), "%s" BANK_DIR, root) >= (int)sizeof(bank->dir))
		return -ENAMETOOLONG;
	if (mkdir(bank->dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/table", bank->dir);
	r = sim_shared_open(path, sizeof(*bank->region), bank_init_region, &map, &fd);
	if (r < 0)
		return r;
	bank->region = map;
	r = bank->region->magic == MAGIC ? handles_open(root, &bank->handles) : -EPROTO;
	if (r < 0) {
		munmap(map, sizeof(*bank->region));
	} else {
		bank_join(bank, fd, pid);
	}
	close(fd); /* the mapping keeps the lock */
	return r;
}

int bank_open(const char *root, struct bank **ret)
{
	static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
	static struct bank bank; /* one for each process: a forked child writes it anew */
	static pid_t opened;
	int r = 0;

	pthread_mutex_lock(&opening);
	if (opened != getpid())
		r = bank_open_region(root, &bank, getpid());
	if (r == 0) {
		opened = getpid();
		*ret = &bank;
	}
	pthread_mutex_unlock(&opening);
	return r;
}

int bank_open_for(const char *root, pid_t pid, struct bank **ret)
{
	struct bank *bank = calloc(1, sizeof(*bank));
	int r = bank ? bank_open_region(root, bank, pid) : -ENOMEM;

	if (r == 0)
		*ret = bank;
	else
		free(bank);
	return r;
}

void bank_close(struct bank *bank)
{
	munmap(bank->region, sizeof(*bank->region));
	free(bank);
}

static int bank_open_content(const struct bank *bank, uint64_t key, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%" PRIx64, bank->dir, key);
	fd = open(path, flags, 0600);
	return fd < 0 ? -errno : fd;
}

static void bank_remove_content(const struct bank *bank, uint64_t key)
{
	static const char *const names[] = {BANK_NODE, BANK_DMABUF, ""};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%" PRIx64 "%s", bank->dir, key, names[i]);
		unlink(path);
	}
}

static int bank_open_content_as(const struct bank *bank, uint64_t key, const char *as, int flags)
{
	char path[PATH_MAX], name[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%" PRIx64, bank->dir, key);
	snprintf(name, sizeof(name), "%s/%" PRIx64 "%s", bank->dir, key, as);
	if (link(path, name) < 0 && errno != EEXIST)
		return -errno;
	fd = open(name, flags);
	return fd < 0 ? -errno : fd;
}

static bool bank_is_alive(const struct bank *bank, const struct row *row)
{
	int fd = bank_open_content(bank, row->key, O_RDWR | O_CLOEXEC);
	bool alive;

	if (fd < 0) /* no file: freed in part. No directory: nothing can be said */
		return fd != -ENOENT || access(bank->dir, F_OK) < 0;
	alive = sim_byte_locked(fd, HOLD_AT) || handles_of_key(bank->handles, 0, row->key);
	close(fd);
	return alive;
}

/* Frees the row's piece if nobody holds it. With the lock. */
static void bank_reap(const struct bank *bank, struct row *row)
{
	if (!row->key || bank_is_alive(bank, row))
		return;
	bank_remove_content(bank, row->key);
	row->key = 0;
}

/* Which processes are alive, as far as this was asked already. */
struct census {
	int fd; /* the table, opened anew: our own lock does not show on our own description */
	bool known[PROCESSES], alive[PROCESSES];
};

static bool bank_lives(struct census *census, uint32_t process)
{
	if (!census->known[process])
		census->alive[process] =
			census->fd < 0 || sim_byte_locked(census->fd, PROCESS_AT + process);
	census->known[process] = true;
	return census->alive[process];
}

static void bank_begin_census(const struct bank *bank, struct census *ret)
{
	char path[PATH_MAX];

	*ret = (struct census){.fd = -EBADF};
	snprintf(path, sizeof(path), "%s/table", bank->dir);
	ret->fd = open(path, O_RDWR | O_CLOEXEC);
}

static void bank_end_census(const struct census *census)
{
	if (census->fd >= 0)
		close(census->fd);
}

static void bank_reap_all(const struct bank *bank)
{
	struct census census;
	char root[PATH_MAX - 32];

	snprintf(root, sizeof(root), "%.*s", (int)(strlen(bank->dir) - strlen(BANK_DIR)), bank->dir);
	handles_reap(bank->handles, root);
	bank_begin_census(bank, &census);
	for (uint64_t i = 0; i < bank->region->rows; i++) {
		struct row *row = &bank->region->row[i];

		if (row->key && (!row->owner || !bank_lives(&census, row->owner)))
			bank_reap(bank, row);
	}
	bank_end_census(&census);
}

/* The memory that it is in now: VRAM or GTT. */
static uint32_t bank_place_of(const struct row *row)
{
	return row->flags & VRAM && !row->elsewhere ? VRAM : GTT;
}

static uint64_t bank_sum_used(const struct region *region, uint32_t gpu, uint32_t flag)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < region->rows; i++) {
		const struct row *row = &region->row[i];

		if (row->key && row->gpu == gpu && bank_place_of(row) == flag)
			sum += row->size;
	}
	return sum;
}

static uint64_t bank_sum_given(const struct region *region, uint32_t gpu, uint64_t align)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < region->rows; i++) {
		const struct row *row = &region->row[i];

		if (row->key && row->gpu == gpu &&
		    (row->flags & (VRAM | BANK_BY_NODE | BANK_SVM)) == VRAM)
			sum += (row->size + align - 1) / align * align;
	}
	return sum;
}

static struct row *bank_free_row(struct region *region)
{
	for (uint64_t i = 0; i < region->rows; i++)
		if (!region->row[i].key)
			return &region->row[i];
	return region->rows < PIECES ? &region->row[region->rows++] : NULL;
}

/* Holds what `fd` is open on, by a mapping that neither fork nor exec hands on. */
static int bank_hold_content(int fd, uint64_t size, char **ret_content)
{
	void *map;
	int r = sim_byte_lock(fd, HOLD_AT, F_RDLCK);

	if (r < 0)
		return r;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	madvise(map, size, MADV_DONTFORK);
	*ret_content = map;
	return 0;
}

/*
 * Makes the file of a new piece, and holds it. A process that is killed before the row has the key
 * leaves a file that nobody counts.
 */
static int bank_make_content(const struct bank *bank, uint64_t key, uint64_t size,
			     char **ret_content, uint64_t *ret_ino)
{
	int fd = bank_open_content(bank, key, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL);
	struct stat st;
	int r;

	if (fd < 0)
		return -ENOMEM;
	r = ftruncate(fd, (off_t)size) < 0 || fstat(fd, &st) < 0
		    ? -ENOMEM
		    : bank_hold_content(fd, size, ret_content);
	if (r == 0)
		*ret_ino = st.st_ino;
	else
		bank_remove_content(bank, key);
	close(fd); /* the mapping holds it */
	return r;
}

static int bank_take_row(struct bank *bank, struct bank_piece *piece, bool elsewhere)
{
	struct region *region = bank->region;
	struct row *row = bank_free_row(region);
	uint64_t key = ++region->next_key, ino = 0;
	int r;

	if (!row)
		return -ENOMEM;
	r = bank_make_content(bank, key, piece->size, &piece->content, &ino);
	if (r < 0)
		return r;
	*row = (struct row){.size = piece->size,
			    .ino = ino,
			    .gpu = piece->gpu,
			    .flags = piece->flags,
			    .elsewhere = elsewhere,
			    .owner = bank->process,
			    .alignment = piece->alignment,
			    .domain_flags = piece->domain_flags};
	__atomic_store_n(&row->key, key, __ATOMIC_RELEASE);
	piece->key = key;
	piece->index = (uint32_t)(row - region->row);
	return 0;
}

static bool bank_has_room(const struct region *region, const struct bank_piece *piece,
			  uint64_t vram_bytes)
{
	return !(piece->flags & VRAM) ||
	       piece->size <= vram_bytes - bank_sum_used(region, piece->gpu, VRAM);
}

/* True if KFD may give so much more, whatever the GPU has. */
static bool bank_may_give(const struct region *region, const struct bank_piece *piece,
			  uint64_t kfd_bytes)
{
	return (piece->flags & (VRAM | BANK_BY_NODE)) != VRAM ||
	       piece->size + bank_sum_given(region, piece->gpu, 1) <= kfd_bytes;
}

/* Buffers of render nodes leave the GPU, the oldest first, until there is room or none is left. */
static void bank_evict(struct region *region, const struct bank_piece *piece, uint64_t vram_bytes)
{
	for (uint64_t i = 0; i < region->rows && !bank_has_room(region, piece, vram_bytes); i++) {
		struct row *row = &region->row[i];

		if (row->key && row->gpu == piece->gpu && row->flags & BANK_BY_NODE &&
		    bank_place_of(row) == VRAM)
			row->elsewhere = 1;
	}
}

/* With the lock: -ENOMEM, or whether the piece has to be elsewhere. */
static int bank_find_room(struct bank *bank, const struct bank_piece *piece, uint64_t vram_bytes,
			  uint64_t kfd_bytes)
{
	struct region *region = bank->region;

	/* Finding dead holders costs system calls, so it is done only before a refusal. */
	if (!bank_has_room(region, piece, vram_bytes) || region->rows == PIECES ||
	    !bank_may_give(region, piece, kfd_bytes))
		bank_reap_all(bank);
	if (!bank_may_give(region, piece, kfd_bytes))
		return -ENOMEM;
	if (!(piece->flags & BANK_BY_NODE) && piece->size <= vram_bytes)
		bank_evict(region, piece, vram_bytes);
	if (bank_has_room(region, piece, vram_bytes))
		return 0;
	return piece->flags & BANK_BY_NODE ? 1 : -ENOMEM;
}

static void bank_note_peak(struct bank *bank, uint32_t gpu)
{
	uint64_t *peak = &bank->region->peak_bytes[gpu],
		 now = bank_sum_used(bank->region, gpu, VRAM);

	if (now > *peak) { /* a new peak? Not if dead holders have a part in it */
		bank_reap_all(bank);
		now = bank_sum_used(bank->region, gpu, VRAM);
	}
	if (now > *peak)
		*peak = now;
}

int bank_take(struct bank *bank, uint64_t vram_bytes, uint64_t reserved_bytes,
	      struct bank_piece *piece)
{
	uint64_t kfd_bytes = reserved_bytes < vram_bytes ? vram_bytes - reserved_bytes : 0;
	int r;

	bank_lock_region(bank);
	r = bank_find_room(bank, piece, vram_bytes, kfd_bytes);
	if (r > 0)
		piece->flags |= BANK_OR_GTT;
	if (r >= 0)
		r = bank_take_row(bank, piece, r);
	if (r == 0)
		bank_note_peak(bank, piece->gpu);
	bank_unlock_region(bank);
	return r;
}

static struct bank_piece bank_piece_of(const struct region *region, const struct row *row)
{
	return (struct bank_piece){.key = row->key,
				   .size = row->size,
				   .gpu = row->gpu,
				   .flags = row->flags,
				   .index = (uint32_t)(row - region->row),
				   .alignment = row->alignment,
				   .domain_flags = row->domain_flags};
}

/*
 * Finds the row by the file's inode: an open descriptor holds the piece, so its row exists. With
 * the lock.
 */
static int bank_find_row(const struct bank *bank, int fd, struct bank_piece *ret)
{
	const struct region *region = bank->region;
	struct stat st, dir;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || stat(bank->dir, &dir) < 0 || st.st_dev != dir.st_dev)
		return -EINVAL;
	for (uint64_t i = 0; i < region->rows; i++) {
		const struct row *row = &region->row[i];

		if (!row->key || row->ino != st.st_ino)
			continue;
		*ret = bank_piece_of(region, row);
		return 0;
	}
	return -EINVAL;
}

int bank_find_key(struct bank *bank, uint64_t key, struct bank_piece *ret)
{
	const struct region *region = bank->region;
	int r = -EINVAL;

	bank_lock_region(bank);
	for (uint64_t i = 0; i < region->rows && r < 0; i++) {
		if (!key || region->row[i].key != key)
			continue;
		*ret = bank_piece_of(region, &region->row[i]);
		r = 0;
	}
	bank_unlock_region(bank);
	return r;
}

int bank_find_index(struct bank *bank, uint32_t index, struct bank_piece *ret)
{
	int r = -EINVAL;

	bank_lock_region(bank);
	if (index < bank->region->rows && bank->region->row[index].key) {
		*ret = bank_piece_of(bank->region, &bank->region->row[index]);
		r = 0;
	}
	bank_unlock_region(bank);
	return r;
}

bool bank_is_in_vram(struct bank *bank, const struct bank_piece *piece)
{
	const struct row *row = &bank->region->row[piece->index];
	bool is;

	bank_lock_region(bank);
	is = row->key == piece->key && bank_place_of(row) == VRAM;
	bank_unlock_region(bank);
	return is;
}

struct handles *bank_handles(struct bank *bank)
{
	return bank->handles;
}

void bank_leave(struct bank *bank, struct bank_piece *piece)
{
	struct row *row = &bank->region->row[piece->index];

	bank_lock_region(bank);
	if (row->key == piece->key && row->owner == bank->process)
		row->owner = 0;
	bank_unlock_region(bank);
	munmap(piece->content, piece->size);
	piece->content = NULL;
}

char *bank_map(const struct bank *bank, const struct bank_piece *piece)
{
	int fd = bank_open_content(bank, piece->key, O_RDWR | O_CLOEXEC);
	void *map = MAP_FAILED;

	if (fd >= 0)
		map = mmap(NULL, piece->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			   fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return NULL;
	madvise(map, piece->size, MADV_DONTFORK);
	return map;
}

void bank_look_at(struct bank *bank, const struct bank_piece *piece)
{
	struct row *row = &bank->region->row[piece->index];

	bank_lock_region(bank);
	if (row->key == piece->key && !row->owner)
		bank_reap(bank, row);
	bank_unlock_region(bank);
}

int bank_find(struct bank *bank, int fd, struct bank_piece *ret)
{
	int r;

	bank_lock_region(bank);
	r = bank_find_row(bank, fd, ret);
	bank_unlock_region(bank);
	return r;
}

int bank_hold(struct bank *bank, int fd, struct bank_piece *ret)
{
	struct bank_piece piece;
	int content, r;

	bank_lock_region(bank);
	r = bank_find_row(bank, fd, &piece);
	if (r == 0) {
		/* Opened anew: `fd` may be for reading only. */
		content = bank_open_content(bank, piece.key, O_RDWR | O_CLOEXEC);
		r = content < 0 ? content : bank_hold_content(content, piece.size, &piece.content);
		if (content >= 0)
			close(content);
	}
	bank_unlock_region(bank);
	if (r == 0)
		*ret = piece;
	return r;
}

void bank_drop(struct bank *bank, struct bank_piece *piece)
{
	struct region *region = bank->region;

	if (!piece->key)
		return;
	bank_lock_region(bank);
	munmap(piece->content, piece->size);
	for (uint64_t i = 0; i < region->rows; i++) {
		if (region->row[i].key != piece->key)
			continue;
		if (region->row[i].owner == bank->process)
			region->row[i].owner = 0;
		bank_reap(bank, &region->row[i]);
	}
	bank_unlock_region(bank);
	*piece = (struct bank_piece){.key = 0};
}

static int bank_move_row(struct bank *bank, uint64_t vram_bytes, struct row *row, uint32_t flags)
{
	const struct bank_piece more = {.size = row->size, .gpu = row->gpu, .flags = flags};

	row->elsewhere = flags & VRAM && bank_place_of(row) != VRAM &&
			 !bank_has_room(bank->region, &more, vram_bytes);
	row->flags = flags;
	return 0;
}

int bank_move(struct bank *bank, uint64_t vram_bytes, struct bank_piece *piece, bool to_vram)
{
	const uint32_t places = VRAM | GTT | BANK_OR_GTT;
	uint32_t flags = (piece->flags & ~places) | (to_vram ? VRAM : GTT);
	int r = -ENOENT;

	bank_lock_region(bank);
	for (uint64_t i = 0; i < bank->region->rows; i++)
		if (bank->region->row[i].key == piece->key)
			r = bank_move_row(bank, vram_bytes, &bank->region->row[i], flags);
	if (r == 0 && to_vram)
		bank_note_peak(bank, piece->gpu);
	bank_unlock_region(bank);
	if (r == 0)
		piece->flags = flags;
	return r;
}

int bank_fd(const struct bank *bank, const struct bank_piece *piece, const char *as, int flags)
{
	int fd = bank_open_content_as(bank, piece->key, as, flags);
	int r;

	if (fd < 0)
		return fd;
	r = sim_byte_lock(fd, HOLD_AT, F_RDLCK);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

uint64_t bank_used(struct bank *bank, uint32_t gpu, uint32_t flag)
{
	uint64_t sum;

	bank_lock_region(bank);
	bank_reap_all(bank);
	sum = bank_sum_used(bank->region, gpu, flag);
	bank_unlock_region(bank);
	return sum;
}

uint64_t bank_unique(struct bank *bank)
{
	uint64_t key;

	bank_lock_region(bank);
	key = ++bank->region->next_key;
	bank_unlock_region(bank);
	return key;
}

uint64_t bank_given_by_kfd(struct bank *bank, uint32_t gpu, uint64_t align)
{
	uint64_t sum;

	bank_lock_region(bank);
	bank_reap_all(bank);
	sum = bank_sum_given(bank->region, gpu, align);
	bank_unlock_region(bank);
	return sum;
}

void bank_lock_files(struct bank *bank)
{
	/*
	 * A writer that died leaves no damage: files are replaced whole, and the next look writes
	 * them anew.
	 */
	if (sim_mutex_lock(&bank->region->files) == EOWNERDEAD)
		sim_mutex_repaired(&bank->region->files);
}

void bank_unlock_files(struct bank *bank)
{
	sim_mutex_unlock(&bank->region->files);
}

int bank_used_by(struct bank *bank, pid_t pid, uint32_t gpu, uint64_t *ret_bytes)
{
	const struct region *region = bank->region;
	struct census census;
	uint64_t sum = 0;
	int r = -ENOENT;

	bank_lock_region(bank);
	bank_begin_census(bank, &census);
	for (uint32_t process = 1; process < PROCESSES; process++) {
		if (region->pid[process] != pid || !bank_lives(&census, process))
			continue;
		r = 0;
		for (uint64_t i = 0; i < region->rows; i++) {
			const struct row *row = &region->row[i];

			if (row->key && row->owner == process && row->gpu == gpu &&
			    (row->flags & (VRAM | BANK_BY_NODE)) == VRAM)
				sum += row->size;
		}
	}
	bank_end_census(&census);
	bank_unlock_region(bank);
	if (r == 0)
		*ret_bytes = sum;
	return r;
}

uint64_t bank_peak(struct bank *bank, uint32_t gpu)
{
	uint64_t peak;

	bank_lock_region(bank);
	peak = bank->region->peak_bytes[gpu];
	bank_unlock_region(bank);
	return peak;
}

void bank_reset_peak(struct bank *bank, uint32_t gpu)
{
	bank_lock_region(bank);
	bank_reap_all(bank);
	bank->region->peak_bytes[gpu] = bank_sum_used(bank->region, gpu, VRAM);
	bank_unlock_region(bank);
}
