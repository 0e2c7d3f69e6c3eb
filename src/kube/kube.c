/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "kube/wire/api.h"
#include "kube/state/counts.h"
#include "kube/claims/dra.h"
#include "kube/grants/grant.h"
#include "kube/wire/grpc.h"
#include "kube/pods/lister.h"
#include "kube/state/node.h"
#include "kube/slots/plugin.h"
#include "kube/slices/slices.h"
#include "text/log.h"

/* A tenant is to be gone 10 s after its Pod, of which the kubelet takes its part. */
#define SWEEP_S 2

struct kube {
	struct loop_source calls, sweeper; /* the first has grpc's descriptor */
	const struct kube_conf *conf;
	const char *runtime;
	struct node_devices devices;
	struct grpc *grpc;
	struct api *api;
	struct slices *slices;
	struct dra *dra;
	struct plugin *plugin;
	struct lister *lister;
};

static struct kube *kube_of_calls(struct loop_source *source)
{
	return (struct kube *)((char *)source - offsetof(struct kube, calls));
}

static void kube_run_calls(struct loop_source *source)
{
	grpc_run(kube_of_calls(source)->grpc);
}

static int kube_calls_timeout_ms(struct loop_source *source)
{
	return grpc_timeout_ms(kube_of_calls(source)->grpc);
}

static void kube_sweep(struct loop_source *source)
{
	struct kube *kube = (struct kube *)((char *)source - offsetof(struct kube, sweeper));
	uint64_t late;

	if (read(source->fd, &late, sizeof(late)) == sizeof(late))
		grant_sweep(kube->conf, kube->runtime);
}

static int kube_start_sweeper(struct kube *kube, struct loop *loop)
{
	const struct itimerspec often = {.it_interval = {.tv_sec = SWEEP_S}, .it_value = {.tv_sec = SWEEP_S}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	kube->sweeper = (struct loop_source){.fd = fd, .ready = kube_sweep};
	if (fd < 0 || timerfd_settime(fd, 0, &often, NULL) < 0)
		return err_errno();
	return loop_add(loop, &kube->sweeper);
}

static int kube_start_calls(struct kube *kube, struct loop *loop)
{
	int r = grpc_open(&kube->grpc);

	if (r < 0)
		return r;
	kube->calls = (struct loop_source){.fd = grpc_fd(kube->grpc),
					   .ready = kube_run_calls,
					   .timeout_ms = kube_calls_timeout_ms};
	return loop_add(loop, &kube->calls);
}

/* A kubelet removes slices of drivers that it does not know yet. */
static void kube_registered(void *arg)
{
	slices_sync(((struct kube *)arg)->slices);
}

/*
 * Claims and slices are the API server's, and schedulers' decisions; device plugins of a stock scheduler do
 * without it.
 */
static int kube_start_api(struct kube *kube, struct loop *loop)
{
	int r;

	if (!(kube->conf->ways & KUBE_DRA) && kube->conf->scheduler == KUBE_STOCK)
		return 0;
	r = api_open(loop, kube->conf, &kube->api);
	/* Where libcurl is not there, or others can change the account's files, that was said. */
	if (r < 0 && r != -ENOSYS && r != -EPERM)
		log_line(LOG_FAULT, "Kubernetes' API server is not known: %s; run allotd in a Pod with a service "
			 "account, or say api = https://... in [kubernetes]", strerror(-r));
	return r;
}

static int kube_start_dra(struct kube *kube, struct loop *loop)
{
	int r = slices_open(loop, kube->api, kube->conf, &kube->devices, &kube->slices);
	if (r == 0)
		r = dra_open(loop, kube->grpc, kube->lister, kube->api, kube->conf, &kube->devices,
			     kube_registered, kube, &kube->dra);
	if (r < 0)
		log_line(LOG_FAULT, "driver %s is not offered to the kubelet in %s: %s", kube->conf->driver,
			 kube->conf->kubelet, strerror(-r));
	return r;
}

static int kube_start_plugin(struct kube *kube, struct loop *loop)
{
	int r = plugin_open(loop, kube->grpc, kube->lister, kube->api, kube->conf, &kube->devices,
			    &kube->plugin);

	if (r < 0)
		log_line(LOG_FAULT, "device plugins are not offered to the kubelet in %s: %s",
			 kube->conf->kubelet, strerror(-r));
	return r;
}

/* Devices are sick or well by now that were not. */
static void kube_say_devices(void *arg)
{
	struct kube *kube = arg;

	if (kube->slices)
		slices_sync(kube->slices);
	if (kube->dra)
		dra_tell(kube->dra);
	if (kube->plugin)
		plugin_tell(kube->plugin);
}

static int kube_start_lister(struct kube *kube, struct loop *loop)
{
	int r = lister_open(loop, kube->grpc, kube->conf, &kube->devices, kube_say_devices, kube,
			    &kube->lister);

	if (r < 0)
		log_line(LOG_FAULT, "the kubelet in %s is not asked which container has which device: %s",
			 kube->conf->kubelet, strerror(-r));
	return r;
}

static int kube_start(struct kube *kube, struct loop *loop)
{
	int r = kube_start_calls(kube, loop);

	if (r == 0)
		r = kube_start_sweeper(kube, loop);
	if (r < 0) {
		log_line(LOG_FAULT, "nothing is said to Kubernetes: %s", strerror(-r));
		return r;
	}
	r = kube_start_api(kube, loop);
	if (r == 0)
		r = kube_start_lister(kube, loop);
	if (r == 0 && kube->conf->ways & KUBE_DRA)
		r = kube_start_dra(kube, loop);
	if (r == 0 && kube->conf->ways & KUBE_PLUGIN)
		r = kube_start_plugin(kube, loop);
	return r;
}

static void kube_sweep_files(const struct kube_conf *conf)
{
	int r = grant_sweep_files(conf);

	if (r < 0)
		log_line(LOG_WARN, "%s: files that an allotd before has not ended cannot be removed: %s", conf->cdi,
			 strerror(-r));
}

int kube_open(struct loop *loop, const struct kube_conf *conf, const char *runtime,
	      const struct devices *devices, struct kube **ret)
{
	struct kube *kube = calloc(1, sizeof(*kube));
	int r;

	if (!kube)
		return -ENOMEM;
	kube->conf = conf;
	kube->runtime = runtime;
	kube->sweeper.fd = -EBADF;
	node_update(&kube->devices, devices);
	counts_show_devices(&kube->devices);
	kube_sweep_files(conf);
	r = kube_start(kube, loop);
	if (r < 0)
		kube_close(kube);
	else
		*ret = kube;
	return r;
}

void kube_tell(struct kube *kube, const struct devices *devices)
{
	if (kube && node_update(&kube->devices, devices))
		kube_say_devices(kube);
}

void kube_tell_words(struct kube *kube, enum node_words which, const struct faults *words)
{
	if (kube && node_hear(&kube->devices, which, words))
		kube_say_devices(kube);
}

void kube_close(struct kube *kube)
{
	if (!kube)
		return;
	counts_show_devices(NULL);
	plugin_close(kube->plugin);
	dra_close(kube->dra);
	lister_close(kube->lister);
	slices_close(kube->slices);
	api_close(kube->api);
	grpc_close(kube->grpc);
	if (kube->sweeper.fd >= 0)
		close(kube->sweeper.fd);
	free(kube);
}
