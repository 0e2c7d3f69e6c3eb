/* SPDX-License-Identifier: Apache-2.0 */
/* HAMi's names: its labels, its units, and nothing said of what is not known. */
#include "daemon/web/hami.h"

#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "tests/unit/written.h"

#define GPU    "GPU-11111111-2222-3333-4444-555555555555"
#define DEVICE "{node=\"n1\",device_uuid=\"" GPU "\",device_index=\"0\",device_type=\"H \\\"200\\\"\"} "
#define TENANT                                                                                    \
	"{namespace=\"\",pod=\"jobA\",container=\"c0ffee\",vdevice_index=\"0\",device_uuid=\"" GPU \
	"\"} "

static const uint8_t nvidia[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
				   0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};

static struct snapshot_device on = {
	.limit_bytes = 8000,
	.used_bytes = 1107,
	.used = {[CAT_CONTEXT] = 500, [CAT_MODULE] = 100, [CAT_POOL] = 500},
	.pending = 7,
	.compute = {.measured = true, .share_permille = 255, .target_permille = 125, .achieved_1s_bp = 2549,
		    .tokens = 1500, .launches = 42, .throttles = 5},
};
static struct snapshot_device others = {
	.limit_bytes = 2000, .used_bytes = 1, .compute = {.measured = true, .achieved_1s_bp = 1}};
#define QUOTA(bytes) \
	{.ndevices = 1, .flags = POLICY_ALL_DEVICES, .device = {{.limit_bytes = (bytes)}}}

static struct snapshot snapshot[2] = {{.policy = QUOTA(8000), .ndevices = 1, .device = &on},
				      {.policy = QUOTA(2000), .ndevices = 1, .device = &others}};
static struct tenant_entry entry[3] = {
	{.name = "jobA", .container = "c0ffee", .snapshot = &snapshot[0]},
	{.name = "jobB", .snapshot = &snapshot[1]},
	{.name = "broken", .error = -5},
};
static struct tenants tenants = {.n = 3, .list = entry};
static struct devices devices = {.n = 1, .list = {{.model = "H \"200\"", .total_bytes = 30000}}};
static struct audit_finding finding = {.found = {.outsider = {.bytes = 300, .ledger_bytes = 100}}};
static struct audit_report audit = {.n = 1, .finding = &finding};
static void write_to(FILE *out)
{
	hami_write("n1", &devices, &tenants, &audit, out);
}

static void write_again(void)
{
	written_again(write_to);
}

static void check_tenant(void)
{
	has_line("hami_vgpu_memory_used_bytes" TENANT "1107");
	has_line("hami_vgpu_memory_limit_bytes" TENANT "8000");
	has_line("hami_container_device_memory_bytes" TENANT "1107");
	has_line("hami_vgpu_memory_context_bytes" TENANT "500");
	has_line("hami_vgpu_memory_module_bytes" TENANT "100");
	has_line("hami_vgpu_memory_buffer_bytes" TENANT "507");
	has_line("hami_container_device_utilization_ratio" TENANT "25.49");
	has_line("target_sm_utilization" TENANT "12.50");
	has_line("actual_sm_utilization" TENANT "25.49");
	has_line("available_tokens" TENANT "1500");
	has_line("kernel_launch_total" TENANT "42");
	has_line("kernel_throttle_total" TENANT "5");
	CHECK(strstr(text, "pod=\"jobB\",container=\"\""));
	CHECK(!strstr(text, "pod=\"broken\""));
}

static void check_device(void)
{
	has_line("hami_gpu_memory_limit_bytes" DEVICE "30000");
	has_line("hami_gpu_core_limit_ratio" DEVICE "100");
	has_line("hami_gpu_memory_allocated_bytes{node=\"n1\",device_uuid=\"" GPU
	    "\",device_index=\"0\",device_type=\"H \\\"200\\\"\",device_cores=\"100\"} 10000");
	has_line("hami_gpu_shared_count" DEVICE "2");
	has_line("hami_gpu_core_allocated_ratio" DEVICE "25.50");
	has_line("hami_node_gpu_memory_allocated_ratio" DEVICE "0.3333");
	has_line("hami_host_gpu_memory_used_bytes" DEVICE "1308");
	has_line("hami_host_gpu_utilization_ratio" DEVICE "25.50");
}

static void check_unknown(void)
{
	on.limit_bytes = on.compute.target_permille = 0;
	on.compute.tokens = SNAPSHOT_NO_TOKENS;
	devices.list[0].total_bytes = 0;
	write_again();
	CHECK(!strstr(text, "hami_vgpu_memory_limit_bytes{namespace=\"\",pod=\"jobA\""));
	CHECK(!strstr(text, "target_sm_utilization{"));
	CHECK(!strstr(text, "hami_node_gpu_memory_allocated_ratio{"));
	CHECK(!strstr(text, "available_tokens" TENANT));
	/* What is not measured is not 0, and no sum with it is one. */
	others.compute.measured = false;
	write_again();
	has_line("actual_sm_utilization" TENANT "25.49");
	CHECK(!strstr(text, "actual_sm_utilization{namespace=\"\",pod=\"jobB\""));
	CHECK(!strstr(text, "kernel_launch_total{namespace=\"\",pod=\"jobB\""));
	CHECK(!strstr(text, "kernel_throttle_total{namespace=\"\",pod=\"jobB\""));
	CHECK(!strstr(text, "hami_host_gpu_utilization_ratio{"));
	others.used_bytes = 0; /* one that has nothing there does nothing there */
	write_again();
	CHECK(strstr(text, "hami_host_gpu_utilization_ratio{"));
	CHECK(!amd_identity_parse("GPU-0123456789abcdef", on.uuid));
	memcpy(devices.list[0].uuid, on.uuid, 16);
	memcpy(others.uuid, on.uuid, 16);
	write_again();
	CHECK(strstr(text, "hami_vgpu_memory_used_bytes{"));
	CHECK(!strstr(text, "utilization_ratio{"));
	CHECK(!strstr(text, "actual_sm_utilization{"));
	CHECK(!strstr(text, "available_tokens{"));
}

int main(void)
{
	memcpy(on.uuid, nvidia, 16);
	memcpy(others.uuid, nvidia, 16);
	memcpy(devices.list[0].uuid, nvidia, 16);
	memcpy(finding.found.outsider.uuid, nvidia, 16);
	write_again();
	check_tenant();
	check_device();
	check_unknown();
	free(text);
	return 0;
}
