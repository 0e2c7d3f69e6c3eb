/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/cleanup.h"
#include "base/target.h"
#include "guard/account.h"
#include "guard/figure.h"
#include "ledger/ledger.h"
#include "ledger/pidns.h"
#include "ledger/policy.h"
#include "ledger/quota.h"
#include "ledger/shared.h"
#include "ledger/slot.h"

/* Admitted, and perhaps not over. */
struct call {
	pid_t thread;
	uint32_t request;
	uint32_t gpu; /* by its place in the book */
	uint64_t bytes;
};

/* Of a process on a GPU: what it has, and what of it stands in the guard's row. */
struct holding {
	struct account account;
	uint64_t charged_bytes;
};

struct book_process {
	pid_t pid;
	int pidfd;
	bool gone;
	bool files; /* it takes memory by render nodes, too */
	bool seen;  /* it asked since its figures were read */
	bool own;   /* it counted for itself when they were */
	struct call *calls;
	uint32_t ncalls, room;
	struct holding *holdings; /* by GPU */
};

struct gpu {
	const struct topology_node *node;
	uint8_t uuid[16];
	uint64_t total_bytes;
	uint64_t charged_bytes; /* the guard's row: the sum over processes */
	int device;		/* in the ledger; -1: not needed yet */
};

struct book {
	struct ledger *ledger;
	struct slot *slot;
	struct policy_map *map;
	struct policy policy;
	uint64_t generation; /* of the policy that was read */
	uint64_t pidns;
	struct gpu *gpus;
	uint32_t ngpus;
	struct book_process **processes;
	uint32_t nprocesses, room;
};

DEFINE_CLEANUP(struct book, book_close)

static void free_process(struct book_process *p)
{
	if (!p)
		return;
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p->calls);
	free(p->holdings);
	free(p);
}

void book_close(struct book *book)
{
	if (!book)
		return;
	for (uint32_t i = 0; i < book->nprocesses; i++)
		free_process(book->processes[i]);
	free(book->processes);
	free(book->gpus);
	ledger_close(book->ledger);
	policy_close(book->map);
	free(book);
}

static int list_gpus(struct book *book, const struct topology *topology)
{
	book->gpus = calloc(topology->gpu_count ? topology->gpu_count : 1, sizeof(*book->gpus));
	if (!book->gpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < topology->node_count; i++) {
		const struct topology_node *node = &topology->nodes[i];
		struct gpu *gpu = &book->gpus[book->ngpus];

		if (!node->gpu_id)
			continue;
		*gpu = (struct gpu){
			.node = node, .total_bytes = topology_vram_bytes(node), .device = -1};
		amd_identity(node, gpu->uuid);
		book->ngpus++;
	}
	return 0;
}

int book_open(const char *dir, const struct topology *topology, struct book **ret)
{
	CLEANUP(cleanup_book_close) struct book *book = calloc(1, sizeof(*book));
	int r;

	if (!book)
		return -ENOMEM;
	book->pidns = pidns_self();
	r = list_gpus(book, topology);
	if (r == 0)
		r = policy_open(dir, &book->map);
	if (r == 0) {
		book->generation = policy_generation(book->map);
		r = policy_read(book->map, &book->policy);
	}
	if (r == 0)
		r = ledger_open(dir, LEDGER_GUEST, &book->ledger);
	if (r == 0)
		r = slot_claim(book->ledger, &book->slot);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(book);
	return 0;
}

static int find_gpu(const struct book *book, uint32_t gpu_id, uint32_t *ret_gpu)
{
	for (uint32_t i = 0; i < book->ngpus; i++)
		if (book->gpus[i].node->gpu_id == gpu_id) {
			*ret_gpu = i;
			return 0;
		}
	return -ENODEV;
}

/* A policy that cannot be read any more lets nothing new in. */
static int limit_of(struct book *book, const struct gpu *gpu, uint64_t *ret_bytes)
{
	uint64_t generation = policy_generation(book->map);
	struct policy policy;
	int r;

	if (generation != book->generation) {
		r = policy_read(book->map, &policy);
		if (r < 0)
			return r;
		book->policy = policy;
		book->generation = generation;
	}
	return policy_limit(&book->policy, gpu->uuid, gpu->total_bytes, ret_bytes);
}

static int device_of(struct book *book, struct gpu *gpu)
{
	if (gpu->device < 0)
		gpu->device = ledger_device(book->ledger, gpu->uuid, gpu->total_bytes);
	return gpu->device;
}

