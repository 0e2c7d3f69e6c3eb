/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/parse.h"
#include "tests/check.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)
#define TIB (KIB * GIB)

/* Answer: an error, an amount, or tenths of a percent. */
static const struct {
	const char *text;
	int error;
	uint64_t bytes;
	uint32_t permille;
} table[] = {
	/* plain bytes */
	{ "1", 0, 1 },
	{ "8589934592", 0, 8 * GIB },
	{ "010", 0, 10 }, /* not octal */
	{ "0000000000000000000000000000000000000000000000007", 0, 7 },
	{ "1152921504606846976", 0, UINT64_C(1) << 60 },
	/* powers of 1024 */
	{ "10K", 0, 10 * KIB }, { "10k", 0, 10 * KIB },
	{ "10Ki", 0, 10 * KIB }, { "10KiB", 0, 10 * KIB },
	{ "10M", 0, 10 * MIB }, { "10m", 0, 10 * MIB },
	{ "10Mi", 0, 10 * MIB }, { "10MiB", 0, 10 * MIB },
	{ "10G", 0, 10 * GIB }, { "10g", 0, 10 * GIB },
	{ "10Gi", 0, 10 * GIB }, { "10GiB", 0, 10 * GIB },
	{ "10T", 0, 10 * TIB }, { "10t", 0, 10 * TIB },
	{ "10Ti", 0, 10 * TIB }, { "10TiB", 0, 10 * TIB },
	{ "08GiB", 0, 8 * GIB },
	{ "1048576T", 0, UINT64_C(1) << 60 },
	/* powers of 1000 */
	{ "10KB", 0, 10000 }, { "10MB", 0, 10000000 },
	{ "10GB", 0, 10000000000 }, /* not 10 bytes */
	{ "10TB", 0, 10000000000000 },
	/* in any case */
	{ "10gib", 0, 10 * GIB }, { "10GIB", 0, 10 * GIB }, { "10gI", 0, 10 * GIB },
	{ "10gb", 0, 10000000000 }, { "10Mb", 0, 10000000 }, { "10kib", 0, 10 * KIB },
	/* fractions, exactly */
	{ ".5GiB", 0, GIB / 2 }, { ".5%", 0, 0, 5 },
	{ "1.5G", 0, GIB + GIB / 2 },
	{ "0.5K", 0, 512 },
	{ "0.1KB", 0, 100 },
	{ "1.1GB", 0, 1100000000 },
	{ "0.3K", 0, 307 }, /* 307.2 */
	{ "0.0009765625K", 0, 1 },
	{ "0.00097656249999999999999999999999999999K", -EINVAL }, /* just under a byte */
	{ "2.00000000000000000000000000000000000000000001K", 0, 2048 },
	{ "0.99999999999999999999999999999999999999999999K", 0, 1023 },
	{ "1.9999999999999T", 0, 2 * TIB - 1 }, /* 0.11 bytes short */
	{ "0.0000000000009094947017729282379150390625T", 0, 1 }, /* 2^-40, to the last digit */
	{ "0.0000000000009094947017729282379150390624T", -EINVAL },
	{ "8.0GiB", 0, 8 * GIB },
	/* parts of a device */
	{ "25%", 0, 0, 250 }, { "100%", 0, 0, 1000 }, { "12.5%", 0, 0, 125 },
	{ "0.1%", 0, 0, 1 }, { "25.00%", 0, 0, 250 }, { "007%", 0, 0, 70 },
	{ "100.0%", 0, 0, 1000 },
	{ "0%", -EINVAL }, { "0.0%", -EINVAL }, { "12.55%", -EINVAL }, { "0.01%", -EINVAL },
	{ "101%", -ERANGE }, { "100.1%", -ERANGE }, { "100.01%", -ERANGE },
	{ "99999999999999999999999999%", -ERANGE },
	{ "-25%", -EINVAL }, { "%", -EINVAL }, { "25%%", -EINVAL }, { "25 %", -EINVAL },
	{ "25%G", -EINVAL }, { "25G%", -EINVAL },
	/* nothing, zero, negative */
	{ "", -EINVAL }, { "0", -EINVAL }, { "0G", -EINVAL }, { "000", -EINVAL },
	{ "0.0M", -EINVAL }, { "-1", -EINVAL }, { "-1G", -EINVAL }, { "+1G", -EINVAL },
	{ "-0", -EINVAL },
	/* almost a number */
	{ "G", -EINVAL }, { "GiB", -EINVAL }, { ".", -EINVAL }, { ".G", -EINVAL },
	{ "1.", -EINVAL }, { "1.G", -EINVAL }, { "1.5", -EINVAL }, { "1.0", -EINVAL },
	{ "1.5.5G", -EINVAL }, { "1,5G", -EINVAL }, { "1e9", -EINVAL }, { "1E9", -EINVAL },
	{ "1.0e3M", -EINVAL }, { "0x10", -EINVAL }, { "0x10G", -EINVAL }, { "1_000", -EINVAL },
	{ "1'000", -EINVAL }, { "nan", -EINVAL }, { "inf", -EINVAL }, { "unlimited", -EINVAL },
	{ "none", -EINVAL }, { "junk", -EINVAL },
	/* spaces */
	{ " 1G", -EINVAL }, { "1G ", -EINVAL }, { "1 G", -EINVAL }, { "1G\n", -EINVAL },
	{ "\t1", -EINVAL }, { "1\r", -EINVAL }, { " ", -EINVAL },
	/* suffixes that are not ours */
	{ "1B", -EINVAL }, { "1b", -EINVAL }, 
	
	{ "1GiBs", -EINVAL }, { "1GG", -EINVAL }, { "1KM", -EINVAL },
	{ "1P", -EINVAL }, { "1E", -EINVAL }, { "1Ei", -EINVAL },
	{ "1GiB1", -EINVAL }, { "1G1M", -EINVAL }, { "1G;", -EINVAL }, { "1\xc2\xa0G", -EINVAL },
	{ "\xd9\xa1", -EINVAL }, /* a digit of another script */
	/* too much */
	{ "1152921504606846977", -ERANGE }, { "1048577T", -ERANGE }, { "1048576.1T", -ERANGE },
	{ "18446744073709551616", -ERANGE }, { "18446744073709551617G", -ERANGE },
	{ "99999999999999999999999999999999999999", -ERANGE }, { "16777216T", -ERANGE },
	{ "17179869184G", -ERANGE },
};

