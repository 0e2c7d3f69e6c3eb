/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

static const struct {
	const char *name;
	uint64_t bytes;
} suffixes[] = {
	{ "K", UINT64_C(1) << 10 }, { "k", UINT64_C(1) << 10 },
	{ "Ki", UINT64_C(1) << 10 }, { "KiB", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 }, { "m", UINT64_C(1) << 20 },
	{ "Mi", UINT64_C(1) << 20 }, { "MiB", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 }, { "g", UINT64_C(1) << 30 },
	{ "Gi", UINT64_C(1) << 30 }, { "GiB", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 }, { "t", UINT64_C(1) << 40 },
	{ "Ti", UINT64_C(1) << 40 }, { "TiB", UINT64_C(1) << 40 },
	{ "KB", UINT64_C(1000) }, { "MB", UINT64_C(1000000) },
	{ "GB", UINT64_C(1000000000) }, { "TB", UINT64_C(1000000000000) },
};

/* isdigit() of the C locale, without asking the host program's. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *s)
{
	while (is_digit(*s))
		s++;
	return s;
}

/* [from, to) are digits; stops at `max` + 1 so that the caller can tell "too large". */
static uint64_t digits_value(const char *from, const char *to, uint64_t max)
{
	uint64_t value = 0;

	for (; from < to; from++) {
		value = value * 10 + (uint64_t)(*from - '0');
		if (value > max)
			return max + 1;
	}
	return value;
}

/*
 * floor(0.<digits> * unit), exactly, for any number of digits: dividing from the last digit up,
 * where floor((floor(x) + n) / 10) = floor((x + n) / 10) for a whole n. unit is at most 2^40.
 */
static uint64_t fraction_of(const char *from, const char *to, uint64_t unit)
{
	uint64_t value = 0;

	while (to > from)
		value = (value + (uint64_t)(*--to - '0') * unit) / 10;
	return value;
}

static int permille_value(const char *whole, const char *whole_end, const char *frac,
			  const char *frac_end, uint32_t *ret)
{
	uint64_t value = digits_value(whole, whole_end, 1000) * 10;
	const char *at;

	if (frac < frac_end) {
		value += (uint64_t)(*frac - '0');
		for (at = frac + 1; at < frac_end; at++)
			if (*at != '0')
				return value < 1000 ? -EINVAL : -ERANGE;
	}
	if (value > 1000)
		return -ERANGE;
	if (value == 0)
		return -EINVAL;
	*ret = (uint32_t)value;
	return 0;
}

int parse_size_spec(const char *s, struct size_spec *ret)
{
	const char *whole_end = skip_digits(s), *frac = whole_end, *frac_end = whole_end;
	struct size_spec spec = { 0 };
	uint64_t unit = 0, whole;

	if (whole_end == s)
		return -EINVAL;
	if (*whole_end == '.') {
		frac = whole_end + 1;
		frac_end = skip_digits(frac);
		if (frac_end == frac)
			return -EINVAL;
	}
	if (!strcmp(frac_end, "%")) {
		int r = permille_value(s, whole_end, frac, frac_end, &spec.permille);

		if (r < 0)
			return r;
		*ret = spec;
		return 0;
	}
	if (*frac_end == '\0' && frac == frac_end)
		unit = 1;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (!strcmp(frac_end, suffixes[i].name))
			unit = suffixes[i].bytes;
	if (!unit)
		return -EINVAL;
	whole = digits_value(s, whole_end, SIZE_MAX_BYTES);
	if (whole > SIZE_MAX_BYTES / unit)
		return -ERANGE;
	/* At most 2^60 + 2^40: no wrap. */
	spec.bytes = whole * unit + fraction_of(frac, frac_end, unit);
	if (spec.bytes > SIZE_MAX_BYTES)
		return -ERANGE;
	if (spec.bytes == 0)
		return -EINVAL;
	*ret = spec;
	return 0;
}

uint64_t size_spec_resolve(struct size_spec spec, uint64_t device_bytes)
{
	uint64_t bytes;

	if (spec.bytes)
		return spec.bytes;
	/* In two parts, so that the product stays within 64 bits for any device. */
	bytes = device_bytes / 1000 * spec.permille + device_bytes % 1000 * spec.permille / 1000;
	return bytes || !device_bytes ? bytes : 1;
}

int parse_size(const char *s, uint64_t device_bytes, uint64_t *ret_bytes)
{
	struct size_spec spec;
	int r;

	r = parse_size_spec(s, &spec);
	if (r < 0)
		return r;
	if (!spec.bytes && !device_bytes)
		return -ENODATA;
	*ret_bytes = size_spec_resolve(spec, device_bytes);
	return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *end = skip_digits(s);
	uint64_t value = 0;

	if (end == s || *end != '\0')
		return -EINVAL;
	for (; s < end; s++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			return -ERANGE;
	if (value < min || value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}
