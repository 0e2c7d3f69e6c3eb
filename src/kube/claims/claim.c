/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/claim.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/parse.h"
#include "kube/claims/claim_config.h"
#include "kube/wire/quantity.h"
#include "text/units.h"

#define PREFIX "claim."
/* Of a request's name that is too long for an id: as much of it, "__", and its hash in 8 digits. */
#define NAME_CUT 64

struct reader {
	const struct kube_conf *conf;
	const struct node_devices *devices;
	const struct claim_id *id;
	struct claim *claim;
	char *why;
};

#define claim_fail(r, error, ...) err_say((r)->why, CLAIM_WHY, error, __VA_ARGS__)

/* --- Names --------------------------------------------------------------------------------- */

bool claim_uid_valid(const char *uid)
{
	size_t n = 0;

	while (isalnum((unsigned char)uid[n]) || uid[n] == '-')
		n++;
	return n && n < CLAIM_UID_BYTES && !uid[n];
}

struct claim_prefix claim_prefix(const char *uid)
{
	struct claim_prefix ret;

	snprintf(ret.s, sizeof(ret.s), PREFIX "%.*s%s", CLAIM_UID_BYTES - 1, uid, *uid ? "." : "");
	return ret;
}

/* Of DNS labels: lower case letters, digits and '-', with one '/' at most. */
static bool claim_request_valid(const char *request)
{
	const char *slash = strchr(request, '/');

	for (const char *c = request; *c; c++)
		if (c != slash && *c != '-' && !islower((unsigned char)*c) && !isdigit((unsigned char)*c))
			return false;
	return *request && slash != request && (!slash || slash[1]);
}

/* No label has '_', so that no two requests of a claim share an id, but for a hash in vain. */
static void claim_grant_id(const char *uid, const char *request, char ret[static GRANT_ID_BYTES])
{
	struct claim_prefix prefix = claim_prefix(uid);
	uint32_t sum = (uint32_t)hash_mix(hash_string(HASH_SEED, request));
	char *slash;

	if (strlen(prefix.s) + strlen(request) < GRANT_ID_BYTES)
		snprintf(ret, GRANT_ID_BYTES, "%s%.*s", prefix.s,
			 (int)(GRANT_ID_BYTES - 1 - strlen(prefix.s)), request);
	else
		snprintf(ret, GRANT_ID_BYTES, "%s%.*s__%08x", prefix.s, NAME_CUT, request, sum);
	slash = strchr(ret, '/');
	if (slash)
		*slash = '_';
}

/* --- Capacity ------------------------------------------------------------------------------ */

struct capacity {
	uint64_t memory; /* 0: it has no consumed capacity, all is its own */
	uint32_t permille;
};

/* A name without a domain is the driver's. */
static bool claim_key_is(const struct reader *r, const char *key, const char *name)
{
	size_t n = strlen(r->conf->driver);

	if (!strncmp(key, r->conf->driver, n) && key[n] == '/')
		key += n + 1;
	return !strcmp(key, name);
}

static int claim_take_quantity(const struct reader *r, size_t i, const char *key, const json_t *value,
			       struct capacity *ret)
{
	const char *text = json_string_value(value);
	int error;

	if (!text)
		return claim_fail(r, -EINVAL, "results[%zu].consumedCapacity.%.60s is no text", i, key);
	if (claim_key_is(r, key, "memory"))
		error = quantity_whole(text, &ret->memory);
	else if (claim_key_is(r, key, "cores"))
		error = quantity_permille(text, &ret->permille);
	else
		return claim_fail(r, -EINVAL,
				  "results[%zu].consumedCapacity has \"%.60s\": this driver's devices have "
				  "memory and cores",
				  i, key);
	if (error)
		return claim_fail(r, -EINVAL, "results[%zu].consumedCapacity.%.60s: \"%.60s\" %s", i, key,
				  text, quantity_why(error));
	return 0;
}

static int claim_take_capacity(const struct reader *r, size_t i, const json_t *result,
			       struct capacity *ret)
{
	json_t *consumed = json_object_get(result, "consumedCapacity"), *value;
	const char *key;
	int error = 0;

