/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user sends to allotd: whatever it is, there are that user's tenants alone, with policies
 * that are sound and within the site's bounds, and nothing else was made anywhere. (Suspending is
 * left out: it starts a program.)
 */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/users/requests.h"
#include "ledger/tenant.h"
#include "node/tenants.h"
#include "tests/fuzz/fuzz.h"

#define USER	  4711
#define TENANTS	  2
#define MOST	  (UINT64_C(1) << 30)
#define SITE_TEXT "[default]\nmemory-max = 1GiB\nweight-max = 3\npriority-max = normal\nmeter = off\ntenants = 2\n"

static char runtime[64], users[PATH_MAX];
static struct site site;
static struct site_file file; /* that it would have been read from */
static const uint8_t unknown[16] = {9};
static const struct devices devices = {
	.n = 1, .list = {{.uuid = {1}, .total_bytes = UINT64_C(8) << 30}}};

struct found {
	unsigned int n;
	uint64_t known_bytes, unknown_bytes; /* of quotas together */
};

static void say(void *arg, unsigned int line, bool wrong, const char *words)
{
	(void)arg;
	(void)line;
	(void)words;
	MUST(!wrong);
}

static int remove_one(const char *name, const char *dir, void *arg)
{
	(void)dir;
	(void)arg;
	MUST(tenants_remove(runtime, name, false) == 0);
	return 0;
}

static void end(void)
{
	char path[PATH_MAX];

	tenant_list_users(runtime, remove_one, NULL);
	rmdir(users);
	snprintf(path, sizeof(path), "%s/.ended", runtime);
	unlink(path);
	rmdir(runtime);
	site_free(&site);
}

static void begin(void)
{
	FILE *in;

	if (runtime[0])
		return;
	snprintf(runtime, sizeof(runtime), "%s/allot-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	MUST(mkdtemp(runtime));
	MUST(tenant_users_dir(runtime, users, sizeof(users)) == 0);
	MUST(tenant_make_users(runtime) == 0);
	in = fmemopen((void *)SITE_TEXT, strlen(SITE_TEXT), "r");
	MUST(in && site_read(in, say, NULL, &site) == 0);
	fclose(in);
	atexit(end);
}

static int check_one(const char *name, const char *dir, void *arg)
{
	uint64_t total = UINT64_C(64) << 30, bytes = 0;
	struct found *found = arg;
	struct policy policy;
	uid_t owner;

	MUST(tenant_name_owner(name, &owner) && owner == USER);
	MUST(policy_load(dir, &policy) == 0);
	MUST(!strcmp(policy.name, name));
	MUST(policy.mode == POLICY_MODE_TURNS && policy.priority != POLICY_PRIORITY_HIGH);
	MUST(policy_meters(&policy));
	for (uint32_t i = policy.flags & POLICY_ALL_DEVICES ? 1 : 0; i < policy.ndevices; i++) {
		const uint8_t *uuid = policy.device[i].uuid;

		MUST(policy_limit(&policy, uuid, memcmp(uuid, devices.list[0].uuid, 16) ? total
				  : devices.list[0].total_bytes, &bytes) == 0 && bytes <= MOST);
	}
	if (!policy_limit(&policy, devices.list[0].uuid, devices.list[0].total_bytes, &bytes))
		found->known_bytes += bytes;
	if (!policy_limit(&policy, unknown, total, &bytes))
		found->unknown_bytes += bytes;
	found->n++;
	return 0;
}

/* Entries beside those that begin with a dot. */
static unsigned int count(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned int n = 0;

	MUST(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct requests requests = {
		.runtime = runtime, .site = &site, .file = &file, .devices = &devices};
	static struct requests_peer peer = {.uid = USER, .ngroups = 1, .groups = {USER}};
	struct control_request request = {.verb = CONTROL_MAKE};
	struct control_answer answer;
	struct move move;
	struct found found = {.n = 0};

	begin();
	peer.pid = getpid();
	memcpy(&request, data, size < sizeof(request) ? size : sizeof(request));
	if (request.verb == CONTROL_SUSPEND || request.verb == CONTROL_RESUME)
		return 0;
	MUST(requests_do(&requests, &peer, &request, &answer, &move) == 0);
	MUST(memchr(answer.words, 0, sizeof(answer.words)));
	MUST(answer.error <= 0);
	tenant_list_users(runtime, check_one, &found);
	MUST(found.n <= TENANTS && count(users) == found.n && count(runtime) == 0);
	/* One byte is how nothing is written. */
	MUST(found.known_bytes <= MOST && found.unknown_bytes <= MOST + TENANTS);
	return 0;
}
