/* SPDX-License-Identifier: Apache-2.0 */
/* The last minutes: a sample a step, blank where none was taken, and no more than there is room for. */
#include "daemon/web/history.h"

#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "tests/unit/written.h"

#define STEP HISTORY_STEP_NS
#define GPU  "GPU-11111111-2222-3333-4444-555555555555"
#define MIB  (UINT64_C(1) << 20)

static const uint8_t nvidia[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
				   0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};

static struct snapshot_device on[2];
static struct snapshot snapshot[2] = {{.ndevices = 1, .device = &on[0]},
				      {.ndevices = 1, .device = &on[1]}};
static struct tenant_entry entry[2] = {{.name = "a", .snapshot = &snapshot[0]},
				       {.name = "b", .snapshot = &snapshot[1]}};
static struct tenants tenants = {.n = 1, .list = entry};
static struct devices devices = {.n = 1};
static struct audit_finding finding[2];
static struct audit_report audit = {.age_ns = UINT64_MAX, .n = 2, .finding = finding};
static struct history *history;
static uint64_t now;

static void begin(void)
{
	history_close(history);
	CHECK(!history_open(&history));
	now = 1000 * STEP;
}

static void note(void)
{
	history_note(history, now, &devices, &tenants, &audit);
	now += STEP;
}

static void write_to(FILE *out)
{
	history_write(history, now, out);
}

static void write_again(void)
{
	written_again(write_to);
}

/* The array behind `key`, of the first thing that has this beginning. */
static void has(const char *of, const char *key, const char *array)
{
	char want[700];
	const char *at = strstr(text, of);

	snprintf(want, sizeof(want), "\"%s\": [%s]", key, array);
	at = at ? strstr(at, key) : NULL;
	if (!at || strncmp(at - 1, want, strlen(want))) {
		fprintf(stderr, "no %s of %s in\n%s", want, of, text);
		exit(1);
	}
}

static void had(struct snapshot_device *device, uint32_t bp)
{
	for (int s = SNAPSHOT_SECONDS - HISTORY_STEP_S; s < SNAPSHOT_SECONDS; s++)
		device->compute.history_bp[s] = bp;
}

static void check_empty(void)
{
	begin();
	write_again();
	CHECK(strstr(text, "\"samples\": 0,"));
	CHECK(strstr(text, "\"age_ns\": null,"));
}

static void check_figures(void)
{
	begin();
	on[0].used_bytes = 3 * MIB + 5;
	on[0].refusals = 7; /* of before: when is not known */
	on[0].compute.share_permille = 250;
	on[0].compute.target_permille = 1000; /* for this moment, as others are idle */
	had(&on[0], 2600);
	on[0].compute.history_bp[SNAPSHOT_SECONDS - 1] = 2500;
	finding[0].found.outsider.bytes = 9 * MIB;
	finding[0].found.outsider.ledger_bytes = 2 * MIB;
	finding[1].found.outsider.bytes = UINT64_MAX;
	memcpy(finding[0].found.outsider.uuid, nvidia, 16);
	memcpy(finding[1].found.outsider.uuid, nvidia, 16);
	note();
	audit.age_ns = 0;
	on[0].refusals = 9;
	on[0].compute.share_permille = 0;
	on[0].compute.target_permille = 333;
	tenants.n = 2; /* b comes, with 4 refusals of since then */
	on[1].refusals = 4;
	had(&on[1], 5000);
	note();
	write_again();
	CHECK(strstr(text, "\"age_ns\": 20000000000,"));
	has("\"devices\"", "used_bytes", "3145728, 3145728");
	has("\"devices\"", "outside_bytes", "null, 7340032");
	has("\"devices\"", "achieved_bp", "2595, 7595");
	has("\"a\"", "used_bytes", "3145728, 3145728");
	has("\"a\"", "achieved_bp", "2595, 2595");
	has("\"a\"", "share_permille", "250, 333");
	has("\"a\"", "refusals", "0, 2");
	has("\"b\"", "share_permille", "null, null");
	has("\"b\"", "achieved_bp", "null, 5000");
	has("\"b\"", "refusals", "null, 4");
}

/* A tenant of the same name that was made anew counts from nothing. */
static void check_made_anew(void)
{
	begin();
	tenants.n = 1;
	note();
	on[0].refusals = 1;
	note();
	write_again();
	has("\"a\"", "refusals", "0, 1");
	tenants.n = 0;
	note();
	write_again();
	CHECK(!strstr(text, "\"a\""));
	has("\"devices\"", "achieved_bp", "2595, 2595, 0");
}

