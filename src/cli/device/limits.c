/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say/say.h"

struct limits_kind {
	const char *option;
	const char *right; /* ends a message about a bad value */
	const char *several;
	int (*parse)(const char *word, struct size_spec *ret);
	/* Why parse() refused the word, to stand behind it in a message. */
	const char *(*why)(const char *word, int err);
	void (*apply)(const struct size_spec *spec, struct policy_device *device);
};

static bool limits_is_zero(const char *word)
{
	size_t zeros = strspn(word, "0.");

	return zeros && (!word[zeros] || !strcmp(word + zeros, "%"));
}

/* A small size with a unit is intended, and `allot run` warns of it. */
static int limits_parse_size(const char *word, struct size_spec *ret)
{
	bool unit = word[strspn(word, "0123456789")];

	if (strcmp(word, "off"))
		return unit ? parse_size_spec(word, ret) : parse_quota(word, ret);
	*ret = (struct size_spec){.permille = 1000};
	return 0;
}

static void limits_apply_size(const struct size_spec *spec, struct policy_device *device)
{
	device->limit_bytes = spec->bytes;
	device->limit_permille = spec->permille;
}

const struct limits_kind limits_memory = {
	.option = "--memory",
	.right = "write it like 8GiB, 512M, 1.5G, 8GB, 25% or off",
	.several = "8GiB,25%",
	.parse = limits_parse_size,
	.why = parse_quota_why,
	.apply = limits_apply_size,
};

static int limits_parse_share(const char *word, struct size_spec *ret)
{
	struct size_spec spec = {0};
	int r = parse_permille(word, &spec.permille);

	if (!r)
		*ret = spec;
	return r;
}

static const char *limits_why_no_share(const char *word, int err)
{
	if (err == -ERANGE)
		return "is more than the whole device";
	return limits_is_zero(word) ? "would stop the tenant for ever"
				    : "is not a percentage in steps of 0.1";
}

static void limits_apply_share(const struct size_spec *spec, struct policy_device *device)
{
	device->share_permille = spec->permille;
}

const struct limits_kind limits_compute = {
	.option = "--compute",
	.right = "write it like 25, 12.5% or off",
	.several = "25,50",
	.parse = limits_parse_share,
	.why = limits_why_no_share,
	.apply = limits_apply_share,
};

static void limits_explain(const struct limits_kind *kind, const char *text, const char *word,
			   int err)
{
	if (*word)
		say_error("%s \"%s\": \"%s\" %s; %s", kind->option, text, word,
			  kind->why(word, err), kind->right);
	else
		say_error("%s \"%s\": a value is empty; %s", kind->option, text, kind->right);
}

int limits_parse(const struct limits_kind *kind, const char *text, struct limits *ret)
{
	struct limits limits = {.kind = kind, .text = text};
	char *copy = strdup(text), *rest = copy, *word;
	int r = 0;

	if (!copy)
		return say_fail(-ENOMEM, "%s: out of memory", kind->option);
	while (r == 0 && (word = strsep(&rest, ","))) {
		if (limits.n == POLICY_DEVICES) {
			say_error("%s: more than %d values; give one for all devices or one for "
				  "each, like %s %s",
				  kind->option, POLICY_DEVICES, kind->option, kind->several);
			r = -E2BIG;
			break;
		}
		r = kind->parse(word, &limits.spec[limits.n++]);
		if (r < 0)
			limits_explain(kind, text, word, r);
	}
	free(copy);
	if (r < 0)
		return r;
	*ret = limits;
	return 0;
}

int limits_apply(const struct limits *limits, struct policy *policy)
{
	unsigned int n = policy->ndevices;

	if (!limits->text)
		return 0;
	if (limits->n != 1 && limits->n != n)
		return say_fail(-EINVAL, "%s \"%s\": %u values for %u device%s; give one for all "
				"or one for each, like --gpu 0,1 %s %s", limits->kind->option,
				limits->text, limits->n, n, n == 1 ? "" : "s", limits->kind->option,
				limits->kind->several);
	for (unsigned int i = 0; i < n; i++)
		limits->kind->apply(&limits->spec[limits->n == 1 ? 0 : i], &policy->device[i]);
	return 0;
}

/*
 * To ask the driver takes 42 ms (H200), which is long for the start of a program: so nobody asks for
 * a quota that many devices have.
 */
#define ASKED_ABOVE (UINT64_C(80) << 30)

bool limits_may_exceed(const struct limits *limits)
{
	for (unsigned int i = 0; i < limits->n; i++)
		if (limits->spec[i].bytes > ASKED_ABOVE)
			return true;
	return false;
}

/* The largest device, or that of the name; NULL where there is none. */
static const struct device *limits_largest(const struct devices *devices, const uint8_t *uuid)
{
	const struct device *largest = NULL;

	for (const struct device *d = devices->list; d < devices->list + devices->n; d++)
		if ((!uuid || !memcmp(d->uuid, uuid, sizeof(d->uuid))) &&
		    (!largest || d->total_bytes > largest->total_bytes))
			largest = d;
	return largest;
}

void limits_note_excess(const struct policy *policy, const struct devices *devices)
{
	for (unsigned int i = 0; i < policy->ndevices; i++) {
		const struct policy_device *limit = &policy->device[i];
		bool all = i == 0 && (policy->flags & POLICY_ALL_DEVICES);
		const struct device *d = limits_largest(devices, all ? NULL : limit->uuid);
		char who[32] = "any device";

		if (!d || !d->total_bytes || limit->limit_bytes <= d->total_bytes)
			continue;
		if (!all)
			snprintf(who, sizeof(who), "GPU %u", (unsigned int)(d - devices->list));
		say_note("note: --memory: %s is more than %s has; its %s are the limit",
			 units_bytes(limit->limit_bytes).s, who, units_bytes(d->total_bytes).s);
	}
}

const char *limits_option(const struct limits *limits)
{
	return limits->kind->option;
}

struct units_text limits_words(const struct policy_device *device)
{
	struct units_text t;

	if (device->limit_bytes)
		return units_bytes(device->limit_bytes);
	if (device->limit_permille < 1000)
		return units_permille(device->limit_permille);
	snprintf(t.s, sizeof(t.s), "no limit");
	return t;
}

struct units_text limits_gtt_words(const struct policy *policy)
{
	return policy->gtt_mib ? units_bytes((uint64_t)policy->gtt_mib << 20)
			       : (struct units_text){"what is free"};
}
