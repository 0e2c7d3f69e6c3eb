/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/guest.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/number.h"
#include "base/pages.h"
#include "dropin/variables.h"
#include "dropin/vgpu_file.h"
#include "guest/core/drop_in.h"
#include "guest/core/object.h"
#include "guest/core/rooms.h"
#include "guest/process/complain.h"
#include "guest/process/environment.h"
#include "guest/process/home.h"

_Thread_local unsigned int guest_depth __attribute__((tls_model("initial-exec")));
_Thread_local unsigned int guest_door_depth __attribute__((tls_model("initial-exec")));

static struct guest_page no_page;
_Atomic(struct guest_page *) guest_page = &no_page;

/* Where a kernel cannot wipe the page in a child, the C library's handler does. It cannot block. */
static void guest_wipe(void)
{
	atomic_store_explicit(&atomic_load(&guest_page)->guest, NULL, memory_order_relaxed);
}

static struct guest_page *guest_get_page(void)
{
	struct guest_page *page = atomic_load(&guest_page), *expected = &no_page;

	if (page != &no_page)
		return page;
	page = pages_map(4096);
	if (!page)
		return &no_page; /* start again with every call rather than fail */
	/*
	 * Before other threads see the page: between the two, one could make the guest and another
	 * fork, and the child would take its parent's guest for its own.
	 */
	if (madvise(page, 4096, MADV_WIPEONFORK))
		pthread_atfork(NULL, NULL, guest_wipe);
	if (!atomic_compare_exchange_strong(&guest_page, &expected, page)) {
		munmap(page, 4096);
		return expected;
	}
	return page;
}

/* Prints nothing: a thread that loses the race to make the guest stays silent. */
__attribute__((format(printf, 2, 3))) static void guest_close_gpu(struct guest *guest,
								  const char *fmt, ...)
{
	va_list ap;

	guest_close(guest, CUDA_ERROR_INVALID_VALUE);
	va_start(ap, fmt);
	vsnprintf(guest->config.complaint, sizeof(guest->config.complaint), fmt, ap);
	va_end(ap);
}

static const char *guest_explain_error(int error)
{
	switch (error) {
	case -ENOENT:
		return "does not exist";
	case -EPERM:
	case -ELOOP:
		return "belongs to another user, is open to others or is a symbolic link";
	case -EPROTO:
		return "was written by another version of allot; "
		       "stop the tenant's processes and start them with one version";
	case -EBADMSG:
		return "is damaged; create the tenant again";
	case -ENOSPC:
		return "has no room left, on its file system or for one more device";
	case -EFBIG:
		return "would be larger than the process may make a file (ulimit -f)";
	case -EUSERS:
		return "has no free slot: 1024 processes use it";
	case -ESTALE:
		return "was removed";
	case -ENOLCK:
		return "is on a file system that loses locks (an overlay?); "
		       "set ALLOT_RUNTIME_DIR to a directory on tmpfs";
	case -EROFS:
		return "is on a read-only file system";
	case -EMFILE:
	case -ENFILE:
		return "cannot be opened: no file descriptor is left";
	default:
		return strerror(-error);
	}
}

static const char *guest_explain_policy_error(int error)
{
	return error == -EAGAIN ? "changes all the time; set its limits less often"
				: guest_explain_error(error);
}

#define LEDGER_SAYS "the ledger of tenant %.80s %s"
#define POLICY_SAYS "the policy of tenant %.80s %s"

void guest_explain(const struct guest *guest, int error, char *ret, size_t len)
{
	snprintf(ret, len, LEDGER_SAYS, guest->dir, guest_explain_error(error));
}

void guest_explain_policy(const struct guest *guest, int error, char *ret, size_t len)
{
	snprintf(ret, len, POLICY_SAYS, guest->dir, guest_explain_policy_error(error));
}

/* Variables first: the file is not overruled by them. */
static int guest_read_config(struct config *config)
{
	int r = variables_read(config, environment_limits());

	return r ? r : vgpu_file_read(config);
}

static const uint32_t no_gate = POLICY_GATE_OPEN;

