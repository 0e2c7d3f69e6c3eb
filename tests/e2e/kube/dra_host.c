/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dra_host KUBELET CDI API NVIDIA-CDI: the driver of dynamic resource allocation on a node named "node1" with
 * two GPUs of NVIDIA's, for dra.py. It says "ready", and "registered" whenever a kubelet has taken it. Lines on
 * its standard input make devices sick or well: "sick 0 WORDS", "well 0". It ends when that does.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kube/claims/dra.h"

static struct loop *loop;
static struct grpc *grpc;
static struct dra *dra;
static struct kube_conf conf = {.driver = "gpu.allot.dev", .node = "node1"};
static struct node_devices devices = {
	.n = 2,
	.list = {{.device = {.uuid = {[15] = 1}, .total_bytes = UINT64_C(24) << 30}, .numa = -1},
		 {.device = {.uuid = {[15] = 2}, .total_bytes = UINT64_C(24) << 30}, .numa = -1}},
};

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
}

static void registered(void *arg)
{
	say("registered");
}

static void run_calls(struct loop_source *source)
{
	grpc_run(grpc);
}

static int calls_timeout_ms(struct loop_source *source)
{
	return grpc_timeout_ms(grpc);
}

static void take(const char *line)
{
	struct node_device *device = &devices.list[line[5] == '1'];

	device->sick = !strncmp(line, "sick", 4);
	snprintf(device->why, sizeof(device->why), "%.100s", device->sick ? line + 7 : "");
	dra_tell(dra);
	say("told");
}

static void hear(struct loop_source *source)
{
	char line[256];
	ssize_t n = read(source->fd, line, sizeof(line) - 1);

	if (n <= 0) {
		loop_end(loop);
		return;
	}
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	take(line);
}

static void must(int r, const char *what)
{
	if (r < 0)
		errx(1, "%s: %s", what, strerror(-r));
}

int main(int argc, char **argv)
{
	struct loop_source calls = {.ready = run_calls, .timeout_ms = calls_timeout_ms};
	struct loop_source input = {.fd = STDIN_FILENO, .ready = hear};
	struct api *api;

	if (argc != 5)
		errx(2, "see the source");
	snprintf(conf.kubelet, sizeof(conf.kubelet), "%s", argv[1]);
	snprintf(conf.cdi, sizeof(conf.cdi), "%s", argv[2]);
	snprintf(conf.api, sizeof(conf.api), "%s", argv[3]);
	snprintf(conf.nvidia_cdi, sizeof(conf.nvidia_cdi), "%s", argv[4]);
	must(loop_open(&loop), "loop");
	must(grpc_open(&grpc), "grpc");
	calls.fd = grpc_fd(grpc);
	must(loop_add(loop, &calls), "calls");
	must(loop_add(loop, &input), "input");
	must(api_open(loop, &conf, &api), "api");
	must(dra_open(loop, grpc, NULL, api, &conf, &devices, registered, NULL, &dra), "dra");
	say("ready");
	must(loop_run(loop), "loop");
	dra_close(dra);
	api_close(api);
	grpc_close(grpc);
	loop_close(loop);
	return 0;
}
