/* SPDX-License-Identifier: Apache-2.0 */
/* What allotd cannot look at is not what is not there: nobody has more by it than the site gives. */
#include "daemon/users/requests.h"

#include <dirent.h>

#include "daemon/users/bounds.h"
#include "node/tenants.h"
#include "tests/unit/site_fixture.h"
#include "tests/unit/tenant_fixture.h"

static char runtime[PATH_MAX + 8];
static uid_t uid;
static int unlisted; /* errno of a directory that cannot be listed */
static int unread;   /* -errno of a policy */
static int loads;    /* of policies */

typedef int wanted_fn(const struct dirent *entry);
typedef int order_fn(const struct dirent **a, const struct dirent **b);

int __real_scandir64(const char *dir, struct dirent ***ret, wanted_fn *wanted, order_fn *order);
int __wrap_scandir64(const char *dir, struct dirent ***ret, wanted_fn *wanted, order_fn *order);

int __wrap_scandir64(const char *dir, struct dirent ***ret, wanted_fn *wanted, order_fn *order)
{
	errno = unlisted;
	return unlisted ? -1 : __real_scandir64(dir, ret, wanted, order);
}

int __real_policy_load(const char *dir, struct policy *ret);
int __wrap_policy_load(const char *dir, struct policy *ret);

int __wrap_policy_load(const char *dir, struct policy *ret)
{
	loads++;
	return unread ? unread : __real_policy_load(dir, ret);
}

static const char *cgroups; /* as the kernel tells them; NULL: what it does */

ssize_t __real_fd_read_text(int dirfd, const char *path, char *buf, size_t len);
ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len);

ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len)
{
	if (!cgroups || strcmp(path, "cgroup"))
		return __real_fd_read_text(dirfd, path, buf, len);
	return snprintf(buf, len, "%s", cgroups);
}

static struct policy policy_of(const char *name)
{
	struct policy policy = fixture_policy(GIB);

	snprintf(policy.name, sizeof(policy.name), "%s@%u", name, (unsigned int)uid);
	policy.compute = POLICY_COMPUTE_CAP;
	policy.device[0].share_permille = 500;
	return policy;
}

/* What allotd answers to a process of the user that wants a tenant made. */
static int make(const struct site *site, pid_t pid, const char *name)
{
	static const struct devices devices;
	const struct requests requests = {.runtime = runtime, .site = site, .devices = &devices};
	const struct requests_peer peer = {.uid = uid, .pid = pid};
	struct control_request request = {.magic = CONTROL_MAGIC,
					  .version = CONTROL_VERSION,
					  .verb = CONTROL_MAKE,
					  .kind = TENANT_PREPARED,
					  .said = CONTROL_SAID_MEMORY | CONTROL_SAID_COMPUTE,
					  .policy = policy_of(name)};
	struct control_answer answer;
	struct move move;

	snprintf(request.name, sizeof(request.name), "%s", name);
	CHECK_EQ(requests_do(&requests, &peer, &request, &answer, &move), 0);
	return answer.error;
}

static void check_number(void)
{
	struct site site = site_of("[default]\ntenants = 1\n");

	unlisted = EMFILE;
	CHECK_EQ(make(&site, getpid(), "number"), -EMFILE);
	unlisted = 0;
	CHECK_EQ(make(&site, getpid(), "number"), 0);
	CHECK_EQ(make(&site, getpid(), "number2"), -EDQUOT);
	site_free(&site);
}

static int bound(const struct site *site)
{
	static const struct devices devices;
	const struct site_member member = {.uid = uid, .cgroups = ""};
	struct bounds bounds = {.site = site, .devices = &devices, .runtime = runtime,
				.member = &member, .name = "other"};
	const struct policy policy = policy_of("other");
	char words[BOUNDS_WORDS] = "";

	return bounds_check(&bounds, &policy, words);
}

/* Others' policies are read once, however many devices a policy names that nobody knows. */
static void check_many_devices(void)
{
	static const struct devices devices;
	struct site site = site_of("[default]\nmemory-max = 2GiB\n");
	const struct site_member member = {.uid = uid, .cgroups = ""};
	struct bounds bounds = {.site = &site, .devices = &devices, .runtime = runtime,
				.member = &member, .name = "other"};
	struct policy policy = policy_of("other");
	char words[BOUNDS_WORDS] = "";

	for (policy.ndevices = 1; policy.ndevices < POLICY_DEVICES; policy.ndevices++) {
		policy.device[policy.ndevices] = policy.device[0];
		policy.device[policy.ndevices].uuid[0] = (uint8_t)policy.ndevices;
		policy.device[policy.ndevices].limit_bytes = 1;
	}
	loads = 0;
	CHECK_EQ(bounds_check(&bounds, &policy, words), 0);
	CHECK_EQ(loads, 1);
	site_free(&site);
}

