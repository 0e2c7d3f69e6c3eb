/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/prepare_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

#define ERROR_BYTES 1024

Dra__NodePrepareResourcesResponse *prepare_answer_new(const Dra__NodePrepareResourcesRequest *request)
{
	Dra__NodePrepareResourcesResponse *ret = malloc(sizeof(*ret));

	if (!ret)
		return NULL;
	dra__node_prepare_resources_response__init(ret);
	ret->claims = calloc(request->n_claims + 1, sizeof(*ret->claims));
	for (size_t i = 0; ret->claims && i < request->n_claims; i++) {
		Dra__NodePrepareResourcesResponse__ClaimsEntry *entry = malloc(sizeof(*entry));

		if (!entry)
			break;
		dra__node_prepare_resources_response__claims_entry__init(entry);
		ret->claims[ret->n_claims++] = entry;
		entry->key = strdup(request->claims[i]->uid);
		entry->value = malloc(sizeof(*entry->value));
		if (entry->value)
			dra__node_prepare_resource_response__init(entry->value);
		if (!entry->key || !entry->value)
			break;
	}
	if (ret->n_claims == request->n_claims &&
	    (!ret->n_claims || (ret->claims[ret->n_claims - 1]->key && ret->claims[ret->n_claims - 1]->value)))
		return ret;
	dra__node_prepare_resources_response__free_unpacked(ret, NULL);
	return NULL;
}

bool prepare_answer_fail(Dra__NodePrepareResourceResponse *answer, const char *error)
{
	char *text = strndup(error, ERROR_BYTES);

	if (!text)
		return false;
	text_make_printable(text);
	answer->error = text;
	return true;
}

/* A list of so many texts, NULL in the beginning. */
static bool answer_make_list(size_t n, char ***ret, size_t *ret_n)
{
	*ret = calloc(n + 1, sizeof(**ret));
	*ret_n = *ret ? n : 0;
	return *ret;
}

static int answer_add_device(Dra__NodePrepareResourceResponse *answer, const struct claim *claim,
			     const struct claim_result *result, const struct grant_names *names)
{
	const struct claim_grant *grant = &claim->grant[result->grant];
	Dra__Device *device = malloc(sizeof(*device));
	bool ok;

	if (!device)
		return -ENOMEM;
	dra__device__init(device);
	answer->devices[answer->n_devices++] = device;
	device->pool_name = strdup(grant->pool);
	device->device_name = strdup(result->device);
	device->share_id = strdup(result->share);
	ok = device->pool_name && device->device_name && device->share_id &&
	     answer_make_list(1, &device->request_names, &device->n_request_names) &&
	     answer_make_list(names->n, &device->cdi_device_ids, &device->n_cdi_device_ids);
	/* Containers name the request; which of its subrequests it came to be is none of their affairs. */
	if (ok)
		device->request_names[0] = strndup(grant->request, strcspn(grant->request, "/"));
	ok = ok && device->request_names[0];
	for (size_t i = 0; ok && i < names->n; i++) {
		device->cdi_device_ids[i] = strdup(names->name[i]);
		ok = device->cdi_device_ids[i];
	}
	return ok ? 0 : -ENOMEM;
}

static bool answer_is_first(const struct claim *claim, unsigned int result)
{
	unsigned int i = 0;

	while (claim->result[i].grant != claim->result[result].grant)
		i++;
	return i == result;
}

int prepare_answer_devices(Dra__NodePrepareResourceResponse *answer, const struct claim *claim,
			   const struct kube_conf *conf, char why[static GRANT_WHY])
{
	static struct grant_names names;
	int r = 0;

	answer->devices = calloc(claim->nresults, sizeof(*answer->devices));
	if (!answer->devices)
		r = -ENOMEM;
	for (unsigned int i = 0; !r && i < claim->nresults; i++) {
		names.n = 0;
		if (answer_is_first(claim, i))
			r = grant_names(conf, &claim->grant[claim->result[i].grant].grant, &names, why);
		if (!r)
			r = answer_add_device(answer, claim, &claim->result[i], &names);
	}
	return r;
}
