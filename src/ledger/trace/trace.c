/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/trace/trace.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/map.h"
#include "ledger/shared_file.h"

/* Of the ring's process; beyond the end. */
#define LOCK_AT (INT64_C(1) << 40)

/* Never more than a mapping of the file. */
struct trace {
	struct trace_file file;
};

/* With all of its bytes on the disk: a store into the mapping cannot raise SIGBUS. */
static int trace_join(const char *dir, unsigned int number)
{
	CLEANUP_CLOSE int fd = -EBADF;
	char name[16];
	int r;

	tenant_ring_name(number, name);
	fd = shared_file_join(dir, name, sizeof(struct trace_file));
	if (fd < 0)
		return fd;
	r = map_allocate(fd, 0, sizeof(struct trace_file));
	return r < 0 ? r : TAKE_FD(fd);
}

static int trace_map(int fd, void *at, struct trace **ret)
{
	void *map = mmap(at, sizeof(struct trace_file), PROT_READ | PROT_WRITE,
			 at ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return err_errno();
	/* A child that kept the mapping would keep the ring's lock. */
	if (madvise(map, sizeof(struct trace_file), MADV_DONTFORK) < 0) {
		trace_park(map);
		return -ENOTSUP;
	}
	*ret = map;
	return 0;
}

void trace_park(struct trace *trace)
{
	mmap(trace, sizeof(*trace), PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void trace_close(struct trace *trace)
{
	if (trace)
		munmap(trace, sizeof(*trace));
}

static void trace_describe(struct trace_header *header)
{
	word_write(&header->magic, TRACE_MAGIC);
	word_write(&header->version, TRACE_VERSION);
	word_write(&header->records, TRACE_RECORDS);
}

/*
 * The ring is this process's from here on. The birth of the last owner goes first, and the own one
 * comes last: a kill in between leaves a ring that nobody reads, and that the next process takes.
 */
static void trace_begin(struct trace_header *header)
{
	word_publish(&header->born_ns, 0);
	FAULT_POINT(TRACE_TAKEN);
	trace_describe(header);
	word_write(&header->pid, (uint32_t)getpid());
	word_write(&header->next, 0);
	word_release(&header->born_ns, now_monotonic_ns());
}

/* A child that is forked meanwhile has the descriptor, too: closing it here would not end the lock. */
static void trace_unlock(int fd)
{
	shared_file_unlock(fd, LOCK_AT, 1);
}

/*
 * Opens a ring with its lock, and answers when it was born; 0: never. -EAGAIN: a living process has
 * it.
 */
static int trace_lock(const char *dir, unsigned int number, uint64_t *ret_born_ns)
{
	CLEANUP_CLOSE int fd = trace_join(dir, number);
	int r;

	if (fd < 0)
		return fd;
	r = shared_file_lock(fd, LOCK_AT, 1);
	if (r < 0)
		return r;
	r = fd_pread_all(fd, ret_born_ns, sizeof(*ret_born_ns), offsetof(struct trace_header, born_ns));
	if (r < 0)
		trace_unlock(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

/* The first ring that was never taken, else the one whose process is dead and came first. */
static int trace_choose(const char *dir)
{
	unsigned int oldest = TRACE_FILES;
	uint64_t born_ns, oldest_ns = 0;
	int fd, r = -EUSERS;

	for (unsigned int i = 0; i < TRACE_FILES; i++) {
		fd = trace_lock(dir, i, &born_ns);
		if (fd >= 0 && !born_ns)
			return fd;
		if (fd >= 0) {
			trace_unlock(fd);
			close(fd);
		} else if (fd != -EAGAIN) {
			r = fd;
		}
		if (fd >= 0 && (oldest == TRACE_FILES || born_ns < oldest_ns)) {
			oldest = i;
			oldest_ns = born_ns;
		}
	}
	return oldest < TRACE_FILES ? trace_lock(dir, oldest, &born_ns) : r;
}

int trace_open(const char *dir, struct trace **trace)
{
	CLEANUP_CLOSE int fd = trace_choose(dir);
	int r;

	/* Processes that begin together choose the same: another one has it by now. */
	for (int i = 0; fd == -EAGAIN && i < TRACE_FILES; i++)
		fd = trace_choose(dir);
	if (fd < 0)
		return fd;
	r = trace_map(fd, *trace, trace);
	if (r == 0)
		trace_begin(&(*trace)->file.header);
	else
		trace_unlock(fd);
	return r;
}

/* All who reach a tenant that is open to them may read what was decided about it. */
static void trace_show(const char *dir, int fd)
{
	struct stat st;

	if (stat(dir, &st) == 0 && (st.st_mode & SHARED_FILE_FOR_ALL))
		fchmod(fd, 0644);
}

int trace_open_roles(const char *dir, struct trace **ret)
{
	CLEANUP_CLOSE int fd = trace_join(dir, TRACE_ROLES);
	struct trace *trace = NULL;
	int r;

	if (fd < 0)
		return fd;
	r = trace_map(fd, NULL, &trace);
	if (r < 0)
		return r;
	trace_show(dir, fd);
	/* Of two that are the first, both write the same. */
	if (!word_acquire(&trace->file.header.born_ns)) {
		trace_describe(&trace->file.header);
		word_swap_if(&trace->file.header.born_ns, 0, now_monotonic_ns());
	}
	*ret = trace;
	return 0;
}

void trace_follow_roles(const char *dir, bool on, struct trace **trace)
{
	if (on && !*trace && trace_open_roles(dir, trace) < 0)
		*trace = NULL;
	if (on || !*trace)
		return;
	trace_close(*trace);
	*trace = NULL;
}

/* Kept for a ring: the call costs more than all else. A child of fork has another ring. */
static uint32_t trace_thread(uint64_t born_ns)
{
	static _Thread_local struct {
		uint64_t born_ns;
		uint32_t thread;
	} own __attribute__((tls_model("initial-exec")));

	if (own.born_ns != born_ns) {
		own.thread = (uint32_t)syscall(SYS_gettid);
		own.born_ns = born_ns;
	}
	return own.thread;
}

/* Killed anywhere it leaves a seal that does not fit: that of the record before it, or zero. */
void trace_put(struct trace *trace, enum trace_event event, int device, uint64_t a, uint64_t b,
	       uint64_t c)
{
	struct trace_file *file = &trace->file;
	uint64_t born_ns = word_read(&file->header.born_ns);
	const struct trace_record fresh = {
		.at_ns = now_monotonic_ns(),
		.event = (uint16_t)event,
		.device = device < 0 ? TRACE_NO_DEVICE : (uint16_t)device,
		.thread = trace_thread(born_ns),
		.number = {a, b, c},
	};
	uint64_t place = word_add(&file->header.next, 1);
	struct trace_record *record = &file->record[place % TRACE_RECORDS];

	FAULT_POINT(TRACE_PLACED);
	word_write(&record->at_ns, fresh.at_ns);
	word_write(&record->event, fresh.event);
	word_write(&record->device, fresh.device);
	word_write(&record->thread, fresh.thread);
	FAULT_POINT(TRACE_HALF);
	for (int i = 0; i < TRACE_NUMBERS; i++)
		word_write(&record->number[i], fresh.number[i]);
	FAULT_POINT(TRACE_FILLED);
	word_release(&record->seal, place ^ trace_hash(born_ns, &fresh));
}