/* Opens a tenant that exists. */
static void guest_open_tenant(struct guest *guest)
{
	int r = policy_open(guest->dir, &guest->policy_map);

	if (!r)
		r = policy_read(guest->policy_map, &guest->policy);
	if (r) {
		guest_close_gpu(guest, POLICY_SAYS, guest->dir, guest_explain_policy_error(r));
		return;
	}
	guest->gate = policy_gate(guest->policy_map);
}

/* Takes a tenant that `allot run` made, or joined. */
static void guest_take_tenant(struct guest *guest, const char *dir)
{
	if (dir[0] != '/' || strlen(dir) >= sizeof(guest->dir)) {
		guest_close_gpu(guest,
				"ALLOT_TENANT_DIR is \"%.60s\": not an absolute path of "
				"at most %zu characters; start the program with `allot run`",
				dir, sizeof(guest->dir) - 1);
		return;
	}
	strcpy(guest->dir, dir);
	guest_open_tenant(guest);
	if (guest_mode(guest) == GUEST_LIMITED && guest_read_config(&guest->config))
		guest_close(guest, CUDA_ERROR_INVALID_VALUE);
}

/* One by configuration alone, or none. */
static void guest_take_drop_in(struct guest *guest)
{
	int r;

	/* Its tenant was another one, whatever limits it brings. */
	if (home_is_run()) {
		guest_close_gpu(guest, "ALLOT_TENANT_DIR is gone from the environment of a program "
				       "that `allot run` started");
		return;
	}
	if (guest_read_config(&guest->config)) {
		guest_close(guest, CUDA_ERROR_INVALID_VALUE);
		return;
	}
	if (!guest->config.present && vgpu_file_is_lost()) {
		guest_close_gpu(guest, VGPU_DIR " is mounted and has no vgpu.config: the limits of this container are "
				       "lost; start the container anew");
		return;
	}
	if (!guest->config.present) {
		atomic_init(&guest->mode, GUEST_INERT);
		return;
	}
	guest->drop_in = true;
	r = drop_in_enter(&guest->config, guest->dir, sizeof(guest->dir), &guest->first);
	if (r)
		guest_close_gpu(guest, "tenant %.64s cannot be created: %s", guest->config.tenant,
				guest_explain_error(r));
	else
		guest_open_tenant(guest);
}

static void guest_configure(struct guest *guest)
{
	char beside[sizeof(guest->dir)];
	const char *dir = home_find_tenant(beside, sizeof(beside))
				  ? beside
				  : environment_get("ALLOT_TENANT_DIR");
	int r;

	guest->gate = &no_gate;
	atomic_init(&guest->mode, GUEST_LIMITED);
	if (dir)
		guest_take_tenant(guest, dir);
	else
		guest_take_drop_in(guest);
	if (guest_mode(guest) != GUEST_LIMITED)
		return;
	guest->metered = config_compute(&guest->config) == POLICY_COMPUTE_CAP;
	r = ledger_open(guest->dir, LEDGER_GUEST, &guest->ledger);
	if (!r)
		r = object_table_new(&guest->objects);
	if (r) {
		guest_close_gpu(guest, LEDGER_SAYS, guest->dir, guest_explain_error(r));
		guest_close(guest, CUDA_ERROR_OPERATING_SYSTEM);
	}
}

/* Rooms' structures begin behind it, in lines of the cache of their own. */
#define GUEST_BYTES ((sizeof(struct guest) + 63) & ~(size_t)63)

struct guest *guest_start(void)
{
	static struct guest no_memory = {.mode = GUEST_CLOSED, .error = CUDA_ERROR_OUT_OF_MEMORY};
	struct guest_page *page = guest_get_page();
	struct guest *guest, *expected = NULL;
	int saved = errno;

	/* In the page of nobody a child would find its parent's guest. */
	guest = page == &no_page ? NULL : pages_map(GUEST_BYTES + guest_rooms.bytes);
	if (!guest)
		return &no_memory;
	guest_rooms.hang(guest, (char *)guest + GUEST_BYTES);
	guest_configure(guest);
	if (!atomic_compare_exchange_strong(&page->guest, &expected, guest)) {
		ledger_close(guest->ledger);
		policy_close(guest->policy_map);
		munmap(guest, GUEST_BYTES + guest_rooms.bytes);
		guest = expected;
	} else if (guest_mode(guest) == GUEST_CLOSED) {
		complain_refusal(guest->config.complaint);
	} else if (guest->first && *guest->config.remark) {
		complain_line(guest->config.remark);
	}
	errno = saved;
	return guest;
}