/* There is one tenant by now; what it has is what nobody can tell. */
static void check_bounds(void)
{
	static const char *const texts[] = {"[default]\nmemory-max = 2GiB\n",
					    "[default]\ncompute-max = 99\n",
					    "[default]\nweight-max = 10\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct site site = site_of(texts[i]);

		unlisted = EMFILE;
		CHECK_EQ(bound(&site), -EMFILE);
		unlisted = 0;
		unread = -EMFILE;
		CHECK_EQ(bound(&site), -EDQUOT);
		unread = -ENOENT; /* removed meanwhile */
		CHECK_EQ(bound(&site), 0);
		unread = 0;
		CHECK_EQ(bound(&site), i == 1 ? -EDQUOT : 0);
		site_free(&site);
	}
}

/* The key is of users: whoever manages is not bounded. */
static void check_accounting(void)
{
	static const struct devices devices;
	const struct site_member member = {.uid = uid, .cgroups = ""};
	struct site off = site_of("[default]\naccounting-driver = off\n");
	struct site on = site_of("[default]\naccounting-driver = off\n[user 12345]\n"
				 "accounting-driver = on\n");
	struct bounds bounds = {.site = &off, .devices = &devices, .runtime = runtime,
				.member = &member, .name = "other"};
	struct policy policy = policy_of("other");
	char words[BOUNDS_WORDS] = "";

	CHECK_EQ(bounds_check_accounting(&bounds, &policy, words), 0);
	policy.flags |= POLICY_ACCOUNTING_DRIVER;
	CHECK_EQ(bounds_check_accounting(&bounds, &policy, words), -EDQUOT);
	CHECK(strstr(words, "accounting-driver = off, line 2"));
	bounds.member = NULL;
	CHECK_EQ(bounds_check_accounting(&bounds, &policy, words), 0);
	bounds.member = &member;
	bounds.site = &on;
	CHECK_EQ(bounds_check_accounting(&bounds, &policy, words), uid == 12345 ? 0 : -EDQUOT);
	site_free(&off);
	site_free(&on);
}

/* Who asks for nothing, and has no tenant, is refused by no file that is right. */
static void check_nothing_said(void)
{
	static const char *const texts[] = {
		"[default]\nmemory = 50%\nmemory-max = 1GiB\n",
		"[default]\nmemory = 9GiB\nmemory-max = 100%\n",
		"[cgroup /a]\nmemory = 2GiB\n[user 12345]\nmemory-max = 1GiB\n",
		"[default]\ncompute = 100\nweight-max = 1\n",
		"[default]\ncompute = 50\nweight-max = 2\n",
		"[default]\ncompute-max = 50\nweight-max = 2\n",
		"[default]\ncompute-max = 50\nweight = 2\n",
		"[default]\ncompute-max = 50\nweight = 2\nweight-max = 2\n",
		"[default]\nweight-max = 2\n",
		"[cgroup /a]\ncompute = 50\n[user 12345]\ncompute-max = 30\n[group 4]\nweight = 9\n",
		"[default]\npriority-max = low\n",
	};
	static const struct devices devices = {
		.n = 2, .list = {{.uuid = {1}, .total_bytes = 8 * GIB},
				 {.uuid = {2}, .total_bytes = 4 * GIB}}};
	const gid_t group = 4;
	const struct site_member member = {
		.uid = 12345, .groups = &group, .ngroups = 1, .cgroups = "0::/a\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct policy policy = {.ndevices = 1, .flags = POLICY_ALL_DEVICES};
		struct site site = site_of(texts[i]);
		struct bounds bounds = {.site = &site, .devices = &devices, .runtime = runtime,
					.member = &member, .name = "other"};
		char words[BOUNDS_WORDS] = "";

		policy.device[0].limit_permille = 1000;
		bounds_complete(&bounds, 0, &policy);
		if (bounds_check(&bounds, &policy, words)) {
			fprintf(stderr, "%s%s\n", texts[i], words);
			exit(1);
		}
		site_free(&site);
	}
}

/* --- Devices that allotd does not know -------------------------------------------------------- */

static const uint8_t known[16] = {1}, unknown[16] = {7}, other_unknown[16] = {8};

/* What allotd gives to who sends that policy; its answer. */
static int ask(const struct site *site, const char *name, struct policy policy,
	       struct control_answer *ret)
{
	static const struct devices devices = {
		.n = 1, .list = {{.uuid = {1}, .total_bytes = 16 * GIB}}};
	const struct requests requests = {.runtime = runtime, .site = site, .devices = &devices};
	const struct requests_peer peer = {.uid = uid, .pid = getpid()};
	struct control_request request = {.magic = CONTROL_MAGIC,
					  .version = CONTROL_VERSION,
					  .verb = CONTROL_MAKE,
					  .kind = TENANT_PREPARED,
					  .said = CONTROL_SAID_MEMORY | CONTROL_SAID_COMPUTE,
					  .policy = policy};
	struct move move;

