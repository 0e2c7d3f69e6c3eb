/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kubelet finds a plugin: it watches <kubelet>/plugins_registry, calls the socket that appears
 * there, asks what it is, and says whether it took it (pluginregistration.Registration). A kubelet that
 * was started anew does the same with the sockets that it finds.
 */
#ifndef ALLOT_KUBE_CLAIMS_REGISTRATION_H
#define ALLOT_KUBE_CLAIMS_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/wire/grpc.h"

/* Stays where it is while it is served. */
struct registration {
	const char *type, *name;
	const char *endpoint; /* the plugin's own socket */
	const char *const *services;
	size_t nservices;
	/* The kubelet has taken it, or not: `error` is its words. */
	void (*told)(void *arg, bool registered, const char *error);
	void *arg;
};

/* As grpc_serve. */
int registration_serve(struct grpc *grpc, const char *path, struct registration *registration);

#endif
