/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define ALPHANUMERIC "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* As the specification of CDI has it, and as long as we have room for. */
static bool cdi_name_is_allowed(const char *name)
{
	size_t len = strlen(name);

	return len && len < CDI_NAME_BYTES && strspn(name, ALPHANUMERIC "_.:-") == len &&
	       strchr(ALPHANUMERIC, name[0]) && strchr(ALPHANUMERIC, name[len - 1]);
}

/* "8GiB-25"; false: it is no amount. */
static bool cdi_name_take_amount(const char *text, struct cdi_name *name)
{
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);
	struct size_spec size;
	uint32_t permille;

	snprintf(name->memory, sizeof(name->memory), "%.*s", (int)len, text);
	snprintf(name->share, sizeof(name->share), "%s", dash ? dash + 1 : "");
	if (strspn(name->memory, "0123456789") < len && !parse_quota(name->memory, &size) &&
	    (!dash || !parse_permille(name->share, &permille)))
		return true;
	name->memory[0] = name->share[0] = '\0';
	return false;
}

int cdi_name_parse(const char *name, struct cdi_name *ret)
{
	struct cdi_name found = {.device = ""};
	/* A device may have colons in its name, too, as PCI addresses have. */
	const char *colon = strrchr(name, ':');
	size_t len = strlen(name);

	if (!cdi_name_is_allowed(name))
		return -EINVAL;
	if (cdi_name_take_amount(name, &found))
		len = 0;
	else if (colon && cdi_name_take_amount(colon + 1, &found))
		len = (size_t)(colon - name);
	if (len == 3 && !strncmp(name, "all", len))
		len = 0;
	snprintf(found.device, sizeof(found.device), "%.*s", (int)len, name);
	*ret = found;
	return 0;
}
