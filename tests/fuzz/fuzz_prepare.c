/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubelet, an API server and a disk that do what the bytes say, one step each, and the driver between
 * them: calls begin and are given up, claims are answered, refused, late or gone, grants cannot be written
 * or are lost. Each call is answered once, and a claim has all of its grants or none.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "kube/claims/claim.h"
#include "kube/wire/dra.pb-c.h"
#include "kube/claims/prepare.h"
#include "tests/fuzz/fuzz.h"

#define CLAIMS 4 /* the second has two requests */
#define CALLS  16
#define DISK   16
#define LATE_S 41

/* One step is a byte: what, and three to five bits of with what. */
enum step { PREPARE, UNPREPARE, ANSWER, REFUSE, GIVE_UP, DISK_FULL, LOSE, WAIT };

struct grpc_call {
	bool there, finished;
	unsigned int claims; /* bits */
	uint8_t bytes[8192];
	size_t len;
	enum grpc_status status;
};

struct api_call {
	bool there;
	unsigned int claim;
	void (*ended)(void *arg, int status, const char *bytes, size_t len);
	void *arg;
};

static struct grpc_call calls[CALLS];
static struct api_call asked[CALLS];
static struct {
	char id[GRANT_ID_BYTES], memo[GRANT_MEMO_BYTES];
} disk[DISK];
static bool full, torn[CLAIMS];
static time_t now_s;
static struct prepare *prepare;
static const struct kube_conf conf = {.driver = "gpu.allot.dev", .node = "node1"};
static const struct node_devices devices = {.n = 1, .list = {{.device = {.uuid = {[15] = 1}}}}};

/* --- What is in the place of others -------------------------------------------------------- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_grpc_send(struct grpc_call *call, const uint8_t *message, size_t len);
void __wrap_grpc_finish(struct grpc_call *call, enum grpc_status status, const char *text);
int __wrap_api_get(struct api *api, const char *path, int timeout_ms,
		   void (*ended)(void *arg, int status, const char *bytes, size_t len), void *arg,
		   struct api_call **ret);
void __wrap_api_forget(struct api_call *call);
int __wrap_grant_put(const struct kube_conf *c, const struct grant *grant, char why[static GRANT_WHY]);
int __wrap_grant_drop(const struct kube_conf *c, const char *id, char why[static GRANT_WHY]);
int __wrap_grant_memo(const struct kube_conf *c, const char *id, char ret[static GRANT_MEMO_BYTES]);
int __wrap_grant_list(const struct kube_conf *c, const char *prefix,
		      int (*fn)(const char *id, void *arg), void *arg);
int __wrap_grant_names(const struct kube_conf *c, const struct grant *grant, struct grant_names *ret,
		       char why[static GRANT_WHY]);
void __wrap_log_line(int level, const char *fmt, ...);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	*ret = (struct timespec){.tv_sec = now_s};
	return 0;
}

int __wrap_grpc_send(struct grpc_call *call, const uint8_t *message, size_t len)
{
	MUST(call->there && !call->finished && !call->len && len <= sizeof(call->bytes));
	memcpy(call->bytes, message, len);
	call->len = len;
	return 0;
}

void __wrap_grpc_finish(struct grpc_call *call, enum grpc_status status, const char *text)
{
	MUST(call->there && !call->finished);
	call->finished = true;
	call->status = status;
}

static char uids[CLAIMS][CLAIM_UID_BYTES] = {"a", "ab", "b", "0f7e2d6c-8a0c-4b7e-9d0f-1f2e3d4c5b6a"};

int __wrap_api_get(struct api *api, const char *path, int timeout_ms,
		   void (*ended)(void *arg, int status, const char *bytes, size_t len), void *arg,
		   struct api_call **ret)
{
	static const char before[] = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/";
	unsigned int claim = 0, i = 0;

	MUST(!strncmp(path, before, sizeof(before) - 1));
	while (strcmp(uids[claim], path + sizeof(before) - 1))
		MUST(++claim < CLAIMS);
	for (i = 0; i < CALLS; i++)
		MUST(!asked[i].there || asked[i].claim != claim);
	for (i = 0; asked[i].there; i++)
		MUST(i + 1 < CALLS);
	asked[i] = (struct api_call){true, claim, ended, arg};
	*ret = &asked[i];
	return 0;
}

void __wrap_api_forget(struct api_call *call)
{
	MUST(call->there);
	call->there = false;
}

static unsigned int disk_find(const char *id)
{
	unsigned int i = 0;

	while (i < DISK && strcmp(disk[i].id, id))
		i++;
	return i;
}

int __wrap_grant_put(const struct kube_conf *c, const struct grant *grant, char why[static GRANT_WHY])
{
	unsigned int i = disk_find(grant->id);

	if (i == DISK)
		i = disk_find("");
	MUST(i < DISK);
	/* The second of two grants is the one that has no room. */
	if (full && (strstr(grant->id, ".y") || !strstr(grant->id, ".ab."))) {
		strcpy(why, "full");
		return -ENOSPC;
	}
	strcpy(disk[i].id, grant->id);
	strcpy(disk[i].memo, grant->memo);
	return 0;
}

