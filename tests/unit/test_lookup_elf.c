/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/lookup_elf.h"

#include <dlfcn.h>
#include <string.h>

#include "guest/process/lookup_libc.h"
#include "tests/check.h"

static void *symbol(struct link_map *map, const char *name)
{
	return lookup_elf_symbol(map->l_addr, map->l_ld, name);
}

/* Several of these have older versions at other addresses: dlsym gives the default one. */
static void c_library(void)
{
	static const char *const names[] = {"dlsym",	  "dlvsym",		 "dlmopen",
					    "malloc",	  "pthread_cond_wait",	 "realpath",
					    "regexec",	  "posix_spawn",	 "glob",
					    "fopen",	  "pthread_cond_signal", "nftw",
					    "sem_post",	  "timer_create",	 "qsort",
					    "fclose",	  "sched_getaffinity",	 "getenv"};
	struct link_map *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	CHECK(libc);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(symbol(libc, names[i]) && symbol(libc, names[i]) == dlsym(libc, names[i]));
	CHECK(!symbol(libc, "no_such_function"));
	CHECK(!symbol(libc, ""));
	CHECK(!symbol(libc, "environ")); /* data */
	CHECK(!strcmp(lookup_elf_soname(libc->l_addr, libc->l_ld), "libc.so.6"));
}

static void old_hash(const char *path)
{
	struct link_map *library = dlopen(path, RTLD_NOW);

	CHECK(library);
	for (const ElfW(Dyn) *d = library->l_ld; d->d_tag; d++)
		CHECK(d->d_tag != DT_GNU_HASH);
	CHECK(symbol(library, "sysv_function") == dlsym(library, "sysv_function"));
	CHECK(symbol(library, "sysv_other") == dlsym(library, "sysv_other"));
	CHECK(!symbol(library, "sysv_data"));
	CHECK(!symbol(library, "sysv_absent"));
	CHECK(!symbol(library, "malloc")); /* used, not defined */
}

/* The kernel's own image has some of these names, too, and other arguments for them. */
static void not_the_kernel(void)
{
	static const char *const names[] = {"getrandom", "clock_gettime"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = lookup_libc_symbol(names[i]);
		Dl_info info;

		CHECK(found && dladdr(found, &info));
		CHECK(!strstr(info.dli_fname, "vdso"));
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	c_library();
	old_hash(argv[1]);
	not_the_kernel();
	return 0;
}
