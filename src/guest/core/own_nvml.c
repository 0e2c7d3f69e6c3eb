/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/own_nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/now.h"
#include "guest/process/environment.h"
#include "guest/process/home.h"
#include "guest/process/lookup_libc.h"
#include "guest/process/thread.h"
#include "nvidia/uuid.h"

/*
 * How long a caller waits for the thread that opens NVML; then there is no figure, this once. A
 * hundred programs that start at once are done sooner: it is for a thread that never ends.
 */
#define WAIT_NS UINT64_C(10000000000)

/*
 * Threads that load, open or ask for a device at once do the same and store the same, so none of
 * this has a lock.
 */
static struct nvml_library nvml;
static _Atomic int loaded;  /* 1, or -1: there is none */
static _Atomic pid_t ready; /* pid that initialised it, or -1: it does not work */
static _Atomic bool ending; /* the process ends: no thread is started any more */
static _Atomic(void (*)(void)) exit_too; /* what else is to be done then */

/* By index in the ledger: a look must not cost a search by UUID. */
static _Atomic(nvmlDevice_t) handles[GUEST_DEVICES];

bool own_nvml_load(void)
{
	int known = atomic_load_explicit(&loaded, memory_order_acquire);
	void *handle;

	if (known)
		return known > 0;
	guest_depth++;
	handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	guest_depth--;
	if (handle)
		nvml_library_bind(&nvml, handle, lookup_libc().dlsym);
	atomic_store_explicit(&loaded, handle ? 1 : -1, memory_order_release);
	return handle;
}

/* NVML's library may not be taken down under our thread. */
static void own_nvml_at_exit(void)
{
	struct guest *guest = guest_made();
	uint64_t until_ns = now_monotonic_ns() + WAIT_NS;

	void (*too)(void) = atomic_load(&exit_too);

	atomic_store(&ending, true);
	if (too)
		too();
	for (int i = 0; guest && i < GUEST_DEVICES; i++)
		once_wait_until(&guest->nvml[i], until_ns);
}

static void own_nvml_expect_exit(void)
{
	static _Atomic bool expected; /* also in a forked child: it inherits what atexit knows */

	if (!atomic_exchange(&expected, true))
		atexit(own_nvml_at_exit);
}

void own_nvml_on_exit(void (*too)(void))
{
	atomic_store(&exit_too, too);
	own_nvml_expect_exit();
}

void own_nvml_prepare(void)
{
	if (!home_is_run() && !environment_get("ALLOT_TENANT_DIR"))
		return;
	own_nvml_expect_exit();
	own_nvml_load();
}

/* The pid tells a forked child that it must initialise anew. */
static bool own_nvml_initialise(void)
{
	pid_t pid = getpid(), known = atomic_load_explicit(&ready, memory_order_acquire);

	if (known == pid)
		return true;
	if (known == -1)
		return false;
	if (!own_nvml_load() || nvml.nvmlInit_v2() != NVML_SUCCESS) {
		atomic_store(&ready, -1);
		return false;
	}
	for (int i = 0; i < GUEST_DEVICES; i++)
		atomic_store_explicit(&handles[i], NULL, memory_order_relaxed);
	atomic_store_explicit(&ready, pid, memory_order_release);
	return true;
}

static bool own_nvml_find_device(const uint8_t uuid[16], int ledger_device, nvmlDevice_t *ret)
{
	nvmlDevice_t device =
		atomic_load_explicit(&handles[ledger_device], memory_order_relaxed);
	char text[UUID_TEXT_SIZE];

	if (!device) {
		uuid_format(uuid, text);
		if (nvml.nvmlDeviceGetHandleByUUID(text, &device) != NVML_SUCCESS)
			return false;
		atomic_store_explicit(&handles[ledger_device], device, memory_order_relaxed);
	}
	*ret = device;
	return true;
}

/* With the library loaded. */
static void own_nvml_open(struct once *once)
{
	struct guest *guest = guest_made();
	struct ledger_device_info info;
	int device = (int)(once - guest->nvml);
	nvmlDevice_t handle;

	guest_depth++;
	if (!ledger_device_info(guest->ledger, device, &info) && own_nvml_initialise())
		own_nvml_find_device(info.uuid, device,
				     &handle); /* the next call that asks for it finds it */
	guest_depth--;
	once_end(once, 0);
}

static void *own_nvml_run(void *arg)
{
	prctl(PR_SET_NAME, "allot-nvml"); /* for a person who looks at a program's threads */
	own_nvml_open(arg);
	return NULL;
}

void own_nvml_begin(struct guest *guest, int ledger_device)
{
	struct once *once = &guest->nvml[ledger_device];

	if (atomic_load(&once->state) != ONCE_NOT_YET || atomic_load(&ending) || !once_take(once))
		return;
	own_nvml_expect_exit();
	if (!own_nvml_load())
		once_end(once, 0);
	else if (thread_start(own_nvml_run, once))
		own_nvml_open(once);
}

bool own_nvml_settled(struct guest *guest, int ledger_device)
{
	return atomic_load_explicit(&guest->nvml[ledger_device].state, memory_order_relaxed) ==
	       ONCE_DONE;
}

const struct nvml_library *own_nvml_get(struct guest *guest, const uint8_t uuid[16],
					int ledger_device, nvmlDevice_t *ret_device)
{
	struct once *once = &guest->nvml[ledger_device];
	uint32_t state = ONCE_NOT_YET;
	bool found;

	/* Not for ever: should NVML want the loader's lock, a constructor of the program has it. */
	if (!once_wait_until(once, now_monotonic_ns() + WAIT_NS))
		return NULL;
	guest_depth++;
	found = own_nvml_initialise() && own_nvml_find_device(uuid, ledger_device, ret_device);
	guest_depth--;
	atomic_compare_exchange_strong(&once->state, &state, ONCE_DONE);
	return found ? &nvml : NULL;
}