	snprintf(request.name, sizeof(request.name), "%s", name);
	snprintf(request.policy.name, sizeof(request.policy.name), "%s@%u", name, (unsigned int)uid);
	CHECK_EQ(requests_do(&requests, &peer, &request, ret, &move), 0);
	return ret->error;
}

static uint64_t limit(const struct control_answer *answer, const uint8_t uuid[16], uint64_t total)
{
	uint64_t bytes = 0;

	CHECK_EQ(policy_limit(&answer->policy, uuid, total, &bytes), 0);
	return bytes;
}

static void end_all(void)
{
	static const char *const names[] = {"a", "b", "c"};
	char name[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s@%u", names[i], (unsigned int)uid);
		tenants_remove(runtime, name, false);
	}
}

/* A floor that nobody asked for is within the bound. */
static void check_floor(void)
{
	struct site site = site_of("[default]\nfloor-max = 2\n");
	struct control_answer answer;
	struct policy policy = policy_of("a");

	CHECK_EQ(ask(&site, "a", policy, &answer), 0);
	CHECK_EQ(policy_floor(&answer.policy), 20);
	policy.floor_permille = 20;
	CHECK_EQ(ask(&site, "b", policy, &answer), 0);
	policy.floor_permille = POLICY_FLOOR_NONE;
	CHECK_EQ(ask(&site, "c", policy, &answer), 0);
	CHECK_EQ(policy_floor(&answer.policy), 0);
	end_all();
	policy.floor_permille = 21;
	CHECK_EQ(ask(&site, "a", policy, &answer), -EDQUOT);
	CHECK(strstr(answer.words, "floor-max, line 2"));
	site_free(&site);
}

/* A latency shortens the turns of all, so it is bounded. */
static void check_latency(void)
{
	struct site site = site_of("[default]\nlatency-min = 8ms\n");
	struct control_answer answer;
	struct policy policy = policy_of("a");

	policy.compute = POLICY_COMPUTE_SHARE;
	policy.latency_us = 8000;
	CHECK_EQ(ask(&site, "a", policy, &answer), 0);
	CHECK_EQ(answer.policy.latency_us, 8000);
	end_all();
	policy.latency_us = 7999;
	CHECK_EQ(ask(&site, "a", policy, &answer), -EDQUOT);
	CHECK(strstr(answer.words, "latency-min, line 2"));
	site_free(&site);
}

/* With an entry for the device that is known, and one for all. */
static struct policy policy_for(struct size_spec all, struct size_spec of_known)
{
	struct policy policy = {.ndevices = of_known.bytes || of_known.permille ? 2 : 1,
				.flags = POLICY_ALL_DEVICES};

	policy.device[0].limit_bytes = all.bytes;
	policy.device[0].limit_permille = all.permille;
	memcpy(policy.device[1].uuid, known, sizeof(known));
	policy.device[1].limit_bytes = of_known.bytes;
	policy.device[1].limit_permille = of_known.permille;
	return policy;
}

/* An entry for all holds for a device that is plugged in later, and so does the site's bound. */
static void check_unknown_in_bytes(void)
{
	struct site site = site_of("[default]\nmemory-max = 8GiB\n");
	struct size_spec gib = {.bytes = GIB}, none = {0}, much = {.bytes = UINT64_C(16) << 40},
			 half = {.permille = 500};
	struct control_answer answer;

	CHECK_EQ(ask(&site, "a", policy_for(much, none), &answer), -EDQUOT);
	CHECK_EQ(ask(&site, "a", policy_for(much, gib), &answer), 0);
	CHECK_EQ(limit(&answer, known, 16 * GIB), GIB);
	CHECK_EQ(limit(&answer, unknown, 64 * GIB), 8 * GIB);
	/* What is left there is nothing, and nobody is refused for that. */
	CHECK_EQ(ask(&site, "b", policy_for(gib, none), &answer), 0);
	CHECK_EQ(limit(&answer, known, 16 * GIB), GIB);
	CHECK(limit(&answer, unknown, 64 * GIB) <= 1);
	end_all();
	CHECK_EQ(ask(&site, "a", policy_for(half, none), &answer), 0);
	CHECK_EQ(limit(&answer, known, 16 * GIB), 8 * GIB);
	CHECK_EQ(limit(&answer, unknown, 64 * GIB), 8 * GIB);
	end_all();
	CHECK_EQ(ask(&site, "a", policy_for(gib, none), &answer), 0);
	CHECK_EQ(answer.policy.ndevices, 1); /* nothing is spelled out that need not be */
	CHECK_EQ(ask(&site, "b", policy_for(gib, none), &answer), 0);
	CHECK_EQ(answer.policy.ndevices, 1);
	end_all();
	site_free(&site);
}