	*ret = (struct capacity){0};
	if (!json_object_size(consumed))
		return json_string_value(json_object_get(result, "shareID"))
			       ? claim_fail(r, -EINVAL,
					    "results[%zu] is a share of a device without consumedCapacity", i)
			       : 0;
	json_object_foreach (consumed, key, value)
		if (!error)
			error = claim_take_quantity(r, i, key, value, ret);
	if (!error && (ret->memory < QUOTA_LEAST_BYTES || ret->memory > SIZE_MAX_BYTES))
		return claim_fail(r, -EINVAL,
				  "results[%zu].consumedCapacity.memory is %s: a share has at least 1 MiB of "
				  "memory, and no more than the device",
				  i, units_bytes(ret->memory).s);
	return error;
}

/* --- Grants -------------------------------------------------------------------------------- */

static int claim_check_device(const struct reader *r, const struct node_device *device,
			      const char *name)
{
	if (!device)
		return claim_fail(r, -ENODEV, "device %.63s is not on this node", name);
	if (device->sick)
		return claim_fail(r, -EIO, "device %.63s is sick: %.160s", name, device->why);
	return 0;
}

/* The request's entry for the device; a request may have several shares of one. */
static struct policy_device *claim_policy_device(struct policy *policy, const struct device *device)
{
	struct policy_device *d = policy->device;

	while (d < policy->device + policy->ndevices && memcmp(d->uuid, device->uuid, 16))
		d++;
	if (d == policy->device + policy->ndevices) {
		memcpy(d->uuid, device->uuid, 16);
		d->total_bytes = device->total_bytes;
		policy->ndevices++;
	}
	return d;
}

/*
 * A tenant without cores takes turns, with the least share: if it took none, the shares of others would not be
 * guaranteed.
 */
static int claim_add_share(const struct reader *r, size_t i, struct policy *policy,
			   const struct device *device, const struct capacity *capacity)
{
	struct policy_device *d = claim_policy_device(policy, device);
	bool again = d->share_permille;

	if (!capacity->memory) {
		d->limit_permille = 1000;
		d->share_permille = 1000;
		return again ? claim_fail(r, -EINVAL, "results[%zu]: the device was given before", i) : 0;
	}
	policy->compute = POLICY_COMPUTE_SHARE;
	d->limit_bytes += capacity->memory;
	d->share_permille += capacity->permille;
	if (d->limit_permille || d->share_permille > 1000 || d->limit_bytes > SIZE_MAX_BYTES ||
	    (d->total_bytes && d->limit_bytes > d->total_bytes))
		return claim_fail(r, -EINVAL,
				  "results[%zu]: the request has more of the device than there is (%s of "
				  "memory, %s of cores)",
				  i, units_bytes(d->limit_bytes).s, units_permille(d->share_permille).s);
	return 0;
}

static int claim_add_grant(const struct reader *r, const char *request, const char *pool)
{
	struct claim_grant *g = &r->claim->grant[r->claim->ngrants];

	*g = (struct claim_grant){0};
	snprintf(g->request, sizeof(g->request), "%s", request);
	snprintf(g->pool, sizeof(g->pool), "%s", pool);
	claim_grant_id(r->id->uid, request, g->grant.id);
	grant_name(r->id->space, r->id->name, request, g->grant.id, g->grant.policy.name);
	for (unsigned int i = 0; i < r->claim->ngrants; i++)
		if (!strcmp(r->claim->grant[i].grant.id, g->grant.id))
			return claim_fail(r, -EINVAL,
					  "requests \"%.127s\" and \"%.127s\" cannot be told apart: give one "
					  "another name",
					  r->claim->grant[i].request, request);
	r->claim->ngrants++;
	return 0;
}

/* The grant of a request, added where it is not there yet. */
static int claim_find_grant(const struct reader *r, const char *request, const char *pool,
			    unsigned int *ret)
{
	unsigned int i = 0;
	int error = 0;

	while (i < r->claim->ngrants && strcmp(r->claim->grant[i].request, request))
		i++;
	if (i == r->claim->ngrants)
		error = claim_add_grant(r, request, pool);
	if (!error && strcmp(r->claim->grant[i].pool, pool))
		return claim_fail(r, -EINVAL, "request \"%.127s\" has devices of two pools", request);
	if (!error)
		*ret = i;
	return error;
}

