/* SPDX-License-Identifier: Apache-2.0 */
/* Whose function is this: what the tests of the ways in are decided by. */
#ifndef ALLOT_TESTS_OWNER_H
#define ALLOT_TESTS_OWNER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline const char *owner_file(void *address)
{
	Dl_info info;
	const char *slash;

	if (!address || !dladdr(address, &info))
		return "nobody";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

/* Is it the exported function `name` of a library whose file name begins with `file`? */
static inline bool owned_by(const char *file, const char *name, void *address)
{
	Dl_info info;

	return address && !strncmp(owner_file(address), file, strlen(file)) &&
	       dladdr(address, &info) && info.dli_saddr == address && info.dli_sname &&
	       !strcmp(info.dli_sname, name);
}

#define CHECK_OWNER(file, name, address)                                                       \
	do {                                                                                   \
		void *owner_address_ = (address);                                              \
		if (!owned_by(file, name, owner_address_)) {                                   \
			fprintf(stderr, "%s:%d: %s: %s in %s, not in %s\n", __FILE__,          \
				__LINE__, #address, name, owner_file(owner_address_), file);   \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

#endif
