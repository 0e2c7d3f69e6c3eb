/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

#define EXPONENT_MOST 99

/* digits x 10^tens x 2^twos */
struct quantity {
	uint64_t digits;
	int tens, twos;
	bool negative;
};

static const struct suffix {
	const char *text;
	int tens, twos;
} suffixes[] = {
	{"", 0, 0},   {"Ki", 0, 10}, {"Mi", 0, 20}, {"Gi", 0, 30}, {"Ti", 0, 40},
	{"Pi", 0, 50}, {"Ei", 0, 60}, {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},
	{"k", 3, 0},  {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},
	{"E", 18, 0},
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits from *text on, behind those that are there. Zeros at the end are kept in `tens`. */
static int quantity_digits(const char **text, struct quantity *q, int *ret_n)
{
	int n = 0;

	for (; is_digit(**text); (*text)++, n++) {
		uint64_t digits = q->digits;

		if (**text == '0') {
			q->tens += digits > 0;
			continue;
		}
		for (int i = 0; digits && i <= q->tens; i++)
			if (__builtin_mul_overflow(digits, 10, &digits))
				return -ERANGE;
		if (__builtin_add_overflow(digits, (uint64_t)(**text - '0'), &digits))
			return -ERANGE;
		q->digits = digits;
		q->tens = 0;
	}
	*ret_n = n;
	return 0;
}

static int quantity_number(const char **text, struct quantity *q)
{
	int before, behind = 0, r;

	q->negative = **text == '-';
	*text += **text == '-' || **text == '+';
	r = quantity_digits(text, q, &before);
	if (!r && **text == '.') {
		(*text)++;
		r = quantity_digits(text, q, &behind);
	}
	if (r < 0)
		return r;
	q->tens -= behind;
	return before + behind ? 0 : -EINVAL;
}

static int quantity_exponent(const char *text, struct quantity *q)
{
	bool negative = *text == '-';
	uint64_t exponent;
	int r;

	text += *text == '-' || *text == '+';
	r = parse_u64(text, 0, EXPONENT_MOST, &exponent);
	if (r < 0)
		return r;
	q->tens += negative ? -(int)exponent : (int)exponent;
	return 0;
}

static int quantity_suffix(const char *text, struct quantity *q)
{
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++)
		if (!strcmp(text, suffixes[i].text)) {
			q->tens += suffixes[i].tens;
			q->twos = suffixes[i].twos;
			return 0;
		}
	return *text == 'e' || *text == 'E' ? quantity_exponent(text + 1, q) : -EINVAL;
}

static int quantity_value(const struct quantity *q, uint64_t most, uint64_t *ret)
{
	unsigned __int128 value = (unsigned __int128)q->digits << q->twos;

	if (q->negative && value)
		return -ERANGE;
	for (int i = 0; i > q->tens && value; i--) {
		if (value % 10)
			return -EDOM;
		value /= 10;
	}
	for (int i = 0; i < q->tens && value && value <= most; i++)
		value *= 10;
	if (value > most)
		return -ERANGE;
	*ret = (uint64_t)value;
	return 0;
}

/* In units of 10^-tens. */
static int quantity_parse(const char *text, int tens, uint64_t most, uint64_t *ret)
{
	struct quantity q = {0};
	int r = quantity_number(&text, &q);

	if (!r)
		r = quantity_suffix(text, &q);
	if (r < 0)
		return r;
	q.tens += tens;
	return quantity_value(&q, most, ret);
}

int quantity_whole(const char *text, uint64_t *ret)
{
	return quantity_parse(text, 0, INT64_MAX, ret);
}

int quantity_permille(const char *text, uint32_t *ret)
{
	uint64_t permille;
	int r = quantity_parse(text, 1, 1000, &permille);

	if (r < 0)
		return r;
	*ret = (uint32_t)permille;
	return 0;
}

const char *quantity_why(int error)
{
	switch (error) {
	case -ERANGE:
		return "is negative or too large";
	case -EDOM:
		return "is finer than can be given";
	default:
		return "is no quantity, as \"8Gi\" is one";
	}
}
