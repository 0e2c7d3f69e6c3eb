/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/runtime.h"

#include <errno.h>

#include "cli/out/say.h"
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

int runtime_load_tenants(struct tenants *ret)
{
	char runtime[PATH_MAX];
	int r = runtime_find(runtime);

	if (r < 0)
		return r;
	r = tenants_load(runtime, ret);
	if (r < 0)
		say_error("cannot read the runtime directory %s: %s", runtime, say_errno(r));
	return r;
}