/* --- Results ------------------------------------------------------------------------------- */

static int claim_text(const struct reader *r, size_t i, const json_t *result, const char *key, char *to,
		      size_t size)
{
	const char *text = json_string_value(json_object_get(result, key));

	if (!text || !*text || strlen(text) >= size)
		return claim_fail(r, -EINVAL, "results[%zu].%s is missing or too long", i, key);
	memcpy(to, text, strlen(text) + 1);
	return 0;
}

struct names {
	char request[CLAIM_REQUEST_BYTES], pool[KUBE_NAME_BYTES];
	struct claim_result result;
};

static int claim_take_names(const struct reader *r, size_t i, const json_t *result, struct names *ret)
{
	struct claim_result *to = &ret->result;
	int error = claim_text(r, i, result, "request", ret->request, sizeof(ret->request));

	*to = (struct claim_result){0};
	if (!error && !claim_request_valid(ret->request))
		return claim_fail(r, -EINVAL, "results[%zu].request is no name of a request", i);
	if (!error)
		error = claim_text(r, i, result, "pool", ret->pool, sizeof(ret->pool));
	if (!error)
		error = claim_text(r, i, result, "device", to->device, sizeof(to->device));
	if (!error && json_object_get(result, "shareID"))
		error = claim_text(r, i, result, "shareID", to->share, sizeof(to->share));
	if (!error && json_is_true(json_object_get(result, "adminAccess")))
		return claim_fail(r, -EINVAL,
				  "results[%zu].adminAccess: this driver gives shares of devices, and nothing "
				  "to administrators",
				  i);
	return error;
}

static int claim_take_result(const struct reader *r, size_t i, const json_t *result)
{
	const struct node_device *device;
	struct capacity capacity;
	struct names names;
	int error = claim_take_names(r, i, result, &names);

	if (!error && r->claim->nresults == CLAIM_RESULTS)
		error = claim_fail(r, -EINVAL, "more than %d devices are allocated", CLAIM_RESULTS);
	if (error)
		return error;
	device = node_find_name(r->devices, names.result.device);
	error = claim_check_device(r, device, names.result.device);
	if (!error)
		error = claim_take_capacity(r, i, result, &capacity);
	if (!error)
		error = claim_find_grant(r, names.request, names.pool, &names.result.grant);
	if (!error)
		error = claim_add_share(r, i, &r->claim->grant[names.result.grant].grant.policy,
					&device->device, &capacity);
	if (!error)
		r->claim->result[r->claim->nresults++] = names.result;
	return error;
}

/* Other drivers' are none of our affairs. */
static int claim_take_results(const struct reader *r, const json_t *results)
{
	const json_t *result;
	int error = 0;
	size_t i;

	json_array_foreach (results, i, result) {
		const char *driver = json_string_value(json_object_get(result, "driver"));

		if (!error && driver && !strcmp(driver, r->conf->driver))
			error = claim_take_result(r, i, result);
	}
	if (!error && !r->claim->nresults)
		return claim_fail(r, -EINVAL, "no device of driver %.253s is allocated for it",
				  r->conf->driver);
	return error;
}

/* --- Memos --------------------------------------------------------------------------------- */

/* {"of":2,"claim":"default/shares","request":"a","pool":"node1","devices":["gpu-...","<share>",...]} */
static int claim_write_memo(const struct reader *r, unsigned int grant)
{
	struct claim_grant *g = &r->claim->grant[grant];
	json_t *devices = json_array(), *memo;
	char name[CLAIM_NAME_BYTES];
	size_t n;

	for (unsigned int i = 0; i < r->claim->nresults; i++) {
		const struct claim_result *result = &r->claim->result[i];

		if (result->grant != grant)
			continue;
		json_array_append_new(devices, json_string(result->device));
		json_array_append_new(devices, json_string(result->share));
	}
	snprintf(name, sizeof(name), "%s/%s", r->id->space, r->id->name);
	memo = json_pack("{si ss ss ss so}", "of", (int)r->claim->ngrants, "claim", name, "request", g->request,
			 "pool", g->pool, "devices", devices);
	n = json_dumpb(memo, g->grant.memo, sizeof(g->grant.memo), JSON_COMPACT);
	json_decref(memo);
	if (!n || n >= sizeof(g->grant.memo))
		return claim_fail(r, -EINVAL, "request \"%.127s\" has too many devices to keep their names",
				  g->request);
	g->grant.memo[n] = 0;
	return 0;
}

