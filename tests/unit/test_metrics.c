/* SPDX-License-Identifier: Apache-2.0 */
/* What Prometheus reads: each figure in its unit, and nothing said of what is not known. */
#include "daemon/web/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "tests/unit/written.h"

#define GPU "GPU-11111111-2222-3333-4444-555555555555"

static const uint8_t nvidia[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
				   0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};

static struct snapshot_device on_device = {
	.uuid = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55,
		 0x55, 0x55},
	.limit_bytes = 8589934592,
	.used = {[CAT_CONTEXT] = 545259520, [CAT_DATA] = 1073741824},
	.pending = 7,
	.peak_bytes = 2147483648,
	.refusals = 3,
	.energy_uj = 1234000005,
	.milliwatt = 250040,
	.compute = {.measured = true, .share_permille = 25, .achieved_1s_bp = 2549, .busy_ns = 12000000034,
		    .cap_permille = 250, .owes = true, .debt_ns = -1500000, .launches = 42,
		    .throttled_ns = 5},
};

static struct snapshot snapshot = {
	.policy = {.ndevices = 1, .flags = POLICY_ALL_DEVICES, .device = {{.limit_bytes = 60}}},
	.ndevices = 1, .device = &on_device, .turns = 4000000000,
	.host = {.known = true, .limit_bytes = 90, .used_bytes = 70, .userptr_bytes = 30, .refusals = 2}};
static struct tenant_entry entry[2] = {
	{.name = "jobA", .state = TENANT_RUNNING, .snapshot = &snapshot, .container = "c0ffee"},
	{.name = "broken", .state = TENANT_RUNNING, .error = -5},
};
static struct tenants tenants = {.n = 2, .list = entry};
static struct devices devices = {.n = 1, .list = {{.model = "a \"b\"\\c", .total_bytes = 100}}};

static struct audit_finding finding = {
	.found = {.outsider = {.pid = 77, .bytes = UINT64_MAX, .tenant = "jobA"},
		  .process = {"./a \"b\"", "root", ""}},
};
static struct audit_report audit = {.age_ns = UINT64_MAX, .finding = &finding};

static void write_to(FILE *out)
{
	metrics_write(&devices, &tenants, &audit, out);
}

static void write_again(void)
{
	written_again(write_to);
}

/* Each name has one head, and all of its samples stand behind it. */
static void check_heads(void)
{
	char *copy = strdup(text), *left = copy, *line, head[100] = "";

	while ((line = strsep(&left, "\n")) && *line) {
		if (!strncmp(line, "# HELP ", 7)) {
			size_t n = strcspn(line + 7, " ");

			CHECK(n < sizeof(head) - 8);
			snprintf(head, sizeof(head), "# HELP %.*s ", (int)n, line + 7);
			CHECK(!strstr(strstr(text, head) + 1, head));
			line = strsep(&left, "\n");
			CHECK(line && !strncmp(line, "# TYPE ", 7));
			CHECK(!strncmp(line + 7, head + 7, n + 1));
		} else {
			CHECK(!strncmp(line, head + 7, strlen(head + 7) - 1));
			CHECK(strchr("{ ", line[strlen(head + 7) - 1]));
		}
	}
	free(copy);
}

static void check_figures(void)
{
	has_line("allot_build_info{version=\"" ALLOT_VERSION "\"} 1");
	has_line("allot_memory_quota_bytes{tenant=\"jobA\",device=\"" GPU "\"} 8589934592");
	has_line("allot_memory_used_bytes{tenant=\"jobA\",device=\"" GPU
	    "\",category=\"data\"} 1073741824");
	has_line("allot_memory_used_bytes{tenant=\"jobA\",device=\"" GPU "\",category=\"pending\"} 7");
	has_line("allot_memory_denied_total{tenant=\"jobA\",device=\"" GPU "\"} 3");
	has_line("allot_compute_share_ratio{tenant=\"jobA\",device=\"" GPU "\"} 0.025");
	has_line("allot_compute_cap_ratio{tenant=\"jobA\",device=\"" GPU "\"} 0.250");
	has_line("allot_compute_had_ratio{tenant=\"jobA\",device=\"" GPU "\"} 0.2549");
	has_line("allot_compute_busy_seconds_total{tenant=\"jobA\",device=\"" GPU "\"} 12.000000034");
	has_line("allot_compute_debt_seconds{tenant=\"jobA\",device=\"" GPU "\"} -0.001500000");
	has_line("allot_compute_launches_total{tenant=\"jobA\",device=\"" GPU "\"} 42");
	has_line("allot_tenant_turns_total{tenant=\"jobA\"} 4000000000");
	has_line("allot_gtt_limit_bytes{tenant=\"jobA\"} 90");
	has_line("allot_gtt_used_bytes{tenant=\"jobA\"} 70");
	has_line("allot_gtt_userptr_bytes{tenant=\"jobA\"} 30");
	has_line("allot_gtt_denied_total{tenant=\"jobA\"} 2");
	CHECK(!strstr(text, "allot_gtt_used_bytes{tenant=\"broken\""));
	has_line("allot_tenant_container_info{tenant=\"jobA\",container=\"c0ffee\"} 1");
	CHECK(!strstr(text, "allot_tenant_container_info{tenant=\"broken\""));
	has_line("allot_tenant_readable{tenant=\"jobA\"} 1");
	has_line("allot_tenant_readable{tenant=\"broken\"} 0");
	has_line("allot_tenant_state{tenant=\"jobA\",state=\"running\"} 1");
	has_line("allot_tenant_state{tenant=\"jobA\",state=\"idle\"} 0");
	CHECK(strstr(text, "model=\"a \\\"b\\\"\\\\c\""));
	has_line("allot_device_promised_bytes{device=\"" GPU "\"} 60");
}

