/* SPDX-License-Identifier: Apache-2.0 */
/* What Prometheus reads of Kubernetes; and which containers are not held to what they were given. */
#include "daemon/web/kube_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "tests/unit/written.h"

#define UID_A "aaaaaaaa-0000-0000-0000-000000000000"
#define UID_B "bbbbbbbb-0000-0000-0000-000000000000"

static struct node_devices devices = {
	.n = 2, .list = {{.device = {.uuid = {1}}}, {.device = {.uuid = {2}}, .sick = true}}};
static struct counts_held held[] = {
	{.space = "default", .pod = "web-0", .container = "main", .device = {true}},
	{.space = "default", .pod = "web-1", .container = "main", .device = {true}},
};
static struct counts counts = {
	.times = {[COUNTS_ALLOCATE] = {.within = {3, 5, 5, 5, 5, 5, 6, 6, 6}, .n = 7, .sum_ns = 41500000000}},
	.nresources = 2,
	.resource = {{"huawei.com/vgpu-number", true}, {"gpu.allot.dev", false}},
	.devices = &devices,
	.nheld = 2,
	.held = held,
};
static struct snapshot_process process = {.live = true, .host_pid = 11};
static struct snapshot snapshot = {.nprocesses = 1, .process = &process};
static struct tenant_entry entry = {
	.name = "t", .pod = {"default", "web-0", "main", UID_A}, .snapshot = &snapshot};
static struct tenants tenants = {.n = 1, .list = &entry};
static struct audit_finding finding[2];
static struct audit_report audit = {.n = 1, .finding = finding};

/* In which container the tenant's process is. */
static struct pod of_process;
void __wrap_pod_of_process(pid_t pid, struct pod *ret);

void __wrap_pod_of_process(pid_t pid, struct pod *ret)
{
	*ret = of_process;
}

static void write_to(FILE *out)
{
	kube_metrics_write(&counts, &tenants, &audit, out);
}

static void check_figures(void)
{
	written_again(write_to);
	has_line("# TYPE allot_allocate_seconds histogram");
	has_line("allot_allocate_seconds_bucket{le=\"0.001\"} 3");
	has_line("allot_allocate_seconds_bucket{le=\"0.005\"} 5");
	has_line("allot_allocate_seconds_bucket{le=\"1\"} 6");
	has_line("allot_allocate_seconds_bucket{le=\"30\"} 6");
	has_line("allot_allocate_seconds_bucket{le=\"+Inf\"} 7");
	has_line("allot_allocate_seconds_sum 41.500000000");
	has_line("allot_allocate_seconds_count 7");
	has_line("allot_prestart_seconds_count 0");
	has_line("allot_prepare_seconds_count 0");
	has_line("allot_registration_state{resource=\"huawei.com/vgpu-number\"} 1");
	has_line("allot_registration_state{resource=\"gpu.allot.dev\"} 0");
	has_line("allot_device_health{device_uuid=\"GPU-01000000-0000-0000-0000-000000000000\"} 1");
	has_line("allot_device_health{device_uuid=\"GPU-02000000-0000-0000-0000-000000000000\"} 0");
	has_line("# TYPE allot_unenforced_containers gauge");
}

static void check_counting(void)
{
	const struct counts_times *times = &counts_now()->times[COUNTS_PREPARE];

	counts_answered(COUNTS_PREPARE, now_monotonic_ns() - 2 * NS_PER_S);
	counts_answered(COUNTS_PREPARE, now_monotonic_ns() - 60 * NS_PER_S);
	CHECK(times->n == 2 && times->sum_ns >= 62 * NS_PER_S);
	CHECK(times->within[COUNTS_BOUNDS - 1] == 1 && times->within[COUNTS_BOUNDS - 3] == 0);
	counts_registered("a", false);
	counts_registered("b", true);
	counts_registered("a", true);
	CHECK(counts_now()->nresources == 2 && counts_now()->resource[0].registered);
	for (char name[] = "c"; *name <= 'z'; ++*name)
		counts_registered(name, true);
	CHECK(counts_now()->nresources == KUBE_RESOURCES + 1);
}

/* An outsider on the first device, in that container; NULL: it is not known in which. */
static struct audit_finding outsider(const char *uid, const char *container, const char *space,
				     const char *pod)
{
	struct audit_finding f = {.found = {.outsider = {.uuid = {1}, .pid = 5}}};

	snprintf(f.found.process.pod.uid, POD_LABEL_BYTES, "%s", uid);
	snprintf(f.found.process.pod.container, POD_LABEL_BYTES, "%s", container);
	snprintf(f.found.process.pod.space, POD_LABEL_BYTES, "%s", space);
	snprintf(f.found.process.pod.name, POD_NAME_BYTES, "%s", pod);
	return f;
}

#define SAMPLE(space, pod, container, uid)                                                       \
	"allot_unenforced_containers{namespace=\"" space "\",pod=\"" pod "\",container=\"" container   \
	"\",uid=\"" uid "\"} 1"

static bool counted(void)
{
	written_again(write_to);
	return strstr(text, "allot_unenforced_containers{");
}

static void check_unenforced(void)
{
	finding[0] = outsider("", "", "", "");
	CHECK(!counted());
	/* A Pod that has nothing of ours, and a container beside the one that has. */
	finding[0] = outsider(UID_B, "main", "default", "other");
	CHECK(!counted());
	finding[0] = outsider(UID_B, "side", "default", "web-1");
	CHECK(!counted());
	finding[0] = outsider(UID_B, "main", "default", "web-1");
	CHECK(counted());
	has_line(SAMPLE("default", "web-1", "main", UID_B));
	/* On a device of which it has no part: that is AllotProcessNotLimited's. */
	finding[0].found.outsider.uuid[0] = 2;
	CHECK(!counted());
	/* Kept to by a library that cannot be read. */
	finding[0] = outsider(UID_B, "main", "default", "web-1");
	finding[0].found.outsider.standing = OUTSIDER_UNREAD;
	CHECK(!counted());
}

/* Where nothing has told the Pod's name, a tenant's note may; else it is left out. */
static void check_names(void)
{
	finding[0] = outsider(UID_A, "main", "", "");
	CHECK(counted());
	has_line(SAMPLE("default", "web-0", "main", UID_A));
	finding[0] = outsider(UID_B, "main", "", "");
	CHECK(counted());
	has_line(SAMPLE("", "", "main", UID_B));
	finding[0] = outsider(UID_B, "side", "", "");
	CHECK(!counted());
	/* Two processes of one container are one. */
	finding[0] = finding[1] = outsider(UID_A, "main", "", "");
	audit.n = 2;
	CHECK(counted());
	CHECK(!strstr(strstr(text, "containers{") + 1, "containers{"));
	audit.n = 1;
}

/* A container in which a tenant's process lives is held to its part; what goes around it is told elsewhere. */
static void check_guest(void)
{
	finding[0] = outsider(UID_A, "main", "", "");
	of_process = (struct pod){.container = "main", .uid = UID_A};
	CHECK(!counted());
	of_process = (struct pod){.container = "main", .uid = UID_B};
	CHECK(counted());
	of_process = (struct pod){.container = "main", .uid = UID_A};
	process.live = false;
	CHECK(counted());
}

static void check_none(void)
{
	counts.devices = NULL;
	written_again(write_to);
	CHECK(!*text);
}

int main(void)
{
	check_figures();
	check_counting();
	check_unenforced();
	check_names();
	check_guest();
	check_none();
	free(text);
	return 0;
}
