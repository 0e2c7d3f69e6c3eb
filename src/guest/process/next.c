/* SPDX-License-Identifier: Apache-2.0 */

/* open and open64 are two here. */
#undef _FILE_OFFSET_BITS

#include "guest/process/next.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "base/word.h"
#include "guest/process/lookup_elf.h"
#include "guest/process/lookup_libc.h"

/* Threads that come here at the same time find the same; each is stored once, and never again. */
static struct next next;
static atomic_bool found;

#define LIBC_HOOK(name, type, params) type name params;
#include "guest/process/libc_api.def"

static const struct row {
	const char *name;
	size_t offset;
	void *hook;
} rows[] = {
#define LIBC_HOOK(name, type, params) {#name, offsetof(struct next, name), (void *)name},
#include "guest/process/libc_api.def"
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void **next_slot(const struct row *row)
{
	return (void **)((char *)&next + row->offset);
}

static bool next_is_stored(const struct row *row)
{
	return word_acquire(next_slot(row));
}

static void next_store(const struct row *row, void *p)
{
	void *none = NULL;

	__atomic_compare_exchange_n(next_slot(row), &none, p, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
}

static bool next_is_libc(const struct link_map *m)
{
	return text_same(text_file_name(m->l_name), "libc.so.6");
}

/*
 * Finds the functions in the list of loaded objects, from the one behind us to the C library: the
 * order in which RTLD_NEXT looks.
 *
 * The loader itself is not asked, because it takes a lock and memory. A program may open its first
 * file in a signal handler, in a forked child whose parent had a thread in dlopen, or while it sets
 * up its own malloc.
 *
 * The list does not change under us: objects that the program was started with are never unloaded.
 */
static bool next_find_in_list(void)
{
	const struct link_map *m = _r_debug.r_map;

	while (m && m->l_ld != _DYNAMIC)
		m = m->l_next;
	for (m = m ? m->l_next : NULL; m; m = m->l_next) {
		for (size_t i = 0; i < ROWS; i++)
			if (!next_is_stored(&rows[i]))
				next_store(&rows[i],
					   lookup_elf_symbol(m->l_addr, m->l_ld, rows[i].name));
		if (next_is_libc(m))
			return true;
	}
	return false;
}

/* Where we were opened late, or live in another namespace, and so are in front of nothing there. */
static void next_find_by_lookup(void)
{
	struct lookup_libc libc = lookup_libc();

	for (size_t i = 0; i < ROWS; i++)
		next_store(&rows[i], libc.dlsym(RTLD_NEXT, rows[i].name));
}

const struct next *next_libc(void)
{
	if (__builtin_expect(!atomic_load_explicit(&found, memory_order_acquire), 0)) {
		int saved = errno;

		if (!next_find_in_list())
			next_find_by_lookup();
		errno = saved;
		atomic_store_explicit(&found, true, memory_order_release);
	}
	return &next;
}

void *next_hook(const char *name, void **ret_next)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (!text_same(rows[i].name, name))
			continue;
		next_libc();
		*ret_next = *next_slot(&rows[i]);
		return rows[i].hook;
	}
	return NULL;
}
