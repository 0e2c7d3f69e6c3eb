/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/content.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "cli/say/say.h"
#include "cli/tenant/swap_dir.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/slot.h"
#include "ledger/swap.h"
#include "node/devices.h"
#include "text/units.h"

/* More pieces than a process can have of 2 MiB each. */
#define PIECES_MAX (1u << 20)

/* The vendor's word for the memory: CU_MEM_ALLOCATION_TYPE_PINNED, as cuMemCreate takes it. */
#define KIND_PINNED 1

/* --- Another process's memory --------------------------------------------------------------- */

static int content_copy(pid_t pid, uint64_t address, void *own, size_t len, bool write)
{
	for (size_t done = 0; done < len;) {
		struct iovec local = {(char *)own + done, len - done};
		struct iovec remote = {(void *)(uintptr_t)(address + done), len - done};
		ssize_t n = write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
				  : process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (n <= 0)
			return n ? err_errno() : -EFAULT;
		done += (size_t)n;
	}
	return 0;
}

struct list {
	uint64_t n;
	struct swap_piece *piece;
	uint64_t filed; /* bytes of it, in a file */
	int error;	/* -errno: the process's memory could not be reached */
};

static int content_read_list(const struct moving *moving, const struct pid_entry *process,
			     struct list *ret)
{
	struct list list = {0};
	struct swap_answer answer;
	struct swap_list head;
	int r = swap_heard(moving->ledger, process->slot, &answer);

	if (r < 0 || !answer.list_at) {
		*ret = list;
		return r;
	}
	r = content_copy(process->pid, answer.list_at, &head, sizeof(head), false);
	if (r == 0 && (head.magic != SWAP_LIST_MAGIC || head.n > PIECES_MAX))
		r = -EPROTO;
	if (r < 0)
		return r;
	list.piece = calloc(head.n ? head.n : 1, sizeof(*list.piece));
	if (!list.piece)
		return -ENOMEM;
	list.n = head.n;
	r = content_copy(process->pid, answer.list_at + sizeof(head), list.piece,
			 list.n * sizeof(*list.piece), false);
	for (uint64_t i = 0; r == 0 && i < list.n; i++)
		if (!list.piece[i].bytes || list.piece[i].bytes > OBJECT_MAX_BYTES)
			r = -EPROTO;
	list.filed = swap_answer_filed(&answer);
	if (r < 0)
		free(list.piece);
	else
		*ret = list;
	return r;
}

/* A reader from outside gets EFAULT where the process itself would get a signal for its file. */
static int content_unreachable(const struct moving *moving, const struct pid_entry *process,
			       const struct list *list)
{
	if (list->error == -EFAULT && list->filed)
		return say_error("process %ld (%s): its file in %s (--swap-dir) cannot be reached: "
				 "%s",
				 (long)process->pid, process->comm, moving->swap_dir,
				 swap_dir_words(-EIO));
	return say_error("process %ld (%s): its host memory cannot be reached: %s",
			 (long)process->pid, process->comm, say_errno(list->error));
}

/* --- The owner ----------------------------------------------------------------------------- */

static void content_add_property(struct manifest_device *device, const char *name, uint64_t value)
{
	struct manifest_property *property = &device->properties[device->nproperties++];

	snprintf(property->name, sizeof(property->name), "%s", name);
	property->value = value;
}

static void content_describe_device(const struct device *is, struct manifest_device *ret)
{
	snprintf(ret->model, sizeof(ret->model), "%s", is->model);
	ret->memory_bytes = is->total_bytes;
	if (is->vendor != DEVICE_AMD)
		return;
	content_add_property(ret, CONTENT_NODE, is->number);
	content_add_property(ret, CONTENT_RENDER, is->render_minor);
}

static int content_add_device(const struct devices *devices, const uint8_t uuid[16],
			      struct manifest *m)
{
	const struct device *device = devices_find(devices, uuid);
	struct manifest_device *list =
		reallocarray(m->devices, m->ndevices + 1, sizeof(*m->devices));

	if (!list)
		return -ENOMEM;
	m->devices = list;
	memset(&list[m->ndevices], 0, sizeof(*list));
	memcpy(list[m->ndevices].uuid, uuid, 16);
	if (device)
		content_describe_device(device, &list[m->ndevices]);
	m->ndevices++;
	return 0;
}

static int content_add_process(const struct moving *moving, const struct pid_entry *process,
			       struct manifest *m)
{
	struct manifest_process *list =
		reallocarray(m->processes, m->nprocesses + 1, sizeof(*m->processes));
	struct slot_info info = {0};

	if (!list)
		return -ENOMEM;
	m->processes = list;
	slot_info(moving->ledger, process->slot, &info);
	memset(&list[m->nprocesses], 0, sizeof(*list));
	list[m->nprocesses].pid = process->pid;
	snprintf(list[m->nprocesses].command, sizeof(list->command), "%.*s",
		 (int)sizeof(list->command) - 1, info.command);
	m->nprocesses++;
	return 0;
}

int content_describe(const struct moving *moving, const struct pids *pids, struct manifest *ret)
{
	static struct devices devices;
	struct manifest m = {.created_s = (uint64_t)time(NULL)};
	struct ledger_device_info info;
	int r = policy_load(moving->dir, &m.policy);

	devices_read(&devices);
	for (int i = 0; r == 0 && !ledger_device_info(moving->ledger, i, &info); i++)
		r = content_add_device(&devices, info.uuid, &m);
	for (size_t i = 0; r == 0 && i < pids->n; i++)
		r = content_add_process(moving, &pids->list[i], &m);
	if (r < 0) {
		manifest_done(&m);
		return say_error("tenant \"%s\" cannot be described: %s", moving->name,
				 say_errno(r));
	}
	*ret = m;
	return 0;
}

