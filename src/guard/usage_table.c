/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/usage_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/cleanup.h"
#include "base/now.h"
#include "base/number.h"
#include "base/target.h"
#include "guard/account.h"
#include "guard/kernel_usage.h"
#include "ledger/ledger.h"
#include "base/pidns.h"
#include "ledger/policy.h"
#include "ledger/quota.h"
#include "ledger/shared.h"
#include "ledger/slot.h"

/* The kernel keeps one file for each GPU; a call that it refuses has one kept here all the same. */
#define KEPT_MOST 128

/* A call that was admitted, and is perhaps not over. */
struct call {
	pid_t thread;
	uint32_t request;
	uint32_t gpu; /* by its place in the table */
	uint64_t bytes;
};

/* A process's memory on a GPU, and its part in the guard's row. */
struct holding {
	struct account account;
	uint64_t charged_bytes;
};

struct usage_table_process {
	pid_t pid;
	int pidfd;
	bool gone;
	bool files; /* it takes memory by render nodes, too */
	bool seen;  /* it asked since its figures were read */
	bool own;   /* it counted for itself when they were */
	struct call *calls;
	uint32_t ncalls, room;
	struct holding *holdings; /* by GPU */
	int *kept;		  /* descriptors of files that the kernel keeps for it */
	uint32_t nkept;
};

struct gpu {
	const struct topology_node *node;
	uint8_t uuid[16];
	uint64_t total_bytes;
	uint64_t charged_bytes; /* the guard's row: the sum over processes */
	int device;		/* in the ledger; -1: not needed yet */
};

struct usage_table {
	struct ledger *ledger;
	struct slot *slot;
	struct policy_map *map;
	struct policy policy;
	uint64_t generation; /* of the policy that was read */
	uint64_t pidns;
	struct gpu *gpus;
	uint32_t ngpus;
	struct usage_table_process **processes;
	uint32_t nprocesses, room;
};

DEFINE_CLEANUP(struct usage_table, usage_table_close)

/* The kernel lets go of them when the process ends, or becomes another program. */
static void usage_table_keep_none(struct usage_table_process *p)
{
	while (p->nkept)
		close(p->kept[--p->nkept]);
}

static void usage_table_free_process(struct usage_table_process *p)
{
	if (!p)
		return;
	usage_table_keep_none(p);
	free(p->kept);
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p->calls);
	free(p->holdings);
	free(p);
}

void usage_table_close(struct usage_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->nprocesses; i++)
		usage_table_free_process(table->processes[i]);
	free(table->processes);
	free(table->gpus);
	ledger_close(table->ledger);
	policy_close(table->map);
	free(table);
}

static int usage_table_list_gpus(struct usage_table *table, const struct topology *topology)
{
	table->gpus = calloc(topology->gpu_count ? topology->gpu_count : 1, sizeof(*table->gpus));
	if (!table->gpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < topology->node_count; i++) {
		const struct topology_node *node = &topology->nodes[i];
		struct gpu *gpu = &table->gpus[table->ngpus];

		if (!node->gpu_id)
			continue;
		*gpu = (struct gpu){
			.node = node, .total_bytes = topology_vram_bytes(node), .device = -1};
		amd_identity(node, gpu->uuid);
		table->ngpus++;
	}
	return 0;
}

int usage_table_open(const char *dir, const struct topology *topology, struct usage_table **ret)
{
	CLEANUP(cleanup_usage_table_close) struct usage_table *table = calloc(1, sizeof(*table));
	int r;

	if (!table)
		return -ENOMEM;
	table->pidns = pidns_self();
	r = usage_table_list_gpus(table, topology);
	if (r == 0)
		r = policy_open(dir, &table->map);
	if (r == 0) {
		table->generation = policy_generation(table->map);
		r = policy_read(table->map, &table->policy);
	}
	if (r == 0)
		r = ledger_open(dir, LEDGER_GUEST, &table->ledger);
	if (r == 0)
		r = slot_claim(table->ledger, &table->slot);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(table);
	return 0;
}

