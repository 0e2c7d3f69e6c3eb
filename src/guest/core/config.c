/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MEMORY_LIMIT "CUDA_DEVICE_MEMORY_LIMIT"
#define COMPUTE_LIMIT "CUDA_DEVICE_SM_LIMIT"
#define COMPUTE_POLICY "GPU_CORE_UTILIZATION_POLICY"
#define SHARED_CACHE "CUDA_DEVICE_MEMORY_SHARED_CACHE"
#define TENANT_DEFAULT "drop-in"

__attribute__((format(printf, 2, 3))) static int config_complain(struct config *config,
								 const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(config->complaint, sizeof(config->complaint), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool config_is_given(struct size_spec spec)
{
	return spec.bytes || spec.permille;
}

/* Files are named by path elsewhere; a tenant is named by a word. Equal paths, equal words. */
static void config_name_tenant(char name[POLICY_NAME_BYTES], const char *path)
{
	uint64_t hash = hash_string(HASH_SEED, path);
	const char *base = strrchr(path, '/');
	size_t n = 0;

	n = (size_t)snprintf(name, POLICY_NAME_BYTES, "%016llx-", (unsigned long long)hash);
	for (const char *p = base ? base + 1 : path; *p && n < POLICY_NAME_BYTES - 1; p++, n++) {
		bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			     (*p >= '0' && *p <= '9') || *p == '.';

		name[n] = plain ? *p : '_';
	}
	name[n] = '\0';
}

/* How much of a variable's name a complaint shows, so that there is room for the reason. */
#define NAME_SHOWN 48
static int config_shown(size_t len)
{
	return len < NAME_SHOWN ? (int)len : NAME_SHOWN;
}

/* "CUDA_DEVICE_MEMORY_LIMIT" is for all devices, "..._<i>" for one. */
struct variable {
	const char *name;
	size_t len;
	bool ours, all;
	unsigned int device;
};

static int config_match_variable(struct config *config, const char *name, size_t len,
				 const char *stem, struct variable *ret)
{
	struct variable var = {.name = name, .len = len};
	size_t stem_len = strlen(stem), n;
	char index[24];
	uint64_t i;

	*ret = var;
	if (len < stem_len || strncmp(name, stem, stem_len))
		return 0;
	if (len == stem_len) {
		ret->ours = ret->all = true;
		return 0;
	}
	if (name[stem_len] != '_')
		return 0;
	n = len - stem_len - 1;
	if (n >= sizeof(index))
		n = sizeof(index) - 1;
	memcpy(index, name + stem_len + 1, n);
	index[n] = '\0';
	if (parse_u64(index, 0, POLICY_DEVICES - 1, &i))
		return config_complain(config, "%.*s: \"%s\" is not a device number from 0 to %d",
				       config_shown(len), name, index, POLICY_DEVICES - 1);
	ret->ours = true;
	ret->device = (unsigned int)i;
	return 0;
}

static int config_set_memory(struct config *config, const struct variable *var, const char *value)
{
	struct size_spec spec;

	if (parse_size_spec(value, &spec))
		return config_complain(config,
				       "%.*s: \"%.40s\" is not a memory size; "
				       "write for example 8g or 4096m",
				       config_shown(var->len), var->name, value);
	*(var->all ? &config->all : &config->device[var->device]) = spec;
	config->present = true;
	return 0;
}

/* Both 0 and 100 are how one writes "not limited" there, and limit nothing. */
static int config_set_compute(struct config *config, const struct variable *var, const char *value)
{
	uint64_t percent;

	if (parse_u64(value, 0, 100, &percent))
		return config_complain(config,
				       "%.*s: \"%.40s\" is not a whole percentage from 0 to 100; "
				       "write for example 25",
				       config_shown(var->len), var->name, value);
	if (!percent)
		percent = 100;
	*(var->all ? &config->share_permille : &config->device_share_permille[var->device]) =
		(uint32_t)percent * 10;
	config->present |= percent < 100;
	return 0;
}

/* `word` is of small letters; the host program's locale has no say in what its capitals are. */
static bool config_is_word(const char *value, const char *word)
{
	while (*word && (*value | 0x20) == *word)
		value++, word++;
	return !*word && !*value;
}

static int config_set_policy(struct config *config, const char *value)
{
	static const struct {
		const char *number, *word;
		enum policy_compute compute;
	} known[] = {
		{"0", "default", POLICY_COMPUTE_SHARE},
		{"1", "force", POLICY_COMPUTE_CAP},
		{"2", "disable", POLICY_COMPUTE_OFF},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(value, known[i].number) && !config_is_word(value, known[i].word))
			continue;
		config->compute = known[i].compute;
		config->compute_given = true;
		return 0;
	}
	return config_complain(config,
			       COMPUTE_POLICY ": \"%.40s\" is not a policy; "
					      "write default, force or disable",
			       value);
}

static int config_set_tenant(struct config *config, const char *value)
{
	if (!*value)
		return config_complain(config,
				       SHARED_CACHE " is empty; give it a path or unset it");
	config_name_tenant(config->tenant, value);
	return 0;
}

static bool config_is_name(const char *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && !strncmp(name, wanted, len);
}

static int config_assign(struct config *config, const char *name, size_t len, const char *value)
{
	struct variable var;
	int r;

	if (config_is_name(name, len, SHARED_CACHE))
		return config_set_tenant(config, value);
	if (config_is_name(name, len, COMPUTE_POLICY))
		return config_set_policy(config, value);
	r = config_match_variable(config, name, len, MEMORY_LIMIT, &var);
	if (r || var.ours)
		return r ? r : config_set_memory(config, &var, value);
	r = config_match_variable(config, name, len, COMPUTE_LIMIT, &var);
	if (r || var.ours)
		return r ? r : config_set_compute(config, &var, value);
	return 0;
}

int config_environment(struct config *config, char *const *environment)
{
	for (char *const *e = environment; e && *e; e++) {
		const char *equals = strchr(*e, '=');
		int r = equals ? config_assign(config, *e, (size_t)(equals - *e), equals + 1) : 0;

		if (r)
			return r;
	}
	if (config->present && !config->tenant[0])
		strcpy(config->tenant, TENANT_DEFAULT);
	return 0;
}

static int config_read_line(struct config *config, const char *line, size_t len,
			    unsigned int number)
{
	char value[64];
	const char *colon;
	uint64_t v;
	size_t n;

	while (len && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r'))
		len--;
	while (len && (*line == ' ' || *line == '\t'))
		line++, len--;
	if (!len || *line == '#')
		return 0;
	colon = memchr(line, ':', len);
	if (!colon)
		return config_complain(config, CONFIG_FILE ":%u: not a line of the form Name:value",
				       number);
	n = len - (size_t)(colon + 1 - line);
	if (n >= sizeof(value))
		n = sizeof(value) - 1;
	memcpy(value, colon + 1, n);
	value[n] = '\0';
	char *start = value + strspn(value, " \t");

	len = (size_t)(colon - line);
	if (len == 7 && !strncmp(line, "UsedMem", len)) {
		if (parse_u64(start, 1, SIZE_MAX_BYTES >> 20, &v))
			return config_complain(config,
					       CONFIG_FILE ":%u: UsedMem \"%s\" is not a number "
							   "of MiB; write for example UsedMem:8192",
					       number, start);
		if (!config_is_given(config->all))
			config->all = (struct size_spec){.bytes = v << 20};
		config->present = true;
	} else if (len == 9 && !strncmp(line, "UsedCores", len)) {
		if (parse_u64(start, 1, 100, &v))
			return config_complain(config,
					       CONFIG_FILE
					       ":%u: UsedCores \"%s\" is not a "
					       "percentage; write for example UsedCores:25",
					       number, start);
		if (!config->share_permille)
			config->share_permille = (uint32_t)v * 10;
		config->present = true;
	}
	return 0;
}

int config_file(struct config *config, const char *text, size_t len)
{
	unsigned int number = 1;

	if (memchr(text, '\0', len))
		return config_complain(config, CONFIG_FILE ": not a text file");
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;
		int r = config_read_line(config, text, n, number++);

		if (r)
			return r;
		n += end != NULL;
		text += n;
		len -= n;
	}
	if (config->present && !config->tenant[0])
		strcpy(config->tenant, TENANT_DEFAULT);
	return 0;
}

struct size_spec config_limit(const struct config *config, unsigned int ordinal)
{
	if (ordinal < POLICY_DEVICES && config_is_given(config->device[ordinal]))
		return config->device[ordinal];
	if (config_is_given(config->all))
		return config->all;
	return (struct size_spec){.permille = 1000};
}

uint32_t config_share_permille(const struct config *config, unsigned int ordinal)
{
	uint32_t share = config->share_permille;

	if (ordinal < POLICY_DEVICES && config->device_share_permille[ordinal])
		share = config->device_share_permille[ordinal];
	return share < 1000 ? share : 0;
}

enum policy_compute config_compute(const struct config *config)
{
	bool limited = false;

	for (unsigned int i = 0; i <= POLICY_DEVICES; i++)
		limited |= config_share_permille(config, i) > 0;
	if (!limited)
		return POLICY_COMPUTE_OFF;
	return config->compute_given ? config->compute : POLICY_COMPUTE_SHARE;
}

/* Does "GPU-5c84" begin the name of this device? Hexadecimal digits, dashes anywhere. */
static bool config_uuid_begins(const char *word, size_t len, const uint8_t uuid[16])
{
	unsigned int digit = 0;

	if (len <= 4 || strncmp(word, "GPU-", 4))
		return false;
	for (size_t i = 4; i < len; i++) {
		unsigned int nibble, c = (unsigned char)word[i];

		if (c == '-')
			continue;
		if (digit == 32)
			return false;
		nibble = digit % 2 ? uuid[digit / 2] & 15 : uuid[digit / 2] >> 4;
		digit++;
		if (c != (unsigned char)"0123456789abcdef"[nibble] &&
		    c != (unsigned char)"0123456789ABCDEF"[nibble])
			return false;
	}
	return digit > 0;
}

int config_ordinal(const char *visible_devices, unsigned int index, const uint8_t uuid[16])
{
	int ordinal = 0;

	if (!visible_devices)
		return (int)index;
	for (const char *p = visible_devices;; p++) {
		size_t len = strcspn(p, ",");
		char number[24];
		uint64_t i;

		/* CUDA stops at the first entry that it cannot read. */
		if (!len || len >= sizeof(number) + 20)
			return -1;
		if (config_uuid_begins(p, len, uuid))
			return ordinal;
		if (strncmp(p, "GPU-", 4) && strncmp(p, "MIG-", 4)) {
			if (len >= sizeof(number))
				return -1;
			memcpy(number, p, len);
			number[len] = '\0';
			if (parse_u64(number, 0, POLICY_DEVICES - 1, &i))
				return -1;
			if (i == index)
				return ordinal;
		}
		ordinal++;
		p += len;
		if (!*p)
			return -1;
	}
}
