/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_node GPUS KEY=VALUE ...: the device plugin alone, on a node of so many GPUs of 80 GiB, two
 * on each NUMA node; the words are lines of [kubernetes]. "sick N" and "well N" on its standard
 * input say how a GPU is by now. It ends when its input does.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/pods/lister.h"
#include "kube/state/node.h"
#include "kube/slots/plugin.h"

#define GPU_BYTES (UINT64_C(80) << 30)

static struct loop *loop;
static struct grpc *grpc;
static struct lister *lister;
static struct plugin *plugin;
static struct api *api;
static struct kube_conf conf;
static struct node_devices devices;

static void take_word(char *word)
{
	char why[KUBE_CONF_WHY] = "no such key", *value = strchr(word, '=');

	if (!value)
		errx(2, "%s: no \"=\"", word);
	*value++ = '\0';
	if (kube_conf_take(&conf, word, value, why) < 0)
		errx(2, "%s: %s", word, why);
}

static void add_gpus(unsigned int n)
{
	for (devices.n = 0; devices.n < n; devices.n++) {
		struct node_device *d = &devices.list[devices.n];

		memset(d->device.uuid, 0x11, sizeof(d->device.uuid));
		d->device.uuid[15] = (uint8_t)devices.n;
		d->device.total_bytes = GPU_BYTES;
		d->numa = (int)devices.n / 2;
	}
}

static void run_calls(struct loop_source *source)
{
	grpc_run(grpc);
}

static int calls_timeout_ms(struct loop_source *source)
{
	return grpc_timeout_ms(grpc);
}

static void read_command(struct loop_source *source)
{
	char text[256];
	ssize_t len = read(source->fd, text, sizeof(text) - 1);
	unsigned int n;

	if (len <= 0) {
		loop_end(loop);
		return;
	}
	text[len] = '\0';
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += strspn(line, "\n");
		if (sscanf(line, "%*[a-z] %u", &n) != 1 || n >= devices.n)
			continue;
		devices.list[n].sick = devices.list[n].gone = *line == 's';
		plugin_tell(plugin);
	}
}

static void tell_plugin(void *arg)
{
	plugin_tell(plugin);
}

int main(int argc, char **argv)
{
	static struct loop_source calls = {.ready = run_calls, .timeout_ms = calls_timeout_ms};
	static struct loop_source input = {.fd = STDIN_FILENO, .ready = read_command};
	char why[KUBE_CONF_WHY];

	if (argc < 2)
		errx(2, "see the source");
	add_gpus((unsigned int)atoi(argv[1]));
	for (int i = 2; i < argc; i++)
		take_word(argv[i]);
	if (kube_conf_complete(&conf, why) < 0)
		errx(2, "%s", why);
	if (loop_open(&loop) < 0 || grpc_open(&grpc) < 0)
		errx(1, "no loop");
	calls.fd = grpc_fd(grpc);
	if (loop_add(loop, &calls) < 0 || loop_add(loop, &input) < 0 ||
	    (conf.scheduler != KUBE_STOCK && api_open(loop, &conf, &api) < 0) ||
	    lister_open(loop, grpc, &conf, &devices, tell_plugin, NULL, &lister) < 0 ||
	    plugin_open(loop, grpc, lister, api, &conf, &devices, &plugin) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	loop_run(loop);
	plugin_close(plugin);
	lister_close(lister);
	api_close(api);
	grpc_close(grpc);
	loop_close(loop);
	return 0;
}
