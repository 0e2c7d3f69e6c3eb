/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/dra.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "kube/claims/claim.h"
#include "kube/claims/claim_sweep.h"
#include "kube/state/counts.h"
#include "kube/grants/grant.h"
#include "kube/claims/health.h"
#include "kube/claims/prepare.h"
#include "kube/claims/registration.h"
#include "text/log.h"

#define DIR_MODE 0750

struct dra {
	struct loop_source clock;
	struct grpc *grpc;
	const struct kube_conf *conf;
	const struct node_devices *devices;
	struct prepare *prepare;
	struct claim_sweep *sweep;
	struct health health;
	struct registration registration;
	void (*registered)(void *arg);
	void *arg;
	char socket[PATH_MAX], registry[PATH_MAX];
};

/* --- The kubelet's calls ------------------------------------------------------------------- */

static void dra_prepare(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	prepare_called(((struct dra *)arg)->prepare, call, request, len);
}

static void dra_prepare_gone(void *arg, struct grpc_call *call)
{
	prepare_gone(((struct dra *)arg)->prepare, call);
}

static void dra_unprepare(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	prepare_undo_called(((struct dra *)arg)->prepare, call, request, len);
}

static void dra_watch(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	health_watch(&((struct dra *)arg)->health, call);
}

static void dra_watch_gone(void *arg, struct grpc_call *call)
{
	health_gone(&((struct dra *)arg)->health, call);
}

static const struct grpc_method methods[] = {
	{"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", dra_prepare,
	 dra_prepare_gone},
	{"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", dra_unprepare, NULL},
	{"/v1alpha1.DRAResourceHealth/NodeWatchResources", dra_watch, dra_watch_gone},
	{"/v1beta1.DRAResourceHealth/NodeWatchResources", dra_watch, dra_watch_gone},
	{"/v1.DRAResourceHealth/NodeWatchResources", dra_watch, dra_watch_gone},
};

/* Newer kubelets watch the health of devices only if that service is listed here. */
static const char *const services[] = {"v1.DRAPlugin", "v1.DRAResourceHealth",
				       "v1beta1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"};

/* --- Registration -------------------------------------------------------------------------- */

/* Without NVIDIA's driver each claim would fail: the log says so at registration. */
static void dra_check_names(const struct dra *dra)
{
	static struct grant_names names;
	static struct grant grant;
	char why[GRANT_WHY];

	memset(&grant, 0, sizeof(grant));
	for (unsigned int i = 0; i < dra->devices->n; i++)
		memcpy(grant.policy.device[grant.policy.ndevices++].uuid,
		       dra->devices->list[i].device.uuid, 16);
	if (grant_names(dra->conf, &grant, &names, why) < 0)
		log_line(LOG_FAULT, "claims on driver %s will not be prepared: %s", dra->conf->driver, why);
}

static void dra_told(void *arg, bool registered, const char *error)
{
	const struct dra *dra = arg;

	counts_registered(dra->conf->driver, registered);
	if (!registered) {
		log_line(LOG_FAULT, "the kubelet does not take driver %s: %s", dra->conf->driver, error);
		return;
	}
	log_line(LOG_SAY, "the kubelet has registered driver %s", dra->conf->driver);
	dra_check_names(dra);
	dra->registered(dra->arg);
}

/* --- Sockets ------------------------------------------------------------------------------- */

static int dra_make_dir(const char *path)
{
	if (mkdir(path, DIR_MODE) == 0 || errno == EEXIST)
		return 0;
	log_line(LOG_FAULT, "%s cannot be made: %s", path, strerror(errno));
	return err_errno();
}

static int dra_make_dirs(const struct dra *dra)
{
	static const char *const formats[] = {"%s/plugins", "%s/plugins/%s", "%s/plugins_registry"};
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; !r && i < sizeof(formats) / sizeof(*formats); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), formats[i], dra->conf->kubelet, dra->conf->driver);
#pragma GCC diagnostic pop
		r = dra_make_dir(path);
	}
	return r;
}

static int dra_served(const char *path, int r)
{
	if (r < 0)
		log_line(LOG_FAULT, "the kubelet's socket %s cannot be listened on: %s", path, strerror(-r));
	return r;
}

/* The one for registration comes last: the kubelet calls the other one as soon as it sees it. */
static int dra_serve(struct dra *dra)
{
	int r = dra_make_dirs(dra);

	counts_registered(dra->conf->driver, false);
	if (!r)
		r = dra_served(dra->socket, grpc_serve(dra->grpc, dra->socket, methods,
						       sizeof(methods) / sizeof(*methods), dra));
	if (!r)
		r = dra_served(dra->registry,
			       registration_serve(dra->grpc, dra->registry, &dra->registration));
	return r;
}