static void check_unknown_in_parts(void)
{
	struct site site = site_of("[default]\nmemory-max = 25%\n");
	struct size_spec gib = {.bytes = GIB}, none = {0}, all = {.permille = 1000},
			 part = {.permille = 100};
	struct control_answer answer;

	CHECK_EQ(ask(&site, "a", policy_for(gib, none), &answer), 0);
	CHECK_EQ(limit(&answer, known, 16 * GIB), GIB);
	CHECK_EQ(limit(&answer, unknown, 2 * GIB), 2 * GIB / 4);
	end_all();
	CHECK_EQ(ask(&site, "a", policy_for(part, none), &answer), 0);
	CHECK_EQ(answer.policy.ndevices, 1);
	CHECK_EQ(ask(&site, "b", policy_for(all, gib), &answer), 0);
	CHECK_EQ(limit(&answer, unknown, 100 * GIB), 15 * GIB);
	CHECK_EQ(ask(&site, "c", policy_for(all, gib), &answer), 0);
	CHECK(limit(&answer, unknown, 100 * GIB) <= 1);
	end_all();
	site_free(&site);
}

/* One that is named, as a part of a device (MIG), which allotd does not list. */
static void check_unknown_by_name(void)
{
	struct site site = site_of("[default]\nmemory-max = 8GiB\n");
	struct policy policy = {.ndevices = 1}, all = policy_for((struct size_spec){.bytes = GIB},
								 (struct size_spec){0});
	struct control_answer answer;

	memcpy(policy.device[0].uuid, unknown, sizeof(unknown));
	policy.device[0].limit_bytes = 9 * GIB;
	CHECK_EQ(ask(&site, "a", policy, &answer), -EDQUOT);
	policy.device[0].limit_bytes = 8 * GIB;
	CHECK_EQ(ask(&site, "a", policy, &answer), 0);
	CHECK_EQ(ask(&site, "b", policy, &answer), -EDQUOT);
	CHECK_EQ(ask(&site, "b", all, &answer), 0);
	CHECK(limit(&answer, unknown, 64 * GIB) <= 1);
	memcpy(policy.device[0].uuid, other_unknown, sizeof(unknown));
	CHECK_EQ(ask(&site, "c", policy, &answer), 0);
	end_all();
	site_free(&site);
}

static void check_unknown_time(void)
{
	struct site site = site_of("[default]\ncompute-max = 50\n");
	struct policy policy = policy_for((struct size_spec){.bytes = GIB},
					  (struct size_spec){.bytes = GIB});
	struct control_answer answer;

	policy.compute = POLICY_COMPUTE_CAP;
	policy.device[0].share_permille = 1000;
	policy.device[1].share_permille = 500;
	CHECK_EQ(ask(&site, "a", policy, &answer), -EDQUOT);
	policy.device[0].share_permille = 500;
	CHECK_EQ(ask(&site, "a", policy, &answer), 0);
	end_all();
	site_free(&site);
}

/* A process of the user's, which has ended and is not waited for if it is to `end`. */
static pid_t start(bool end)
{
	siginfo_t info;
	pid_t pid = fixture_fork();

	if (pid == 0) {
		CHECK_EQ(setresuid(uid, uid, uid), 0);
		if (end)
			_exit(0);
		raise(SIGSTOP);
	}
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT), 0);
	return pid;
}

/* The kernel shows one that ends in no cgroup, or in one of which nobody knows whose it was. */
static void check_cgroup_of_ended(void)
{
	struct site site = site_of("[cgroup /no/such/group]\ntenants = 1\n");
	pid_t ended = start(true), lives = start(false);

	CHECK_EQ(make(&site, ended, "ended"), -ESRCH);
	CHECK_EQ(make(&site, lives, "lives"), 0);
	cgroups = "1:cpu:/\n0::/../no/such/group\n"; /* from below, in a namespace */
	CHECK_EQ(make(&site, lives, "above"), -EXDEV);
	cgroups = "1:cpu:/no/such/group\n";
	CHECK_EQ(make(&site, lives, "more"), -EDQUOT);
	cgroups = NULL;
	fixture_wait(ended, 0);
	fixture_kill(lives);
	site_free(&site);
}

int main(void)
{
	uid = geteuid() ? geteuid() : 12345;
	snprintf(runtime, sizeof(runtime), "%s/run", fixture_runtime_dir());
	check_nothing_said();
	check_accounting();
	check_floor();
	check_latency();
	check_unknown_in_bytes();
	check_unknown_in_parts();
	check_unknown_by_name();
	check_unknown_time();
	check_number();
	check_many_devices();
	check_bounds();
	check_cgroup_of_ended();
	return 0;
}