static int claim_recall_device(const struct reader *r, const char *name, const char *share)
{
	const struct node_device *device = name ? node_find_name(r->devices, name) : NULL;
	struct claim_result *result = &r->claim->result[r->claim->nresults];
	struct policy *policy = &r->claim->grant[r->claim->ngrants].grant.policy;
	int error;

	if (!name || !share || r->claim->nresults == CLAIM_RESULTS)
		return -EBADMSG;
	error = claim_check_device(r, device, name);
	if (error)
		return error;
	*result = (struct claim_result){.grant = r->claim->ngrants};
	snprintf(result->device, sizeof(result->device), "%s", name);
	snprintf(result->share, sizeof(result->share), "%s", share);
	claim_policy_device(policy, &device->device);
	r->claim->nresults++;
	return 0;
}

static int claim_recall_memo(const struct reader *r, const char *id, const json_t *memo)
{
	struct claim_grant *g = &r->claim->grant[r->claim->ngrants];
	const json_t *devices = json_object_get(memo, "devices");
	const char *request = json_string_value(json_object_get(memo, "request"));
	const char *pool = json_string_value(json_object_get(memo, "pool"));
	int error = 0;

	if (!request || !pool || r->claim->ngrants == CLAIM_RESULTS)
		return -EBADMSG;
	*g = (struct claim_grant){0};
	snprintf(g->request, sizeof(g->request), "%s", request);
	snprintf(g->pool, sizeof(g->pool), "%s", pool);
	snprintf(g->grant.id, sizeof(g->grant.id), "%s", id);
	for (size_t i = 0; !error && i < json_array_size(devices); i += 2)
		error = claim_recall_device(r, json_string_value(json_array_get(devices, i)),
					    json_string_value(json_array_get(devices, i + 1)));
	r->claim->ngrants++;
	return error;
}

int claim_recall(const char *id, const char *memo, const struct node_devices *devices, struct claim *claim,
		 char why[static CLAIM_WHY])
{
	const struct reader r = {.devices = devices, .claim = claim, .why = why};
	json_t *root = json_loads(memo, JSON_REJECT_DUPLICATES, NULL);
	json_int_t of = json_integer_value(json_object_get(root, "of"));
	int error = of > 0 && of <= CLAIM_RESULTS ? claim_recall_memo(&r, id, root) : -EBADMSG;

	json_decref(root);
	return error ? error : (int)of;
}

int claim_recall_name(const char *memo, char ret[static CLAIM_NAME_BYTES])
{
	json_t *root = json_loads(memo, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(root, "claim"));
	int r = name && strchr(name, '/') && strlen(name) < CLAIM_NAME_BYTES ? 0 : -EBADMSG;

	if (!r)
		strcpy(ret, name);
	json_decref(root);
	return r;
}

/* --- Configuration ------------------------------------------------------------------------- */

static int claim_finish_compute(const struct reader *r, const struct claim_config *config,
				const char *request, struct policy *policy)
{
	for (uint32_t i = 0; i < policy->ndevices; i++) {
		struct policy_device *d = &policy->device[i];

		if (config->limit && !d->share_permille)
			return claim_fail(r, -EINVAL,
					  "request \"%.127s\": `limit` needs cores, of which it has none",
					  request);
		if (!d->share_permille)
			d->share_permille = 1;
		if (config->mode == POLICY_MODE_SPACE && d->share_permille != policy->device->share_permille)
			return claim_fail(r, -EINVAL,
					  "request \"%.127s\": mode space needs the same cores of each device",
					  request);
	}
	policy->priority = config->priority;
	policy->mode = config->mode;
	if (config->limit)
		policy->compute = POLICY_COMPUTE_CAP;
	return 0;
}

