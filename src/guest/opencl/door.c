/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/opencl/door.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/text.h"
#include "guest/core/door_slot.h"
#include "guest/opencl/driver.h"
#include "guest/opencl/hooks.h"
#include "guest/process/lookup_elf.h"
#include "guest/process/lookup_libc.h"
#include "guest/process/serial.h"

/* The place of clGetExtensionFunctionAddress in the driver's table. It is in OpenCL 1.0. */
#define TABLE_EXTENSION 65

#define VENDOR_NVIDIA "NVIDIA Corporation"
#define VENDOR_BYTES  128

#define DOORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define DOORS_N	 8

typedef void *extension_fn(const char *name);
typedef cl_int platforms_fn(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms);

/* The drivers' own, each in a slot. */
static _Atomic(void *) door_extension[DOORS_N], door_platforms[DOORS_N];

static void *door_ask_extension(int door, const char *name);
static cl_int door_ask_platforms(int door, cl_uint num_entries, cl_platform_id *platforms,
				 cl_uint *num_platforms);

#define DOOR(n)                                                                                 \
	static void *door_extension_##n(const char *name)                                       \
	{                                                                                       \
		return door_ask_extension(n, name);                                             \
	}                                                                                       \
	static cl_int door_platforms_##n(cl_uint num_entries, cl_platform_id *platforms,        \
					 cl_uint *num_platforms)                                \
	{                                                                                       \
		return door_ask_platforms(n, num_entries, platforms, num_platforms);            \
	}
DOORS(DOOR)
#undef DOOR

#define DOOR(n) door_extension_##n,
static extension_fn *const door_extension_hooks[] = {DOORS(DOOR)};
#undef DOOR
#define DOOR(n) door_platforms_##n,
static platforms_fn *const door_platforms_hooks[] = {DOORS(DOOR)};
#undef DOOR

static void *door_hook_extension(void *real)
{
	int door = door_slot(door_extension, DOORS_N, real);

	return door < 0 ? NULL : (void *)door_extension_hooks[door];
}

static void *door_hook_platforms(void *real)
{
	int door = door_slot(door_platforms, DOORS_N, real);

	return door < 0 ? NULL : (void *)door_platforms_hooks[door];
}

static bool door_is_hook(const void *p)
{
	for (int i = 0; i < DOORS_N; i++)
		if (p == (void *)door_extension_hooks[i] || p == (void *)door_platforms_hooks[i])
			return true;
	return false;
}

/*
 * By its own name, so that nobody's devices begin to work because a program lists platforms. A platform
 * that does not say is taken for one: hooks look at each device.
 */
static bool door_is_accounted(const struct opencl_functions *functions, cl_platform_id platform)
{
	char vendor[VENDOR_BYTES] = "";
	cl_int r;

	guest_door_depth++;
	r = functions->clGetPlatformInfo(platform, CL_PLATFORM_VENDOR, sizeof(vendor) - 1, vendor, NULL);
	guest_door_depth--;
	return r || text_same(vendor, VENDOR_NVIDIA);
}

static bool door_hook_table(void **table)
{
	void **entry = &table[TABLE_EXTENSION], *own = __atomic_load_n(entry, __ATOMIC_ACQUIRE), *hook;

	if (!own || door_is_hook(own))
		return true;
	hook = door_hook_extension(own);
	return hook && opencl_driver_store(entry, hook);
}

/*
 * The driver stays loaded from then on: slots and doors have its addresses, and a library that comes to
 * the same place has another table.
 */
static bool door_pin(void **table)
{
	Dl_info info;

	return dladdr(table[TABLE_EXTENSION], &info) && info.dli_fname &&
	       lookup_libc().dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* False: it is accounted, and cannot be hooked. */
static bool door_meet(cl_platform_id platform)
{
	static struct serial meeting;
	struct opencl_functions functions;
	bool done;

	if (!platform || opencl_driver_is_patched(platform))
		return true;
	opencl_driver_read(platform, &functions);
	if (!door_is_accounted(&functions, platform))
		return true;
	serial_begin(&meeting);
	done = opencl_driver_is_patched(platform) ||
	       (door_pin(*(void ***)platform) && door_hook_table(*(void ***)platform) &&
		opencl_driver_patch(platform, opencl_hooks));
	serial_end(&meeting);
	return done;
}

static cl_int door_ask_platforms(int door, cl_uint num_entries, cl_platform_id *platforms,
				 cl_uint *num_platforms)
{
	platforms_fn *real = (platforms_fn *)atomic_load(&door_platforms[door]);
	cl_uint own = 0, *n = num_platforms ? num_platforms : &own;
	cl_int r;

	guest_door_depth++;
	r = real(num_entries, platforms, n);
	guest_door_depth--;
	if (r || guest_inside_door())
		return r;
	for (cl_uint i = 0; platforms && i < *n && i < num_entries; i++)
		if (!door_meet(platforms[i])) {
			*n = 0;
			return CL_PLATFORM_NOT_FOUND_KHR;
		}
	return r;
}

/* As for lookups of CUDA's, an answer is known by its address, but for functions of no table. */
static void *door_answer(const char *name, void *p)
{
	int row;

	if (!p || !name || guest_inside_door() || door_is_hook(p))
		return p;
	if (text_same(name, "clIcdGetPlatformIDsKHR") || text_same(name, "clGetPlatformIDs"))
		return door_hook_platforms(p);
	if (text_same(name, "clGetExtensionFunctionAddress"))
		return door_hook_extension(p);
	if (text_same(name, "clCreateBufferNV"))
		return opencl_hook_buffer_nv(p);
	row = opencl_driver_row(p);
	return row >= 0 && opencl_hooks[row] ? opencl_hooks[row] : p;
}

static void *door_ask_extension(int door, const char *name)
{
	extension_fn *real = (extension_fn *)atomic_load(&door_extension[door]);
	void *p;

	guest_door_depth++;
	p = real(name);
	guest_door_depth--;
	return door_answer(name, p);
}

void *opencl_hook_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *func_name)
{
	const struct opencl_driver *driver = opencl_driver_of(platform);

	return door_answer(func_name,
			   driver->real.clGetExtensionFunctionAddressForPlatform(platform, func_name));
}

/* A loader exports the functions that it finds in drivers' tables; a driver, only how it is entered. */
static bool door_is_loader(void *p)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(p, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_ld)
		return false;
	return lookup_elf_symbol(map->l_addr, map->l_ld, "clCreateContext");
}

void *opencl_door(const char *name, void *real)
{
	if (guest_inside_door() || door_is_hook(real) || door_is_loader(real) ||
	    guest_mode(guest_get()) == GUEST_INERT)
		return real;
	return door_answer(name, real);
}
