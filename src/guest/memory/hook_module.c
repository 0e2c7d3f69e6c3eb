/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded code. Nobody tells its size beforehand, and it may come at once or, with lazy loading,
 * when a function of it is first asked for. What the device's free memory falls by is charged as a
 * guess (a neighbour may be allocating just then), and the driver's figure for this process puts it
 * right when the limit comes near. Where a load by itself breaks the quota, it is undone.
 */
#include "guest/core/hook.h"
#include "guest/core/known_code.h"
#include "guest/memory/charge.h"
#include "guest/memory/later.h"
#include "guest/memory/room.h"

/* More than this, in one load, is a neighbour's rather than ours until the figure says so. */
#define GUESS_MAX_BYTES (UINT64_C(1) << 30)

struct load {
	struct guest_device *device; /* NULL: no context, so nothing is loaded yet */
	size_t free;
	uint64_t guess;
};

static size_t module_device_free(void)
{
	size_t free = 0, total;

	return DRIVER(cuMemGetInfo_v2, (&free, &total)) ? 0 : free;
}

static struct load module_load_begin(struct guest *guest)
{
	struct load load = {.device = guest_current_device(guest)};

	if (load.device) {
		atomic_store(&load.device->loaded, true);
		charge_release_begin(load.device);
		load.free = module_device_free();
	}
	return load;
}

/* Charges the guess and has the figure looked at. False: over the limit by this load. */
static bool module_load_end(struct guest *guest, struct load *load)
{
	size_t now;

	if (!load->device)
		return true;
	now = module_device_free();
	load->guess = load->free > now ? load->free - now : 0;
	if (load->guess > GUESS_MAX_BYTES)
		load->guess = GUESS_MAX_BYTES;
	charge_follow(guest, load->device, CAT_MODULE, 0, load->guess);
	charge_release_end(guest, load->device, CAT_MODULE, 0);
	charge_stale(guest, load->device);
	return !load->guess || !charge_over(guest, load->device);
}

static CUresult module_keep(struct guest *guest, const struct load *load, uint64_t handle)
{
	struct object object = {.kind = OBJECT_MODULE, .key = handle, .category = CAT_MODULE,
				.bytes = load->guess};

	if (load->device) {
		object.device = (int16_t)load->device->ordinal;
		object_put(guest->objects, &object); /* or its guess stays until the next look */
	}
	return CUDA_SUCCESS;
}

static CUresult module_refuse(struct guest *guest, const struct load *load)
{
	charge_follow(guest, load->device, CAT_MODULE, load->guess, 0);
	charge_stale(guest, load->device);
	quota_count_refusal(atomic_load(&guest->slot), load->device->ledger);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void module_forget(struct guest *guest, uint64_t handle)
{
	struct guest_device *device;
	struct object object;

	if (!object_take(guest->objects, OBJECT_MODULE, handle, &object))
		return;
	device = guest_device(guest, object.device);
	later_released(device); /* the driver's figure may have it for a while yet */
	/* Where the driver says what went, the guess is no longer what is charged. */
	if (!charge_stale(guest, device))
		charge_follow(guest, device, CAT_MODULE, object.bytes, 0);
}

static uint64_t module_function_key(struct guest *guest, uint64_t handle, const char *name)
{
	CUcontext context = NULL;

	if (DRIVER(cuCtxGetCurrent, (&context)))
		context = NULL;
	return known_code_key(&guest->code, handle, name, KEY(context));
}

/* What was given back is not to hide what is loaded then. */
static bool module_wait(struct guest *guest, struct load *load, struct room *room)
{
	if (!load->device || !room_wait(room, guest, load->device, 0))
		return false;
	load->free = module_device_free();
	return true;
}

/* `again`: whether the call can be made twice; options are also where the driver answers to. */
#define LOAD(name, params, args, again, handle, undo)                                              \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		struct load load = module_load_begin(guest);                                       \
		CUresult e = WHILE_FULL(DRIVER(name, args),                                        \
					(again) && module_wait(guest, &load, &room_));             \
		bool fits = module_load_end(guest, &load);                                         \
                                                                                                   \
		if (e)                                                                             \
			return e;                                                                  \
		if (fits)                                                                          \
			return module_keep(guest, &load, KEY(*handle));                            \
		DRIVER(undo, (*handle));                                                           \
		return module_refuse(guest, &load);                                                \
	}

#define UNLOAD(name, params, args)                                                                 \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		CUresult e;                                                                        \
                                                                                                   \
		known_code_forget(&guest->code);                                                   \
		e = DRIVER(name, args);                                                            \
		if (!e)                                                                            \
			module_forget(guest, KEY args);                                            \
		return e;                                                                          \
	}

/*
 * What was loaded by looking a function up cannot be unloaded by itself: charged, not refused. Only
 * the first time loads it.
 */
#define TOUCH(name, params, args, handle, text)                                                    \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		uint64_t key = module_function_key(guest, KEY(handle), text);                      \
		struct load load;                                                                  \
		CUresult e;                                                                        \
                                                                                                   \
		if (known_code_has(&guest->code, key))                                             \
			return DRIVER(name, args);                                                 \
		load = module_load_begin(guest);                                                   \
		e = WHILE_FULL(DRIVER(name, args), module_wait(guest, &load, &room_));             \
		module_load_end(guest, &load);                                                     \
		if (!e)                                                                            \
			known_code_add(&guest->code, key);                                         \
		return e;                                                                          \
	}

LOAD(cuModuleLoad, (CUmodule *module, const char *fname), (module, fname), true, module,
     cuModuleUnload)
LOAD(cuModuleLoadData, (CUmodule *module, const void *image), (module, image), true, module,
     cuModuleUnload)
LOAD(cuModuleLoadDataEx,
     (CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
      void **optionValues),
     (module, image, numOptions, options, optionValues), !numOptions, module, cuModuleUnload)
LOAD(cuModuleLoadFatBinary, (CUmodule *module, const void *fatCubin), (module, fatCubin), true,
     module, cuModuleUnload)
LOAD(cuLibraryLoadData,
     (CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
      unsigned int numLibraryOptions),
     (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
      libraryOptionValues, numLibraryOptions),
     !numJitOptions, library, cuLibraryUnload)
LOAD(cuLibraryLoadFromFile,
     (CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
      unsigned int numLibraryOptions),
     (library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
      libraryOptionValues, numLibraryOptions),
     !numJitOptions, library, cuLibraryUnload)

UNLOAD(cuModuleUnload, (CUmodule hmod), (hmod))
UNLOAD(cuLibraryUnload, (CUlibrary library), (library))

TOUCH(cuModuleGetFunction, (CUfunction *hfunc, CUmodule hmod, const char *name),
      (hfunc, hmod, name), hmod, name)
TOUCH(cuKernelGetFunction, (CUfunction *pFunc, CUkernel kernel), (pFunc, kernel), kernel, NULL)
TOUCH(cuFuncLoad, (CUfunction function), (function), function, NULL)
