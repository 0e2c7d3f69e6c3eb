/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/inherit.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "guest/process/environment.h"
#include "guest/process/home.h"

#define TENANT	"ALLOT_TENANT_DIR="
#define PRELOAD "LD_PRELOAD="

/* A small stack has room for this much: some 2000 variables. */
#define ROOM_BYTES (16 << 10)

/*
 * The path by which LD_PRELOAD led to the library; NULL: something else did, as the loader's own list
 * in a container, and leads there in each program.
 */
static const char *library;

static bool inherit_is(const char *variable, const char *name)
{
	return !strncmp(variable, name, strlen(name));
}

/* Returns true if LD_PRELOAD's value has the path: the loader parts paths by colons and spaces. */
static bool inherit_has_path(const char *value, const char *path)
{
	size_t length = strlen(path);

	while (*value) {
		size_t part = strcspn(value, ": ");

		if (part == length && !memcmp(value, path, length))
			return true;
		value += part;
		value += *value != '\0';
	}
	return false;
}

/* The loader takes the last LD_PRELOAD of an environment. */
__attribute__((constructor)) static void inherit_keep(void)
{
	const char *name = home_run_name(), *value = NULL;

	for (char **e = environ; e && *e; e++)
		if (inherit_is(*e, PRELOAD))
			value = *e + strlen(PRELOAD);
	library = name && value && inherit_has_path(value, name) ? name : NULL;
}

static void inherit_note(struct inherit *inherit, const char *variable)
{
	if (inherit_is(variable, TENANT))
		inherit->tenant = NULL;
	if (!inherit_is(variable, PRELOAD))
		return;
	inherit->preload = inherit->n;
	inherit->value = variable + strlen(PRELOAD);
}

/* The variables there are, two more and the end; behind them the text of LD_PRELOAD. */
static size_t inherit_list_bytes(const struct inherit *inherit)
{
	return (inherit->n + 3) * sizeof(char *);
}

size_t inherit_look(char *const *envp, struct inherit *ret)
{
	const char *dir = environment_get("ALLOT_TENANT_DIR");
	size_t bytes;

	*ret = (struct inherit){.library = library, .preload = SIZE_MAX, .value = ""};
	if (!dir || !*dir || !library)
		return 0;
	ret->tenant = dir - strlen(TENANT);
	for (; envp && envp[ret->n]; ret->n++)
		inherit_note(ret, envp[ret->n]);
	if (inherit_has_path(ret->value, library))
		ret->library = NULL;
	if (!ret->tenant && !ret->library)
		return 0;
	ret->value_bytes = strlen(ret->value);
	bytes = inherit_list_bytes(ret) + sizeof(PRELOAD ":") + ret->value_bytes + strlen(library);
	return bytes > ROOM_BYTES ? 0 : bytes;
}

/* Behind what it held: an allocator, or a sanitizer, may have to be the first. */
static void inherit_write_preload(const struct inherit *inherit, char *ret)
{
	ret = stpcpy(ret, PRELOAD);
	memcpy(ret, inherit->value, inherit->value_bytes);
	ret += inherit->value_bytes;
	if (inherit->value_bytes)
		*ret++ = ':';
	strcpy(ret, inherit->library);
}

char *const *inherit_fill(const struct inherit *inherit, char *const *envp, void *room)
{
	char **list = room, *text = (char *)room + inherit_list_bytes(inherit);
	size_t n = inherit->n;

	if (n)
		memcpy(list, envp, n * sizeof(*list));
	if (inherit->library) {
		inherit_write_preload(inherit, text);
		list[inherit->preload < n ? inherit->preload : n++] = text;
	}
	if (inherit->tenant)
		list[n++] = (char *)(uintptr_t)inherit->tenant;
	list[n] = NULL;
	return list;
}