int __wrap_grant_drop(const struct kube_conf *c, const char *id, char why[static GRANT_WHY])
{
	unsigned int i = disk_find(id);

	if (i < DISK)
		disk[i].id[0] = 0;
	return 0;
}

int __wrap_grant_memo(const struct kube_conf *c, const char *id, char ret[static GRANT_MEMO_BYTES])
{
	unsigned int i = disk_find(id);

	if (i == DISK)
		return -ENOENT;
	strcpy(ret, disk[i].memo);
	return 0;
}

int __wrap_grant_list(const struct kube_conf *c, const char *prefix,
		      int (*fn)(const char *id, void *arg), void *arg)
{
	char id[GRANT_ID_BYTES];
	int r = 0;

	for (unsigned int i = 0; i < DISK && !r; i++) {
		memcpy(id, disk[i].id, sizeof(id));
		if (*id && !strncmp(id, prefix, strlen(prefix)))
			r = fn(id, arg);
	}
	return r;
}

int __wrap_grant_names(const struct kube_conf *c, const struct grant *grant, struct grant_names *ret,
		       char why[static GRANT_WHY])
{
	ret->n = 1;
	snprintf(ret->name[0], sizeof(ret->name[0]), "x/y=%s", grant->id);
	return 0;
}

void __wrap_log_line(int level, const char *fmt, ...)
{
}

/* --- What must hold ------------------------------------------------------------------------ */

static unsigned int grants_of(unsigned int claim)
{
	const char *prefix = claim_prefix(uids[claim]).s;
	unsigned int n = 0;

	for (unsigned int i = 0; i < DISK; i++)
		n += *disk[i].id && !strncmp(disk[i].id, prefix, strlen(prefix));
	return n;
}

static unsigned int requests_of(unsigned int claim)
{
	return claim == 1 ? 2 : 1;
}

static bool is_asked(unsigned int claim)
{
	for (unsigned int i = 0; i < CALLS; i++)
		if (asked[i].there && asked[i].claim == claim)
			return true;
	return false;
}

/* Nothing is asked for that no call waits for. */
static void check_asked(void)
{
	for (unsigned int i = 0; i < CALLS; i++) {
		unsigned int claims = 0;

		for (unsigned int k = 0; k < CALLS; k++)
			claims |= calls[k].there ? calls[k].claims : 0;
		MUST(!asked[i].there || claims & 1u << asked[i].claim);
	}
}

static void check_disk(void)
{
	for (unsigned int i = 0; i < CLAIMS; i++) {
		torn[i] &= grants_of(i) && grants_of(i) != requests_of(i);
		MUST(torn[i] || !grants_of(i) || grants_of(i) == requests_of(i));
	}
}

static unsigned int claim_of(const char *uid)
{
	unsigned int i = 0;

	while (strcmp(uids[i], uid))
		MUST(++i < CLAIMS);
	return i;
}

/* What was prepared is on disk at this moment; what failed says why. */
static void check_answer(struct grpc_call *call)
{
	Dra__NodePrepareResourcesResponse *response =
		dra__node_prepare_resources_response__unpack(NULL, call->len, call->bytes);

	MUST(response && response->n_claims && call->status == GRPC_OK);
	for (size_t i = 0; i < response->n_claims; i++) {
		const Dra__NodePrepareResourceResponse *answer = response->claims[i]->value;
		unsigned int claim = claim_of(response->claims[i]->key);

		MUST(!*answer->error == (answer->n_devices == requests_of(claim)));
		MUST(!*answer->error || !answer->n_devices);
	}
	dra__node_prepare_resources_response__free_unpacked(response, NULL);
	call->there = false;
}

static void check_calls(void)
{
	for (unsigned int i = 0; i < CALLS; i++)
		if (calls[i].there && calls[i].finished)
			check_answer(&calls[i]);
}

/* --- Steps --------------------------------------------------------------------------------- */

static struct grpc_call *call_new(void)
{
	for (unsigned int i = 0; i < CALLS; i++)
		if (!calls[i].there) {
			calls[i].there = true;
			calls[i].finished = false;
			calls[i].len = 0;
			return &calls[i];
		}
	return NULL;
}

