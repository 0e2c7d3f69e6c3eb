/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlmopen: a new namespace has none of what was preloaded. The driver asked for in one is opened in
 * the base namespace instead, so that there is one driver and one account of it. Any other library
 * gets a namespace in which we were loaded first: glibc puts the first object of a namespace at
 * the head of every later object's search scope, so its direct links meet our hooks.
 *
 * RTLD_DEEPBIND, to both dlopen and dlmopen: it puts a library's own dependencies, the driver and
 * the C library among them, before whatever was preloaded. It is taken out, as under a sanitizer.
 */
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/interpose/lookup.h"
#include "guest/process/lookup_libc.h"

/* glibc has 16 namespaces, the base one included. */
#define NAMESPACES 16

/*
 * A namespace that we prepared. It outlives what the program opened in it, since we cannot be
 * taken from under an object that was linked against us, so it is used again when that is gone:
 * otherwise a program that opens and closes would run out of namespaces.
 */
struct lookup_namespace {
	atomic_bool busy;
	bool prepared;
	Lmid_t id;
	char *opened; /* what the program opened in it first; NULL: nothing */
};

static struct lookup_namespace namespaces[NAMESPACES];

bool lookup_is_driver(const char *file)
{
	static const char *const names[] = {"libcuda.so", "libnvidia-ml.so"};
	const char *base = strrchr(file, '/');

	base = base ? base + 1 : file;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (!strncmp(base, names[i], n) && (base[n] == '\0' || base[n] == '.'))
			return true;
	}
	return false;
}

/* Load ourselves into a namespace of its own. false: dlerror says why. */
static bool lookup_namespace_prepare(struct lookup_namespace *namespace)
{
	struct lookup_libc libc = lookup_libc();
	void *handle;
	Dl_info us;

	if (namespace->prepared)
		return true;
	if (!dladdr((void *)lookup_namespace_prepare, &us))
		return false;
	handle = libc.dlmopen(LM_ID_NEWLM, us.dli_fname, RTLD_NOW);
	if (!handle || dlinfo(handle, RTLD_DI_LMID, &namespace->id))
		return false;
	namespace->prepared = true;
	return true;
}

/* Is what was opened in a namespace gone? Asks the loader, which alone knows. */
static bool lookup_namespace_is_vacant(struct lookup_namespace *namespace)
{
	void *handle;

	if (!namespace->opened)
		return true;
	handle = lookup_libc().dlmopen(namespace->id, namespace->opened, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		dlclose(handle);
		return false;
	}
	free(namespace->opened);
	namespace->opened = NULL;
	return true;
}

static void *lookup_namespace_open_in(struct lookup_namespace *namespace, const char *file,
				      int mode)
{
	struct link_map *map;
	void *handle;

	if (!lookup_namespace_prepare(namespace))
		return NULL;
	handle = lookup_libc().dlmopen(namespace->id, file, mode);
	if (!handle)
		return NULL;
	map = handle;
	namespace->opened = strdup(map->l_name);
	return handle;
}

/*
 * The file that the loader would find for a name without a path, if it is the caller's RUNPATH
 * that says where: the loader takes our call for ours. Returns `file`, or `path` filled.
 */
static const char *lookup_namespace_find_file(const char *file, void *caller, char path[PATH_MAX])
{
	Dl_serinfo head, *list;
	struct link_map *map;
	Dl_info info;

	if (strchr(file, '/') || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) ||
	    dlinfo(map, RTLD_DI_SERINFOSIZE, &head))
		return file;
	list = malloc(head.dls_size);
	if (!list)
		return file;
	list->dls_size = head.dls_size;
	list->dls_cnt = head.dls_cnt;
	if (dlinfo(map, RTLD_DI_SERINFO, list))
		list->dls_cnt = 0;
	for (unsigned int i = 0; i < list->dls_cnt; i++) {
		Dl_serpath *dir = &list->dls_serpath[i];

		/* From here on it is the same for everybody, and a cache goes before it. */
		if (dir->dls_flags & LA_SER_DEFAULT)
			break;
		if ((size_t)snprintf(path, PATH_MAX, "%s/%s", dir->dls_name, file) < PATH_MAX &&
		    !access(path, R_OK)) {
			file = path;
			break;
		}
	}
	free(list);
	return file;
}

/* The first namespace that nobody is using: a flag a namespace, so that nobody waits. */
static void *lookup_namespace_open_new(const char *file, int mode)
{
	for (int i = 0; i < NAMESPACES; i++) {
		struct lookup_namespace *namespace = &namespaces[i];
		void *handle;

		if (atomic_exchange_explicit(&namespace->busy, true, memory_order_acquire))
			continue;
		if (!lookup_namespace_is_vacant(namespace)) {
			atomic_store_explicit(&namespace->busy, false, memory_order_release);
			continue;
		}
		handle = lookup_namespace_open_in(namespace, file, mode);
		atomic_store_explicit(&namespace->busy, false, memory_order_release);
		return handle;
	}
	/* More at a time than glibc has: let it say so in its own words. */
	return lookup_libc().dlmopen(LM_ID_NEWLM, file, mode);
}

struct lookup_answer lookup_dlopen(struct lookup_dlopen_args *args, void *caller)
{
	args->mode &= ~(long)RTLD_DEEPBIND;
	return (struct lookup_answer){.jump = (void *)lookup_libc().dlopen};
}

struct lookup_answer lookup_dlmopen(struct lookup_dlmopen_args *args, void *caller)
{
	char path[PATH_MAX];

	args->mode &= ~(long)RTLD_DEEPBIND;
	if (args->file && args->namespace != LM_ID_BASE && lookup_is_driver(args->file))
		args->namespace = LM_ID_BASE;
	if (args->file && args->namespace == LM_ID_NEWLM && !(args->mode & RTLD_NOLOAD))
		return (struct lookup_answer){
			.value = lookup_namespace_open_new(
				lookup_namespace_find_file(args->file, caller, path),
				(int)args->mode)};
	return (struct lookup_answer){.jump = (void *)lookup_libc().dlmopen};
}
