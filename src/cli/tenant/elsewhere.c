/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/elsewhere.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "cli/say/say.h"
#include "dropin/variables.h"
#include "dropin/vgpu_file.h"
#include "node/compute_words.h"
#include "text/text.h"
#include "text/units.h"

int elsewhere_read(struct config *ret)
{
	*ret = (struct config){.present = false};
	if (variables_read(ret, environ) < 0 || vgpu_file_read(ret) < 0)
		return say_error("%s", ret->complaint);
	if (*ret->remark)
		say_note("warning: %s", ret->remark);
	return 0;
}

/* --- A tenant that is made -------------------------------------------------------------------- */

/* Which of two is smaller is not known where only one is a part of the device. */
enum order { ORDER_LESS, ORDER_SAME, ORDER_MORE, ORDER_UNKNOWN };

static enum order elsewhere_compare(struct size_spec a, struct size_spec b, uint64_t total_bytes)
{
	uint64_t x = a.bytes, y = b.bytes;

	if (total_bytes) {
		x = min_u64(size_spec_resolve(a, total_bytes), total_bytes);
		y = min_u64(size_spec_resolve(b, total_bytes), total_bytes);
	} else if (a.permille && b.permille) {
		x = a.permille;
		y = b.permille;
	} else if (a.permille || b.permille) {
		return a.permille == 1000   ? ORDER_MORE
		       : b.permille == 1000 ? ORDER_LESS
					    : ORDER_UNKNOWN;
	}
	return x < y ? ORDER_LESS : x > y ? ORDER_MORE : ORDER_SAME;
}

/* One value for all devices, where no option gives any. Returns the name of its source. */
static const char *elsewhere_begin(struct limits *limits, const struct limits_kind *kind,
				   const char *text)
{
	*limits = (struct limits){.kind = kind, .text = text, .n = 1, .spec = {{.permille = 1000}}};
	return text;
}

/* Of two that say a limit, the smaller one binds. */
static const char *elsewhere_memory_asker(const struct config *config)
{
	struct config variables = *config;

	variables.file_bytes = 0;
	return elsewhere_compare(config_everywhere(config), config_everywhere(&variables), 0) == ORDER_SAME
		       ? "CUDA_DEVICE_MEMORY_LIMIT"
		       : VGPU_FILE;
}

static const char *elsewhere_compute_asker(const struct config *config)
{
	return config_share_everywhere(config) == config->file_share_permille ? VGPU_FILE
										 : "CUDA_DEVICE_SM_LIMIT";
}

static void elsewhere_lower_options(struct limits *limits, struct size_spec most)
{
	for (unsigned int i = 0; i < limits->n; i++)
		if (elsewhere_compare(most, limits->spec[i], 0) == ORDER_LESS)
			limits->spec[i] = most;
}

void elsewhere_apply(const struct config *config, const struct tenant_options *said,
		     struct tenant_options *ret)
{
	struct size_spec memory = config_everywhere(config);
	struct size_spec share = {.permille = config_share_everywhere(config)};

	*ret = *said;
	if (memory.bytes || memory.permille < 1000) {
		if (!(ret->said & TENANT_MEMORY))
			ret->elsewhere.memory = elsewhere_begin(&ret->memory, &limits_memory,
								elsewhere_memory_asker(config));
		ret->said |= TENANT_MEMORY;
		elsewhere_lower_options(&ret->memory, memory);
	}
	/* A share from elsewhere is a cap, whatever else the tenant's time goes by. */
	if (share.permille) {
		if (!(ret->said & TENANT_COMPUTE))
			ret->elsewhere.compute = elsewhere_begin(&ret->compute, &limits_compute,
								 elsewhere_compute_asker(config));
		ret->said &= ~(unsigned int)TENANT_COMPUTE_OFF;
		ret->said |= TENANT_COMPUTE | TENANT_POLICY;
		ret->policy = POLICY_COMPUTE_CAP;
		elsewhere_lower_options(&ret->compute, share);
	}
	if (config->priority != POLICY_PRIORITY_NORMAL &&
	    !(ret->said & (TENANT_PRIORITY | TENANT_COMPUTE_OFF))) {
		ret->said |= TENANT_PRIORITY;
		ret->priority = config->priority;
		ret->elsewhere.priority = "CUDA_TASK_PRIORITY";
	}
}

void elsewhere_lower(const struct config *config, struct policy *policy)
{
	for (unsigned int i = 0; i < policy->ndevices; i++) {
		bool all = i == 0 && (policy->flags & POLICY_ALL_DEVICES);
		struct policy_device *device = &policy->device[i];

		device->share_permille = config_smaller_share(
			device->share_permille,
			all ? config_share_everywhere(config) : config_share_permille(config, i));
	}
}

/* --- What people are told --------------------------------------------------------------------- */

/* The origin of a limit from elsewhere, and its value for one device, or for all. */
struct source {
	char name[160]; /* "CUDA_DEVICE_MEMORY_LIMIT_1=1g" */
	unsigned int device;
	struct size_spec memory; /* 0: nothing said */
	uint32_t share_permille; /* 0: nothing said, or no limit */
};

/* "binds" in as many words as it takes. */
static void elsewhere_say(const struct source *source, enum order order, const char *other)
{
	if (order == ORDER_MORE)
		say_note("  %s does not bind: %s is less", source->name, other);
	else if (order == ORDER_UNKNOWN)
		say_note("  %s binds where it is less than %s", source->name, other);
	else
		say_note("  %s binds", source->name);
}