static void check_table(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct size_spec spec = { 4711, 4711 };
		int r = parse_size_spec(table[i].text, &spec);
		bool ok = r == table[i].error;

		if (ok && r == 0)
			ok = spec.bytes == table[i].bytes && spec.permille == table[i].permille;
		else if (ok) /* written on success only */
			ok = spec.bytes == 4711 && spec.permille == 4711;
		if (!ok)
			fprintf(stderr, "\"%s\": %d, %llu bytes, %u permille\n", table[i].text, r,
				(unsigned long long)spec.bytes, spec.permille);
		CHECK(ok);
	}
}

static void check_resolve(void)
{
	uint64_t bytes = 7;

	CHECK_EQ(parse_size("25%", 80 * GIB, &bytes), 0);
	CHECK_EQ(bytes, 20 * GIB);
	CHECK_EQ(parse_size("100%", UINT64_MAX, &bytes), 0);
	CHECK(bytes == UINT64_MAX);
	CHECK_EQ(parse_size("33.3%", 1000, &bytes), 0);
	CHECK_EQ(bytes, 333);
	CHECK_EQ(parse_size("0.1%", 999, &bytes), 0); /* never "no limit" */
	CHECK_EQ(bytes, 1);
	CHECK_EQ(parse_size("8G", 0, &bytes), 0);
	CHECK_EQ(bytes, 8 * GIB);
	CHECK_EQ(parse_size("25%", 0, &bytes), -ENODATA);
	CHECK_EQ(bytes, 8 * GIB);
	CHECK_EQ(parse_size("x", 1, &bytes), -EINVAL);
	CHECK_EQ(size_spec_resolve((struct size_spec){ 0, 500 }, 0), 0);
}

/* What limits memory is no less than 1 MiB, and who writes less is told why. */
static void check_quota(void)
{
	static const struct {
		const char *text;
		int error;
		const char *why;
	} quotas[] = {
		{"1MiB", 0, NULL}, {"1048576", 0, NULL}, {"0.1%", 0, NULL}, {"8g", 0, NULL},
		{"1024", -EDOM, "is a number of bytes; did you mean GiB?"},
		{"1048575", -EDOM, "is a number of bytes; did you mean GiB?"},
		{"4k", -EDOM, "is less than 1 MiB"}, {"1023.9k", -EDOM, "is less than 1 MiB"},
		{"1MB", -EDOM, "is less than 1 MiB"},
		{"0", -EINVAL, "would refuse every allocation"},
		{"0%", -EINVAL, "would refuse every allocation"},
		{"", -EINVAL, "is not a size"}, {"8 g", -EINVAL, "is not a size"},
		{"101%", -ERANGE, "is more than the whole device"},
		{"99999999999999999999g", -ERANGE, "is more than any device has"},
	};

	for (size_t i = 0; i < sizeof(quotas) / sizeof(quotas[0]); i++) {
		struct size_spec spec = {4711, 4711};

		CHECK_EQ(parse_quota(quotas[i].text, &spec), quotas[i].error);
		CHECK_EQ(spec.bytes == 4711, quotas[i].error != 0);
		if (quotas[i].why)
			CHECK(!strcmp(parse_quota_why(quotas[i].text, quotas[i].error), quotas[i].why));
	}
}

