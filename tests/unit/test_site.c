/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/site/site.h"

#include <errno.h>
#include <string.h>

#include "ledger/policy.h"
#include "tests/check.h"

static char said[8192];
static unsigned int wrong_line;

static void note(void *arg, unsigned int line, bool wrong, const char *words)
{
	size_t n = strlen(said);

	(void)arg;
	snprintf(said + n, sizeof(said) - n, "%u: %s\n", line, words);
	if (wrong && !wrong_line)
		wrong_line = line;
}

static int read_bytes(const char *text, size_t n, struct site *ret)
{
	FILE *in = fmemopen((void *)text, n, "r");
	int r;

	CHECK(in);
	said[0] = '\0';
	wrong_line = 0;
	r = site_read(in, note, NULL, ret);
	fclose(in);
	return r;
}

static int read_text(const char *text, struct site *ret)
{
	return read_bytes(text, strlen(text), ret);
}

static void check_words(void)
{
	struct site site = {0};

	CHECK_EQ(read_text("# of all\n"
			   "overpromise = refuse\n"
			   "\n"
			   "[default]\n"
			   "  memory-max=16GiB  \n"
			   "memory = 25%\n"
			   "[ user  4711 ]\n"
			   "tenants = 4\n"
			   "[cgroup /slurm]\n"
			   "priority-max = low\n"
			   "compute = 12.5\n"
			   "meter = off",
			   &site),
		 0);
	CHECK(!strcmp(said,
		      "2: no quota is given by which those on a device are more together than it has\n"
		      "4: for all users, where nothing else is said:\n"
		      "5: a user's tenants have quotas of at most 16 GiB together on each device\n"
		      "6: a tenant has a quota of 25% on each device, if it asks for none\n"
		      "7: for user 4711:\n"
		      "8: a user has at most 4 tenants at once\n"
		      "9: for what runs in cgroup /slurm or below it:\n"
		      "10: a tenant's priority is low or less\n"
		      "11: a tenant has at most 12.5% of each device's time, if it asks for no share\n"
		      "12: a tenant is measured (off) where nothing limits its use of compute, if it does "
		      "not say\n"));
	CHECK_EQ(site.overpromise, SITE_REFUSE);
	site_free(&site);
	CHECK_EQ(read_text("\n", &site), 0);
	CHECK(!site.rules);
}

/* A wrong line is never "no bound": nothing of the file is in force. */
static void check_wrong(void)
{
	static const struct {
		const char *text;
		unsigned int line;
	} wrong[] = {
		{"memory = 8GiB\n", 1},
		{"[default]\nmemory = 0\n", 2},
		{"[default]\nmemory = 8\n", 2}, /* of what unit? */
		{"[default]\nmemory-max = 4k\n", 2},
		{"[default]\nmemory = 8 apples\n", 2},
		{"[default]\nmemory =\n", 2},
		{"[default]\nmemory\n", 2},
		{"[default]\n= 8GiB\n", 2},
		{"[default]\nmemory-max = -1\n", 2},
		{"[default]\ncompute-max = 101\n", 2},
		{"[default]\nweight-max = 0\n", 2},
		{"[default]\nweight-max = 1001\n", 2},
		{"[default]\ntenants = 129\n", 2},
		{"[default]\npriority-max = higher\n", 2},
		{"[default]\nfloor-max = 51\n", 2},
		{"[default]\nfloor-max = off\n", 2},
		{"[default]\nlatency-min = 1ms\n", 2},
		{"[default]\nlatency-min = 2s\n", 2},
		{"[default]\nlatency-min = 8\n", 2},
		{"[default]\naccounting-driver = no\n", 2},
		{"[default]\nmeter = yes\n", 2},
		{"[default]\nmemori = 8GiB\n", 2},
		{"[default]\ntenants = 1\ntenants = 2\n", 3},
		{"[default]\noverpromise = warn\n", 2},
		{"overpromise = perhaps\n", 1},
		/* Who could reach that address could suspend everybody's tenants. */
		{"history = relative\n", 1},
		{"[default]\nhistory = /h\n", 2},
		{"control = 9479\n", 1},
		{"control-token = /t\n", 1},
		{"control = 0\ncontrol-token = /t\n", 1},
		{"control = 65536\ncontrol-token = /t\n", 1},
		{"control = localhost:9479\ncontrol-token = /t\n", 1},
		{"control = 127.0.0.1\ncontrol-token = /t\n", 1},
		{"control = 9479\ncontrol-token = t\n", 2},
		{"[default]\ncontrol = 9479\ncontrol-token = /t\n", 2},
		{"[default]\n[default]\n", 2},
		{"[default x]\n", 1},
		{"[user]\n", 1},
		{"[user root]\n", 1},
		{"[user 0]\n", 1},
		{"[user no-such-user]\ntenants = 1\n", 1},
		{"[group no-such-group]\n", 1},
		{"[cgroup slurm]\n", 1},
		{"[cgroup /]\n", 1},
		{"[cgroup /a/../b]\n", 1},
		{"[cgroup /a/]\n", 1},
		{"[cgroup /a]\n[cgroup /a]\n", 2},
		{"[default\n", 1},
		{"[]\n", 1},
		{"x\n", 1},
		/* Who asks for nothing would be refused. */
		{"[default]\nmemory = 2GiB\nmemory-max = 1GiB\n", 2},
		{"[default]\nmemory-max = 1GiB\nmemory = 2GiB\n", 3},
		{"[default]\nmemory = 50%\nmemory-max = 25%\n", 2},
		{"[default]\ncompute = 50\ncompute-max = 49.9\n", 2},
		{"[default]\nweight = 3\nweight-max = 2\n", 2},
		{"[default]\nmemory = 2GiB\n[user 4711]\nmemory-max = 1GiB\n", 2},
		{"[user 4711]\nmemory = 2GiB\n[default]\nmemory-max = 1GiB\n", 2},
		{"[cgroup /a]\nweight = 2\n[default]\nweight-max = 1\n", 2},
	};
	struct site site;
	char big[2048];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		site = (struct site){.overpromise = SITE_WARN};
		CHECK_EQ(read_text(wrong[i].text, &site), -EINVAL);
		CHECK_EQ(wrong_line, wrong[i].line);
		CHECK_EQ(site.overpromise, SITE_WARN); /* left alone */
	}
	memset(big, ' ', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	CHECK_EQ(read_text(big, &site), -EINVAL);
}

