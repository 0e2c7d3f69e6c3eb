/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/interpose/lookup.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "guest/core/guest.h"
#include "guest/core/library.h"
#include "guest/core/rooms.h"
#include "guest/process/lookup_elf.h"
#include "guest/process/lookup_libc.h"
#include "guest/process/next.h"

/* The two functions behind a hooked name: our own, and the one that it stands for. */
struct target {
	struct library *library; /* NULL: a function of the C library */
	void *hook;
	void *real; /* NULL: its library is not in this process */
};

static bool lookup_find_row(struct library *library, const char *name, struct target *ret_target)
{
	int row = library->find(name);

	if (row < 0 || !library->hooks[row])
		return false;
	ret_target->library = library;
	ret_target->hook = library->hooks[row];
	ret_target->real = library_present(library) ? library->address(row) : NULL;
	return true;
}

static bool lookup_find_own(const char *name, struct target *ret_target)
{
	struct lookup_libc libc = lookup_libc();

	ret_target->library = NULL;
	if (text_same(name, "dlsym")) {
		ret_target->hook = (void *)dlsym;
		ret_target->real = (void *)libc.dlsym;
	} else if (text_same(name, "dlvsym")) {
		ret_target->hook = (void *)dlvsym;
		ret_target->real = (void *)libc.dlvsym;
	} else if (text_same(name, "dlmopen")) {
		ret_target->hook = (void *)dlmopen;
		ret_target->real = (void *)libc.dlmopen;
	} else if (text_same(name, "dlopen")) {
		ret_target->hook = (void *)dlopen;
		ret_target->real = (void *)libc.dlopen;
	} else {
		return false;
	}
	return true;
}

static bool lookup_find(const char *name, struct target *ret_target)
{
	if (name[0] == 'c' && name[1] == 'u')
		return lookup_find_row(&library_cuda, name, ret_target);
	if (name[0] == 'n' && name[1] == 'v')
		return lookup_find_row(&library_nvml, name, ret_target);
	if (name[0] == 'd' && name[1] == 'l')
		return lookup_find_own(name, ret_target);
	return false;
}

static void *lookup_ask(const struct lookup_dlsym_args *args, void *handle)
{
	struct lookup_libc libc = lookup_libc();

	return args->version ? libc.dlvsym(handle, args->name, args->version)
			     : libc.dlsym(handle, args->name);
}

/* Where the object that holds an address stands in the order of loading. */
struct place {
	uintptr_t address;
	int n, found;
};

static int lookup_find_place(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct place *place = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD &&
		    place->address - info->dlpi_addr - ph->p_vaddr < ph->p_memsz) {
			place->found = place->n;
			return 1;
		}
	}
	place->n++;
	return 0;
}

/* 0 is the program itself: glibc takes code that no object holds for the program's; so do we. */
static int lookup_load_order(const void *address)
{
	struct place place = {.address = (uintptr_t)address};

	dl_iterate_phdr(lookup_find_place, &place);
	return place.found;
}

/*
 * An object that stands before the C library was there when the program started, and searches the
 * same scope as the program and we do. An object behind it may have been opened later, and may see
 * the driver through dependencies of its own, which no search from our place covers: for such a
 * caller the name exists if the driver is in the process at all.
 */
static bool lookup_shares_our_scope(int place)
{
	return place < lookup_load_order((void *)lookup_libc().dlsym);
}

/*
 * RTLD_DEFAULT, or the handle of the program: the search passes us before it reaches the driver.
 * Without us it would go on behind us, so only what is found there makes the name exist: a program
 * that probes for CUDA must not be told that it is there because we are.
 */
static void *lookup_behind_us(const struct lookup_dlsym_args *args, const struct target *t,
			      void *caller)
{
	if (args->handle == RTLD_DEFAULT && t->real &&
	    !lookup_shares_our_scope(lookup_load_order(caller)))
		return t->hook;
	return lookup_ask(args, RTLD_NEXT) ? t->hook : NULL;
}

/* Does an object that was loaded after one place and before another define a name? */
struct between {
	int from, to, n;
	const char *name;
};

static int lookup_find_between(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct between *between = arg;
	const ElfW(Dyn) *dynamic = lookup_elf_dynamic(info);
	int n = between->n++;

	return n > between->from && n < between->to && dynamic &&
	       lookup_elf_symbol(info->dlpi_addr, dynamic, between->name);
}

/*
 * RTLD_NEXT is about the caller's place, but a call of ours is answered from our own. If somebody
 * between the caller and us has the name, the C library's answer to the caller is that one's. Else
 * what is found first behind us is the caller's answer too, if it stands behind the caller. If it
 * does not, the caller's search meets only the driver or nothing: while the driver is not there,
 * the C library can answer the caller itself.
 */
