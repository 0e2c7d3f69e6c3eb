/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubelet that starts removes all sockets beside its own and makes that anew. So each resource is
 * registered when the kubelet's socket appears, and when its own is not where it was put. Who has
 * registered and is not watched soon registers again: the kubelet has forgotten it.
 */
#include "kube/slots/plugin.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/now.h"
#include "base/number.h"
#include "kube/schedulers/announce.h"
#include "kube/state/counts.h"
#include "kube/slots/plugin_server.h"
#include "text/log.h"

#define REGISTER   "/v1beta1.Registration/Register"
#define VERSION	   "v1beta1"
#define SOCKET	   "kubelet.sock"
#define TIMEOUT_MS 15000 /* a kubelet dials back for 10 s before it answers */

#define BACKOFF_NS	(50 * NS_PER_MS) /* doubled from try to try */
#define CONNECT_MOST_NS (500 * NS_PER_MS)
#define REFUSED_MOST_NS (10 * NS_PER_S)
#define ABSENT_NS	(5 * NS_PER_S) /* inotify tells sooner that it is there */
#define WATCHED_NS	(3 * NS_PER_S) /* within that the kubelet watches who has registered */

struct registration;

/* A Register call under way, which may outlive what it is for. */
struct registering {
	struct registration *of; /* NULL: its answer is of no interest any more */
};

struct registration {
	struct plugin *plugin;
	struct plugin_server *server;
	struct registering *call; /* NULL: none is under way */
	uint64_t at_ns;		  /* when to try; UINT64_MAX: it is registered */
	uint64_t backoff_ns;
	uint64_t registered_ns; /* or was last watched */
	bool said;		/* that it could not be registered */
};

struct plugin {
	struct loop_source source; /* inotify's */
	struct grpc *grpc;
	const struct kube_conf *conf;
	struct prestart *prestart;
	struct announce *announce; /* NULL: no scheduler reads annotations */
	int watch;		   /* of the directory; -1: there is none */
	uint64_t watch_at_ns;
	size_t n;
	struct registration registration[KUBE_RESOURCES];
};

static void plugin_path(const struct plugin *plugin, const char *file, char ret[static PATH_MAX])
{
	if (snprintf(ret, PATH_MAX, "%s/device-plugins/%s", plugin->conf->kubelet, file) >=
	    PATH_MAX)
		*ret = '\0';
}

/* --- Registration ---------------------------------------------------------------------------- */

static void registration_retry(struct registration *r, uint64_t most_ns)
{
	r->at_ns = now_monotonic_ns() + min_u64(r->backoff_ns, most_ns);
	r->backoff_ns = min_u64(2 * r->backoff_ns, REFUSED_MOST_NS);
}

static void registration_forget_call(struct registration *r)
{
	if (r->call)
		r->call->of = NULL;
	r->call = NULL;
}

/* Anew, and now. */
static void registration_begin(struct registration *r)
{
	registration_forget_call(r);
	r->at_ns = 0;
	r->backoff_ns = BACKOFF_NS;
	r->said = false;
}

static void registration_ended(void *arg, enum grpc_status status, const char *text)
{
	struct registering *call = arg;
	struct registration *r = call->of;

	free(call);
	if (!r)
		return;
	r->call = NULL;
	if (status == GRPC_OK) {
		r->at_ns = UINT64_MAX;
		r->backoff_ns = BACKOFF_NS;
		r->registered_ns = now_monotonic_ns();
		r->said = false;
		counts_registered(plugin_server_resource(r->server)->name, true);
		log_line(LOG_SAY, "%s is registered with the kubelet",
			 plugin_server_resource(r->server)->name);
		return;
	}
	if (!r->said)
		log_line(LOG_WARN,
			 "the kubelet does not register %s: gRPC status %d %s; it is tried again",
			 plugin_server_resource(r->server)->name, (int)status, text);
	r->said = true;
	registration_retry(r, REFUSED_MOST_NS);
}

