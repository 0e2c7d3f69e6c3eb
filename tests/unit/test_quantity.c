/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>

#include "kube/wire/quantity.h"
#include "tests/check.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

static const struct {
	const char *text;
	int error;
	uint64_t value;
} whole[] = {
	{ "0", 0, 0 }, { "-0", 0, 0 }, { "+0.0", 0, 0 }, { "0Gi", 0, 0 }, { "0e99", 0, 0 },
	{ "40", 0, 40 }, { "+40", 0, 40 }, { "0040", 0, 40 }, { "40.", 0, 40 }, { "40.000", 0, 40 },
	{ "8Gi", 0, 8 * GIB }, { "1Ki", 0, KIB }, { "1Mi", 0, MIB }, { "7Ei", 0, 7 * GIB * GIB },
	{ "4G", 0, 4000000000 }, { "1k", 0, 1000 }, { "9E", 0, UINT64_C(9000000000000000000) },
	{ "1e3", 0, 1000 }, { "1E3", 0, 1000 }, { "1e+3", 0, 1000 }, { "1000e-3", 0, 1 }, { "12e0", 0, 12 },
	{ "500m", -EDOM }, { "1000m", 0, 1 }, { "2000000u", 0, 2 }, { "3000000000n", 0, 3 },
	{ "0.5Gi", 0, GIB / 2 }, { ".5Gi", 0, GIB / 2 }, { "1.5k", 0, 1500 }, { "1.1Gi", -EDOM },
	{ "1181116006400m", -EDOM }, { "8589934592000m", 0, 8 * GIB }, { "0.0000001", -EDOM },
	{ "1.0000000000000000000000000000000000000000000", 0, 1 },
	{ "9223372036854775807", 0, INT64_MAX }, { "9223372036854775808", -ERANGE },
	{ "18446744073709551616", -ERANGE }, { "8Ei", -ERANGE }, { "10E", -ERANGE }, { "1e99", -ERANGE },
	{ "123456789012345678901", -ERANGE }, { "1e100", -ERANGE }, { "1e99999999999999999999", -ERANGE },
	{ "-1", -ERANGE }, { "-8Gi", -ERANGE }, { "-500m", -ERANGE },
	{ "", -EINVAL }, { "+", -EINVAL }, { "-", -EINVAL }, { ".", -EINVAL }, { "Gi", -EINVAL },
	{ "m", -EINVAL }, { "e3", -EINVAL }, { "1e", -EINVAL }, { "1e+", -EINVAL }, { "1e3k", -EINVAL },
	{ "8GiB", -EINVAL }, { "8gi", -EINVAL }, { "8K", -EINVAL }, { "8 Gi", -EINVAL }, { " 8", -EINVAL },
	{ "8 ", -EINVAL }, { "0x8", -EINVAL }, { "1..5", -EINVAL }, { "1.5.5", -EINVAL }, { "--1", -EINVAL },
	{ "+-1", -EINVAL }, { "1,5", -EINVAL }, { "nan", -EINVAL }, { "inf", -EINVAL }, { "50%", -EINVAL },
};

static const struct {
	const char *text;
	int error;
	uint32_t value;
} permille[] = {
	{ "0", 0, 0 }, { "40", 0, 400 }, { "100", 0, 1000 }, { "12500m", 0, 125 }, { "12.5", 0, 125 },
	{ "0.1", 0, 1 }, { "100m", 0, 1 }, { "1e2", 0, 1000 }, { "500m", 0, 5 },
	{ "10m", -EDOM }, { "33.33", -EDOM }, { "101", -ERANGE }, { "100.1", -ERANGE }, { "1k", -ERANGE },
	{ "-1", -ERANGE }, { "9223372036854775807", -ERANGE }, { "x", -EINVAL }, { "40%", -EINVAL },
};

int main(void)
{
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		uint64_t value = 7;
		int r = quantity_whole(whole[i].text, &value);

		fprintf(stderr, "%s\n", whole[i].text);
		CHECK_EQ(r, whole[i].error);
		CHECK_EQ(value, r ? 7 : whole[i].value);
	}
	for (size_t i = 0; i < sizeof(permille) / sizeof(*permille); i++) {
		uint32_t value = 7;
		int r = quantity_permille(permille[i].text, &value);

		fprintf(stderr, "%s %%\n", permille[i].text);
		CHECK_EQ(r, permille[i].error);
		CHECK_EQ(value, r ? 7 : permille[i].value);
	}
	return 0;
}
