/* SPDX-License-Identifier: Apache-2.0 */
/* One resource's device plugin: its socket, and what the kubelet asks there. */
#ifndef ALLOT_KUBE_SLOTS_PLUGIN_SERVER_H
#define ALLOT_KUBE_SLOTS_PLUGIN_SERVER_H

#include <stdbool.h>

#include "kube/state/conf.h"
#include "kube/wire/deviceplugin.pb-c.h"
#include "kube/wire/grpc.h"
#include "kube/state/node.h"
#include "kube/slots/prestart.h"

#define PLUGIN_PATH_BYTES 108 /* of a socket's, with its end */

struct plugin_server;

struct plugin_server_of {
	struct grpc *grpc;
	const struct kube_conf *conf;
	const struct node_devices *devices;
	struct prestart *prestart;
};

/* -errno, which has been logged. -EMSGSIZE: it has too many devices for one message. */
int plugin_server_open(const struct plugin_server_of *of, const struct kube_resource *resource,
		       struct plugin_server **ret);
/* From no callback of gRPC's. Takes NULL. */
void plugin_server_close(struct plugin_server *server);

/* Returns true if its socket is where it was put. */
bool plugin_server_listens(const struct plugin_server *server);
/* Puts the socket there, anew if need be; from no callback of gRPC's. -errno. */
int plugin_server_listen(struct plugin_server *server);

/* Returns true if a kubelet hears of the devices. */
bool plugin_server_is_watched(const struct plugin_server *server);

/* The devices are others, or are sick or well. */
void plugin_server_tell(struct plugin_server *server);

/* Until a list is sent again that the kubelet did not read; -1: there is none. */
int plugin_server_timeout_ms(const struct plugin_server *server);
void plugin_server_run(struct plugin_server *server);

const struct kube_resource *plugin_server_resource(const struct plugin_server *server);
/* The name of its socket. */
const char *plugin_server_endpoint(const struct plugin_server *server);
V1beta1__DevicePluginOptions plugin_server_options(const struct plugin_server *server);

#endif
