/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_client slices NODE DEVICES: publishes that many devices as they are said to be, or, of "real", those
 * that are there; words on standard input: "sick N", "well N", "gone" (all of them), "sync", which is
 * answered by "settled".
 *
 * api_client ask: "METHOD PATH TIMEOUT-MS", "WATCH PATH TIMEOUT-MS" ask, and "FORGET N" forgets the Nth of
 * them, from 0. It prints "N ended STATUS LENGTH BYTES" and "N line LENGTH BYTES"; a line of a watch that
 * says "forget" has the call forgotten from within, one that says "again" has another one begun there.
 *
 * api_client print NODE DEVICES: prints the objects that slices are made of, one a line.
 *
 * API and ACCOUNT are in the environment. All end when their input does.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "kube/wire/api.h"
#include "kube/slices/slice.h"
#include "kube/slices/slices.h"

#define CALLS 64
#define SHOWN 100
#define MIB   ((uint64_t)1 << 20)

static struct loop *loop;
static struct api *api;
static struct slices *slices;
static struct kube_conf conf;
static struct node_devices devices;
static struct api_call *calls[CALLS];
static int ncalls;

static void make_devices(unsigned int n)
{
	devices.n = n;
	for (unsigned int i = 0; i < n; i++) {
		struct node_device *d = &devices.list[i];

		*d = (struct node_device){
			.device = {.number = i, .total_bytes = 143771 * MIB, .model = "NVIDIA H200"},
			.numa = i % 2 ? -1 : (int)(i % 4 / 2)};
		snprintf(d->device.pci, sizeof(d->device.pci), "0000:%02x:00.0", 0xe0 + i % 16);
		memset(d->device.uuid, 0x11, 15);
		d->device.uuid[15] = (uint8_t)(n - i); /* not in the order of their names */
		if (i % 2) /* in pairs */
			devices.nvlinks[i][i - 1] = devices.nvlinks[i - 1][i] = 4;
	}
}

static void read_devices(void)
{
	struct devices now;

	devices_read(&now);
	devices_read_links(&now);
	node_update(&devices, &now);
}

/* --- Asking -------------------------------------------------------------------------------- */

static void ask(const char *method, const char *path, int timeout_ms);

static void ended(void *arg, int status, const char *bytes, size_t len)
{
	if (bytes[len])
		errx(1, "an answer has no end");
	printf("%d ended %d %zu %.*s\n", (int)(intptr_t)arg, status, len, len > SHOWN ? SHOWN : (int)len,
	       bytes);
	fflush(stdout);
}

static void line(void *arg, const char *bytes, size_t len)
{
	int n = (int)(intptr_t)arg;

	printf("%d line %zu %.*s\n", n, len, len > SHOWN ? SHOWN : (int)len, bytes);
	fflush(stdout);
	if (strstr(bytes, "forget"))
		api_forget(calls[n]);
	if (strstr(bytes, "again"))
		ask("GET", "/again", 5000);
}

static void ask(const char *method, const char *path, int timeout_ms)
{
	bool watch = !strcmp(method, "WATCH");
	struct api_request request = {.method = watch ? "GET" : method,
				      .path = path,
				      .body = strcmp(method, "POST") != 0 ? NULL : "{\"a\":1}",
				      .timeout_ms = timeout_ms,
				      .ended = ended,
				      .line = watch ? line : NULL,
				      .arg = (void *)(intptr_t)ncalls};
	int r = ncalls < CALLS ? api_ask(api, &request, &calls[ncalls]) : -E2BIG;

	if (r) {
		printf("%d refused %d\n", ncalls, r);
		fflush(stdout);
	}
	ncalls++;
}

/* --- Slices -------------------------------------------------------------------------------- */

static struct loop_source looking; /* a timer, which runs until it has been told */

static void look_each(long ms)
{
	struct itimerspec each = {{0, ms * 1000000}, {0, ms * 1000000}};

	timerfd_settime(looking.fd, 0, &each, NULL);
}