static int usage_table_find_gpu(const struct usage_table *table, uint32_t gpu_id, uint32_t *ret_gpu)
{
	for (uint32_t i = 0; i < table->ngpus; i++)
		if (table->gpus[i].node->gpu_id == gpu_id) {
			*ret_gpu = i;
			return 0;
		}
	return -ENODEV;
}

/* A policy that cannot be read any more lets nothing new in. */
static int usage_table_limit_of(struct usage_table *table, const struct gpu *gpu,
				uint64_t *ret_bytes)
{
	uint64_t generation = policy_generation(table->map);
	struct policy policy;
	int r;

	if (generation != table->generation) {
		r = policy_read(table->map, &policy);
		if (r < 0)
			return r;
		table->policy = policy;
		table->generation = generation;
	}
	return policy_limit(&table->policy, gpu->uuid, gpu->total_bytes, ret_bytes);
}

static int usage_table_device_of(struct usage_table *table, struct gpu *gpu)
{
	if (gpu->device < 0)
		gpu->device = ledger_device(table->ledger, gpu->uuid, gpu->total_bytes);
	return gpu->device;
}

/* Skips processes that are gone, whose number another one may have. */
struct usage_table_process *usage_table_find(const struct usage_table *table, pid_t pid)
{
	for (uint32_t i = 0; i < table->nprocesses; i++)
		if (table->processes[i]->pid == pid && !table->processes[i]->gone)
			return table->processes[i];
	return NULL;
}

static struct usage_table_process *usage_table_new_process(const struct usage_table *table,
							   pid_t pid)
{
	struct usage_table_process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pid = pid;
	p->holdings = calloc(table->ngpus ? table->ngpus : 1, sizeof(*p->holdings));
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->pidfd < 0 || !p->holdings) {
		usage_table_free_process(p);
		return NULL;
	}
	return p;
}

struct usage_table_process *usage_table_process(struct usage_table *table, pid_t pid, bool files)
{
	struct usage_table_process *p = usage_table_find(table, pid);

	if (p) {
		p->files |= files;
		return p;
	}
	if (table->nprocesses == table->room) {
		uint32_t room = table->room ? 2 * table->room : 16;
		void *grown = reallocarray(table->processes, room, sizeof(*table->processes));

		if (!grown)
			return NULL;
		table->processes = grown;
		table->room = room;
	}
	p = usage_table_new_process(table, pid);
	if (p) {
		p->files = files;
		table->processes[table->nprocesses++] = p;
	}
	return p;
}

int usage_table_keep(struct usage_table_process *p, int fd)
{
	int *grown = reallocarray(p->kept, p->nkept + 1, sizeof(*grown));
	int ours;

	if (!grown)
		return -ENOMEM;
	p->kept = grown;
	ours = p->nkept < KEPT_MOST ? target_file(p->pidfd, fd) : -EBUSY;
	if (ours < 0)
		return ours;
	p->kept[p->nkept++] = ours;
	return 0;
}

/*
 * The slots in which a process counts for itself, from `from` on: the next one, or -1. One is its
 * own if it lives: a process has one number in a namespace.
 */
static int usage_table_own_slot(struct usage_table *table, const struct usage_table_process *p,
				int from)
{
	for (int i = from; i < slot_count(table->ledger); i++) {
		struct slot_info info;

		if (i != slot_index(table->slot) && slot_info(table->ledger, i, &info) == 0 &&
		    info.pid == (uint32_t)p->pid && info.pidns == table->pidns &&
		    slot_alive(table->ledger, i))
			return i;
	}
	return -1;
}

/*
 * The bytes that the process counts in that slot, with those pending: its hooks publish before they
 * ask the kernel, and take back after the kernel did.
 */
static uint64_t usage_table_own_bytes(struct usage_table *table,
				      const struct usage_table_process *p, int device)
{
	uint64_t sum = 0;

	for (int i = usage_table_own_slot(table, p, 0); i >= 0;
	     i = usage_table_own_slot(table, p, i + 1)) {
		struct quota_row row;

		if (quota_process(table->ledger, i, device, &row) < 0)
			continue;
		sum += row.pending;
		for (int c = 0; c < CAT_N; c++)
			sum += row.used[c];
	}
	return sum;
}

