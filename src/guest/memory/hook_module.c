/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded code. Nobody tells its size beforehand, and it may come at once or, with lazy loading,
 * when a function of it is first asked for. What the device's free memory falls by is charged as a
 * guess (a neighbour may be allocating just then), and the driver's figure for this process puts it
 * right when the limit comes near. Where a load by itself breaks the quota, it is undone.
 */
#include "base/number.h"
#include "guest/account/charge.h"
#include "guest/account/context.h"
#include "guest/account/later.h"
#include "guest/account/room.h"
#include "guest/account/state.h"
#include "guest/core/hook.h"
#include "guest/memory/known_code.h"
#include "guest/memory/state.h"

/* More than this, in one load, is a neighbour's rather than ours until the figure says so. */
#define GUESS_MAX_BYTES (UINT64_C(1) << 30)

struct load {
	struct guest_device *device; /* whose context is current; NULL: none is */
	uint64_t devices;	     /* a bit each: those into whose contexts the code comes */
	bool everywhere;	     /* into each of these contexts, not just into the current one */
	size_t free;
	uint64_t guess; /* bytes in each of these contexts */
};

static size_t module_device_free(void)
{
	size_t free = 0, total;

	return DRIVER(cuMemGetInfo_v2, (&free, &total)) ? 0 : free;
}

/* The first device of those from one on, or NULL. */
static struct guest_device *module_next(struct guest *guest, uint64_t devices, int from)
{
	for (int i = from; i < guest->ndevices; i++)
		if (devices >> i & 1)
			return &guest->device[i];
	return NULL;
}

#define FOR_EACH(d, guest, devices)                                                                \
	for (struct guest_device *d = module_next(guest, devices, 0); d;                           \
	     d = module_next(guest, devices, (int)(d - (guest)->device) + 1))

/* The devices on which this process has a context. */
static uint64_t module_devices(struct guest *guest)
{
	uint64_t devices = 0;

	for (int i = 0; i < guest->ndevices; i++)
		devices |= (uint64_t)(atomic_load(&guest->device[i].account->contexts) > 0) << i;
	return devices;
}

/*
 * A library may come into every context, whichever device is current: at once or, with lazy loading,
 * with its first use there.
 */
static struct load module_load_begin(struct guest *guest, bool library)
{
	struct load load = {.device = guest_current_device(guest)};
	uint64_t may;

	atomic_fetch_add(&guest->account->libraries, library);
	if (load.device)
		load.devices = UINT64_C(1) << load.device->ordinal;
	may = load.devices | (library ? module_devices(guest) : 0);
	FOR_EACH (d, guest, may)
		atomic_store(&d->account->loaded, true);
	load.everywhere = library && context_is_eager(guest);
	if (load.everywhere)
		load.devices = may;
	FOR_EACH (d, guest, load.devices)
		charge_release_begin(d);
	if (load.device)
		load.free = module_device_free();
	return load;
}

/* The contexts of a device that have the code. */
static uint64_t module_copies(const struct guest_device *device, bool everywhere)
{
	return everywhere ? (uint64_t)atomic_load(&device->account->contexts) : 1;
}

static uint64_t module_guess(const struct load *load)
{
	size_t now = load->device ? module_device_free() : 0;
	uint64_t copies = load->device ? module_copies(load->device, load->everywhere) : 0;

	return copies ? min_u64(sat_sub_u64(load->free, now), GUESS_MAX_BYTES) / copies : 0;
}

/* Charges the guess and has the figure looked at. Returns a device of which the limit is passed. */
static struct guest_device *module_load_end(struct guest *guest, struct load *load)
{
	struct guest_device *over = NULL;

	load->guess = module_guess(load);
	FOR_EACH (d, guest, load->devices) {
		charge_follow(guest, d, CAT_MODULE, 0,
			      load->guess * module_copies(d, load->everywhere));
		charge_release_end(guest, d, CAT_MODULE, 0);
	}
	FOR_EACH (d, guest, load->devices) {
		charge_stale(guest, d);
		if (load->guess && charge_over(guest, d))
			over = d;
	}
	return over;
}

static CUresult module_keep(struct guest *guest, const struct load *load, uint64_t handle)
{
	struct object object = {.kind = OBJECT_MODULE, .key = handle, .category = CAT_MODULE,
				.device = -1, .bytes = load->guess,
				.code = {load->devices, load->everywhere}};

	/* Or its guess stays until the next look. */
	if (load->devices && !object_put(guest->objects, &object) && load->everywhere)
		atomic_fetch_add(&guest->account->libraries_bytes, load->guess);
	return CUDA_SUCCESS;
}

static void module_take_off(struct guest *guest, uint64_t devices, bool everywhere, uint64_t guess)
{
	FOR_EACH (d, guest, devices) {
		later_released(d); /* the driver's figure may have it for a while yet */
		/* Where the driver says what went, the guess is no longer what is charged. */
		if (!charge_stale(guest, d))
			charge_follow(guest, d, CAT_MODULE, guess * module_copies(d, everywhere), 0);
	}
}

