/* SPDX-License-Identifier: Apache-2.0 */
#include "tenant/find.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "dropin/directory.h"
#include "dropin/variables.h"
#include "dropin/vgpu_file.h"
#include "guest/process/environment.h"
#include "guest/process/home.h"
#include "ledger/tenant.h"

static int find_drop_in(const struct config *config, char *dir)
{
	char runtime[FIND_DIR_BYTES], name[POLICY_NAME_BYTES];
	int r;

	if (home_is_run())
		return -ENOENT;
	if (!config->present)
		return vgpu_file_is_lost() ? -ENOENT : FIND_NONE;
	r = directory_find(config, runtime, sizeof(runtime), name);
	if (!r)
		r = tenant_path(runtime, name, dir, FIND_DIR_BYTES);
	return r ? r : FIND_DROP_IN;
}

int find_tenant(char ret_dir[static FIND_DIR_BYTES], struct config *ret_config)
{
	char dir[FIND_DIR_BYTES];
	struct config config = {0};
	const char *named;
	int r;

	if (variables_read(&config, environment_limits()) || vgpu_file_read(&config))
		return -EINVAL;
	named = home_find_tenant(dir, sizeof(dir)) ? dir : environment_get("ALLOT_TENANT_DIR");
	if (named) {
		if (*named != '/' || strlen(named) >= FIND_DIR_BYTES)
			return -EINVAL;
		memmove(dir, named, strlen(named) + 1);
	}
	r = named ? FIND_TENANT : find_drop_in(&config, dir);
	if (r < 0)
		return r;
	if (r != FIND_NONE)
		memcpy(ret_dir, dir, FIND_DIR_BYTES);
	*ret_config = config;
	return r;
}