static int registration_call(struct registration *r, const uint8_t *bytes, size_t len)
{
	struct registering *call = malloc(sizeof(*call));
	char path[PATH_MAX];
	int e;

	if (!call)
		return -ENOMEM;
	call->of = r;
	plugin_path(r->plugin, SOCKET, path);
	e = grpc_call_out(r->plugin->grpc, path,
			  &(struct grpc_request){.path = REGISTER,
						 .bytes = bytes,
						 .len = len,
						 .timeout_ms = TIMEOUT_MS,
						 .ended = registration_ended,
						 .arg = call});
	if (e < 0)
		free(call);
	else
		r->call = call;
	return e;
}

static void registration_try(struct registration *r)
{
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	V1beta1__DevicePluginOptions options = plugin_server_options(r->server);
	CLEANUP_FREE uint8_t *bytes = NULL;
	int e = -ENOMEM;

	counts_registered(plugin_server_resource(r->server)->name, false);
	request.version = (char *)VERSION;
	request.endpoint = (char *)plugin_server_endpoint(r->server);
	request.resource_name = (char *)plugin_server_resource(r->server)->name;
	request.options = &options;
	bytes = malloc(v1beta1__register_request__get_packed_size(&request));
	if (bytes)
		e = registration_call(r, bytes, v1beta1__register_request__pack(&request, bytes));
	if (e == -ENOENT)
		r->at_ns = now_monotonic_ns() + ABSENT_NS;
	else if (e < 0)
		registration_retry(r, CONNECT_MOST_NS);
}

/* It listens, or tries that again later. */
static bool registration_listens(struct registration *r)
{
	int e;

	if (plugin_server_listens(r->server))
		return true;
	e = plugin_server_listen(r->server);
	if (e == 0) {
		registration_begin(r);
		return true;
	}
	if (!r->said)
		log_line(LOG_FAULT, "%s: no socket %s in %s/device-plugins: %s",
			 plugin_server_resource(r->server)->name, plugin_server_endpoint(r->server),
			 r->plugin->conf->kubelet, strerror(-e));
	r->said = true;
	registration_retry(r, REFUSED_MOST_NS);
	return false;
}

static uint64_t registration_due_ns(const struct registration *r)
{
	if (r->call)
		return UINT64_MAX;
	if (r->at_ns != UINT64_MAX || plugin_server_is_watched(r->server))
		return r->at_ns;
	return r->registered_ns + WATCHED_NS;
}

static void registration_run(struct registration *r)
{
	uint64_t now = now_monotonic_ns();

	if (plugin_server_is_watched(r->server))
		r->registered_ns = now;
	plugin_server_run(r->server);
	if (r->plugin->watch >= 0 && now >= registration_due_ns(r) && registration_listens(r))
		registration_try(r);
}

/* --- The directory --------------------------------------------------------------------------- */

static void plugin_begin(struct plugin *plugin)
{
	for (size_t i = 0; i < plugin->n; i++)
		registration_begin(&plugin->registration[i]);
}

static void plugin_watch(struct plugin *plugin)
{
	char path[PATH_MAX];

	if (plugin->watch >= 0 || now_monotonic_ns() < plugin->watch_at_ns)
		return;
	plugin_path(plugin, "", path);
	plugin->watch =
		inotify_add_watch(plugin->source.fd, path,
				  IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR);
	if (plugin->watch >= 0) {
		plugin_begin(plugin);
		return;
	}
	if (!plugin->watch_at_ns)
		log_line(LOG_WARN, "%s: %s; waiting for the kubelet to make it", path,
			 strerror(errno));
	plugin->watch_at_ns = now_monotonic_ns() + NS_PER_S;
}

static void plugin_hear(struct plugin *plugin, const struct inotify_event *event)
{
	if (event->mask & IN_IGNORED && event->wd == plugin->watch)
		plugin->watch = -1;
	if (event->mask & IN_Q_OVERFLOW ||
	    (event->mask & (IN_CREATE | IN_MOVED_TO) && event->len && !strcmp(event->name, SOCKET)))
		plugin_begin(plugin);
}

