/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/variables.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"

/* How much of a variable's name a complaint shows, so that there is room for the reason. */
#define NAME_SHOWN 48

/* A variable as it was given: "CUDA_DEVICE_MEMORY_LIMIT" is for all devices, "..._<i>" for one. */
struct given {
	const char *name;
	size_t len;
	const char *value;
	unsigned int device; /* CONFIG_EVERY: for all */
};

static int variables_shown(const struct given *given)
{
	return given->len < NAME_SHOWN ? (int)given->len : NAME_SHOWN;
}

/* --- Values ----------------------------------------------------------------------------------- */

static int variables_take_memory(struct config *config, const struct given *given)
{
	struct size_spec *bound =
		given->device == CONFIG_EVERY ? &config->all : &config->device[given->device];
	struct size_spec spec;
	int r = parse_quota(given->value, &spec);

	if (r)
		return config_complain(config, "%.*s: \"%.40s\" %s; write for example 8g or 4096m",
				       variables_shown(given), given->name, given->value,
				       *given->value ? parse_quota_why(given->value, r)
						     : "is not a size");
	/* Of two sizes the smaller stays, as of two parts; of a size and a part the device decides. */
	if (spec.bytes)
		bound->bytes = bound->bytes ? min_u64(bound->bytes, spec.bytes) : spec.bytes;
	else if (!bound->permille || spec.permille < bound->permille)
		bound->permille = spec.permille;
	config->present = true;
	return 0;
}

/* Both 0 and 100 are how one writes "not limited" there, and limit nothing. */
static int variables_take_compute(struct config *config, const struct given *given)
{
	uint32_t *share = given->device == CONFIG_EVERY
				  ? &config->share_permille
				  : &config->device_share_permille[given->device];
	uint64_t percent;

	if (parse_u64(given->value, 0, 100, &percent))
		return config_complain(config,
				       "%.*s: \"%.40s\" is not a whole percentage from 0 to 100; "
				       "write for example 25",
				       variables_shown(given), given->name, given->value);
	if (!percent)
		percent = 100;
	*share = *share ? (uint32_t)min_u64(*share, percent * 10) : (uint32_t)percent * 10;
	config->present |= percent < 100;
	return 0;
}

/* The place of a value in a list of n words, in any case; -1: it is none. */
static int variables_find(const char *value, const char *const *words, int n)
{
	for (int i = 0; i < n; i++) {
		const char *v = value, *w = words[i];

		/* Words are of small letters; the host program's locale has no say in capitals. */
		while (*w && (*v == *w || (*v >= 'A' && *v <= 'Z' && (*v | 0x20) == *w)))
			v++, w++;
		if (!*w && !*v)
			return i;
	}
	return -1;
}

/* By default and by force a share is in force; the difference is one between other schedulers. */
static int variables_take_policy(struct config *config, const struct given *given)
{
	static const char *const words[] = {"disable", "2", "default", "0", "force", "1"};
	int i = variables_find(given->value, words, 6);
	enum config_switch said = i < 2 ? CONFIG_DISABLED : CONFIG_IN_FORCE;

	if (i < 0)
		return config_complain(
			config, "%s: \"%.40s\" is not a policy; write default, force or disable",
			"GPU_CORE_UTILIZATION_POLICY", given->value);
	if (said > config->shares)
		config->shares = said;
	return 0;
}

/* Files are named by path elsewhere; a tenant is named by a word. Equal paths, equal words. */
static int variables_take_cache(struct config *config, const struct given *given)
{
	uint64_t hash = hash_string(HASH_SEED, given->value);
	const char *base = strrchr(given->value, '/');
	char *name = config->tenant;
	size_t n;

	if (!*given->value)
		return config_complain(config, "%.*s is empty; give it a path or unset it",
				       variables_shown(given), given->name);
	n = (size_t)snprintf(name, POLICY_NAME_BYTES, "%016llx-", (unsigned long long)hash);
	for (const char *p = base ? base + 1 : given->value; *p && n < POLICY_NAME_BYTES - 1;
	     p++, n++) {
		bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			     (*p >= '0' && *p <= '9') || *p == '.';

		name[n] = plain ? *p : '_';
	}
	name[n] = '\0';
	return 0;
}

/* There 0 goes first and 1 is what everybody has who says nothing; larger numbers come later. */
static int variables_take_priority(struct config *config, const struct given *given)
{
	uint64_t level;

	if (parse_u64(given->value, 0, INT32_MAX, &level))
		return config_complain(config,
				       "%.*s: \"%.40s\" is not a priority; write 0 for high, 1 for "
				       "normal or 2 for low",
				       variables_shown(given), given->name, given->value);
	config->priority = level == 0	? POLICY_PRIORITY_HIGH
			   : level == 1 ? POLICY_PRIORITY_NORMAL
					: POLICY_PRIORITY_LOW;
	config->present |= level != 1;
	return 0;
}

static int variables_take_oversubscribe(struct config *config, const struct given *given)
{
	static const char *const words[] = {"false", "0", "true", "1"};
	int i = variables_find(given->value, words, 4);

	if (i < 0)
		return config_complain(config, "%.*s: \"%.40s\" is no answer; write true or false",
				       variables_shown(given), given->name, given->value);
	config->overcommit = i >= 2;
	config->present |= config->overcommit;
	return 0;
}

