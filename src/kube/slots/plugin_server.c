/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slots/plugin_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/now.h"
#include "kube/slots/allocate.h"
#include "kube/state/counts.h"
#include "kube/slots/device_list.h"
#include "kube/wire/reply.h"
#include "text/log.h"

#define WATCHERS 4 /* one is a kubelet's; an earlier one's may not have ended yet */
#define AGAIN_MS 100

struct watcher {
	struct grpc_call *call; /* NULL: none */
	bool behind;		/* it has yet to be sent the list as it is */
};

struct plugin_server {
	struct plugin_server_of of;
	const struct kube_resource *resource;
	char path[PLUGIN_PATH_BYTES];
	const char *endpoint; /* in the path */
	struct stat socket;
	struct device_list list;
	struct watcher watcher[WATCHERS];
};

const struct kube_resource *plugin_server_resource(const struct plugin_server *server)
{
	return server->resource;
}

const char *plugin_server_endpoint(const struct plugin_server *server)
{
	return server->endpoint;
}

/* Units are only counted, so the kubelet asks for no preference and tells of no start. */
V1beta1__DevicePluginOptions plugin_server_options(const struct plugin_server *server)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = server->resource->unit == KUBE_SLOTS;
	options.get_preferred_allocation_available = options.pre_start_required;
	return options;
}

/* --- Answers --------------------------------------------------------------------------------- */

static void server_refuse(struct grpc_call *call, const char *why)
{
	grpc_finish(call, GRPC_INVALID_ARGUMENT, why);
}

static void server_tell_options(void *arg, struct grpc_call *call, const uint8_t *request,
				size_t len)
{
	V1beta1__DevicePluginOptions options = plugin_server_options(arg);

	reply(call, &options.base);
}

static void watcher_send(struct watcher *watcher, const struct device_list *list)
{
	watcher->behind = grpc_send(watcher->call, list->bytes, list->len) < 0;
}

static void server_list_and_watch(void *arg, struct grpc_call *call, const uint8_t *request,
				  size_t len)
{
	struct plugin_server *server = arg;
	struct watcher *w = server->watcher;

	while (w < server->watcher + WATCHERS && w->call)
		w++;
	if (w == server->watcher + WATCHERS) {
		grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "too many watch already");
		return;
	}
	w->call = call;
	watcher_send(w, &server->list);
}

static void server_watcher_gone(void *arg, struct grpc_call *call)
{
	struct plugin_server *server = arg;

	for (int i = 0; i < WATCHERS; i++)
		if (server->watcher[i].call == call)
			server->watcher[i] = (struct watcher){NULL, false};
}

static void server_prefer(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
	const struct plugin_server *server = arg;
	V1beta1__PreferredAllocationRequest *request =
		v1beta1__preferred_allocation_request__unpack(NULL, len, bytes);
	V1beta1__PreferredAllocationResponse *response = NULL;
	char why[ALLOCATE_WHY] = "the request is no PreferredAllocationRequest";
	int r = -EINVAL;

	if (request)
		r = allocate_prefer(server->of.conf, server->of.devices, server->resource, request,
				    &response, why);
	if (r < 0)
		server_refuse(call, why);
	else
		reply(call, &response->base);
	allocate_free_preferred(response);
	if (request)
		v1beta1__preferred_allocation_request__free_unpacked(request, NULL);
}

static void server_allocate(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
	const struct plugin_server *server = arg;
	V1beta1__AllocateRequest *request = v1beta1__allocate_request__unpack(NULL, len, bytes);
	V1beta1__AllocateResponse *response = NULL;
	char why[ALLOCATE_WHY] = "the request is no AllocateRequest";
	uint64_t since_ns = now_monotonic_ns();
	int r = -EINVAL;

	if (request)
		r = allocate_answer(server->of.conf, server->of.devices, server->resource, request,
				    &response, why);
	if (r < 0) {
		log_line(LOG_WARN, "%s: %s", server->resource->name, why);
		server_refuse(call, why);
	} else {
		reply(call, &response->base);
		prestart_allocated(server->of.prestart, request);
	}
	counts_answered(COUNTS_ALLOCATE, since_ns);
	if (response)
		v1beta1__allocate_response__free_unpacked(response, NULL);
	if (request)
		v1beta1__allocate_request__free_unpacked(request, NULL);
}

static void server_pre_start(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
	struct plugin_server *server = arg;
	V1beta1__PreStartContainerRequest *request =
		v1beta1__pre_start_container_request__unpack(NULL, len, bytes);
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;

	if (!request) {
		server_refuse(call, "the request is no PreStartContainerRequest");
	} else if (server->resource->unit == KUBE_SLOTS) {
		prestart_ask(server->of.prestart, server->resource, call, request);
	} else {
		reply(call, &response.base);
		v1beta1__pre_start_container_request__free_unpacked(request, NULL);
	}
}