/* Of the i-th entry of the policy: is the source no more than anything else that limits it? */
static enum order elsewhere_order_memory(const struct config *config, const struct source *source,
					 const struct policy_device *entry, unsigned int ordinal,
					 char *ret_other, size_t size)
{
	struct size_spec least = {entry->limit_bytes, entry->limit_permille};
	struct size_spec own = config_limit(config, ordinal, entry->total_bytes);
	struct policy_device shown;

	if (elsewhere_compare(own, least, entry->total_bytes) == ORDER_LESS)
		least = own;
	shown = (struct policy_device){.limit_bytes = least.bytes,
				       .limit_permille = least.permille};
	snprintf(ret_other, size, "%s", limits_words(&shown).s);
	return elsewhere_compare(source->memory, least, entry->total_bytes);
}

static enum order elsewhere_order_share(const struct config *config, const struct source *source,
					const struct policy_device *entry, unsigned int ordinal,
					char *ret_other, size_t size)
{
	uint32_t least =
		config_smaller_share(entry->share_permille, config_share_permille(config, ordinal));

	least = least ? least : 1000;
	snprintf(ret_other, size, "%s", units_permille(least).s);
	return source->share_permille > least ? ORDER_MORE : ORDER_SAME;
}

/* Of several devices it binds if it does on one. */
static void elsewhere_describe_source(const struct config *config, const struct policy *policy,
				      const struct source *source)
{
	bool any = policy->flags & POLICY_ALL_DEVICES;
	enum order best = ORDER_UNKNOWN;
	char other[64] = "", at[64];
	bool found = false;

	for (unsigned int i = 0; i < policy->ndevices; i++) {
		const struct policy_device *entry = &policy->device[i];
		unsigned int ordinal = any ? source->device : i;
		enum order order;

		if (!any && source->device != CONFIG_EVERY && source->device != i)
			continue;
		order = source->share_permille ? elsewhere_order_share(config, source, entry,
								       ordinal, at, sizeof(at))
					       : elsewhere_order_memory(config, source, entry,
									ordinal, at, sizeof(at));
		if (!found || order < best) {
			best = order;
			strcpy(other, at);
		}
		found = true;
	}
	if (found)
		elsewhere_say(source, best, other);
	else
		say_note("  %s: the tenant has no such device", source->name);
}

/* `one` is the configuration that the variable gives without the others. */
static void elsewhere_describe_limit(const struct config *config, const struct policy *policy,
				     const struct config *one, struct source *source)
{
	for (unsigned int i = 0; i <= CONFIG_EVERY; i++) {
		uint32_t share =
			i < CONFIG_EVERY ? one->device_share_permille[i] : one->share_permille;

		source->device = i;
		source->memory = i < CONFIG_EVERY ? one->device[i] : one->all;
		source->share_permille = share < 1000 ? share : 0;
		if (size_spec_is_said(source->memory))
			elsewhere_describe_source(config, policy, source);
		else if (source->share_permille && config->shares == CONFIG_DISABLED)
			say_note("  %s does not bind: GPU_CORE_UTILIZATION_POLICY disables it",
				 source->name);
		else if (source->share_permille)
			elsewhere_describe_source(config, policy, source);
	}
}

static void elsewhere_describe_variable(const struct config *config, const struct policy *policy,
					char *variable)
{
	char *block[] = {variable, NULL};
	const char *why = variables_why_unheeded(variable);
	struct config one = {.present = false};
	struct source source;

	snprintf(source.name, sizeof(source.name), "%s", variable);
	text_make_printable(source.name);
	if (why)
		say_note("  %s does nothing: %s", source.name, why);
	if (why || variables_read(&one, block) < 0)
		return;
	elsewhere_describe_limit(config, policy, &one, &source);
	if (one.priority != POLICY_PRIORITY_NORMAL)
		say_note(one.priority == policy->priority
				 ? "  %s: priority %s"
				 : "  %s is not in force: the tenant has priority %s",
			 source.name, compute_priorities[policy->priority]);
	if (one.overcommit)
		say_note(policy->flags & POLICY_OVERCOMMIT
				 ? "  %s: the tenant overcommits"
				 : "  %s is not in force: the tenant does not overcommit",
			 source.name);
	if (!one.present && *one.tenant)
		say_note("  %s is not in force: programs share a quota by --name", source.name);
}

static void elsewhere_describe_file(const struct config *config, const struct policy *policy)
{
	struct source source = {.device = CONFIG_EVERY};

	source.memory.bytes = config->file_bytes;
	snprintf(source.name, sizeof(source.name), VGPU_FILE ", UsedMem:%llu",
		 (unsigned long long)(config->file_bytes >> 20));
	if (config->file_bytes)
		elsewhere_describe_source(config, policy, &source);
	source.memory.bytes = 0;
	source.share_permille = config->file_share_permille;
	snprintf(source.name, sizeof(source.name), VGPU_FILE ", UsedCores:%u",
		 config->file_share_permille / 10);
	if (config->file_share_permille)
		elsewhere_describe_source(config, policy, &source);
}

void elsewhere_describe(const struct config *config, const struct policy *policy)
{
	for (char **variable = environ; variable && *variable; variable++)
		elsewhere_describe_variable(config, policy, *variable);
	elsewhere_describe_file(config, policy);
}