static int claim_finish_grant(const struct reader *r, const json_t *config, struct claim_grant *g)
{
	struct policy *policy = &g->grant.policy;
	struct claim_config said = {0};
	int error = claim_config_read(config, r->conf, g->request, &said, r->why, CLAIM_WHY);

	if (!error)
		error = claim_finish_compute(r, &said, g->request, policy);
	if (error)
		return error;
	if (said.swappable || said.overcommit)
		policy->flags |= POLICY_SWAPPABLE;
	if (said.overcommit)
		policy->flags |= POLICY_OVERCOMMIT;
	if (policy_check(policy) < 0)
		return claim_fail(r, -EINVAL, "request \"%.127s\" asks for what no tenant can have",
				  g->request);
	return 0;
}

static int claim_take_allocation(const struct reader *r, const json_t *allocation)
{
	const json_t *devices = json_object_get(allocation, "devices");
	int error;

	if (!json_is_object(allocation))
		return claim_fail(r, -EAGAIN, "it is not allocated");
	error = claim_take_results(r, json_object_get(devices, "results"));
	for (unsigned int i = 0; !error && i < r->claim->ngrants; i++)
		error = claim_finish_grant(r, json_object_get(devices, "config"), &r->claim->grant[i]);
	for (unsigned int i = 0; !error && i < r->claim->ngrants; i++)
		error = claim_write_memo(r, i);
	return error;
}

int claim_read(const char *bytes, size_t len, const struct claim_id *id, const struct kube_conf *conf,
	       const struct node_devices *devices, struct claim *ret, char why[static CLAIM_WHY])
{
	const struct reader r = {conf, devices, id, ret, why};
	json_error_t error;
	json_t *root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &error);
	const char *is;
	int answer;

	ret->ngrants = ret->nresults = 0;
	if (!root)
		return claim_fail(&r, -EINVAL, "the API server's answer is no JSON: %.100s", error.text);
	is = json_string_value(json_object_get(json_object_get(root, "metadata"), "uid"));
	if (!is || strcmp(is, id->uid))
		answer = claim_fail(&r, -ESTALE,
				    "the claim of this name has uid %.64s: the one with uid %.36s is gone",
				    is ? is : "(none)", id->uid);
	else
		answer = claim_take_allocation(
			&r, json_object_get(json_object_get(root, "status"), "allocation"));
	json_decref(root);
	return answer;
}

static bool claim_has_result_here(const json_t *results, const struct kube_conf *conf)
{
	const json_t *result;
	size_t i;

	json_array_foreach (results, i, result) {
		const char *driver = json_string_value(json_object_get(result, "driver"));
		const char *pool = json_string_value(json_object_get(result, "pool"));

		if (driver && pool && !strcmp(driver, conf->driver) && !strcmp(pool, conf->node))
			return true;
	}
	return false;
}

void claim_path(const char *space, const char *name, char ret[static CLAIM_PATH_BYTES])
{
	snprintf(ret, CLAIM_PATH_BYTES, "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s", space, name);
}

/* An API server that does not serve claims of this version has none of them either, and says 404, too. */
static bool claim_says_none(const json_t *root)
{
	const char *reason = json_string_value(json_object_get(root, "reason"));
	const char *kind = json_string_value(json_object_get(json_object_get(root, "details"), "kind"));

	return reason && !strcmp(reason, "NotFound") && kind && !strcmp(kind, "resourceclaims");
}

int claim_is_here(const char *bytes, size_t len, const char *uid, const struct kube_conf *conf)
{
	json_error_t error;
	json_t *root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &error);
	const char *is = json_string_value(json_object_get(json_object_get(root, "metadata"), "uid"));
	const json_t *allocation = json_object_get(json_object_get(root, "status"), "allocation");
	int r = -EINVAL;

	if (is)
		r = !strcmp(is, uid) &&
		    claim_has_result_here(json_object_get(json_object_get(allocation, "devices"), "results"), conf);
	else if (claim_says_none(root))
		r = 0;
	json_decref(root);
	return r;
}