/* --- Names ------------------------------------------------------------------------------------ */

static const struct variable {
	const char *name;
	bool by_device; /* also as <name>_<i> */
	int (*take)(struct config *config, const struct given *given);
} variables[] = {
	{"CUDA_DEVICE_MEMORY_LIMIT", true, variables_take_memory},
	{"CUDA_DEVICE_SM_LIMIT", true, variables_take_compute},
	{"CUDA_DEVICE_MEMORY_SHARED_CACHE", false, variables_take_cache},
	{"GPU_CORE_UTILIZATION_POLICY", false, variables_take_policy},
	{"CUDA_TASK_PRIORITY", false, variables_take_priority},
	{"CUDA_OVERSUBSCRIBE", false, variables_take_oversubscribe},
};
#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

/*
 * Returns the character after the name: '=', or '_' before a device's number; '\0' for another
 * variable.
 */
static char variables_behind(const char *variable, const char *name)
{
	size_t len = strlen(name);
	char next = strncmp(variable, name, len) ? '\0' : variable[len];

	return next == '=' || next == '_' ? next : '\0';
}

/* Which of them a variable is; NULL: none. */
static const struct variable *variables_known(const char *variable)
{
	for (const struct variable *v = variables; v < variables + VARIABLES; v++) {
		char next = variables_behind(variable, v->name);

		if (next == '=' || (next == '_' && v->by_device))
			return v;
	}
	return NULL;
}

static int variables_parse_device(struct config *config, struct given *given, const char *number)
{
	char index[24];
	size_t n = min_u64((size_t)(given->name + given->len - number), sizeof(index) - 1);
	uint64_t i;

	memcpy(index, number, n);
	index[n] = '\0';
	if (parse_u64(index, 0, POLICY_DEVICES - 1, &i))
		return config_complain(config, "%.*s: \"%s\" is not a device number from 0 to %d",
				       variables_shown(given), given->name, index,
				       POLICY_DEVICES - 1);
	given->device = (unsigned int)i;
	return 0;
}

static int variables_take(struct config *config, const char *text)
{
	const char *equals = strchr(text, '=');
	const struct variable *v = variables_known(text);
	struct given given = {.name = text, .device = CONFIG_EVERY};
	const char *behind;
	int r = 0;

	if (!equals || !v)
		return 0;
	given.len = (size_t)(equals - text);
	given.value = equals + 1;
	behind = text + strlen(v->name);
	if (*behind == '_')
		r = variables_parse_device(config, &given, behind + 1);
	return r ? r : v->take(config, &given);
}

int variables_read(struct config *config, char *const *environment)
{
	int r = 0;

	for (char *const *e = environment; !r && e && *e; e++)
		r = variables_take(config, *e);
	if (!r)
		config_finish(config);
	return r;
}

bool variables_matter(const char *variable)
{
	for (const struct variable *v = variables; v < variables + VARIABLES; v++)
		if (variables_behind(variable, v->name))
			return true;
	return false;
}

/* --- What does nothing here ------------------------------------------------------------------- */

#define LIMITS                                                                                     \
	"it limits nothing here: write CUDA_DEVICE_MEMORY_LIMIT and CUDA_DEVICE_SM_LIMIT, or "     \
	"--memory and --compute of allot run"

static const struct {
	const char *name;
	const char *why;
} unheeded[] = {
	{"ACTIVE_OOM_KILLER", "allot ends no process: what exceeds a quota is refused"},
	{"CUDA_CORE_LIMIT", LIMITS},
	{"CUDA_CORE_SOFT_LIMIT", LIMITS},
	{"CUDA_DISABLE_CONTROL",
	 "limits hold all the same: who wants none starts without liballot.so"},
	{"CUDA_MEM_LIMIT", LIMITS},
	{"CUDA_MEM_OVERSOLD", "write CUDA_OVERSUBSCRIBE=true, or --overcommit of allot run"},
	{"CUDA_MEM_RATIO", "write CUDA_OVERSUBSCRIBE=true, or --overcommit of allot run"},
	{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "only MPS reads it, for its clients: write "
					     "CUDA_DEVICE_MEMORY_LIMIT, or --memory of allot run"},
	{"CUDA_REDIRECT", "allot finds the driver as the program does"},
	{"LIBCUDA_LOG_LEVEL",
	 "liballot.so keeps no log: allot run -v and allot doctor say what holds"},
	{"RECORD_KERNEL_INTERVAL",
	 "the device's time is measured where it is limited, at no interval"},
};

/* Of these families nobody else has variables: another name is one that was misspelt. */
static const char *const families[] = {"CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_",
				       "GPU_CORE_UTILIZATION_", "CUDA_TASK_PRIO",
				       "CUDA_OVERSUBSCRI"};

const char *variables_why_unheeded(const char *variable)
{
	if (!strchr(variable, '=') || variables_known(variable))
		return NULL;
	for (size_t i = 0; i < sizeof(unheeded) / sizeof(unheeded[0]); i++)
		if (variables_behind(variable, unheeded[i].name))
			return unheeded[i].why;
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!strncmp(variable, families[i], strlen(families[i])))
			return "allot knows no such variable, so it limits nothing: see "
			       "liballot(7) for those that do";
	return NULL;
}
