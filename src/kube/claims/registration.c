/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/registration.h"

#include "kube/wire/reply.h"
#include "kube/wire/registration.pb-c.h"

static void registration_get_info(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	const struct registration *r = arg;
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;

	info.type = (char *)r->type;
	info.name = (char *)r->name;
	info.endpoint = (char *)r->endpoint;
	info.supported_versions = (char **)(uintptr_t)r->services;
	info.n_supported_versions = r->nservices;
	reply(call, &info.base);
}

static void registration_notify(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	const struct registration *r = arg;
	Pluginregistration__RegistrationStatusResponse response =
		PLUGINREGISTRATION__REGISTRATION_STATUS_RESPONSE__INIT;
	Pluginregistration__RegistrationStatus *status =
		pluginregistration__registration_status__unpack(NULL, len, request);

	if (!status) {
		grpc_finish(call, GRPC_INVALID_ARGUMENT, "that is no RegistrationStatus");
		return;
	}
	reply(call, &response.base);
	r->told(r->arg, status->plugin_registered, status->error);
	pluginregistration__registration_status__free_unpacked(status, NULL);
}

static const struct grpc_method methods[] = {
	{"/pluginregistration.Registration/GetInfo", registration_get_info, NULL},
	{"/pluginregistration.Registration/NotifyRegistrationStatus", registration_notify, NULL},
};

int registration_serve(struct grpc *grpc, const char *path, struct registration *registration)
{
	return grpc_serve(grpc, path, methods, sizeof(methods) / sizeof(*methods), registration);
}