/* 0 stands for what is not known or not limited, and is not said. */
static void check_unknown(void)
{
	on_device.limit_bytes = on_device.compute.share_permille = 0;
	on_device.compute.cap_permille = 0;
	on_device.compute.owes = false;
	write_again();
	check_heads();
	CHECK(!strstr(text, "allot_memory_quota_bytes{"));
	CHECK(!strstr(text, "allot_compute_share_ratio{"));
	CHECK(!strstr(text, "allot_compute_cap_ratio{"));
	CHECK(!strstr(text, "allot_compute_debt_seconds{"));
	CHECK(!strstr(text, "allot_memory_driver_bytes{"));
	CHECK(strstr(text, "allot_compute_had_ratio{"));

	on_device.compute.measured = false;
	write_again();
	check_heads();
	CHECK(!strstr(text, "allot_compute_had_ratio{"));
	CHECK(!strstr(text, "allot_compute_busy_seconds_total{"));
	CHECK(!strstr(text, "allot_compute_launches_total{"));
	CHECK(!strstr(text, "allot_compute_throttles_total{"));
	CHECK(!strstr(text, "allot_copied_host_bytes_total{"));
	on_device.compute.measured = true;
}

/* Nobody measured it, or nobody does now. */
static void check_energy(void)
{
	write_again();
	has_line("allot_energy_joules_total{tenant=\"jobA\",device=\"" GPU "\"} 1234.000005");
	has_line("allot_power_watts{tenant=\"jobA\",device=\"" GPU "\"} 250.040");
	on_device.milliwatt = 0;
	write_again();
	has_line("allot_power_watts{tenant=\"jobA\",device=\"" GPU "\"} 0.000");
	on_device.milliwatt = DEVICE_TIME_NO_POWER;
	on_device.energy_uj = 0;
	write_again();
	CHECK(!strstr(text, "allot_power_watts{"));
	CHECK(!strstr(text, "allot_energy_joules_total{"));
}

/* Nothing measures time on AMD's devices, so nothing is said of it. */
static void check_amd(void)
{
	CHECK(!amd_identity_parse("GPU-0123456789abcdef", on_device.uuid));
	write_again();
	check_heads();
	has_line("allot_memory_peak_bytes{tenant=\"jobA\",device=\"GPU-0123456789abcdef\"} 2147483648");
	CHECK(!strstr(text, "allot_compute_busy_seconds_total{"));
	CHECK(!strstr(text, "allot_compute_had_ratio{"));
}

/* Nobody was found, and nobody looked, are told apart. */
static void check_audit(void)
{
	write_again();
	CHECK(!strstr(text, "allot_outside_processes"));
	audit.age_ns = 1500000000;
	write_again();
	CHECK(!strstr(text, "allot_device_busy_ratio{"));
	audit.busy.n = 1;
	audit.busy.list[0].percent = 7;
	memcpy(audit.busy.list[0].uuid, devices.list[0].uuid, sizeof(nvidia));
	write_again();
	CHECK(strstr(text, "\nallot_device_busy_ratio{device=\""));
	CHECK(strstr(text, "\"} 0.07\n"));
	write_again();
	check_heads();
	has_line("allot_audit_age_seconds 1.500000000");
	has_line("allot_outside_processes 0");
	has_line("allot_device_lost{device=\"" GPU "\"} 0");
	memcpy(audit.lost[audit.nlost++], nvidia, sizeof(nvidia));
	write_again();
	has_line("allot_device_lost{device=\"" GPU "\"} 1");
	audit.n = 1;
	memcpy(finding.found.outsider.uuid, nvidia, sizeof(nvidia));
	write_again();
	check_heads();
	has_line("allot_outside_processes 1");
	has_line("allot_outside_memory_bytes{device=\"" GPU "\",pid=\"77\",command=\"./a \\\"b\\\"\","
	    "user=\"root\",container=\"\",tenant=\"jobA\"} 0");
}

int main(void)
{
	memcpy(devices.list[0].uuid, nvidia, sizeof(nvidia));
	write_again();
	check_heads();
	check_figures();
	check_audit();
	check_unknown();
	check_energy();
	check_amd();
	free(text);
	return 0;
}
