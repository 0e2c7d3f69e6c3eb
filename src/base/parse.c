/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

static const struct {
	const char *name;
	uint64_t bytes;
} suffixes[] = {
	/* In any case. */
	{ "k", UINT64_C(1) << 10 }, { "ki", UINT64_C(1) << 10 }, { "kib", UINT64_C(1) << 10 },
	{ "m", UINT64_C(1) << 20 }, { "mi", UINT64_C(1) << 20 }, { "mib", UINT64_C(1) << 20 },
	{ "g", UINT64_C(1) << 30 }, { "gi", UINT64_C(1) << 30 }, { "gib", UINT64_C(1) << 30 },
	{ "t", UINT64_C(1) << 40 }, { "ti", UINT64_C(1) << 40 }, { "tib", UINT64_C(1) << 40 },
	{ "kb", UINT64_C(1000) }, { "mb", UINT64_C(1000000) },
	{ "gb", UINT64_C(1000000000) }, { "tb", UINT64_C(1000000000000) },
};

/* `word` is in small letters; the host program's locale does not decide about capitals. */
static bool parse_is_suffix(const char *s, const char *word)
{
	for (; *word; s++, word++)
		if (*s != *word && !(*s >= 'A' && *s <= 'Z' && (*s | 0x20) == *word))
			return false;
	return !*s;
}

/* isdigit() of the C locale, without asking the host program's. */
static bool parse_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *parse_skip_digits(const char *s)
{
	while (parse_is_digit(*s))
		s++;
	return s;
}

/* [from, to) are digits; stops at `max` + 1 so that the caller can tell "too large". */
static uint64_t parse_digits(const char *from, const char *to, uint64_t max)
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
static uint64_t parse_fraction(const char *from, const char *to, uint64_t unit)
{
	uint64_t value = 0;

	while (to > from)
		value = (value + (uint64_t)(*--to - '0') * unit) / 10;
	return value;
}

/* digits [ "." digits ], and the rest; ".5" if no whole is needed. */
struct number {
	const char *whole, *whole_end, *frac, *frac_end;
};

static int parse_split_number(const char *s, bool needs_whole, struct number *ret)
{
	struct number n = { s, parse_skip_digits(s) };

	n.frac = n.frac_end = n.whole_end;
	if (n.whole_end == s && (needs_whole || *s != '.'))
		return -EINVAL;
	if (*n.whole_end == '.') {
		n.frac = n.whole_end + 1;
		n.frac_end = parse_skip_digits(n.frac);
		if (n.frac_end == n.frac)
			return -EINVAL;
	}
	*ret = n;
	return 0;
}

/* floor(number * unit), or more than `max` / unit * unit when it is too large to tell. */
static uint64_t parse_times(const struct number *n, uint64_t unit, uint64_t max)
{
	uint64_t whole = parse_digits(n->whole, n->whole_end, max / unit);

	return whole * unit + parse_fraction(n->frac, n->frac_end, unit);
}

static int parse_permille_value(const struct number *n, uint32_t *ret)
{
	uint64_t value = parse_digits(n->whole, n->whole_end, 1000) * 10;
	const char *at;

	if (n->frac < n->frac_end) {
		value += (uint64_t)(*n->frac - '0');
		for (at = n->frac + 1; at < n->frac_end; at++)
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
	struct size_spec spec = { 0 };
	uint64_t unit = 0;
	struct number n;
	int r = parse_split_number(s, false, &n);

	if (r < 0)
		return r;
	if (!strcmp(n.frac_end, "%")) {
		r = parse_permille_value(&n, &spec.permille);
		if (r < 0)
			return r;
		*ret = spec;
		return 0;
	}
	if (*n.frac_end == '\0' && n.frac == n.frac_end)
		unit = 1;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (parse_is_suffix(n.frac_end, suffixes[i].name))
			unit = suffixes[i].bytes;
	if (!unit)
		return -EINVAL;
	/* At most 2^60 + 2^41: no wrap. */
	spec.bytes = parse_times(&n, unit, SIZE_MAX_BYTES);
	if (spec.bytes > SIZE_MAX_BYTES)
		return -ERANGE;
	if (spec.bytes == 0)
		return -EINVAL;
	*ret = spec;
	return 0;
}

int parse_quota(const char *s, struct size_spec *ret)
{
	struct size_spec spec;
	int r = parse_size_spec(s, &spec);

	if (!r && !spec.permille && spec.bytes < QUOTA_LEAST_BYTES)
		return -EDOM;
	if (!r)
		*ret = spec;
	return r;
}

const char *parse_quota_why(const char *s, int error)
{
	size_t zeros = strspn(s, "0.");

	if (error == -ERANGE)
		return strchr(s, '%') ? "is more than the whole device"
				      : "is more than any device has";
	if (error == -EDOM)
		return *parse_skip_digits(s) ? "is less than 1 MiB"
					     : "is a number of bytes; did you mean GiB?";
	return zeros && (!s[zeros] || !strcmp(s + zeros, "%")) ? "would refuse every allocation"
							       : "is not a size";
}

int parse_permille(const char *s, uint32_t *ret)
{
	struct number n;
	int r = parse_split_number(s, true, &n);

	if (r < 0)
		return r;
	if (*n.frac_end && strcmp(n.frac_end, "%"))
		return -EINVAL;
	return parse_permille_value(&n, ret);
}

int parse_duration_us(const char *s, uint64_t max_us, uint64_t *ret)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = { { "us", 1 }, { "ms", 1000 }, { "s", 1000000 } };
	uint64_t unit = 0, value;
	struct number n;
	int r = parse_split_number(s, true, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(n.frac_end, units[i].name))
			unit = units[i].us;
	if (!unit)
		return -EINVAL;
	value = parse_times(&n, unit, max_us);
	if (value > max_us)
		return -ERANGE;
	if (!value)
		return -EINVAL;
	*ret = value;
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
	const char *end = parse_skip_digits(s);
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

int parse_word(const char *s, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(s, words[i]))
			return i;
	return -1;
}
