/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What allotd says of a tenant that forged its ledger: the input is a list of pieces to put into a good
 * one, four bytes that say where and twelve that are put there, and the rest is the note of who began
 * it. Every page is text that a terminal, a browser and Prometheus can have.
 */
#include <stdbool.h>
#include <stdio.h>

#include "daemon/web/hami.h"
#include "daemon/web/history.h"
#include "daemon/web/metrics.h"
#include "daemon/web/v1.h"
#include "ledger/layout.h"
#include "ledger/slot.h"
#include "node/outsiders.h"
#include "text/text.h"
#include "tests/fuzz/tenant.h"

#define PIECE  16
#define PIECES 4096

static const uint8_t uuid[16] = "device-0 (uuid)";

/* What a piece took the place of. */
struct was {
	uint32_t at;
	uint8_t bytes[12];
};

/* Once a process: a ledger takes longer to make than pages of it to write. */
static int ledger_begin(void)
{
	static struct ledger *ledger;
	struct policy policy = tenant_policy();
	struct slot *slot;

	tenant_begin();
	MUST(policy_create(tenant_dir, &policy) == 0);
	MUST(ledger_create(tenant_dir) == 0);
	MUST(ledger_open(tenant_dir, LEDGER_GUEST, &ledger) == 0);
	MUST(slot_claim(ledger, &slot) == 0 && ledger_device(ledger, uuid, 1 << 30) == 0);
	return tenant_open("ledger", O_RDWR);
}

static void forge_ledger(int fd, const uint8_t *data, size_t n, struct was *was)
{
	for (; n--; data += PIECE, was++) {
		memcpy(&was->at, data, sizeof(was->at));
		/* Behind the header, most often where one process on one device writes. */
		was->at = sizeof(struct ledger_header) +
			  was->at % (was->at & 1 ? 2 * sizeof(struct ledger_slot) + 4096
						 : (uint32_t)(sizeof(struct ledger_file) -
							      sizeof(struct ledger_header) - PIECE));
		MUST(pread(fd, was->bytes, 12, was->at) == 12);
		MUST(pwrite(fd, data + 4, 12, was->at) == 12);
	}
}

/* The last one first: pieces may lie upon each other. */
static void mend_ledger(int fd, const struct was *was, size_t n)
{
	while (n--)
		MUST(pwrite(fd, was[n].bytes, 12, was[n].at) == 12);
}

static void forge_owner(const uint8_t *data, size_t size)
{
	char path[PATH_MAX], note[256] = "";

	memcpy(note, data, size);
	tenant_forget("owner");
	tenant_file(path, "owner");
	MUST(!*note || symlink(note, path) == 0);
}

/* Nearly all is plain, and passed over in libc: of code here, a fuzzer notes each comparison. */
static void check_text(const char *text)
{
	static char plain[97] = "\n";

	for (size_t i = 1; !plain[95]; i++)
		plain[i] = (char)(' ' + i - 1);
	for (size_t n; *(text += strspn(text, plain)); text += n) {
		n = text_utf8_length(text);
		MUST(n && !text_is_control(text, n));
	}
}

static void write_pages(const struct devices *devices, struct tenants *tenants,
			const struct audit_report *audit)
{
	static struct history *history;
	static uint64_t now_ns;
	size_t bytes;
	char *text;
	FILE *out = open_memstream(&text, &bytes);

	MUST(out && (history || !history_open(&history)));
	now_ns += HISTORY_STEP_NS;
	history_note(history, now_ns, devices, tenants, audit);
	tenants_find_containers(tenants);
	metrics_write(devices, tenants, audit, out);
	hami_write("node", devices, tenants, audit, out);
	v1_write_node(devices, tenants, audit, out);
	history_write(history, now_ns, out);
	MUST(!fclose(out));
	check_text(text);
	free(text);
}

static void look(void)
{
	static struct devices devices = {.n = 1, .list = {{.vendor = DEVICE_NVIDIA}}};
	struct audit_report audit = {.n = 0};
	struct usage usage = {.pid = getpid(), .bytes = UINT64_C(1) << 40};
	struct usage_list list = {.list = &usage, .n = 1};
	struct tenant_entry entry = {.name = "fuzz"};
	struct tenants tenants = {.n = 1, .list = &entry};
	struct outsider_found *found;
	enum tenant_state state;
	pid_t pid;
	size_t n;

	memcpy(devices.list[0].uuid, uuid, sizeof(uuid));
	memcpy(usage.uuid, uuid, sizeof(uuid));
	snprintf(entry.dir, sizeof(entry.dir), "%s", tenant_dir);
	state = tenants_state(tenant_dir, &pid);
	MUST(state <= TENANT_ENDED);
	entry.state = state;
	entry.error = snapshot_read(tenant_dir, &entry.snapshot);
	MUST(outsiders_list(&list, &tenants, user_name, &found, &n) == 0 && n <= 1);
	for (size_t i = 0; i < n; i++)
		check_text(found[i].process.command);
	write_pages(&devices, &tenants, &audit);
	free(found);
	snapshot_free(entry.snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct was was[PIECES];
	static int fd = -1;
	size_t n = size / PIECE;

	if (n > PIECES)
		return 0;
	if (fd < 0)
		fd = ledger_begin();
	forge_ledger(fd, data, n, was);
	forge_owner(data + n * PIECE, size % PIECE);
	look();
	mend_ledger(fd, was, n);
	return 0;
}
