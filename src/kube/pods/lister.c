/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/lister.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "kube/state/counts.h"
#include "kube/pods/held.h"
#include "kube/pods/others.h"
#include "kube/pods/pod_resources.h"
#include "text/log.h"

#define PERIOD_S 5

struct lister {
	struct loop_source clock;
	struct grpc *grpc;
	const struct kube_conf *conf;
	struct node_devices *devices;
	void (*changed)(void *arg);
	void *arg;
	struct pod_resources_call *call; /* NULL: none is under way */
	bool said;			 /* that there is no list */
};

static void lister_complain(struct lister *lister, const char *why)
{
	if (!lister->said)
		log_line(LOG_WARN,
			 "the kubelet in %s does not say which devices other drivers have given out, nor which "
			 "containers have a part of a GPU: %s", lister->conf->kubelet, why);
	lister->said = true;
}

static void lister_heard(void *arg, const V1__ListPodResourcesResponse *list, const char *why)
{
	struct lister *lister = arg;
	struct counts_held *held;
	size_t n;

	lister->call = NULL;
	if (!list) {
		lister_complain(lister, why);
		return;
	}
	lister->said = false;
	if (held_read(lister->conf, lister->devices, list, &held, &n) == 0)
		counts_hold(held, n);
	if (others_note(lister->conf, lister->devices, list, pod_resources_is_whole(lister->conf, list)))
		lister->changed(lister->arg);
}

static void lister_tick(struct loop_source *clock)
{
	struct lister *lister = (struct lister *)((char *)clock - offsetof(struct lister, clock));
	uint64_t late;
	int r;

	if (read(clock->fd, &late, sizeof(late)) != sizeof(late) || lister->call)
		return;
	r = pod_resources_list(lister->grpc, lister->conf, lister_heard, lister, &lister->call);
	if (r < 0)
		lister_complain(lister, strerror(-r));
}

int lister_open(struct loop *loop, struct grpc *grpc, const struct kube_conf *conf,
		struct node_devices *devices, void (*changed)(void *arg), void *arg, struct lister **ret)
{
	const struct itimerspec often = {.it_interval = {.tv_sec = PERIOD_S}, .it_value = {.tv_nsec = 1}};
	struct lister *lister = calloc(1, sizeof(*lister));
	int r = 0;

	if (!lister)
		return -ENOMEM;
	*lister = (struct lister){.clock = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
					    .ready = lister_tick},
				  .grpc = grpc,
				  .conf = conf,
				  .devices = devices,
				  .changed = changed,
				  .arg = arg};
	if (lister->clock.fd < 0 || timerfd_settime(lister->clock.fd, 0, &often, NULL) < 0)
		r = err_errno();
	if (r == 0)
		r = loop_add(loop, &lister->clock);
	if (r < 0)
		lister_close(lister);
	else
		*ret = lister;
	return r;
}

void lister_close(struct lister *lister)
{
	if (!lister)
		return;
	pod_resources_forget(lister->call);
	counts_hold(NULL, 0);
	if (lister->clock.fd >= 0)
		close(lister->clock.fd);
	free(lister);
}
