/* SPDX-License-Identifier: Apache-2.0 */
/* The C library's own dlsym and friends, whoever else defines functions of these names. */
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "base/text.h"
#include "guest/process/lookup_elf.h"
#include "guest/process/lookup_libc.h"

/*
 * The C library's functions, found once. Threads that come here at the same time find the same
 * addresses, so relaxed stores do: nothing else is published with them.
 */
static _Atomic(uintptr_t) libc_dlsym, libc_dlvsym, libc_dlmopen, libc_dlopen;

/* An object of the C library: whether to go on to the next one is what the visitor answers. */
typedef bool lookup_libc_visit(ElfW(Addr) base, const ElfW(Dyn) * dynamic, void *arg);

struct visit {
	lookup_libc_visit *fn;
	void *arg;
};

/* Before glibc 2.34 what is in libc.so.6 now was in three. */
static bool lookup_libc_enter(const struct visit *visit, const char *path, ElfW(Addr) base,
			      const ElfW(Dyn) * dynamic)
{
	const char *file = text_file_name(path);

	return (text_same(file, "libc.so.6") || text_same(file, "libdl.so.2") ||
		text_same(file, "libpthread.so.0")) &&
	       visit->fn(base, dynamic, visit->arg);
}

static int lookup_libc_enter_object(struct dl_phdr_info *info, size_t size, void *visit)
{
	const ElfW(Dyn) *dynamic = lookup_elf_dynamic(info);

	return dynamic && lookup_libc_enter(visit, info->dlpi_name, info->dlpi_addr, dynamic);
}

/*
 * Until the visitor is content. The list of loaded objects comes first: programs replace
 * dl_iterate_phdr and look for the original with dlsym, which would bring us back here. No lock is
 * needed, since what the program was started with, the C library in it, stands before whatever
 * comes and goes. If we are not in that list we live in another namespace, which has a C library of
 * its own.
 */
static void lookup_libc_visit_all(lookup_libc_visit *fn, void *arg)
{
	struct visit visit = {fn, arg};
	bool here = false;

	for (struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
		here = here || m->l_ld == _DYNAMIC;
		if (here && lookup_libc_enter(&visit, m->l_name, m->l_addr, m->l_ld))
			return;
	}
	dl_iterate_phdr(lookup_libc_enter_object, &visit);
}

static bool lookup_libc_take(ElfW(Addr) base, const ElfW(Dyn) * dynamic, void *arg)
{
	void *p[4];

	(void)arg;
	p[0] = lookup_elf_symbol(base, dynamic, "dlsym");
	p[1] = lookup_elf_symbol(base, dynamic, "dlvsym");
	p[2] = lookup_elf_symbol(base, dynamic, "dlmopen");
	p[3] = lookup_elf_symbol(base, dynamic, "dlopen");
	if (!p[0] || !p[1] || !p[2] || !p[3])
		return false;
	atomic_store_explicit(&libc_dlvsym, (uintptr_t)p[1], memory_order_relaxed);
	atomic_store_explicit(&libc_dlmopen, (uintptr_t)p[2], memory_order_relaxed);
	atomic_store_explicit(&libc_dlopen, (uintptr_t)p[3], memory_order_relaxed);
	/* Last, with release: lookup_libc() asks for this one alone. */
	atomic_store_explicit(&libc_dlsym, (uintptr_t)p[0], memory_order_release);
	return true;
}

struct wanted {
	const char *name;
	void *found;
};

static bool lookup_libc_take_symbol(ElfW(Addr) base, const ElfW(Dyn) * dynamic, void *arg)
{
	struct wanted *wanted = arg;

	wanted->found = lookup_elf_symbol(base, dynamic, wanted->name);
	return wanted->found;
}

/*
 * In the order in which the loader would bind it: a sanitizer's pthread_create stands first. Not
 * what the kernel maps, to which the loader binds nothing: it has functions of the same names and
 * with other arguments (getrandom, since 6.11).
 */
void *lookup_libc_symbol(const char *name)
{
	const ElfW(Addr) vdso = getauxval(AT_SYSINFO_EHDR);
	struct wanted wanted = {name, NULL};
	bool here = false;

	for (struct link_map *m = _r_debug.r_map; m; m = m->l_next)
		here = here || m->l_ld == _DYNAMIC;
	for (struct link_map *m = _r_debug.r_map; here && m; m = m->l_next)
		if (m->l_ld != _DYNAMIC && m->l_ld && (!vdso || m->l_addr != vdso) &&
		    (wanted.found = lookup_elf_symbol(m->l_addr, m->l_ld, name)))
			return wanted.found;
	lookup_libc_visit_all(lookup_libc_take_symbol, &wanted);
	return wanted.found;
}

struct lookup_libc lookup_libc(void)
{
	struct lookup_libc libc;

	if (!atomic_load_explicit(&libc_dlsym, memory_order_acquire))
		lookup_libc_visit_all(lookup_libc_take, NULL);
	libc.dlsym = (void *(*)(void *, const char *))atomic_load_explicit(&libc_dlsym,
									 memory_order_acquire);
	libc.dlvsym = (void *(*)(void *, const char *, const char *))atomic_load_explicit(
		&libc_dlvsym, memory_order_relaxed);
	libc.dlmopen = (void *(*)(Lmid_t, const char *, int))atomic_load_explicit(
		&libc_dlmopen, memory_order_relaxed);
	libc.dlopen = (void *(*)(const char *, int))atomic_load_explicit(&libc_dlopen,
									 memory_order_relaxed);
	return libc;
}