/* --- Into an image -------------------------------------------------------------------------- */

static int content_device(const struct manifest *m, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < m->ndevices; i++)
		if (!memcmp(m->devices[i].uuid, uuid, 16))
			return (int)i;
	return -EPROTO;
}

static int content_save_piece(pid_t pid, uint32_t process, struct list *list, uint64_t k,
			      const struct manifest *m, struct object_writer *writer, void *part)
{
	const struct swap_piece *piece = &list->piece[k];
	int device = content_device(m, piece->uuid), r;
	struct object_holder holder = {
		.process = process,
		.flags = OBJECT_READS | OBJECT_WRITES | OBJECT_EXPORTS,
		.address = piece->at,
		.bytes = piece->bytes,
		.devices = device < 0 ? 0 : UINT64_C(1) << device,
	};
	struct object object = {.device = (uint32_t)device, .kind = KIND_PINNED,
				.bytes = piece->bytes, .nholders = 1, .holders = &holder};

	if (device < 0)
		return list->error = device;
	r = object_writer_begin(writer, &object);
	for (uint64_t at = 0, n; r == 0 && at < piece->bytes; at += n) {
		n = piece->bytes - at;
		n = n < OBJECT_EXTENT ? n : OBJECT_EXTENT;
		r = list->error = content_copy(pid, piece->host + at, part, n, false);
		if (r == 0)
			r = object_writer_content(writer, at, part, n);
	}
	FAULT_POINT(CONTENT_SAVED);
	return r;
}

int content_save(const struct moving *moving, const struct pids *pids, struct image_draft *draft,
		 const struct manifest *manifest)
{
	CLEANUP_FREE void *part = malloc(OBJECT_EXTENT);
	int r = part ? 0 : -ENOMEM;

	ledger_refresh(moving->ledger);
	for (size_t i = 0; r == 0 && i < pids->n; i++) {
		const struct pid_entry *process = &pids->list[i];
		struct list list = {0};

		r = list.error = content_read_list(moving, process, &list);
		for (uint64_t k = 0; r == 0 && k < list.n; k++)
			r = content_save_piece(process->pid, (uint32_t)i, &list, k, manifest,
					       image_writer(draft), part);
		free(list.piece);
		if (list.error)
			return content_unreachable(moving, process, &list);
	}
	return r;
}

/* --- Back ----------------------------------------------------------------------------------- */

struct receiver {
	const struct pid_entry *process;
	struct list list;
	uint64_t seen; /* of its pieces, in the image */
};

static struct receiver *content_receiver(struct receiver *receivers, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (receivers[i].process->pid == pid)
			return &receivers[i];
	return NULL;
}

static const struct swap_piece *content_piece(const struct list *list, const struct object *object)
{
	for (uint64_t i = 0; i < list->n; i++)
		if (list->piece[i].at == object->holders[0].address &&
		    list->piece[i].bytes == object->bytes)
			return &list->piece[i];
	return NULL;
}

static int content_put_object(struct receiver *receivers, size_t n, struct image *image,
			      const struct object *object, struct damage *damage)
{
	const struct manifest *m = image_manifest(image);
	const struct swap_piece *piece = NULL;
	struct receiver *to = NULL;
	struct object_extent extent;
	int r = 0;

	if (object->nholders)
		to = content_receiver(receivers, n, m->processes[object->holders[0].process].pid);
	if (to)
		piece = content_piece(&to->list, object);
	if (!piece)
		return 0; /* its process has ended, or does not know it: then it misses one */
	to->seen++;
	while (r == 0 && (r = object_reader_content(image_reader(image), &extent, damage)) > 0)
		r = to->list.error = content_copy(to->process->pid, piece->host + extent.offset,
						  (void *)extent.data, extent.bytes, true);
	FAULT_POINT(CONTENT_PUT_BACK);
	return r;
}

static int content_put_all(struct receiver *receivers, size_t n, struct image *image,
			   struct damage *damage)
{
	struct object object;
	int r;

	while ((r = object_reader_next(image_reader(image), &object, damage)) > 0) {
		r = content_put_object(receivers, n, image, &object, damage);
		if (r < 0)
			break;
	}
	return r;
}

static int content_fill(const struct moving *moving, struct receiver *receivers, size_t n,
			struct image *image)
{
	struct damage damage = {.text = ""};
	int r = content_put_all(receivers, n, image, &damage);

	for (size_t i = 0; i < n; i++)
		if (receivers[i].list.error)
			return content_unreachable(moving, receivers[i].process,
						   &receivers[i].list);
	if (r < 0)
		return say_error("content cannot be put back: %s",
				 *damage.text ? damage.text : say_errno(r));
	for (size_t i = 0; i < n; i++)
		if (receivers[i].seen != receivers[i].list.n)
			return say_error("process %ld (%s) misses memory that is not in the image",
					 (long)receivers[i].process->pid,
					 receivers[i].process->comm);
	return 0;
}

int content_put_back(const struct moving *moving, const struct pids *pids, struct image *image)
{
	struct receiver *receivers = calloc(pids->n ? pids->n : 1, sizeof(*receivers));
	int r = 0;

	if (!receivers)
		return say_error("out of memory");
	ledger_refresh(moving->ledger);
	for (size_t i = 0; r == 0 && i < pids->n; i++) {
		receivers[i].process = &pids->list[i];
		r = content_read_list(moving, &pids->list[i], &receivers[i].list);
		receivers[i].list.error = r;
		if (r < 0)
			r = content_unreachable(moving, &pids->list[i], &receivers[i].list);
	}
	if (r == 0)
		r = content_fill(moving, receivers, pids->n, image);
	for (size_t i = 0; i < pids->n; i++)
		free(receivers[i].list.piece);
	free(receivers);
	return r;
}