/* Bytes that it has and that another slot is charged for, or all holders together. */
static uint64_t usage_table_joined_bytes(struct usage_table *table,
					 const struct usage_table_process *p, uint32_t g)
{
	uint64_t sum = 0;

	if (!p->own || usage_table_device_of(table, &table->gpus[g]) < 0)
		return 0;
	for (int i = usage_table_own_slot(table, p, 0); i >= 0;
	     i = usage_table_own_slot(table, p, i + 1))
		sum += shared_joined(table->ledger, i, table->gpus[g].device);
	return sum;
}

/*
 * The bytes of its files, less those that its slot says are imported: these are their owner's. The
 * process says so before it imports and until it has given back. So the slot is read before and
 * after the files, and the larger figure covers an import on its way.
 */
static int usage_table_read_files(struct usage_table *table, const struct usage_table_process *p,
				  uint32_t g, uint64_t *ret_bytes)
{
	uint64_t bytes = 0, before = usage_table_joined_bytes(table, p, g), after;
	int r = kernel_usage_of_files(p->pid, p->kept, p->nkept, table->gpus[g].node, &bytes);

	if (r < 0 && r != -ENOENT)
		return r;
	after = usage_table_joined_bytes(table, p, g);
	after = max_u64(after, before);
	*ret_bytes = sat_sub_u64(bytes, after);
	return 0;
}

/* True if another process has its number already: then it is gone for good. */
static bool usage_table_has_successor(const struct usage_table_process *p)
{
	char path[32];

	if (!p->gone || !syscall(SYS_pidfd_send_signal, p->pidfd, 0, NULL, 0) || errno != ESRCH)
		return false;
	snprintf(path, sizeof(path), "/proc/%d", p->pid);
	return access(path, F_OK) == 0;
}

static int usage_table_read_kfd(const struct usage_table *table,
				const struct usage_table_process *p, uint32_t g,
				uint64_t *ret_bytes)
{
	int r = kernel_usage_of_kfd(p->pid, table->gpus[g].node, ret_bytes);

	if (r == -ENOENT)
		*ret_bytes = 0;
	return r == -ENOENT ? 0 : r;
}

/*
 * The kernel's figure: the larger of its two, since one contains some of the other. For a process
 * that is gone it is read until it is 0: the kernel takes its time to give all back.
 */
static int usage_table_read_figure(struct usage_table *table, const struct usage_table_process *p,
				   uint32_t g, uint64_t *ret_bytes)
{
	uint64_t bytes, of_files = 0;
	int r = usage_table_read_kfd(table, p, g, &bytes);

	if (r == 0 && p->files)
		r = usage_table_read_files(table, p, g, &of_files);
	if (usage_table_has_successor(p))
		bytes = of_files = r = 0;
	if (r == 0)
		*ret_bytes = max_u64(bytes, of_files);
	return r;
}

/*
 * The bytes of a process that the guard's slot carries: its account, less what it counts in a slot
 * of its own.
 */
static uint64_t usage_table_beyond_own(struct usage_table *table,
				       const struct usage_table_process *p, uint32_t g)
{
	uint64_t bytes = account_bytes(&p->holdings[g].account), own;

	if (!bytes || p->gone || usage_table_device_of(table, &table->gpus[g]) < 0)
		return bytes;
	own = usage_table_own_bytes(table, p, table->gpus[g].device);
	return sat_sub_u64(bytes, own);
}

/* Charges without a check: the memory exists already. */
static void usage_table_charge(struct usage_table *table, struct usage_table_process *p, uint32_t g)
{
	uint64_t bytes = usage_table_beyond_own(table, p, g);
	struct holding *h = &p->holdings[g];
	struct gpu *gpu = &table->gpus[g];

	if (bytes == h->charged_bytes || usage_table_device_of(table, gpu) < 0)
		return;
	gpu->charged_bytes += bytes - h->charged_bytes;
	h->charged_bytes = bytes;
	quota_set(table->slot, gpu->device, CAT_DATA, gpu->charged_bytes);
}

