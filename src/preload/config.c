/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_LIMIT "CUDA_DEVICE_MEMORY_LIMIT"
#define SHARED_CACHE "CUDA_DEVICE_MEMORY_SHARED_CACHE"
#define TENANT_DEFAULT "drop-in"

__attribute__((format(printf, 2, 3))) static int complain(struct config *config, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(config->complaint, sizeof(config->complaint), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool given(struct size_spec spec)
{
	return spec.bytes || spec.permille;
}

/* Files are named by path elsewhere; a tenant is named by a word. Equal paths, equal words. */
static void name_tenant(char name[POLICY_NAME_BYTES], const char *path)
{
	uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
	const char *base = strrchr(path, '/');
	size_t n = 0;

	for (const char *p = path; *p; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	n = (size_t)snprintf(name, POLICY_NAME_BYTES, "%016llx-", (unsigned long long)hash);
	for (const char *p = base ? base + 1 : path; *p && n < POLICY_NAME_BYTES - 1; p++, n++) {
		bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			     (*p >= '0' && *p <= '9') || *p == '.';

		name[n] = plain ? *p : '_';
	}
	name[n] = '\0';
}

/* "CUDA_DEVICE_MEMORY_LIMIT" is for all, "..._<i>" for one. */
static int memory_limit(struct config *config, const char *name, size_t len, const char *value)
{
	struct size_spec *target = &config->all;
	int shown = len < 48 ? (int)len : 48; /* of the name, so that there is room for the reason */
	struct size_spec spec;

	if (len > strlen(MEMORY_LIMIT)) {
		char index[24];
		uint64_t i;
		size_t n = len - strlen(MEMORY_LIMIT) - 1;

		if (name[strlen(MEMORY_LIMIT)] != '_')
			return 0;
		if (n >= sizeof(index))
			n = sizeof(index) - 1;
		memcpy(index, name + strlen(MEMORY_LIMIT) + 1, n);
		index[n] = '\0';
		if (parse_u64(index, 0, POLICY_DEVICES - 1, &i))
			return complain(config, "%.*s: \"%s\" is not a device number from 0 to %d",
					shown, name, index, POLICY_DEVICES - 1);
		target = &config->device[i];
	}
	if (parse_size_spec(value, &spec))
		return complain(config, "%.*s: \"%.40s\" is not a memory size; write for example 8g or 4096m",
				shown, name, value);
	*target = spec;
	config->present = true;
	return 0;
}

int config_environment(struct config *config, char *const *environment)
{
	for (char *const *e = environment; e && *e; e++) {
		const char *equals = strchr(*e, '=');
		size_t len = equals ? (size_t)(equals - *e) : 0;
		int r;

		if (len >= strlen(MEMORY_LIMIT) && !strncmp(*e, MEMORY_LIMIT, strlen(MEMORY_LIMIT))) {
			r = memory_limit(config, *e, len, equals + 1);
			if (r)
				return r;
		} else if (len == strlen(SHARED_CACHE) && !strncmp(*e, SHARED_CACHE, len)) {
			if (!equals[1])
				return complain(config, SHARED_CACHE " is empty; give it a path or unset it");
			name_tenant(config->tenant, equals + 1);
		}
	}
	if (config->present && !config->tenant[0])
		strcpy(config->tenant, TENANT_DEFAULT);
	return 0;
}

static int file_line(struct config *config, const char *line, size_t len, unsigned int number)
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
		return complain(config, CONFIG_FILE ":%u: not a line of the form Name:value", number);
	n = len - (size_t)(colon + 1 - line);
	if (n >= sizeof(value))
		n = sizeof(value) - 1;
	memcpy(value, colon + 1, n);
	value[n] = '\0';
	char *start = value + strspn(value, " \t");

	len = (size_t)(colon - line);
	if (len == 7 && !strncmp(line, "UsedMem", len)) {
		if (parse_u64(start, 1, SIZE_MAX_BYTES >> 20, &v))
			return complain(config, CONFIG_FILE ":%u: UsedMem \"%s\" is not a number of MiB; write for example UsedMem:8192",
					number, start);
		if (!given(config->all))
			config->all = (struct size_spec){.bytes = v << 20};
		config->present = true;
	} else if (len == 9 && !strncmp(line, "UsedCores", len)) {
		if (parse_u64(start, 1, 100, &v))
			return complain(config, CONFIG_FILE ":%u: UsedCores \"%s\" is not a percentage; write for example UsedCores:25",
					number, start);
		config->cores_permille = (uint32_t)v * 10;
		config->present = true;
	}
	return 0;
}

int config_file(struct config *config, const char *text, size_t len)
{
	unsigned int number = 1;

	if (memchr(text, '\0', len))
		return complain(config, CONFIG_FILE ": not a text file");
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;
		int r = file_line(config, text, n, number++);

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
	if (ordinal < POLICY_DEVICES && given(config->device[ordinal]))
		return config->device[ordinal];
	if (given(config->all))
		return config->all;
	return (struct size_spec){.permille = 1000};
}

/* Does "GPU-5c84" begin the name of this device? Hexadecimal digits, dashes anywhere. */
static bool uuid_begins(const char *word, size_t len, const uint8_t uuid[16])
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
		if (uuid_begins(p, len, uuid))
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