static void check_permille(void)
{
	static const struct {
		const char *text;
		int error;
		uint32_t permille;
	} cases[] = {
		{ "25", 0, 250 }, { "25%", 0, 250 }, { "12.5", 0, 125 }, { "0.1%", 0, 1 },
		{ "100", 0, 1000 }, { "100.0%", 0, 1000 }, { "25.50", 0, 255 }, { "007", 0, 70 },
		{ "0", -EINVAL }, { "0.0%", -EINVAL }, { "25.55", -EINVAL }, { "0.05", -EINVAL },
		{ "100.1", -ERANGE }, { "101%", -ERANGE }, { "99999999999999999999999", -ERANGE },
		{ "", -EINVAL }, { "%", -EINVAL }, { "-25", -EINVAL }, { "+25", -EINVAL },
		{ "1e1", -EINVAL }, { "nan", -EINVAL }, { "inf", -EINVAL }, { "0x10", -EINVAL },
		{ " 25", -EINVAL }, { "25 ", -EINVAL }, { "25 %", -EINVAL }, { "25%%", -EINVAL },
		{ "25G", -EINVAL }, { ".5", -EINVAL }, { "5.", -EINVAL }, { "2,5", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t permille = 4711;

		CHECK_EQ(parse_permille(cases[i].text, &permille), cases[i].error);
		CHECK_EQ(permille, cases[i].error ? 4711 : cases[i].permille);
	}
}

static void check_duration(void)
{
	static const struct {
		const char *text;
		int error;
		uint64_t us;
	} cases[] = {
		{ "2ms", 0, 2000 }, { "500us", 0, 500 }, { "1.5ms", 0, 1500 },
		{ "0.0015s", 0, 1500 }, { "1s", 0, 1000000 }, { "1.0009us", 0, 1 },
		{ "1.000001s", -ERANGE },
		{ "1000001us", -ERANGE }, { "99999999999999999999s", -ERANGE }, { "0ms", -EINVAL },
		{ "0.5us", -EINVAL }, { "2", -EINVAL }, { "", -EINVAL }, { "ms", -EINVAL },
		{ "-2ms", -EINVAL }, { "2 ms", -EINVAL }, { "2msec", -EINVAL }, { "2m", -EINVAL },
		{ "1e1ms", -EINVAL }, { "nanms", -EINVAL }, { "2MS", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t us = 4711;

		CHECK_EQ(parse_duration_us(cases[i].text, 1000000, &us), cases[i].error);
		CHECK_EQ(us, cases[i].error ? 4711 : cases[i].us);
	}
}

static void check_word(void)
{
	static const char *const list[] = {"allow", "warn", "refuse"};

	CHECK_EQ(parse_word("allow", list, 3), 0);
	CHECK_EQ(parse_word("refuse", list, 3), 2);
	CHECK_EQ(parse_word("refuse", list, 2), -1);
	CHECK_EQ(parse_word("", list, 3), -1);
	CHECK_EQ(parse_word("warned", list, 3), -1);
}

static void check_u64(void)
{
	uint64_t n = 7;

	CHECK_EQ(parse_u64("0010", 0, 100, &n), 0);
	CHECK_EQ(n, 10);
	CHECK_EQ(parse_u64("18446744073709551615", 0, UINT64_MAX, &n), 0);
	CHECK(n == UINT64_MAX);
	CHECK_EQ(parse_u64("18446744073709551616", 0, UINT64_MAX, &n), -ERANGE);
	CHECK_EQ(parse_u64("101", 0, 100, &n), -ERANGE);
	CHECK_EQ(parse_u64("4", 5, 100, &n), -ERANGE);
	CHECK_EQ(parse_u64("", 0, 100, &n), -EINVAL);
	CHECK_EQ(parse_u64("-1", 0, 100, &n), -EINVAL);
	CHECK_EQ(parse_u64("1 ", 0, 100, &n), -EINVAL);
	CHECK_EQ(parse_u64("0x1", 0, 100, &n), -EINVAL);
}

int main(void)
{
	check_table();
	check_resolve();
	check_quota();
	check_permille();
	check_duration();
	check_u64();
	check_word();
	return 0;
}