static void server_pre_start_gone(void *arg, struct grpc_call *call)
{
	struct plugin_server *server = arg;

	prestart_gone(server->of.prestart, call);
}

static const struct grpc_method methods[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", server_tell_options, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", server_list_and_watch, server_watcher_gone},
	{"/v1beta1.DevicePlugin/GetPreferredAllocation", server_prefer, NULL},
	{"/v1beta1.DevicePlugin/Allocate", server_allocate, NULL},
	{"/v1beta1.DevicePlugin/PreStartContainer", server_pre_start, server_pre_start_gone},
};

/* --- The devices ---------------------------------------------------------------------------- */

static const char *server_smaller(const struct kube_resource *resource)
{
	return resource->unit == KUBE_SLOTS ? "fewer slots" : "a larger unit";
}

static int server_make_list(const struct plugin_server *server, struct device_list *ret)
{
	struct device_list list = {.bytes = NULL};
	int r = device_list_make(server->resource, server->of.devices, &list);

	if (r == -EMSGSIZE)
		log_line(LOG_FAULT,
			 "resource %s has %" PRIu64 " devices on this node, more than the kubelet "
			 "takes in one message (1 MiB here): give it %s in [kubernetes] of "
			 "allotd.conf",
			 server->resource->name, list.n, server_smaller(server->resource));
	else if (r < 0)
		log_line(LOG_FAULT, "resource %s: %s", server->resource->name, strerror(-r));
	else
		*ret = list;
	return r;
}

void plugin_server_tell(struct plugin_server *server)
{
	struct device_list list;

	/* A list that is too long is not told, and was logged: the kubelet keeps the one before. */
	if (server_make_list(server, &list) < 0)
		return;
	if (list.len == server->list.len && !memcmp(list.bytes, server->list.bytes, list.len)) {
		device_list_free(&list);
		return;
	}
	device_list_free(&server->list);
	server->list = list;
	for (int i = 0; i < WATCHERS; i++)
		if (server->watcher[i].call)
			watcher_send(&server->watcher[i], &server->list);
}

bool plugin_server_is_watched(const struct plugin_server *server)
{
	for (int i = 0; i < WATCHERS; i++)
		if (server->watcher[i].call)
			return true;
	return false;
}

int plugin_server_timeout_ms(const struct plugin_server *server)
{
	for (int i = 0; i < WATCHERS; i++)
		if (server->watcher[i].behind)
			return AGAIN_MS;
	return -1;
}

void plugin_server_run(struct plugin_server *server)
{
	for (int i = 0; i < WATCHERS; i++)
		if (server->watcher[i].behind)
			watcher_send(&server->watcher[i], &server->list);
}

/* --- The socket ------------------------------------------------------------------------------ */

static int server_make_path(struct plugin_server *server)
{
	const char *name = server->resource->name;
	char file[KUBE_NAME_BYTES + 16], *slash;
	size_t dir = strlen(server->of.conf->kubelet) + strlen("/device-plugins/");

	snprintf(file, sizeof(file), "allot-%s.sock", name);
	slash = strchr(file, '/');
	if (slash)
		*slash = '-';
	if (dir + strlen(file) >= sizeof(server->path))
		snprintf(file, sizeof(file), "allot-%016" PRIx64 ".sock",
			 hash_mix(hash_string(HASH_SEED, name)));
	if (snprintf(server->path, sizeof(server->path), "%s/device-plugins/%s",
		     server->of.conf->kubelet, file) >= (int)sizeof(server->path))
		return -ENAMETOOLONG;
	server->endpoint = server->path + dir;
	return 0;
}

bool plugin_server_listens(const struct plugin_server *server)
{
	struct stat st;

	return server->socket.st_ino && stat(server->path, &st) == 0 &&
	       fd_is_same(&st, &server->socket);
}

int plugin_server_listen(struct plugin_server *server)
{
	int r;

	grpc_stop(server->of.grpc, server->path);
	server->socket.st_ino = 0;
	r = grpc_serve(server->of.grpc, server->path, methods, sizeof(methods) / sizeof(*methods),
		       server);
	if (r == 0 && stat(server->path, &server->socket) < 0)
		server->socket.st_ino = 0;
	return r;
}

int plugin_server_open(const struct plugin_server_of *of, const struct kube_resource *resource,
		       struct plugin_server **ret)
{
	struct plugin_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	*server = (struct plugin_server){.of = *of, .resource = resource};
	r = server_make_path(server);
	if (r < 0)
		log_line(LOG_FAULT, "%s/device-plugins: the path is too long for a socket",
			 of->conf->kubelet);
	else
		r = server_make_list(server, &server->list);
	if (r < 0)
		free(server);
	else
		*ret = server;
	return r;
}

void plugin_server_close(struct plugin_server *server)
{
	if (!server)
		return;
	grpc_stop(server->of.grpc, server->path);
	device_list_free(&server->list);
	free(server);
}