/* One that is gone may have left its number to another. */
struct book_process *book_find(const struct book *book, pid_t pid)
{
	for (uint32_t i = 0; i < book->nprocesses; i++)
		if (book->processes[i]->pid == pid && !book->processes[i]->gone)
			return book->processes[i];
	return NULL;
}

static struct book_process *new_process(const struct book *book, pid_t pid)
{
	struct book_process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pid = pid;
	p->holdings = calloc(book->ngpus ? book->ngpus : 1, sizeof(*p->holdings));
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->pidfd < 0 || !p->holdings) {
		free_process(p);
		return NULL;
	}
	return p;
}

struct book_process *book_process(struct book *book, pid_t pid, bool files)
{
	struct book_process *p = book_find(book, pid);

	if (p) {
		p->files |= files;
		return p;
	}
	if (book->nprocesses == book->room) {
		uint32_t room = book->room ? 2 * book->room : 16;
		void *grown = reallocarray(book->processes, room, sizeof(*book->processes));

		if (!grown)
			return NULL;
		book->processes = grown;
		book->room = room;
	}
	p = new_process(book, pid);
	if (p) {
		p->files = files;
		book->processes[book->nprocesses++] = p;
	}
	return p;
}

/*
 * The slots in which a process counts for itself, from `from` on: the next one, or -1. One is its
 * own if it lives: a process has one number in a namespace.
 */
static int own_slot(struct book *book, const struct book_process *p, int from)
{
	for (int i = from; i < slot_count(book->ledger); i++) {
		struct slot_info info;

		if (i != slot_index(book->slot) && slot_info(book->ledger, i, &info) == 0 &&
		    info.pid == (uint32_t)p->pid && info.pidns == book->pidns &&
		    slot_alive(book->ledger, i))
			return i;
	}
	return -1;
}

/*
 * What it says there, pending bytes too: hooks publish before they ask the kernel, and take back
 * after it did.
 */
static uint64_t own_bytes(struct book *book, const struct book_process *p, int device)
{
	uint64_t sum = 0;

	for (int i = own_slot(book, p, 0); i >= 0; i = own_slot(book, p, i + 1)) {
		struct quota_row row;

		if (quota_process(book->ledger, i, device, &row) < 0)
			continue;
		sum += row.pending;
		for (int c = 0; c < CAT_N; c++)
			sum += row.used[c];
	}
	return sum;
}

/* What it has and another slot is charged for, or all of them together are. */
static uint64_t joined_bytes(struct book *book, const struct book_process *p, uint32_t g)
{
	uint64_t sum = 0;

	if (!p->own || device_of(book, &book->gpus[g]) < 0)
		return 0;
	for (int i = own_slot(book, p, 0); i >= 0; i = own_slot(book, p, i + 1))
		sum += shared_joined(book->ledger, i, book->gpus[g].device);
	return sum;
}

/*
 * What its files have, less what it says that it imported: that is its owner's. It says so before
 * it imports and until it gave back, so the larger of before and after covers what is on its way.
 */
static int read_files(struct book *book, const struct book_process *p, uint32_t g,
		      uint64_t *ret_bytes)
{
	uint64_t bytes = 0, before = joined_bytes(book, p, g), after;
	int r = figure_of_files(p->pid, book->gpus[g].node, &bytes);

	if (r < 0 && r != -ENOENT)
		return r;
	after = joined_bytes(book, p, g);
	after = after > before ? after : before;
	*ret_bytes = bytes > after ? bytes - after : 0;
	return 0;
}

/* It is gone for good, and its number another's already. */
static bool has_successor(const struct book_process *p)
{
	char path[32];

	if (!p->gone || !syscall(SYS_pidfd_send_signal, p->pidfd, 0, NULL, 0) || errno != ESRCH)
		return false;
	snprintf(path, sizeof(path), "/proc/%d", p->pid);
	return access(path, F_OK) == 0;
}

static int read_kfd(const struct book *book, const struct book_process *p, uint32_t g,
		    uint64_t *ret_bytes)
{
	int r = figure_of_kfd(p->pid, book->gpus[g].node, ret_bytes);

	if (r == -ENOENT)
		*ret_bytes = 0;
	return r == -ENOENT ? 0 : r;
}

