/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "dropin/variables.h"

/* More than allot and the variables of a machine of 64 devices take. */
#define VARIABLES 256
#define BYTES	  16384

static char text[BYTES];
static char *variables[VARIABLES + 1];

static bool environment_is_of_limits(const char *variable)
{
	return !strncmp(variable, "ALLOT_TENANT_DIR=", 17) || variables_matter(variable);
}

/*
 * Keeps copies, since a program may write its title over the kernel's. A value that does not fit is
 * kept by reference, and so are all if there are too many: none is passed over. Opens nothing and
 * calls no driver.
 */
__attribute__((constructor)) static void environment_keep(void)
{
	size_t used = 0;
	int n = 0;

	for (char **e = environ; e && *e; e++) {
		size_t size = strlen(*e) + 1;

		if (!environment_is_of_limits(*e))
			continue;
		if (n == VARIABLES) {
			variables[0] = NULL;
			return;
		}
		variables[n] = *e;
		if (size <= BYTES - used) {
			variables[n] = memcpy(text + used, *e, size);
			used += size;
		}
		n++;
	}
}

char *const *environment_limits(void)
{
	return variables[0] ? variables : environ;
}

const char *environment_get(const char *name)
{
	size_t length = strlen(name);

	for (char *const *e = environment_limits(); e && *e; e++)
		if (!strncmp(*e, name, length) && (*e)[length] == '=')
			return *e + length + 1;
	return NULL;
}