static struct lookup_answer lookup_next(const struct lookup_dlsym_args *args,
					const struct target *t, void *caller)
{
	struct lookup_libc libc = lookup_libc();
	struct lookup_answer native = {.jump = args->version ? (void *)libc.dlvsym
							     : (void *)libc.dlsym};
	int place = lookup_load_order(caller);
	struct between between = {
		.from = place, .to = lookup_load_order(t->hook), .name = args->name};
	void *p;

	if (dl_iterate_phdr(lookup_find_between, &between))
		return native;
	p = lookup_ask(args, RTLD_NEXT);
	if (p && lookup_load_order(p) > place)
		return (struct lookup_answer){.value = p == t->real ? t->hook : p};
	if (!p && lookup_shares_our_scope(place))
		return (struct lookup_answer){.value = NULL};
	if (!t->library)
		return (struct lookup_answer){.value = p ? t->hook : NULL};
	if (!t->real)
		return native;
	p = lookup_ask(args, atomic_load_explicit(&t->library->handle, memory_order_relaxed));
	return (struct lookup_answer){.value = p == t->real ? t->hook : NULL};
}

/*
 * The driver can be in a process more than once: a copy at another path, or one in a namespace of
 * its own. A name that is hooked in ours is hooked in those: by the hook of their namespace, which
 * calls the driver there.
 */
static void *lookup_other_driver(void *p, const char *name, const struct target *t)
{
	struct lookup_libc libc = lookup_libc();
	struct link_map *map, *ours = NULL;
	Dl_info info, us;
	void *handle, *hook;
	Lmid_t namespace;

	if (!dladdr1(p, &info, (void **)&map, RTLD_DL_LINKMAP) || !lookup_is_driver(info.dli_fname))
		return p;
	/* An older version of the name in the very driver that is hooked: another function. */
	if (t->real && dladdr1(t->real, &us, (void **)&ours, RTLD_DL_LINKMAP) && map == ours)
		return p;
	if (dlinfo(map, RTLD_DI_LMID, &namespace) || !dladdr(t->hook, &us))
		return t->hook;
	handle = libc.dlmopen(namespace, us.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	hook = handle ? libc.dlsym(handle, name) : NULL;
	if (handle)
		dlclose(handle);
	return hook ? hook : t->hook;
}

static struct lookup_answer lookup_answer_target(const struct lookup_dlsym_args *args,
						 const struct target *t, void *caller)
{
	void *p;

	if (args->handle == RTLD_NEXT)
		return lookup_next(args, t, caller);
	p = lookup_ask(args, args->handle);
	if (p && p == t->real)
		p = t->hook;
	else if (p == t->hook && (args->handle == RTLD_DEFAULT || args->handle == _r_debug.r_map))
		p = lookup_behind_us(args, t, caller);
	else if (p && p != t->hook && t->library)
		p = lookup_other_driver(p, args->name, t);
	return (struct lookup_answer){.value = p};
}

/*
 * A function of the C library that leads to AMD's driver. Along the search order our own function
 * stands where that of any preloaded library would, and a search behind us is meant to be behind
 * us. Only a search in the C library itself would go past us.
 */
static bool lookup_find_in_libc(const struct lookup_dlsym_args *args,
				struct lookup_answer *ret_answer)
{
	void *hook, *real, *p;

	if (args->handle == RTLD_NEXT || args->handle == RTLD_DEFAULT)
		return false;
	hook = next_hook(args->name, &real);
	if (!hook)
		return false;
	p = lookup_ask(args, args->handle);
	ret_answer->value = p && p == real ? hook : p;
	ret_answer->jump = NULL;
	return true;
}

/*
 * A name by which the loader of an API enters its drivers, whoever that loader is: what their libraries
 * have there is led past us. Several libraries have it, so none of them is a driver that we know, and a
 * search behind the caller is the C library's own. A driver's own questions are its own affair.
 */
static bool lookup_is_door(const char *name)
{
	static const char *const names[] = {"vk_icdGetInstanceProcAddr", "vk_icdGetPhysicalDeviceProcAddr",
					    "clGetExtensionFunctionAddress", "clIcdGetPlatformIDsKHR"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (text_same(name, names[i]))
			return true;
	return false;
}

static bool lookup_find_door(const struct lookup_dlsym_args *args, struct lookup_answer *ret_answer)
{
	void *p;

	if (args->handle == RTLD_NEXT || !lookup_is_door(args->name) || guest_inside_door())
		return false;
	p = lookup_ask(args, args->handle);
	if (!p)
		return false;
	ret_answer->value = guest_rooms.door(args->name, p);
	ret_answer->jump = NULL;
	return true;
}

struct lookup_answer lookup_dlsym(struct lookup_dlsym_args *args, void *caller)
{
	struct lookup_answer native = {.jump = (void *)lookup_libc().dlsym};
	struct target t;

	args->version = NULL;
	if (!args->name || lookup_find_in_libc(args, &native) || lookup_find_door(args, &native) ||
	    !lookup_find(args->name, &t))
		return native;
	return lookup_answer_target(args, &t, caller);
}

struct lookup_answer lookup_dlvsym(struct lookup_dlsym_args *args, void *caller)
{
	struct lookup_answer native = {.jump = (void *)lookup_libc().dlvsym};
	struct target t;

	if (!args->name || !args->version || lookup_find_in_libc(args, &native) ||
	    lookup_find_door(args, &native) || !lookup_find(args->name, &t))
		return native;
	return lookup_answer_target(args, &t, caller);
}