int guest_claim_slot(struct guest *guest, struct slot **ret)
{
	int cancel = cancel_hold(); /* other threads wait for the one that claims */

	if (once_begin(&guest->own_slot))
		once_end(&guest->own_slot, slot_claim(guest->ledger, &guest->claimed));
	cancel_release(cancel);
	if (!guest->own_slot.error)
		*ret = guest->claimed;
	return guest->own_slot.error;
}

struct guest_device *guest_current_device(struct guest *guest)
{
	CUdevice ordinal;

	return DRIVER(cuCtxGetDevice, (&ordinal)) ? NULL : guest_device(guest, ordinal);
}

uint64_t guest_generation(const struct guest *guest)
{
	/* Plus one: a cache that was never filled holds 0. */
	return policy_generation(guest->policy_map) + 1;
}

void guest_name_device(struct guest *guest, const uint8_t uuid[16], unsigned int ordinal,
		       uint64_t total_bytes)
{
	if (guest->drop_in)
		drop_in_name_device(&guest->config, guest->dir, uuid, ordinal, total_bytes,
				    &guest->kept_out);
}

/*
 * Of the tenant's limit and that of the configuration the smaller one. A policy that cannot be read,
 * or does not name the device, gives nothing: it fails closed.
 */
static uint64_t guest_read_limit(struct guest *guest, const uint8_t uuid[16], unsigned int ordinal,
				 uint64_t total_bytes, bool ever)
{
	struct policy policy;
	uint64_t limit, own;

	if (policy_read(guest->policy_map, &policy) ||
	    (ever ? policy_limit_ever : policy_limit)(&policy, uuid, total_bytes, &limit))
		return 0;
	own = config_limit_bytes(&guest->config, ordinal, total_bytes);
	return own ? min_u64(own, limit) : limit;
}

uint64_t guest_limit_cached(struct guest *guest, const uint8_t uuid[16], uint64_t total_bytes,
			    _Atomic uint64_t *cached, _Atomic uint64_t *generation)
{
	uint64_t now = guest_generation(guest), limit;

	if (atomic_load_explicit(generation, memory_order_acquire) == now)
		return atomic_load_explicit(cached, memory_order_relaxed);
	/* Of threads that refresh at once, the last to write has looked again after writing. */
	do {
		now = guest_generation(guest);
		limit = guest_read_limit(guest, uuid, guest_ordinal(guest, uuid), total_bytes,
					 false);
		atomic_store_explicit(cached, limit, memory_order_relaxed);
		atomic_store_explicit(generation, now, memory_order_release);
	} while (guest_generation(guest) != now);
	return limit;
}

uint64_t guest_limit(struct guest *guest, struct guest_device *device)
{
	return guest_limit_cached(guest, device->uuid, device->total_bytes, &device->limit,
				  &device->limit_generation);
}

/* Limits by CUDA's numbers: before CUDA runs these are what the variable makes of NVML's. */
uint64_t guest_limit_by_uuid(struct guest *guest, const uint8_t uuid[16], unsigned int index,
			     uint64_t total_bytes)
{
	unsigned int ordinal = guest_ordinal(guest, uuid);
	int number;

	if (ordinal == CONFIG_EVERY && !atomic_load_explicit(&guest->slot, memory_order_acquire)) {
		number = config_ordinal(getenv("CUDA_VISIBLE_DEVICES"), index, uuid);
		ordinal = number < 0 ? CONFIG_EVERY : (unsigned int)number;
	}
	return guest_read_limit(guest, uuid, ordinal, total_bytes, false);
}

uint64_t guest_limit_ever(struct guest *guest, const uint8_t uuid[16], uint64_t total_bytes)
{
	return guest_read_limit(guest, uuid, guest_ordinal(guest, uuid), total_bytes, true);
}
