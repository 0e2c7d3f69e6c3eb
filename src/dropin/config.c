/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

#define TENANT_DEFAULT "drop-in"

int config_complain(struct config *config, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(config->complaint, sizeof(config->complaint), fmt, ap);
	va_end(ap);
	/* One line, whatever stands in a value. */
	for (char *p = config->complaint; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	return -EINVAL;
}

void config_finish(struct config *config)
{
	/* Processes under the file have one quota together, whatever a variable says. */
	if (config_is_by_file(config)) {
		config->present = true;
		config->tenant[0] = '\0';
	}
	if (config->present && !config->tenant[0])
		strcpy(config->tenant, TENANT_DEFAULT);
}

uint32_t config_smaller_share(uint32_t a, uint32_t b)
{
	a = a ? a : 1000;
	b = b ? b : 1000;
	a = a < b ? a : b;
	return a < 1000 ? a : 0;
}

static struct size_spec config_environment_limit(const struct config *config, unsigned int ordinal)
{
	if (ordinal < POLICY_DEVICES && size_spec_is_said(config->device[ordinal]))
		return config->device[ordinal];
	return config->all;
}

/* Of a bound that may have both, the one that binds. */
static struct size_spec config_binding(struct size_spec spec, uint64_t total_bytes)
{
	struct size_spec part = {.permille = spec.permille ? spec.permille : 1000};
	struct size_spec size = {.bytes = spec.bytes};

	if (!spec.bytes)
		return part;
	if (!spec.permille || !total_bytes)
		return size;
	return size_spec_resolve(part, total_bytes) < spec.bytes ? part : size;
}

/* With the file's beside it. */
static struct size_spec config_with_file(const struct config *config, struct size_spec spec,
					 uint64_t total_bytes)
{
	if (config->file_bytes)
		spec.bytes =
			spec.bytes ? min_u64(spec.bytes, config->file_bytes) : config->file_bytes;
	return config_binding(spec, total_bytes);
}

struct size_spec config_limit(const struct config *config, unsigned int ordinal,
			      uint64_t total_bytes)
{
	return config_with_file(config, config_environment_limit(config, ordinal), total_bytes);
}

uint64_t config_limit_bytes(const struct config *config, unsigned int ordinal, uint64_t total_bytes)
{
	uint64_t bytes = size_spec_resolve(config_limit(config, ordinal, total_bytes), total_bytes);

	return total_bytes ? min_u64(bytes, total_bytes) : bytes;
}

struct size_spec config_everywhere(const struct config *config)
{
	struct size_spec all = config->all;

	for (unsigned int i = 0; i < POLICY_DEVICES; i++)
		if (size_spec_is_said(config->device[i]))
			all = (struct size_spec){0};
	return config_with_file(config, all, 0);
}

uint32_t config_share_permille(const struct config *config, unsigned int ordinal)
{
	uint32_t share = config->share_permille;

	if (ordinal < POLICY_DEVICES && config->device_share_permille[ordinal])
		share = config->device_share_permille[ordinal];
	if (config->shares == CONFIG_DISABLED)
		share = 0;
	return config_smaller_share(share, config->file_share_permille);
}

uint32_t config_share_everywhere(const struct config *config)
{
	for (unsigned int i = 0; i < POLICY_DEVICES; i++)
		if (config->device_share_permille[i])
			return config->file_share_permille;
	return config_share_permille(config, CONFIG_EVERY);
}

enum policy_compute config_compute(const struct config *config)
{
	bool limited = false;

	for (unsigned int i = 0; i <= CONFIG_EVERY; i++)
		limited |= config_share_permille(config, i) > 0;
	return limited ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_OFF;
}

void config_apply(const struct config *config, struct policy *policy)
{
	if (config->overcommit)
		policy->flags |= POLICY_SWAPPABLE | POLICY_OVERCOMMIT;
	if (config->priority == POLICY_PRIORITY_NORMAL)
		return;
	policy->priority = config->priority;
	/* A priority implies that the tenant takes turns. */
	if (policy->compute == POLICY_COMPUTE_OFF)
		policy->compute = POLICY_COMPUTE_SHARE;
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
