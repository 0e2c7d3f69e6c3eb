/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder CASE: processes that hold buffers of render nodes, to be dumped and restored. They make
 * them, tell by the file /tmp/ready that all is as the case wants it, and wait for /tmp/go. Then
 * they look whether it is still so, and whether what they share they still share; the first writes
 * to /tmp/result "good" or what is wrong. What they agree on is in anonymous memory that they share.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "holder.h"

#define PATIENCE 3000 /* times 10 ms, until a wait is in vain */

unsigned int with;
struct common *common;

/* --- Saying what is wrong, and waiting ------------------------------------------------------ */

void wrong(const char *format, ...)
{
	va_list args;

	if (!atomic_exchange(&common->wrong, 1)) {
		va_start(args, format);
		vsnprintf(common->what, sizeof(common->what), format, args);
		va_end(args);
	}
	_exit(1);
}

static void doze(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

void wait_for(atomic_int *word, int value, const char *what)
{
	for (int i = 0; atomic_load(word) < value; i++) {
		if (i == PATIENCE || atomic_load(&common->wrong))
			wrong("waited in vain for %s", what);
		doze();
	}
}

void rest(void)
{
	atomic_fetch_add(&common->ready, 1);
	while (!atomic_load(&common->go))
		doze();
}

void wait_for_word(volatile uint32_t *word, uint32_t value, const char *what)
{
	for (int i = 0; *word != value; i++) {
		if (i == PATIENCE || atomic_load(&common->wrong))
			wrong("%s: has %#x, not %#x", what, *word, value);
		doze();
	}
}

/* --- Cases ---------------------------------------------------------------------------------- */

static void nothing_child(int i) { (void)i; rest(); }
static void many_child(int i) { one_of_many(i); }
static void pair_child(int i) { i == 0 ? exporter() : importer(); }
static void reversed_child(int i) { i == 1 ? exporter() : importer(); }
static void alone_child(int i) { (void)i; alone(); }
static void unreached_child(int i) { (void)i; unreached(); }
static void beside_child(int i) { (void)i; beside(); }
static void worked_child(int i) { (void)i; beside_worked(); }
static void syncobj_child(int i) { (void)i; beside_syncobj(); }
static void users_child(int i) { (void)i; beside_users(); }
static void kfd_pair_child(int i) { kfd_pair(i); }
static void kfd_tenant_child(int i) { kfd_tenant(i); }
static void kfd_churn_child(int i) { kfd_churn(i); }
static void kfd_node_child(int i) { (void)i; kfd_node(); }
static void kfd_lent_child(int i) { (void)i; kfd_lent(); }
static void rocm_child(int i) { (i == 1) == !!(with & TAKER_FIRST) ? rocm_owner() : rocm_taker(); }
static void outside_child(int i) { (void)i; outside(); }
static void descriptor_child(int i) { (void)i; inside_descriptor(); }
static void import_child(int i) { (void)i; inside_import(); }
static void connected_child(int i) { (void)i; inside_connected(); }
static void inside_kfd_child(int i) { (void)i; inside_kfd(); }
static void kfd_twice_child(int i) { (void)i; inside_kfd_twice(); }

static const struct {
	const char *name;
	void (*child)(int i);
	int n;
	unsigned int with;
} cases[] = {
	{"nothing", nothing_child, 1, 0},
	{"alone", alone_child, 1, ADDRESSES},
	{"alone-unmapped", alone_child, 1, 0},
	{"alone-noted", alone_child, 1, ADDRESSES | NOTES},
	{"alone-lies", alone_child, 1, ADDRESSES | NOTES | LIES},
	{"unreached", unreached_child, 1, 0},
	{"beside", beside_child, 1, 0},
	{"beside-worked", worked_child, 1, 0},
	{"beside-syncobj", syncobj_child, 1, 0},
	{"beside-users", users_child, 1, 0},
	{"pair", pair_child, 2, ADDRESSES | KEEPS},
	{"pair-unmapped", pair_child, 2, KEEPS},
	{"pair-noted", pair_child, 2, ADDRESSES | KEEPS | NOTES},
	{"reversed", reversed_child, 2, 0},
	{"crowded", pair_child, 2, CROWDED},
	{"high", pair_child, 2, HIGH},
	{"many", many_child, PROCS, 0},
	{"kfd-pair", kfd_pair_child, 2, 0},
	{"kfd-tenant", kfd_tenant_child, 2, 0},
	{"kfd-churn", kfd_churn_child, 2, 0},
	{"kfd-node", kfd_node_child, 1, 0},
	{"kfd-lent", kfd_lent_child, 1, 0},
	{"rocm-alone", rocm_child, 1, OWNER_HAS_OWN},
	{"rocm-apart", rocm_child, 2, OWNER_HAS_OWN | TAKER_HAS_OWN},
	{"rocm-shared", rocm_child, 2, SHARES},
	{"rocm-shared-reversed", rocm_child, 2, SHARES | TAKER_FIRST},
	{"rocm-shared-renumbered", rocm_child, 2, SHARES | TAKER_HAS_OWN},
	{"rocm-kept", rocm_child, 2, SHARES | OWNER_HAS_OWN | KEEPS},
	{"outside", outside_child, 1, 0},
	{"inside-descriptor", descriptor_child, 1, 0},
	{"inside-import", import_child, 1, 0},
	{"inside-connected", connected_child, 1, 0},
	{"inside-kfd", inside_kfd_child, 1, 0},
	{"kfd-twice", kfd_twice_child, 1, 0},
};

static void tell(const char *path, const char *text)
{
	char partial[64];
	FILE *f;

	snprintf(partial, sizeof(partial), "%s.partial", path);
	f = fopen(partial, "w");
	if (f) {
		fprintf(f, "%s\n", text);
		fclose(f);
		rename(partial, path);
	}
}

static int run(int at)
{
	char ready[32], go[32], result[32];
	bool outsider = !strcmp(cases[at].name, "outside");

	snprintf(ready, sizeof(ready), "/tmp/ready%s", outsider ? ".outside" : "");
	snprintf(go, sizeof(go), "/tmp/go%s", outsider ? ".outside" : "");
	snprintf(result, sizeof(result), "/tmp/result%s", outsider ? ".outside" : "");
	for (int i = 0; i < cases[at].n; i++)
		if (!fork()) {
			cases[at].child(i);
			_exit(0);
		}
	for (bool told = false; access(go, F_OK) && !atomic_load(&common->wrong); doze())
		if (!told && atomic_load(&common->ready) == cases[at].n) {
			tell(ready, "ready");
			told = true;
		}
	atomic_store(&common->go, 1);
	for (int status; wait(&status) > 0;)
		if (status && !atomic_exchange(&common->wrong, 1))
			snprintf(common->what, sizeof(common->what), "a process ended with %#x", status);
	tell(result, atomic_load(&common->wrong) ? common->what : "good");
	return 0;
}

int main(int argc, char **argv)
{
	setsid();
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			with = cases[i].with;
			return run((int)i);
		}
	fprintf(stderr, "usage: holder CASE\n");
	return 125;
}