/* Of no two of these it is known that they are for the same user, or which is more. */
static void check_defaults_within(void)
{
	static const char *const right[] = {
		"[default]\nmemory = 1GiB\nmemory-max = 1GiB\ncompute = 5\ncompute-max = 5\n",
		"[default]\nmemory = 50%\nmemory-max = 1GiB\n",
		"[default]\nmemory = 2GiB\n[user 4711]\nmemory = 1GiB\nmemory-max = 1GiB\n",
		"[user 4711]\nmemory = 2GiB\n[user 4712]\nmemory-max = 1GiB\n",
		"[cgroup /a]\nmemory = 2GiB\n[cgroup /b]\nmemory-max = 1GiB\n",
		"[default]\ncompute = 100\nweight-max = 1\n",
	};
	struct site site;

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		CHECK_EQ(read_text(right[i], &site), 0);
		site_free(&site);
	}
	CHECK_EQ(read_text("[default]\nmemory = 2GiB\nmemory-max = 1GiB\n", &site), -EINVAL);
	CHECK(strstr(said, "2: memory = 2 GiB: more than memory-max = 1 GiB in line 3: whoever asks for "
			   "none would be refused\n"));
}

/* As a crash leaves a file, or a full disk: to say nothing would be no bound. */
static void check_damaged(void)
{
	static const char lines[] = "[default]\ntenants = 1\n\0\0\0", zeroes[600];
	struct site site;

	for (size_t n = 1; n <= 3; n++) {
		CHECK_EQ(read_bytes(lines, strlen(lines) + n, &site), -EINVAL);
		CHECK_EQ(wrong_line, 3);
	}
	for (size_t n = 0; n <= sizeof(zeroes); n += 100)
		CHECK_EQ(read_bytes(zeroes, n, &site), -EINVAL);
	CHECK_EQ(read_bytes("#", 1, &site), 0); /* whoever wants none says so */
	CHECK(!site_bounds(&site));
}

static uint32_t tenants_of(const struct site *site, uid_t uid, gid_t gid, const char *cgroups)
{
	const struct site_member member = {
		.uid = uid, .groups = &gid, .ngroups = 1, .cgroups = cgroups};
	const struct site_value *value = site_find(site, &member, SITE_TENANTS);

	return value ? value->number : 0;
}

static uint32_t bound_of(const char *text, uid_t uid, enum site_key key)
{
	const struct site_member member = {.uid = uid, .cgroups = ""};
	const struct site_value *value;
	struct site site;
	uint32_t number;

	CHECK_EQ(read_text(text, &site), 0);
	value = site_find(&site, &member, key);
	number = value ? value->number : UINT32_MAX;
	site_free(&site);
	return number;
}