/* A request of the claims in the mask: both kinds are the same on the wire. */
static size_t pack(unsigned int mask, uint8_t *to)
{
	Dra__NodePrepareResourcesRequest request = DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
	Dra__Claim claim[CLAIMS], *list[CLAIMS];
	char space[] = "default";

	for (unsigned int i = 0; i < CLAIMS; i++) {
		if (!(mask & 1u << i))
			continue;
		dra__claim__init(&claim[i]);
		claim[i].namespace_ = space;
		claim[i].name = claim[i].uid = uids[i];
		list[request.n_claims++] = &claim[i];
	}
	request.claims = list;
	return dra__node_prepare_resources_request__pack(&request, to);
}

static void step_prepare(unsigned int mask)
{
	struct grpc_call *call = call_new();
	uint8_t bytes[1024];

	if (!call)
		return;
	call->claims = mask % 15 + 1;
	prepare_called(prepare, call, bytes, pack(call->claims, bytes));
}

static void step_unprepare(unsigned int mask)
{
	struct grpc_call *call = call_new();
	uint8_t bytes[1024];

	if (!call)
		return;
	mask = mask % 15 + 1;
	prepare_undo_called(prepare, call, bytes, pack(mask, bytes));
	MUST(call->finished && call->status == GRPC_OK);
	call->there = false;
	for (unsigned int i = 0; i < CLAIMS; i++)
		MUST(!(mask & 1u << i) || (!grants_of(i) && !is_asked(i)));
}

static const char result[] = "{\"request\":\"%s\",\"driver\":\"gpu.allot.dev\",\"pool\":\"node1\",\"device\":"
			     "\"gpu-00000000-0000-0000-0000-000000000001\","
			     "\"consumedCapacity\":{\"memory\":\"1Gi\",\"cores\":\"1\"}}";

static void api_answer(struct api_call *call, int status, bool other)
{
	char x[512], y[512], text[2048];
	size_t n;

	snprintf(x, sizeof(x), result, "x");
	snprintf(y, sizeof(y), result, "y");
	n = (size_t)snprintf(text, sizeof(text),
			     "{\"metadata\":{\"uid\":\"%s\"},\"status\":{\"allocation\":{\"devices\":{"
			     "\"results\":[%s%s%s]}}}}",
			     other ? "another" : uids[call->claim], x, call->claim == 1 ? "," : "",
			     call->claim == 1 ? y : "");
	call->there = false;
	call->ended(call->arg, status, text, n);
}

static void step_answer(unsigned int which, int status, bool other)
{
	if (asked[which % CALLS].there)
		api_answer(&asked[which % CALLS], status, other);
}

static void step_give_up(unsigned int which)
{
	struct grpc_call *call = &calls[which % CALLS];

	if (!call->there)
		return;
	prepare_gone(prepare, call);
	call->there = false;
}

/* As when the daemon was killed between two files. */
static void step_lose(unsigned int which)
{
	which %= DISK;
	if (!*disk[which].id)
		return;
	for (unsigned int i = 0; i < CLAIMS; i++)
		torn[i] |= !strncmp(disk[which].id, claim_prefix(uids[i]).s, strlen(claim_prefix(uids[i]).s));
	disk[which].id[0] = 0;
}

static void step_wait(void)
{
	now_s += LATE_S;
	prepare_expire(prepare);
	MUST(prepare_timeout_ms(prepare) == -1);
	for (unsigned int i = 0; i < CALLS; i++)
		MUST(!calls[i].there || calls[i].finished);
}

static void step(uint8_t byte)
{
	unsigned int with = byte >> 3;

	switch ((enum step)(byte & 7)) {
	case PREPARE:
		step_prepare(with);
		break;
	case UNPREPARE:
		step_unprepare(with);
		break;
	case ANSWER:
		step_answer(with, 200, false);
		break;
	case REFUSE:
		step_answer(with >> 1, with & 1 ? 404 : 200, true);
		break;
	case GIVE_UP:
		step_give_up(with);
		break;
	case DISK_FULL:
		full = !full;
		break;
	case LOSE:
		step_lose(with);
		break;
	case WAIT:
		step_wait();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(calls, 0, sizeof(calls));
	memset(asked, 0, sizeof(asked));
	memset(disk, 0, sizeof(disk));
	memset(torn, 0, sizeof(torn));
	full = false;
	now_s = 1;
	MUST(!prepare_open(NULL, &conf, &devices, &prepare));
	for (size_t i = 0; i < size && i < 200; i++) {
		step(data[i]);
		check_calls();
		check_asked();
		check_disk();
	}
	prepare_close(prepare);
	check_calls();
	for (unsigned int i = 0; i < CALLS; i++)
		MUST(!calls[i].there && !asked[i].there);
	return 0;
}
