/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/opencl/driver.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest/process/serial.h"

#define DRIVERS	      8
#define VERSION_BYTES 128

struct driver_row {
	unsigned int index;  /* in the driver's table */
	unsigned int version;
	size_t offset; /* in struct opencl_functions */
};

static const struct driver_row driver_rows[] = {
#define OPENCL_HOOK(index, version, result, name, params) \
	{index, version, offsetof(struct opencl_functions, name)},
#define OPENCL_CALL(index, version, result, name, params) \
	{index, version, offsetof(struct opencl_functions, name)},
#include "opencl/opencl_api.def"
};
#define ROWS (sizeof(driver_rows) / sizeof(driver_rows[0]))

static struct opencl_driver drivers[DRIVERS];
static struct serial driver_patching;

static void **driver_table(const void *object)
{
	return *(void **const *)object;
}

static void **driver_own(struct opencl_functions *functions, size_t row)
{
	return (void **)((char *)functions + driver_rows[row].offset);
}

/* 10 * major + minor of "OpenCL 3.0 and whatever"; 10 where it says nothing. */
static unsigned int driver_version(cl_platform_id platform)
{
	static const char prefix[] = "OpenCL ";
	struct opencl_functions first = {.clGetPlatformInfo = NULL};
	char text[VERSION_BYTES] = "";

	first.clGetPlatformInfo = (__typeof__(first.clGetPlatformInfo))driver_table(platform)[1];
	guest_door_depth++;
	if (first.clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof(text) - 1, text, NULL))
		text[0] = '\0';
	guest_door_depth--;
	for (size_t i = 0; i < sizeof(prefix) - 1; i++)
		if (text[i] != prefix[i])
			return 10;
	if (text[7] < '1' || text[7] > '9' || text[8] != '.' || text[9] < '0' || text[9] > '9')
		return 10;
	return 10u * (unsigned int)(text[7] - '0') + (unsigned int)(text[9] - '0');
}

void opencl_driver_read(cl_platform_id platform, struct opencl_functions *ret)
{
	struct opencl_functions functions = {.clGetPlatformInfo = NULL};
	unsigned int version = driver_version(platform);
	void **table = driver_table(platform);

	for (size_t row = 0; row < ROWS; row++)
		if (driver_rows[row].version <= version)
			*driver_own(&functions, row) = table[driver_rows[row].index];
	*ret = functions;
}

struct driver_page {
	uintptr_t at;
	int protection;
};

static bool driver_covers(const struct dl_phdr_info *info, const ElfW(Phdr) *ph, uintptr_t at)
{
	return at - info->dlpi_addr - ph->p_vaddr < ph->p_memsz;
}

static int driver_find_page(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct driver_page *page = arg;
	int found = 0, relro = 0;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (!driver_covers(info, ph, page->at))
			continue;
		if (ph->p_type == PT_LOAD)
			found = PROT_READ | (ph->p_flags & PF_W ? PROT_WRITE : 0) |
				(ph->p_flags & PF_X ? PROT_EXEC : 0);
		relro |= ph->p_type == PT_GNU_RELRO;
	}
	if (!found)
		return 0;
	page->protection = relro ? found & ~PROT_WRITE : found;
	return 1;
}

/* Memory of no loaded object was allocated, and is written to by the driver itself. */
static int driver_protection(const void *at)
{
	struct driver_page page = {.at = (uintptr_t)at, .protection = PROT_READ | PROT_WRITE};

	dl_iterate_phdr(driver_find_page, &page);
	return page.protection;
}

bool opencl_driver_store(void **entry, void *function)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)entry & ~(size - 1));
	int protection = driver_protection(entry);

	if (protection & PROT_WRITE) {
		__atomic_store_n(entry, function, __ATOMIC_RELEASE);
		return true;
	}
	if (mprotect(page, size, protection | PROT_WRITE))
		return false;
	__atomic_store_n(entry, function, __ATOMIC_RELEASE);
	mprotect(page, size, protection);
	return true;
}

static struct opencl_driver *driver_find(void **table)
{
	for (int i = 0; i < DRIVERS; i++)
		if (atomic_load_explicit(&drivers[i].table, memory_order_acquire) == table)
			return &drivers[i];
	return NULL;
}

bool opencl_driver_is_patched(const void *object)
{
	struct opencl_driver *driver = driver_find(driver_table(object));

	return driver && atomic_load_explicit(&driver->done, memory_order_acquire);
}

static bool driver_store_all(struct opencl_driver *driver, void **table, void *const *hooks)
{
	for (size_t row = 0; row < ROWS; row++)
		if (hooks[row] && *driver_own(&driver->real, row) &&
		    !opencl_driver_store(&table[driver_rows[row].index], hooks[row]))
			return false;
	return true;
}

/*
 * The slot is complete before the first entry is a hook:
 *
 *	this thread				any other, in a call through the table
 *	driver->real = the driver's own
 *	driver->table = table
 *	table[...] = hook			hook: finds the slot by its table
 *	driver->done
 */
static bool driver_patch_alone(cl_platform_id platform, void *const *hooks)
{
	void **table = driver_table(platform);
	struct opencl_driver *driver = driver_find(table);
	bool done;

	if (!driver) {
		driver = driver_find(NULL);
		if (!driver)
			return false;
		driver->platform = platform;
		opencl_driver_read(platform, &driver->real);
		atomic_store_explicit(&driver->table, table, memory_order_release);
	}
	done = driver_store_all(driver, table, hooks);
	atomic_store_explicit(&driver->done, done, memory_order_release);
	return done;
}

bool opencl_driver_patch(cl_platform_id platform, void *const *hooks)
{
	bool done;

	serial_begin(&driver_patching);
	done = driver_patch_alone(platform, hooks);
	serial_end(&driver_patching);
	return done;
}

const struct opencl_driver *opencl_driver_of(const void *object)
{
	const struct opencl_driver *driver = object ? driver_find(driver_table(object)) : NULL;

	return driver ? driver : &drivers[0];
}

int opencl_driver_row(const void *function)
{
	for (int i = 0; function && i < DRIVERS; i++) {
		if (!atomic_load_explicit(&drivers[i].table, memory_order_acquire))
			break;
		for (size_t row = 0; row < ROWS; row++)
			if (*driver_own(&drivers[i].real, row) == function)
				return (int)row;
	}
	return -1;
}