/* A site with a file opens high priorities, floors and latencies by a line, and by nothing less. */
static void check_usual(void)
{
	static const char open[] = "[user 7]\npriority-max = high\nfloor-max = 50\n"
				   "latency-min = 2ms\n";
	static const char *const closed[] = {"overpromise = allow\n", "overpromise = warn\n",
					     "[default]\n", "[default]\ntenants = 1\n",
					     "[user 7]\ntenants = 1\n", open};

	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
		CHECK_EQ(bound_of(closed[i], 8, SITE_PRIORITY_MAX), 1);
		CHECK_EQ(bound_of(closed[i], 8, SITE_FLOOR_MAX), POLICY_FLOOR_PERMILLE);
		CHECK_EQ(bound_of(closed[i], 8, SITE_LATENCY_MIN), 20000);
	}
	CHECK_EQ(bound_of(open, 7, SITE_PRIORITY_MAX), 2);
	CHECK_EQ(bound_of(open, 7, SITE_FLOOR_MAX), POLICY_FLOOR_MOST);
	CHECK_EQ(bound_of(open, 7, SITE_LATENCY_MIN), POLICY_LATENCY_LEAST_US);
	CHECK_EQ(bound_of("# nobody is bounded\n", 8, SITE_PRIORITY_MAX), UINT32_MAX);
	CHECK_EQ(bound_of("# nobody is bounded\n", 8, SITE_LATENCY_MIN), UINT32_MAX);
	CHECK_EQ(bound_of("# nobody is bounded\n", 8, SITE_FLOOR_MAX), UINT32_MAX);
}

/* Where tenants are switched by HTTP is no bound of users. */
static void check_control(void)
{
	struct site site = {0};

	CHECK_EQ(read_text("control = 9479\ncontrol-token = /etc/t\n", &site), 0);
	CHECK(!strcmp(site.control.address, "127.0.0.1:9479"));
	CHECK(!strcmp(site.control.token, "/etc/t"));
	CHECK(!site_bounds(&site));
	CHECK_EQ(read_text("control-token = /etc/t\ncontrol = [::1]:80\n[default]\n", &site), 0);
	CHECK(!strcmp(site.control.address, "[::1]:80"));
	site_free(&site);
	CHECK_EQ(read_text("# nothing\n", &site), 0);
	CHECK(!*site.control.address && !*site.control.token);
}

static void check_history(void)
{
	struct site site = {0};

	CHECK_EQ(read_text("history = /srv/history\n", &site), 0);
	CHECK(!strcmp(site.history, "/srv/history") && !site.no_history && !site_bounds(&site));
	CHECK_EQ(read_text("history = off\n", &site), 0);
	CHECK(!*site.history && site.no_history && !site_bounds(&site));
}

static void check_who(void)
{
	struct site site;

	CHECK_EQ(read_text("[default]\ntenants = 1\n"
			   "[group 50]\ntenants = 2\n"
			   "[group 51]\ntenants = 3\nweight-max = 1\n"
			   "[cgroup /jobs]\ntenants = 4\n"
			   "[cgroup /jobs/big]\ntenants = 5\n"
			   "[user 1000]\ntenants = 6\n"
			   "[user 1001]\nweight-max = 2\n",
			   &site),
		 0);
	CHECK_EQ(tenants_of(&site, 7, 7, ""), 1);
	CHECK_EQ(tenants_of(&site, 7, 50, "0::/user.slice\n"), 2);
	CHECK_EQ(tenants_of(&site, 7, 51, ""), 3);
	CHECK_EQ(tenants_of(&site, 7, 51, "0::/jobs\n"), 4);
	CHECK_EQ(tenants_of(&site, 7, 51, "1:cpu:/x\n0::/jobs/1/step\n"), 4);
	CHECK_EQ(tenants_of(&site, 7, 51, "0::/jobs/big/1"), 5);
	CHECK_EQ(tenants_of(&site, 7, 7, "0::/jobsother\n"), 1);
	CHECK_EQ(tenants_of(&site, 7, 7, "0::/x/jobs\n"), 1);
	CHECK_EQ(tenants_of(&site, 1000, 51, "0::/jobs/big\n"), 6);
	CHECK_EQ(tenants_of(&site, 1001, 7, ""), 1); /* each key by itself */
	site_free(&site);
}

int main(void)
{
	check_words();
	check_wrong();
	check_defaults_within();
	check_damaged();
	check_control();
	check_history();
	check_who();
	check_usual();
	return 0;
}