static void plugin_read(struct plugin *plugin)
{
	union {
		struct inotify_event first;
		char bytes[4096];
	} buffer;
	ssize_t len;

	while ((len = read(plugin->source.fd, &buffer, sizeof(buffer))) > 0)
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event =
				(const struct inotify_event *)(buffer.bytes + at);

			plugin_hear(plugin, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
}

static void plugin_ready(struct loop_source *source)
{
	struct plugin *plugin = (struct plugin *)source;

	plugin_read(plugin);
	plugin_watch(plugin);
	for (size_t i = 0; i < plugin->n; i++) {
		struct registration *r = &plugin->registration[i];

		/* Somebody may have removed the socket of one that is registered. */
		if (r->at_ns == UINT64_MAX && !plugin_server_listens(r->server))
			registration_begin(r);
		registration_run(r);
	}
	prestart_run(plugin->prestart);
	if (plugin->announce)
		announce_run(plugin->announce);
}

static int plugin_sooner_ms(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int plugin_until_ms(uint64_t at_ns)
{
	if (at_ns == UINT64_MAX)
		return -1;
	return (int)(sat_sub_u64(at_ns + NS_PER_MS - 1, now_monotonic_ns()) / NS_PER_MS);
}

static int plugin_timeout_ms(struct loop_source *source)
{
	const struct plugin *plugin = (const struct plugin *)source;
	int ms = prestart_timeout_ms(plugin->prestart);

	if (plugin->announce)
		ms = plugin_sooner_ms(ms, announce_timeout_ms(plugin->announce));

	if (plugin->watch < 0)
		return plugin_sooner_ms(ms, plugin_until_ms(plugin->watch_at_ns));
	for (size_t i = 0; i < plugin->n; i++) {
		const struct registration *r = &plugin->registration[i];

		ms = plugin_sooner_ms(ms, plugin_until_ms(registration_due_ns(r)));
		ms = plugin_sooner_ms(ms, plugin_server_timeout_ms(r->server));
	}
	return ms;
}

/* --- All of it ------------------------------------------------------------------------------- */

static int plugin_add(struct plugin *plugin, const struct node_devices *devices,
		      const struct kube_resource *resource)
{
	const struct plugin_server_of of = {plugin->grpc, plugin->conf, devices, plugin->prestart};
	struct registration *r = &plugin->registration[plugin->n];
	int e = plugin_server_open(&of, resource, &r->server);

	if (e < 0)
		return e;
	r->plugin = plugin;
	plugin->n++;
	counts_registered(resource->name, false);
	registration_begin(r);
	return 0;
}

int plugin_open(struct loop *loop, struct grpc *grpc, struct lister *lister, struct api *api,
		const struct kube_conf *conf, const struct node_devices *devices, struct plugin **ret)
{
	struct plugin *plugin = calloc(1, sizeof(*plugin));
	int r = 0;

	if (!plugin)
		return -ENOMEM;
	*plugin = (struct plugin){.grpc = grpc, .conf = conf, .watch = -1};
	plugin->source = (struct loop_source){.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
					      .ready = plugin_ready,
					      .timeout_ms = plugin_timeout_ms};
	if (plugin->source.fd < 0)
		r = err_errno();
	if (r == 0)
		r = prestart_open(lister, api, conf, devices, &plugin->prestart);
	if (r == 0 && conf->scheduler != KUBE_STOCK)
		r = announce_open(api, conf, devices, &plugin->announce);
	for (size_t i = 0; r == 0 && i < conf->nresources; i++)
		r = plugin_add(plugin, devices, &conf->resource[i]);
	if (r == 0)
		r = loop_add(loop, &plugin->source);
	if (r < 0)
		plugin_close(plugin);
	else
		*ret = plugin;
	return r;
}

void plugin_tell(struct plugin *plugin)
{
	for (size_t i = 0; i < plugin->n; i++)
		plugin_server_tell(plugin->registration[i].server);
	if (plugin->announce)
		announce_tell(plugin->announce);
}

void plugin_close(struct plugin *plugin)
{
	if (!plugin)
		return;
	for (size_t i = 0; i < plugin->n; i++) {
		registration_forget_call(&plugin->registration[i]);
		plugin_server_close(plugin->registration[i].server);
	}
	prestart_close(plugin->prestart);
	announce_close(plugin->announce);
	if (plugin->source.fd >= 0)
		close(plugin->source.fd);
	free(plugin);
}
