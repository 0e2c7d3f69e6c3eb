/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/libcurl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "text/log.h"

#define NAME "libcurl.so.4"

static bool libcurl_find(void *library, const char *name, void *ret)
{
	void *found = dlsym(library, name);

	if (!found)
		log_line(LOG_FAULT, NAME " has no %s: install libcurl 7.88 or newer", name);
	memcpy(ret, &found, sizeof(found));
	return found;
}

static bool libcurl_find_all(void *library, struct libcurl *ret)
{
#define FIND(name) libcurl_find(library, #name, &ret->name) &&
	return LIBCURL_FUNCTIONS(FIND) true;
#undef FIND
}

const struct libcurl *libcurl_load(void)
{
	static struct libcurl functions;
	static bool loaded;
	void *library;

	if (loaded)
		return &functions;
	library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		log_line(LOG_FAULT, "the API server cannot be asked: %s; install libcurl4", dlerror());
	if (!library || !libcurl_find_all(library, &functions) ||
	    functions.curl_global_init(CURL_GLOBAL_DEFAULT))
		return NULL;
	loaded = true;
	return &functions;
}
