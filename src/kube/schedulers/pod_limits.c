/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/pod_limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/number.h"
#include "kube/wire/quantity.h"
#include "text/units.h"

#define limits_refuse(why, ...) err_say(why, POD_LIMITS_WHY, -EINVAL, __VA_ARGS__)

/* HAMi's scheduler alone knows these, so that they need not be in the site's file. */
static const struct kube_resource hami[] = {{"nvidia.com/gpumem", KUBE_MEMORY, UINT64_C(1) << 20},
					    {"nvidia.com/gpucores", KUBE_CORES, 1}};

const char *pod_limits_name(const struct kube_conf *conf, enum kube_unit unit)
{
	for (size_t i = 0; conf->scheduler == KUBE_HAMI && i < 2; i++)
		if (hami[i].unit == unit)
			return hami[i].name;
	for (size_t i = 0; i < conf->nresources; i++)
		if (conf->resource[i].unit == unit)
			return conf->resource[i].name;
	return "";
}

/* The sum that a container's limits allow it on all of its devices together. */
struct allowed {
	uint64_t slots, memory_bytes, cores; /* UINT64_MAX: they do not say */
};

static uint64_t *allowed_of(struct allowed *allowed, enum kube_unit unit)
{
	return unit == KUBE_SLOTS    ? &allowed->slots
	       : unit == KUBE_MEMORY ? &allowed->memory_bytes
				     : &allowed->cores;
}

/* Each slot has as much. */
static int allowed_take(const json_t *limits, const struct kube_resource *resource,
			struct allowed *ret, char why[static POD_LIMITS_WHY])
{
	const json_t *value = json_object_get(limits, resource->name);
	const char *text = json_string_value(value);
	uint64_t n, *to = allowed_of(ret, resource->unit);
	int r;

	if (!value)
		return 0;
	r = text ? quantity_whole(text, &n) : -EINVAL;
	if (r < 0)
		return limits_refuse(why, "its limit of %.128s %s", resource->name, quantity_why(r));
	if (resource->unit != KUBE_SLOTS && (__builtin_mul_overflow(n, resource->amount, &n) ||
					     __builtin_mul_overflow(n, ret->slots, &n)))
		n = UINT64_MAX;
	*to = n < *to ? n : *to;
	return 0;
}

/* Slots first, by which the others count. */
static int allowed_read(const struct kube_conf *conf, const json_t *limits, struct allowed *ret,
			char why[static POD_LIMITS_WHY])
{
	int r = 0;

	*ret = (struct allowed){UINT64_MAX, UINT64_MAX, UINT64_MAX};
	for (int others = 0; others < 2; others++)
		for (size_t i = 0; r == 0 && i < conf->nresources; i++)
			if ((conf->resource[i].unit != KUBE_SLOTS) == others)
				r = allowed_take(limits, &conf->resource[i], ret, why);
	for (size_t i = 0; r == 0 && conf->scheduler == KUBE_HAMI && i < 2; i++)
		r = allowed_take(limits, &hami[i], ret, why);
	return r;
}

int pod_limits_check(const struct kube_conf *conf, const json_t *limits,
		     const struct decision_container *decision, char why[static POD_LIMITS_WHY])
{
	struct allowed allowed;
	uint64_t memory_bytes = 0, cores = 0;
	bool unasked = false;
	int r = allowed_read(conf, limits, &allowed, why);

	for (unsigned int i = 0; r == 0 && i < decision->n; i++) {
		uint64_t bytes = decision->device[i].memory_bytes;

		/* It would have as much as a slot is of the GPU. */
		unasked |= !bytes && allowed.memory_bytes != UINT64_MAX;
		memory_bytes = sat_add_u64(memory_bytes, bytes);
		cores += decision->device[i].cores;
	}
	if (r == 0 && (unasked || memory_bytes > allowed.memory_bytes))
		r = limits_refuse(why, "its annotation gives it %s of memory, and its limit of %s is "
				  "another: its scheduler did not write that",
				  units_bytes(memory_bytes).s, pod_limits_name(conf, KUBE_MEMORY));
	if (r == 0 && cores > allowed.cores)
		r = limits_refuse(why, "its annotation gives it %" PRIu64 " percent of cores, and its "
				  "limit of %s is less: its scheduler did not write that",
				  cores, pod_limits_name(conf, KUBE_CORES));
	return r;
}
