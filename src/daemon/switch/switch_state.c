/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/switch/switch_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ledger/policy.h"
#include "ledger/tenant.h"
#include "node/moved.h"
#include "node/tenants.h"
#include "text/json.h"

bool switch_state_is_there(const char *runtime, const char *name)
{
	char dir[PATH_MAX];
	pid_t pid;

	return tenant_name_valid(name) && tenant_path(runtime, name, dir, sizeof(dir)) == 0 &&
	       access(dir, F_OK) == 0 && tenants_state(dir, &pid) != TENANT_ENDED;
}

static bool switch_state_sleeps(const struct tenant_entry *tenant)
{
	const char *word = tenants_state_word(tenant);

	return !strcmp(word, "suspended") || !strcmp(word, "suspending") || !strcmp(word, "resuming");
}

static const char *switch_state_why(const struct tenant_entry *tenant,
				    const struct switch_failure *failure)
{
	bool over;

	if (!(tenant->snapshot->policy.flags & POLICY_SWAPPABLE))
		return "it is not swappable: its memory cannot leave the device";
	if (!failure || !*failure->words)
		return NULL;
	over = failure->away ? !strcmp(tenants_state_word(tenant), "suspended")
			     : !switch_state_sleeps(tenant);
	return over ? NULL : failure->words;
}

static void switch_state_put(struct json *j, const struct tenant_entry *tenant, const char *words,
			     const struct switch_failure *failure)
{
	struct moved moved = moved_of(tenant);

	json_open(j, NULL, '{');
	json_text(j, "tenant", tenant->name);
	json_text(j, "state", tenants_state_word(tenant));
	json_u64(j, "resident_bytes", moved.resident_bytes);
	json_u64(j, "host_bytes", moved.host_bytes);
	json_u64(j, "file_bytes", moved.file_bytes);
	json_u64(j, "waiting_threads", moved.waiting);
	json_text(j, "why", switch_state_why(tenant, failure));
	if (words)
		json_text(j, "words", words);
	json_close(j, '}');
}

/* `sleeping`: only that is asked. */
static int switch_state_write_one(const struct tenant_entry *tenant, bool sleeping,
				  const char *words, const struct switch_failure *failure,
				  char **ret)
{
	size_t bytes;
	FILE *out = open_memstream(ret, &bytes);
	struct json j = {.out = out};

	if (!out)
		return -ENOMEM;
	if (sleeping) {
		json_open(&j, NULL, '{');
		json_bool(&j, "is_sleeping", switch_state_sleeps(tenant));
		json_close(&j, '}');
	} else {
		switch_state_put(&j, tenant, words, failure);
	}
	return fclose(out) || !*ret ? -ENOMEM : 0;
}

static int switch_state_read(const char *runtime, const char *name, bool sleeping,
			     const char *words, const struct switch_failure *failure, char **ret)
{
	struct tenants tenants;
	int r = tenants_load_named(runtime, name, &tenants);

	if (r < 0)
		return r;
	r = tenants.list[0].snapshot
		    ? switch_state_write_one(&tenants.list[0], sleeping, words, failure, ret)
		    : tenants.list[0].error;
	tenants_free(&tenants);
	return r;
}

int switch_state_write(const char *runtime, const char *name, const char *words,
		       const struct switch_failure *failure, char **ret)
{
	return switch_state_read(runtime, name, false, words, failure, ret);
}

int switch_state_write_sleeping(const char *runtime, const char *name, char **ret)
{
	return switch_state_read(runtime, name, true, NULL, NULL, ret);
}

const char *switch_state_words(int error)
{
	return tenants_error_words(error);
}