/* Only the bytes beyond those that the guard's row has for the process must fit. */
static int usage_table_admit(struct usage_table *table, struct usage_table_process *p, uint32_t g,
			     bool last)
{
	uint64_t bytes = usage_table_beyond_own(table, p, g), more, limit;
	struct holding *h = &p->holdings[g];
	struct gpu *gpu = &table->gpus[g];
	int r = usage_table_limit_of(table, gpu, &limit);

	if (r < 0 || bytes <= h->charged_bytes)
		return r;
	if (usage_table_device_of(table, gpu) < 0)
		return gpu->device;
	more = bytes - h->charged_bytes;
	r = last ? quota_reserve_slow(table->slot, gpu->device, more, limit)
		 : quota_reserve(table->slot, gpu->device, more, limit);
	if (r < 0)
		return r;
	quota_commit(table->slot, gpu->device, more, CAT_DATA, more);
	gpu->charged_bytes += more;
	h->charged_bytes = bytes;
	return 0;
}

static int usage_table_add_call(struct usage_table_process *p, const struct call *call)
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
static void usage_table_remove_call(struct usage_table_process *p, uint32_t i)
{
	p->calls[i] = p->calls[--p->ncalls];
}

void usage_table_cancel(struct usage_table *table, struct usage_table_process *p, pid_t thread)
{
	for (uint32_t i = p->ncalls; i-- > 0;) {
		struct call call = p->calls[i];

		if (call.thread != thread)
			continue;
		account_cancel(&p->holdings[call.gpu].account, call.bytes);
		usage_table_remove_call(p, i);
		usage_table_charge(table, p, call.gpu);
	}
}

static void usage_table_end_call(struct usage_table_process *p, uint32_t i)
{
	account_end(&p->holdings[p->calls[i].gpu].account, p->calls[i].bytes);
	usage_table_remove_call(p, i);
}

void usage_table_seen(struct usage_table_process *p, pid_t thread)
{
	p->seen = true;
	for (uint32_t i = p->ncalls; i-- > 0;)
		if (p->calls[i].thread == thread)
			usage_table_end_call(p, i);
}

static int usage_table_try_parts(struct usage_table *table, struct usage_table_process *p,
				 pid_t thread, uint32_t request, const struct demand *demand,
				 bool last)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < demand->count; i++) {
		struct call call = {
			.thread = thread, .request = request, .bytes = demand->parts[i].bytes};

		if (demand->parts[i].memory != DEMAND_VRAM)
			continue;
		r = usage_table_find_gpu(table, demand->parts[i].gpu_id, &call.gpu);
		if (r == 0)
			r = usage_table_add_call(p, &call);
		if (r == 0)
			r = usage_table_admit(table, p, call.gpu, last);
	}
	if (r < 0)
		usage_table_cancel(table, p, thread);
	return r;
}

int usage_table_take(struct usage_table *table, struct usage_table_process *p, pid_t thread,
		     uint32_t request, const struct demand *demand)
{
	int r;

	r = usage_table_try_parts(table, p, thread, request, demand, false);
	if (r == -EDQUOT) {
		/* The account may be more than the process has. */
		usage_table_refresh(table, true);
		r = usage_table_try_parts(table, p, thread, request, demand, true);
	}
	return r == -ENODEV ? r : r < 0 ? -ENOMEM : 0;
}

bool usage_table_counts_itself(struct usage_table *table, struct usage_table_process *p,
			       uint32_t gpu_id)
{
	uint64_t figure, own;
	uint32_t g;

	/* KFD's figure alone: memory by render nodes is compared where the account is. */
	if (usage_table_find_gpu(table, gpu_id, &g) < 0 ||
	    usage_table_device_of(table, &table->gpus[g]) < 0 ||
	    usage_table_read_kfd(table, p, g, &figure) < 0)
		return false;
	own = usage_table_own_bytes(table, p, table->gpus[g].device);
	return own && own >= figure;
}

