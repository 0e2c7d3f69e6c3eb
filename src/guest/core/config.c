/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static bool config_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Nothing and everything both limit nothing, and are answered as 0. */
static uint32_t config_smaller_share(uint32_t a, uint32_t b)
{
	a = a ? a : 1000;
	b = b ? b : 1000;
	a = a < b ? a : b;
	return a < 1000 ? a : 0;
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

/* By default and by force a share is in force; the difference is one between other schedulers. */
static int config_set_policy(struct config *config, const char *value)
{
	static const struct {
		const char *number, *word;
		bool disabled;
	} known[] = {{"0", "default", false}, {"1", "force", false}, {"2", "disable", true}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(value, known[i].number) && !config_is_word(value, known[i].word))
			continue;
		config->disabled = known[i].disabled;
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

/*
 * The value behind a line's colon, without blanks and a remark around it; "..." is the end of one
 * that is too long to be any.
 */
static void config_copy_value(char *ret, size_t size, const char *text, size_t len)
{
	const char *remark = memchr(text, '#', len);

	if (remark)
		len = (size_t)(remark - text);
	while (len && config_is_blank(text[len - 1]))
		len--;
	while (len && config_is_blank(*text))
		text++, len--;
	memcpy(ret, text, len < size ? len : size);
	if (len < size)
		ret[len] = '\0';
	else
		strcpy(ret + size - sizeof("..."), "...");
}

/* Several lines: the smallest. */
static int config_take_memory(struct config *config, const char *value, unsigned int number)
{
	uint64_t mib;

	if (parse_u64(value, 1, SIZE_MAX_BYTES >> 20, &mib))
		return config_complain(config,
				       CONFIG_FILE ":%u: UsedMem \"%s\" is not a number "
						   "of MiB; write for example UsedMem:8192",
				       number, value);
	if (!config->file_bytes || mib << 20 < config->file_bytes)
		config->file_bytes = mib << 20;
	return 0;
}

static int config_take_cores(struct config *config, const char *value, unsigned int number)
{
	uint64_t percent;

	if (parse_u64(value, 0, 100, &percent))
		return config_complain(config,
				       CONFIG_FILE ":%u: UsedCores \"%s\" is not a percentage "
						   "from 0 to 100; write for example UsedCores:25",
				       number, value);
	config->file_share_permille =
		config_smaller_share(config->file_share_permille, (uint32_t)percent * 10);
	return 0;
}

/* However it is written: who means a limit is not to have none. */
static bool config_is_key(const char *name, size_t len, const char *wanted)
{
	while (len && config_is_blank(name[len - 1]))
		len--;
	return len == strlen(wanted) && !strncasecmp(name, wanted, len);
}

static int config_read_line(struct config *config, const char *line, size_t len,
			    unsigned int number)
{
	char value[64];
	const char *colon;

	while (len && config_is_blank(*line))
		line++, len--;
	if (!len || *line == '#')
		return 0;
	colon = memchr(line, ':', len);
	if (!colon)
		return config_complain(config, CONFIG_FILE ":%u: not a line of the form Name:value",
				       number);
	config_copy_value(value, sizeof(value), colon + 1, len - (size_t)(colon + 1 - line));
	len = (size_t)(colon - line);
	if (config_is_key(line, len, "UsedMem"))
		return config_take_memory(config, value, number);
	if (config_is_key(line, len, "UsedCores"))
		return config_take_cores(config, value, number);
	return 0;
}

int config_file(struct config *config, const char *text, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, as some editors put it */
	unsigned int number = 1;

	if (memchr(text, '\0', len))
		return config_complain(config, CONFIG_FILE ": not a text file");
	if (len >= CONFIG_FILE_BYTES - 1)
		return config_complain(config, CONFIG_FILE ": has %d bytes or more, of which nobody "
						   "reads the rest",
				       CONFIG_FILE_BYTES - 1);
	if (len >= strlen(mark) && !memcmp(text, mark, strlen(mark))) {
		text += strlen(mark);
		len -= strlen(mark);
	}
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
	/* Its processes have one quota together, whatever a variable says. */
	if (config_is_by_file(config)) {
		config->present = true;
		config->tenant[0] = '\0';
	}
	if (config->present && !config->tenant[0])
		strcpy(config->tenant, TENANT_DEFAULT);
	return 0;
}

static struct size_spec config_environment_limit(const struct config *config, unsigned int ordinal)
{
	if (ordinal < POLICY_DEVICES && config_is_given(config->device[ordinal]))
		return config->device[ordinal];
	if (config_is_given(config->all))
		return config->all;
	return (struct size_spec){.permille = 1000};
}

struct size_spec config_limit(const struct config *config, unsigned int ordinal,
			      uint64_t total_bytes)
{
	struct size_spec limit = config_environment_limit(config, ordinal);
	struct size_spec file = {.bytes = config->file_bytes};

	if (!file.bytes)
		return limit;
	if (limit.permille && !total_bytes)
		return file;
	return size_spec_resolve(limit, total_bytes) < file.bytes ? limit : file;
}

void config_lower(const struct config *config, struct policy *policy)
{
	if (!config->file_share_permille)
		return;
	policy->compute = POLICY_COMPUTE_CAP;
	for (uint32_t i = 0; i < policy->ndevices; i++)
		policy->device[i].share_permille = config_smaller_share(
			policy->device[i].share_permille, config->file_share_permille);
}

uint32_t config_share_permille(const struct config *config, unsigned int ordinal)
{
	uint32_t share = config->share_permille;

	if (ordinal < POLICY_DEVICES && config->device_share_permille[ordinal])
		share = config->device_share_permille[ordinal];
	return config_smaller_share(config->disabled ? 0 : share, config->file_share_permille);
}

enum policy_compute config_compute(const struct config *config)
{
	bool limited = false;

	for (unsigned int i = 0; i <= POLICY_DEVICES; i++)
		limited |= config_share_permille(config, i) > 0;
	return limited ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_OFF;
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
