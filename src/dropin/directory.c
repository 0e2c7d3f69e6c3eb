/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/directory.h"

#include <stdio.h>
#include <string.h>

#include "ledger/tenant.h"

int directory_find(const struct config *config, char *ret_runtime, size_t len,
		   char ret_name[static POLICY_NAME_BYTES])
{
	char container[TENANT_CONTAINER_BYTES];
	int room, r;

	/* Processes under the file have one quota together: no variable leads to another ledger. */
	if (config_is_by_file(config))
		r = tenant_usual_dir(ret_runtime, len);
	else
		r = tenant_runtime_dir(ret_runtime, len);
	if (r)
		return r;
	if (!tenant_container(ret_runtime, container)) {
		memcpy(ret_name, config->tenant, POLICY_NAME_BYTES);
		return 0;
	}
	room = POLICY_NAME_BYTES - 2 - (int)strlen(container);
	snprintf(ret_name, POLICY_NAME_BYTES, "%.*s-%s", room, config->tenant, container);
	return 0;
}
