/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/runtime.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/say/say.h"
#include "ledger/tenant.h"

int runtime_find(char ret[static PATH_MAX])
{
	int r = tenant_runtime_dir(ret, PATH_MAX);

	if (r == -EINVAL)
		say_error("the runtime directory must be an absolute path; check "
			  "ALLOT_RUNTIME_DIR and XDG_RUNTIME_DIR");
	else if (r < 0)
		say_error("runtime directory: %s; set ALLOT_RUNTIME_DIR to another one",
			  say_errno(r));
	return r;
}

bool runtime_is_roots(const char *runtime)
{
	char system[PATH_MAX];

	return geteuid() && !tenant_runtime_dir_of(0, system, sizeof(system)) &&
	       !strcmp(runtime, system) && access(runtime, R_OK) < 0;
}

/* The same directory may be root's, as where it is chosen: then others see users' tenants alone. */
int runtime_load(const char *runtime, struct tenants *ret)
{
	struct tenants tenants = {.n = 0};
	char system[PATH_MAX];
	bool is_user = geteuid() && !tenant_runtime_dir_of(0, system, sizeof(system));
	int r = 0;

	if (runtime_is_roots(runtime))
		strcpy(tenants.runtime, runtime);
	else
		r = tenants_load(runtime, &tenants);
	if (r == 0 && is_user)
		r = tenants_add_users(&tenants, system);
	if (r < 0)
		tenants_free(&tenants);
	else
		*ret = tenants;
	return r;
}

int runtime_load_tenants(struct tenants *ret)
{
	char runtime[PATH_MAX];
	int r = runtime_find(runtime);

	if (r < 0)
		return r;
	r = runtime_load(runtime, ret);
	if (r < 0)
		say_error("cannot read the runtime directory %s: %s", runtime, say_errno(r));
	return r;
}