static void check_missed(void)
{
	begin();
	tenants.n = 1;
	note();
	now += 2 * STEP + STEP / 3;
	note();
	write_again();
	has("\"a\"", "used_bytes", "3145728, null, null, 3145728");
	now += UINT64_MAX / 2; /* a machine that slept for long */
	note();
	write_again();
	CHECK(strstr(text, "\"samples\": 30,"));
	CHECK(strstr(text, "null, 3145728]"));
	CHECK(!strstr(text, "3145728, null"));
}

/* The oldest goes, and what is there grows no more. */
static void check_bound(void)
{
	static struct tenant_entry many[HISTORY_SERIES + 100];
	char want[700] = "";

	begin();
	for (unsigned int i = 0; i < 3 * HISTORY_SAMPLES + 7; i++) {
		on[0].used_bytes = (i + 1) * MIB;
		note();
	}
	for (unsigned int i = 0; i < HISTORY_SAMPLES; i++)
		sprintf(want + strlen(want), "%s%llu", i ? ", " : "",
			(unsigned long long)((2 * HISTORY_SAMPLES + 8 + i) * MIB));
	write_again();
	has("\"a\"", "used_bytes", want);
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		many[i].snapshot = &snapshot[0];
		snprintf(many[i].name, sizeof(many[i].name), "t%zu", i);
	}
	tenants = (struct tenants){.n = sizeof(many) / sizeof(many[0]), .list = many};
	note();
	note();
	write_again();
	CHECK(strstr(text, "\"t1000\""));
	CHECK(!strstr(text, "\"t1123\""));
}

/*
 * A user whose ledgers name devices that are not there keeps no other's history from being kept, nor do
 * containers whose root makes them. Their tenants' names are "t", a number, and `tail`.
 */
static void check_forged(const char *tail)
{
	static struct snapshot_device forged[POLICY_DEVICES];
	static struct snapshot all = {.ndevices = POLICY_DEVICES, .device = forged};
	static struct tenant_entry many[34];
	size_t n = sizeof(many) / sizeof(many[0]);
	char first[32], late[32];

	begin();
	snprintf(first, sizeof(first), "\"t0%s\"", tail);
	snprintf(late, sizeof(late), "\"t31%s\"", tail);
	for (int d = 0; d < POLICY_DEVICES; d++)
		forged[d].uuid[0] = (uint8_t)(d + 1);
	for (size_t i = 0; i < n; i++) {
		many[i].snapshot = &all;
		snprintf(many[i].name, sizeof(many[i].name), "t%zu%s", i, tail);
	}
	for (size_t i = n - 2; i < n; i++)
		many[i].snapshot = &snapshot[0];
	strcpy(many[n - 2].name, "other@4712");
	strcpy(many[n - 1].name, "root");
	tenants = (struct tenants){.n = n, .list = many};
	note();
	note();
	write_again();
	CHECK(strstr(text, first) && !strstr(text, late));
	CHECK(strstr(text, "\"other@4712\"") && strstr(text, "\"root\""));
}

/* Neither it nor a sum with it is known. */
static void check_unmeasured(void)
{
	begin();
	tenants = (struct tenants){.n = 2, .list = entry};
	on[1].compute.measured = false;
	on[1].used_bytes = MIB;
	note();
	write_again();
	has("\"a\"", "achieved_bp", "2595");
	has("\"b\"", "achieved_bp", "null");
	has("\"devices\"", "achieved_bp", "null");
	on[1].compute.measured = true;
}

static void check_amd(void)
{
	begin();
	CHECK(!amd_identity_parse("GPU-0123456789abcdef", on[0].uuid));
	tenants = (struct tenants){.n = 1, .list = entry};
	note();
	write_again();
	has("\"a\"", "achieved_bp", "null");
	has("\"a\"", "refusals", "0");
}

int main(void)
{
	on[0].compute.measured = on[1].compute.measured = true;
	memcpy(devices.list[0].uuid, nvidia, 16);
	memcpy(on[0].uuid, nvidia, 16);
	memcpy(on[1].uuid, nvidia, 16);
	check_empty();
	check_figures();
	check_made_anew();
	check_missed();
	check_bound();
	check_forged("@4711");
	check_forged("/drop-in");
	check_unmeasured();
	check_amd();
	history_close(history);
	free(text);
	return 0;
}