static void look(struct loop_source *source)
{
	uint64_t times;

	if (read(source->fd, &times, sizeof(times)) < 0 || !slices_is_settled(slices))
		return;
	look_each(0);
	puts("settled");
	fflush(stdout);
}

static void sync_slices(void)
{
	slices_sync(slices);
	look_each(10);
}

/* --- Words --------------------------------------------------------------------------------- */

static void mark(unsigned int i, bool sick)
{
	if (i >= devices.n)
		errx(1, "there is no device %u", i);
	devices.list[i].sick = sick;
	snprintf(devices.list[i].why, NODE_WHY, "the test says so");
}

static void obey(char *text)
{
	char word[16], path[1024];
	int number;

	if (sscanf(text, "FORGET %d", &number) == 1)
		api_forget(calls[number]);
	else if (sscanf(text, "sick %d", &number) == 1)
		mark((unsigned int)number, true);
	else if (sscanf(text, "well %d", &number) == 1)
		mark((unsigned int)number, false);
	else if (!strcmp(text, "gone"))
		devices.n = 0;
	else if (!strcmp(text, "sync"))
		sync_slices();
	else if (sscanf(text, "%15s %1023s %d", word, path, &number) == 3)
		ask(word, path, number);
	else
		errx(1, "not understood: %s", text);
}

static void hear(struct loop_source *source)
{
	char text[4096], *rest = text, *one;
	ssize_t n = read(source->fd, text, sizeof(text) - 1);

	if (n <= 0) {
		loop_end(loop);
		return;
	}
	text[n] = '\0';
	while ((one = strsep(&rest, "\n")))
		if (*one)
			obey(one);
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

/* --- Printing ------------------------------------------------------------------------------ */

static void print(unsigned int without)
{
	struct slice_facts facts[POLICY_DEVICES];
	json_t *spec, *object;

	for (unsigned int i = 0; i < devices.n; i++) {
		slice_version(i % 2 ? "580.159.03" : "", facts[i].version);
		slice_pcie_root(i % 3 ? "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0" : "",
				facts[i].pcie_root);
	}
	spec = slice_spec(&conf, &devices, facts, without);
	object = slice_object(&conf, spec, "11111111-2222-3333-4444-555555555555", NULL);
	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(object);
	json_decref(spec);
}

int main(int argc, char **argv)
{
	struct loop_source words = {.fd = STDIN_FILENO, .ready = hear};
	int r;

	if (argc < 2)
		errx(2, "no words");
	snprintf(conf.api, sizeof(conf.api), "%s", environment("API"));
	snprintf(conf.account, sizeof(conf.account), "%s", environment("ACCOUNT"));
	snprintf(conf.driver, sizeof(conf.driver), "gpu.allot.dev");
	if (argc == 4) {
		snprintf(conf.node, sizeof(conf.node), "%s", argv[2]);
		if (strcmp(argv[3], "real") != 0)
			make_devices((unsigned int)atoi(argv[3]));
		else
			read_devices();
	}
	if (!strcmp(argv[1], "print")) {
		for (unsigned int i = 0; i < devices.n; i += 2)
			mark(i, true);
		for (unsigned int without = 0; without < 4; without++)
			print(without);
		return 0;
	}
	looking = (struct loop_source){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
				       .ready = look};
	r = loop_open(&loop);
	if (!r)
		r = api_open(loop, &conf, &api);
	if (!r && !strcmp(argv[1], "slices"))
		r = slices_open(loop, api, &conf, &devices, &slices);
	if (!r)
		r = loop_add(loop, &words);
	if (!r)
		r = loop_add(loop, &looking);
	if (r)
		errx(1, "%d", r);
	puts("ready");
	fflush(stdout);
	r = loop_run(loop);
	slices_close(slices);
	api_close(api);
	loop_close(loop);
	return r;
}