static void dra_stop(struct dra *dra)
{
	grpc_stop(dra->grpc, dra->registry);
	grpc_stop(dra->grpc, dra->socket);
}

static bool dra_is_gone(const char *path)
{
	return access(path, F_OK) < 0 && errno == ENOENT;
}

/* The sockets go when somebody empties the kubelet's directory. */
static void dra_look_after_sockets(struct dra *dra)
{
	if (!dra_is_gone(dra->socket) && !dra_is_gone(dra->registry))
		return;
	log_line(LOG_WARN, "the sockets of driver %s were removed from %s: they are made again",
		 dra->conf->driver, dra->conf->kubelet);
	dra_stop(dra);
	(void)dra_serve(dra);
}

/* --- Time ---------------------------------------------------------------------------------- */

static struct dra *dra_of_clock(struct loop_source *clock)
{
	return (struct dra *)((char *)clock - offsetof(struct dra, clock));
}

static void dra_ticks(struct loop_source *clock)
{
	struct dra *dra = dra_of_clock(clock);
	uint64_t times;

	prepare_expire(dra->prepare);
	if (read(clock->fd, &times, sizeof(times)) != sizeof(times))
		return;
	health_tell(&dra->health);
	dra_look_after_sockets(dra);
}

static int dra_timeout_ms(struct loop_source *clock)
{
	return prepare_timeout_ms(dra_of_clock(clock)->prepare);
}

static int dra_start_clock(struct dra *dra, struct loop *loop)
{
	const struct itimerspec often = {{HEALTH_PERIOD_S, 0}, {HEALTH_PERIOD_S, 0}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	dra->clock = (struct loop_source){fd, dra_ticks, dra_timeout_ms};
	if (fd < 0 || timerfd_settime(fd, 0, &often, NULL) < 0)
		return err_errno();
	return loop_add(loop, &dra->clock);
}

/* --- All of it ----------------------------------------------------------------------------- */

static int dra_count(const char *id, void *arg)
{
	++*(unsigned int *)arg;
	return 0;
}

/* Grants of an earlier daemon stay in force. */
static void dra_list_grants(const struct dra *dra)
{
	unsigned int n = 0;

	grant_list(dra->conf, claim_prefix("").s, dra_count, &n);
	if (n)
		log_line(LOG_SAY, "grants of claims in %s from before: %u", dra->conf->cdi, n);
}

static int dra_set_paths(struct dra *dra)
{
	const struct kube_conf *conf = dra->conf;
	int a = snprintf(dra->socket, PATH_MAX, "%s/plugins/%s/dra.sock", conf->kubelet, conf->driver);
	int b = snprintf(dra->registry, PATH_MAX, "%s/plugins_registry/%s-reg.sock", conf->kubelet,
			 conf->driver);

	dra->registration = (struct registration){.type = "DRAPlugin",
						  .name = conf->driver,
						  .endpoint = dra->socket,
						  .services = services,
						  .nservices = sizeof(services) / sizeof(*services),
						  .told = dra_told,
						  .arg = dra};
	return a < PATH_MAX && b < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The clock comes last: the loop keeps what it has. */
static int dra_start(struct dra *dra, struct loop *loop, struct lister *lister, struct api *api)
{
	int r = dra_set_paths(dra);

	if (!r)
		r = prepare_open(api, dra->conf, dra->devices, &dra->prepare);
	if (!r && lister)
		r = claim_sweep_open(lister, api, dra->conf, dra->prepare, &dra->sweep);
	if (!r)
		r = dra_serve(dra);
	if (!r)
		r = dra_start_clock(dra, loop);
	return r;
}

int dra_open(struct loop *loop, struct grpc *grpc, struct lister *lister, struct api *api,
	     const struct kube_conf *conf, const struct node_devices *devices, void (*registered)(void *arg),
	     void *arg, struct dra **ret)
{
	struct dra *dra = calloc(1, sizeof(*dra));
	int r;

	if (!dra)
		return -ENOMEM;
	*dra = (struct dra){.clock.fd = -EBADF,
			    .grpc = grpc,
			    .conf = conf,
			    .devices = devices,
			    .health = {.conf = conf, .devices = devices},
			    .registered = registered,
			    .arg = arg};
	r = dra_start(dra, loop, lister, api);
	if (r < 0) {
		dra_close(dra);
		return r;
	}
	dra_list_grants(dra);
	*ret = dra;
	return 0;
}

void dra_tell(struct dra *dra)
{
	health_tell(&dra->health);
}

/* Prepares are answered while their calls are still there. */
void dra_close(struct dra *dra)
{
	if (!dra)
		return;
	claim_sweep_close(dra->sweep);
	prepare_close(dra->prepare);
	dra_stop(dra);
	if (dra->clock.fd >= 0)
		close(dra->clock.fd);
	free(dra);
}