/* The driver's error, or the code did not fit on a device and was unloaded again. */
static CUresult module_not_loaded(struct guest *guest, const struct load *load, CUresult e,
				  const struct guest_device *over)
{
	module_take_off(guest, load->devices, load->everywhere, load->guess);
	if (e)
		return e;
	quota_count_refusal(atomic_load(&guest->slot), over->ledger);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* `object`: what was taken out of the table before the driver's call, which frees the handle. */
static void module_unloaded(struct guest *guest, const struct object *object)
{
	if (object->code.everywhere)
		atomic_fetch_sub(&guest->account->libraries_bytes, object->bytes);
	module_take_off(guest, object->code.devices, object->code.everywhere, object->bytes);
}

static uint64_t module_function_key(struct guest *guest, uint64_t handle, const char *name)
{
	CUcontext context = NULL;

	if (DRIVER(cuCtxGetCurrent, (&context)))
		context = NULL;
	return known_code_key(&guest->memory->code, handle, name, KEY(context));
}

/*
 * In a tenant that overcommits others leave for code as for anything else. What was given back is not to
 * hide what is loaded then.
 */
static bool module_wait(struct guest *guest, struct load *load, struct room *room)
{
	if (!load->device ||
	    !room_wait_unknown(room, guest, load->device, load->device->total_bytes))
		return false;
	load->free = module_device_free();
	return true;
}

/* `again`: whether the call can be made twice; options are also where the driver answers to. */
#define LOAD(name, params, args, again, handle, undo, library)                                     \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		struct load load = module_load_begin(guest, library);                              \
		CUresult e = WHILE_FULL(DRIVER(name, args),                                        \
					(again) && module_wait(guest, &load, &room_));             \
		const struct guest_device *over = module_load_end(guest, &load);                   \
                                                                                                   \
		if (!e && !over)                                                                   \
			return module_keep(guest, &load, KEY(*handle));                            \
		if (!e)                                                                            \
			DRIVER(undo, (*handle));                                                   \
		atomic_fetch_sub(&guest->account->libraries, library);                                      \
		return module_not_loaded(guest, &load, e, over);                                   \
	}

#define UNLOAD(name, params, args, library)                                                        \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		struct object object;                                                              \
		bool known = object_take(guest->objects, OBJECT_MODULE, KEY args, &object);        \
		CUresult e;                                                                        \
                                                                                                   \
		known_code_forget(&guest->memory->code);                                                   \
		e = DRIVER(name, args);                                                            \
		atomic_fetch_sub(&guest->account->libraries, library && !e);                                \
		if (known && !e)                                                                   \
			module_unloaded(guest, &object);                                           \
		else if (known)                                                                    \
			object_put(guest->objects, &object);                                       \
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
		if (known_code_has(&guest->memory->code, key))                                             \
			return DRIVER(name, args);                                                 \
		load = module_load_begin(guest, false);                                            \
		e = WHILE_FULL(DRIVER(name, args), module_wait(guest, &load, &room_));             \
		module_load_end(guest, &load);                                                     \
		if (!e)                                                                            \
			known_code_add(&guest->memory->code, key);                                         \
		return e;                                                                          \
	}

LOAD(cuModuleLoad, (CUmodule *module, const char *fname), (module, fname), true, module,
     cuModuleUnload, false)
LOAD(cuModuleLoadData, (CUmodule *module, const void *image), (module, image), true, module,
     cuModuleUnload, false)
LOAD(cuModuleLoadDataEx,
     (CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
      void **optionValues),
     (module, image, numOptions, options, optionValues), !numOptions, module, cuModuleUnload, false)
LOAD(cuModuleLoadFatBinary, (CUmodule *module, const void *fatCubin), (module, fatCubin), true,
     module, cuModuleUnload, false)
LOAD(cuLibraryLoadData,
     (CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
      unsigned int numLibraryOptions),
     (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
      libraryOptionValues, numLibraryOptions),
     !numJitOptions, library, cuLibraryUnload, true)
LOAD(cuLibraryLoadFromFile,
     (CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
      unsigned int numLibraryOptions),
     (library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
      libraryOptionValues, numLibraryOptions),
     !numJitOptions, library, cuLibraryUnload, true)

UNLOAD(cuModuleUnload, (CUmodule hmod), (hmod), false)
UNLOAD(cuLibraryUnload, (CUlibrary library), (library), true)

TOUCH(cuModuleGetFunction, (CUfunction *hfunc, CUmodule hmod, const char *name),
      (hfunc, hmod, name), hmod, name)
TOUCH(cuKernelGetFunction, (CUfunction *pFunc, CUkernel kernel), (pFunc, kernel), kernel, NULL)
TOUCH(cuFuncLoad, (CUfunction function), (function), function, NULL)
