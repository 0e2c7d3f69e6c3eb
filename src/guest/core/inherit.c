/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/inherit.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "guest/core/environment.h"
#include "guest/core/home.h"

#define TENANT	"ALLOT_TENANT_DIR="
#define PRELOAD "LD_PRELOAD="

/* What a caller's stack has room for: some 8000 variables. */
#define ROOM_BYTES (64 << 10)

#define NONE SIZE_MAX

/* What an environment has, and lacks. */
struct inherit {
	const char *tenant;  /* the variable that is missing, or NULL */
	const char *library; /* likewise the library's path */
	size_t n;
	size_t preload; /* which variable is LD_PRELOAD; n: none */
};

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

static void inherit_note(struct inherit *inherit, const char *variable)
{
	if (!strncmp(variable, TENANT, strlen(TENANT)))
		inherit->tenant = NULL;
	if (strncmp(variable, PRELOAD, strlen(PRELOAD)) != 0)
		return;
	if (inherit->preload == NONE)
		inherit->preload = inherit->n;
	if (inherit->library && inherit_has_path(variable + strlen(PRELOAD), inherit->library))
		inherit->library = NULL;
}

/* Returns true if something is missing. */
static bool inherit_look(char *const *envp, struct inherit *ret)
{
	const char *dir = environment_get("ALLOT_TENANT_DIR"), *library = home_run_name();
	struct inherit inherit = {.preload = NONE};

	if (!dir || !*dir || !library)
		return false;
	inherit.tenant = dir - strlen(TENANT);
	inherit.library = library;
	for (; envp && envp[inherit.n]; inherit.n++)
		inherit_note(&inherit, envp[inherit.n]);
	if (inherit.preload == NONE)
		inherit.preload = inherit.n;
	*ret = inherit;
	return inherit.tenant || inherit.library;
}

static const char *inherit_value(const struct inherit *inherit, char *const *envp)
{
	return inherit->preload < inherit->n ? envp[inherit->preload] + strlen(PRELOAD) : "";
}

/* The variables there are, two more and the end; behind them the text of LD_PRELOAD. */
static size_t inherit_list_bytes(const struct inherit *inherit)
{
	return (inherit->n + 3) * sizeof(char *);
}

size_t inherit_room(char *const *envp)
{
	struct inherit inherit;
	size_t bytes;

	if (!inherit_look(envp, &inherit))
		return 0;
	bytes = inherit_list_bytes(&inherit);
	if (inherit.library)
		bytes += sizeof(PRELOAD ":") + strlen(inherit.library) +
			 strlen(inherit_value(&inherit, envp));
	return bytes > ROOM_BYTES ? 0 : bytes;
}

/* In front of what it held, as `allot run` has it. */
static void inherit_write_preload(const struct inherit *inherit, char *const *envp, char *ret)
{
	const char *value = inherit_value(inherit, envp);

	ret = stpcpy(stpcpy(ret, PRELOAD), inherit->library);
	if (*value)
		stpcpy(stpcpy(ret, ":"), value);
}

char *const *inherit_fill(char *const *envp, void *room)
{
	struct inherit inherit;
	char **list = room, *text;
	size_t n;

	if (!inherit_look(envp, &inherit))
		return envp;
	text = (char *)room + inherit_list_bytes(&inherit);
	n = inherit.n;
	if (n)
		memcpy(list, envp, n * sizeof(*list));
	if (inherit.library) {
		inherit_write_preload(&inherit, envp, text);
		list[inherit.preload] = text;
		n += inherit.preload == n;
	}
	if (inherit.tenant)
		list[n++] = (char *)(uintptr_t)inherit.tenant;
	list[n] = NULL;
	return list;
}