static void usage_table_forget_calls(struct usage_table_process *p, uint32_t g)
{
	for (uint32_t i = p->ncalls; i-- > 0;)
		if (p->calls[i].gpu == g)
			usage_table_remove_call(p, i);
}

static bool usage_table_has_open(const struct usage_table *table,
				 const struct usage_table_process *p)
{
	if (p->gone)
		return true;
	for (uint32_t g = 0; g < table->ngpus; g++)
		if (account_open(&p->holdings[g].account))
			return true;
	return false;
}

/*
 * Threads are looked at first, then the figure is read, so that it contains the memory of calls
 * that are over. True: the process has nothing any more, and none of its calls is under way.
 */
static bool usage_table_refresh_process(struct usage_table *table, struct usage_table_process *p)
{
	bool seen = p->seen;
	uint64_t bytes, left = 0;

	p->seen = false;
	p->own = !p->gone && usage_table_own_slot(table, p, 0) >= 0;
	if (p->nkept && !kernel_usage_is_shown(p->pid)) /* it runs another program by now */
		usage_table_keep_none(p);
	for (uint32_t i = p->ncalls; i-- > 0;)
		if (p->gone || !target_inside(p->calls[i].thread, p->calls[i].request))
			usage_table_end_call(p, i);
	for (uint32_t g = 0; g < table->ngpus; g++) {
		struct account *account = &p->holdings[g].account;

		if (usage_table_read_figure(table, p, g, &bytes) == 0 &&
		    account_read(account, bytes))
			usage_table_forget_calls(p, g);
		usage_table_charge(table, p, g);
		left += account_bytes(account);
	}
	return !left && !p->ncalls && (p->gone || !seen);
}

/* The kernel's figures of those that have no row of their own, where people look for it. */
static void usage_table_note_figures(struct usage_table *table)
{
	uint64_t now = now_boot_ns();

	for (uint32_t g = 0; g < table->ngpus; g++) {
		uint64_t bytes = 0;

		for (uint32_t i = 0; i < table->nprocesses; i++)
			if (!table->processes[i]->own)
				bytes += table->processes[i]->holdings[g].account.figure_bytes;
		if (table->gpus[g].device >= 0)
			quota_set_driver(table->slot, table->gpus[g].device, bytes, now);
	}
}

void usage_table_refresh(struct usage_table *table, bool all)
{
	for (uint32_t i = table->nprocesses; i-- > 0;) {
		struct usage_table_process *p = table->processes[i];

		if ((!all && !p->seen && !usage_table_has_open(table, p)) ||
		    !usage_table_refresh_process(table, p))
			continue;
		usage_table_free_process(p);
		table->processes[i] = table->processes[--table->nprocesses];
	}
	usage_table_note_figures(table);
}

bool usage_table_is_open(const struct usage_table *table)
{
	for (uint32_t i = 0; i < table->nprocesses; i++)
		if (usage_table_has_open(table, table->processes[i]))
			return true;
	return false;
}

bool usage_table_is_empty(const struct usage_table *table)
{
	return !table->nprocesses;
}

nfds_t usage_table_watch(const struct usage_table *table, struct pollfd *ret, nfds_t room)
{
	nfds_t n = 0;

	for (uint32_t i = 0; i < table->nprocesses && n < room; i++)
		if (!table->processes[i]->gone)
			ret[n++] =
				(struct pollfd){.fd = table->processes[i]->pidfd, .events = POLLIN};
	return n;
}

bool usage_table_ended(struct usage_table *table, const struct pollfd *polled, nfds_t n)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++) {
		for (uint32_t j = 0; polled[i].revents && j < table->nprocesses; j++) {
			if (table->processes[j]->pidfd != polled[i].fd)
				continue;
			table->processes[j]->gone = any = true;
			usage_table_keep_none(table->processes[j]);
		}
	}
	return any;
}