/*
 * The kernel's: the larger of its figures, since one contains some of the other. Of a process that
 * is gone it is read until it is nothing, since the kernel takes its time to give all back.
 */
static int read_figure(struct book *book, const struct book_process *p, uint32_t g,
		       uint64_t *ret_bytes)
{
	uint64_t bytes, of_files = 0;
	int r = read_kfd(book, p, g, &bytes);

	if (r == 0 && p->files)
		r = read_files(book, p, g, &of_files);
	if (has_successor(p))
		bytes = of_files = r = 0;
	if (r == 0)
		*ret_bytes = bytes > of_files ? bytes : of_files;
	return r;
}

/* What the guard has to answer for. */
static uint64_t beyond_own(struct book *book, const struct book_process *p, uint32_t g)
{
	uint64_t bytes = account_bytes(&p->holdings[g].account), own;

	if (!bytes || p->gone || device_of(book, &book->gpus[g]) < 0)
		return bytes;
	own = own_bytes(book, p, book->gpus[g].device);
	return bytes > own ? bytes - own : 0;
}

/* Without asking: what is there is there. */
static void charge(struct book *book, struct book_process *p, uint32_t g)
{
	uint64_t bytes = beyond_own(book, p, g);
	struct holding *h = &p->holdings[g];
	struct gpu *gpu = &book->gpus[g];

	if (bytes == h->charged_bytes || device_of(book, gpu) < 0)
		return;
	gpu->charged_bytes += bytes - h->charged_bytes;
	h->charged_bytes = bytes;
	quota_set(book->slot, gpu->device, CAT_DATA, gpu->charged_bytes);
}

/* What goes beyond what the guard has for the process must fit. */
static int admit(struct book *book, struct book_process *p, uint32_t g, bool last)
{
	uint64_t bytes = beyond_own(book, p, g), more, limit;
	struct holding *h = &p->holdings[g];
	struct gpu *gpu = &book->gpus[g];
	int r = limit_of(book, gpu, &limit);

	if (r < 0 || bytes <= h->charged_bytes)
		return r;
	if (device_of(book, gpu) < 0)
		return gpu->device;
	more = bytes - h->charged_bytes;
	r = last ? quota_reserve_slow(book->slot, gpu->device, more, limit)
		 : quota_reserve(book->slot, gpu->device, more, limit);
	if (r < 0)
		return r;
	quota_commit(book->slot, gpu->device, more, CAT_DATA, more);
	gpu->charged_bytes += more;
	h->charged_bytes = bytes;
	return 0;
}

static int add_call(struct book_process *p, const struct call *call)
{
	if (p->ncalls == p->room) {
		uint32_t room = p->room ? 2 * p->room : 16;
		void *grown = reallocarray(p->calls, room, sizeof(*p->calls));

		if (!grown)
			return -ENOMEM;
		p->calls = grown;
		p->room = room;
	}
	p->calls[p->ncalls++] = *call;
	account_begin(&p->holdings[call->gpu].account, call->bytes);
	return 0;
}

/* The last one takes its place, so that walks go from the end. */
static void remove_call(struct book_process *p, uint32_t i)
{
	p->calls[i] = p->calls[--p->ncalls];
}

void book_cancel(struct book *book, struct book_process *p, pid_t thread)
{
	for (uint32_t i = p->ncalls; i-- > 0;) {
		struct call call = p->calls[i];

		if (call.thread != thread)
			continue;
		account_cancel(&p->holdings[call.gpu].account, call.bytes);
		remove_call(p, i);
		charge(book, p, call.gpu);
	}
}

static void end_call(struct book_process *p, uint32_t i)
{
	account_end(&p->holdings[p->calls[i].gpu].account, p->calls[i].bytes);
	remove_call(p, i);
}

void book_seen(struct book_process *p, pid_t thread)
{
	p->seen = true;
	for (uint32_t i = p->ncalls; i-- > 0;)
		if (p->calls[i].thread == thread)
			end_call(p, i);
}

static int try_parts(struct book *book, struct book_process *p, pid_t thread, uint32_t request,
		     const struct demand *demand, bool last)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < demand->count; i++) {
		struct call call = {
			.thread = thread, .request = request, .bytes = demand->parts[i].bytes};

		if (demand->parts[i].memory != DEMAND_VRAM)
			continue;
		r = find_gpu(book, demand->parts[i].gpu_id, &call.gpu);
		if (r == 0)
			r = add_call(p, &call);
		if (r == 0)
			r = admit(book, p, call.gpu, last);
	}
	if (r < 0)
		book_cancel(book, p, thread);
	return r;
}

