/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/lister.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/now.h"
#include "kube/state/counts.h"
#include "kube/pods/held.h"
#include "kube/pods/others.h"
#include "kube/pods/pod_resources.h"
#include "text/log.h"

#define PERIOD_NS (5 * NS_PER_S)
/* Lists that containers wait for may follow each other at once; not all of them are read for devices. */
#define READ_NS	  (1 * NS_PER_S)

struct lister {
	struct loop_source clock;
	struct grpc *grpc;
	const struct kube_conf *conf;
	struct node_devices *devices;
	void (*changed)(void *arg);
	void *arg;
	struct lister_hearer *hearers;
	struct pod_resources_call *call; /* NULL: none is under way */
	uint64_t asked_ns, read_ns;
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

static void lister_rest(struct lister *lister, uint64_t ns)
{
	const struct itimerspec once = {.it_value = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)}};

	(void)timerfd_settime(lister->clock.fd, 0, &once, NULL);
}

static void lister_read(struct lister *lister, const V1__ListPodResourcesResponse *list)
{
	uint64_t now = now_monotonic_ns();
	struct counts_held *held;
	bool whole;
	size_t n;

	if (now - lister->read_ns < READ_NS)
		return;
	lister->read_ns = now;
	whole = pod_resources_is_whole(lister->conf, list);
	if (held_read(lister->conf, lister->devices, list, &held, &n) == 0)
		counts_hold(held, n, whole);
	if (others_note(lister->conf, lister->devices, list, whole))
		lister->changed(lister->arg);
}

static void lister_heard(void *arg, const V1__ListPodResourcesResponse *list, const char *why)
{
	struct lister *lister = arg;
	struct lister_hearer *hearer, *next;

	lister->call = NULL;
	lister_rest(lister, PERIOD_NS);
	lister->said &= !list;
	if (list)
		lister_read(lister, list);
	else
		lister_complain(lister, why);
	for (hearer = lister->hearers; hearer; hearer = next) {
		next = hearer->next;
		hearer->heard(hearer->arg, list, why);
	}
}

int lister_ask(struct lister *lister)
{
	int r;

	lister->asked_ns = now_monotonic_ns();
	r = pod_resources_list(lister->grpc, lister->conf, lister_heard, lister, &lister->call);
	if (r < 0) {
		lister_rest(lister, PERIOD_NS);
		lister_complain(lister, strerror(-r));
	}
	return r;
}

bool lister_is_asking(const struct lister *lister)
{
	return lister->call;
}

uint64_t lister_asked_ns(const struct lister *lister)
{
	return lister->asked_ns;
}

void lister_add(struct lister *lister, struct lister_hearer *hearer)
{
	hearer->next = lister->hearers;
	lister->hearers = hearer;
}

void lister_remove(struct lister *lister, struct lister_hearer *hearer)
{
	struct lister_hearer **at = &lister->hearers;

	while (*at && *at != hearer)
		at = &(*at)->next;
	if (*at)
		*at = hearer->next;
}

static void lister_tick(struct loop_source *clock)
{
	struct lister *lister = (struct lister *)((char *)clock - offsetof(struct lister, clock));
	uint64_t late;

	if (read(clock->fd, &late, sizeof(late)) == sizeof(late) && !lister->call)
		(void)lister_ask(lister);
}

int lister_open(struct loop *loop, struct grpc *grpc, const struct kube_conf *conf,
		struct node_devices *devices, void (*changed)(void *arg), void *arg, struct lister **ret)
{
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
	if (lister->clock.fd < 0)
		r = err_errno();
	if (r == 0)
		r = loop_add(loop, &lister->clock);
	if (r == 0)
		lister_rest(lister, 1);
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
	counts_hold(NULL, 0, false);
	if (lister->clock.fd >= 0)
		close(lister->clock.fd);
	free(lister);
}