int book_take(struct book *book, struct book_process *p, pid_t thread, uint32_t request,
	      const struct demand *demand)
{
	int r;

	r = try_parts(book, p, thread, request, demand, false);
	if (r == -EDQUOT) {
		/* What is believed may be more than there is. */
		book_refresh(book, true);
		r = try_parts(book, p, thread, request, demand, true);
	}
	return r == -ENODEV ? r : r < 0 ? -ENOMEM : 0;
}

bool book_counts_itself(struct book *book, struct book_process *p, uint32_t gpu_id)
{
	uint64_t figure, own;
	uint32_t g;

	/* What files have beside that is held against it by its account. */
	if (find_gpu(book, gpu_id, &g) < 0 || device_of(book, &book->gpus[g]) < 0 ||
	    read_kfd(book, p, g, &figure) < 0)
		return false;
	own = own_bytes(book, p, book->gpus[g].device);
	return own && own >= figure;
}

static void forget_calls(struct book_process *p, uint32_t g)
{
	for (uint32_t i = p->ncalls; i-- > 0;)
		if (p->calls[i].gpu == g)
			remove_call(p, i);
}

static bool is_open(const struct book *book, const struct book_process *p)
{
	if (p->gone)
		return true;
	for (uint32_t g = 0; g < book->ngpus; g++)
		if (account_open(&p->holdings[g].account))
			return true;
	return false;
}

/*
 * Threads first, then the figure: what they left it contains. True: there is nothing to be known of
 * the process any more, and nobody is about to ask for it.
 */
static bool refresh_process(struct book *book, struct book_process *p)
{
	bool seen = p->seen;
	uint64_t bytes, left = 0;

	p->seen = false;
	p->own = !p->gone && own_slot(book, p, 0) >= 0;
	for (uint32_t i = p->ncalls; i-- > 0;)
		if (p->gone || !target_inside(p->calls[i].thread, p->calls[i].request))
			end_call(p, i);
	for (uint32_t g = 0; g < book->ngpus; g++) {
		struct account *account = &p->holdings[g].account;

		if (read_figure(book, p, g, &bytes) == 0 && account_read(account, bytes))
			forget_calls(p, g);
		charge(book, p, g);
		left += account_bytes(account);
	}
	return !left && !p->ncalls && (p->gone || !seen);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The kernel's figures of those that have no row of their own, where people look for it. */
static void note_figures(struct book *book)
{
	uint64_t now = now_ns();

	for (uint32_t g = 0; g < book->ngpus; g++) {
		uint64_t bytes = 0;

		for (uint32_t i = 0; i < book->nprocesses; i++)
			if (!book->processes[i]->own)
				bytes += book->processes[i]->holdings[g].account.figure_bytes;
		if (book->gpus[g].device >= 0)
			quota_set_driver(book->slot, book->gpus[g].device, bytes, now);
	}
}

void book_refresh(struct book *book, bool all)
{
	for (uint32_t i = book->nprocesses; i-- > 0;) {
		struct book_process *p = book->processes[i];

		if ((!all && !p->seen && !is_open(book, p)) || !refresh_process(book, p))
			continue;
		free_process(p);
		book->processes[i] = book->processes[--book->nprocesses];
	}
	note_figures(book);
}

bool book_is_open(const struct book *book)
{
	for (uint32_t i = 0; i < book->nprocesses; i++)
		if (is_open(book, book->processes[i]))
			return true;
	return false;
}

bool book_is_empty(const struct book *book)
{
	return !book->nprocesses;
}

nfds_t book_watch(const struct book *book, struct pollfd *ret, nfds_t room)
{
	nfds_t n = 0;

	for (uint32_t i = 0; i < book->nprocesses && n < room; i++)
		if (!book->processes[i]->gone)
			ret[n++] =
				(struct pollfd){.fd = book->processes[i]->pidfd, .events = POLLIN};
	return n;
}

bool book_ended(struct book *book, const struct pollfd *polled, nfds_t n)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++) {
		for (uint32_t j = 0; polled[i].revents && j < book->nprocesses; j++) {
			if (book->processes[j]->pidfd != polled[i].fd)
				continue;
			book->processes[j]->gone = any = true;
		}
	}
	return any;
}
