/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Amounts as people write them. Pure: no I/O, no locale, no floating point.
 *
 *	size   = bytes | number suffix | number "%"
 *	bytes  = digits
 *	number = digits [ "." digits ]
 *	suffix = K M G T k m g t Ki Mi Gi Ti KiB MiB GiB TiB	(powers of 1024)
 *	       | KB MB GB TB					(powers of 1000)
 *
 * Leading zeros are decimal. A fraction of a byte is dropped. There is no sign, space, exponent
 * or hexadecimal, nothing may follow, and the answer is never zero.
 */
#ifndef ALLOT_BASE_PARSE_H
#define ALLOT_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#define SIZE_MAX_BYTES (UINT64_C(1) << 60)

/* Either an amount or a part of a device whose size may not be known yet: one is non-zero. */
struct size_spec {
	uint64_t bytes;
	uint32_t permille;
};

/*
 * 0, -EINVAL for text that is no size (zero included), -ERANGE for more than SIZE_MAX_BYTES or more
 * than 100 %. Percentages are exact to a tenth; more precise ones are -EINVAL.
 */
int parse_size_spec(const char *s, struct size_spec *ret);

/* Returns true if it is one: zeroed, nothing was said. */
static inline bool size_spec_is_said(struct size_spec spec)
{
	return spec.bytes || spec.permille;
}

/* Bytes of `spec` on a device of `device_bytes`; at least 1 unless the device has none. */
uint64_t size_spec_resolve(struct size_spec spec, uint64_t device_bytes);

/* Both in one. -ENODATA for a percentage when `device_bytes` is 0, not known. */
int parse_size(const char *s, uint64_t device_bytes, uint64_t *ret_bytes);

/*
 * A size that is to limit memory. As parse_size_spec, and -EDOM for less than QUOTA_LEAST_BYTES:
 * nobody means so little, and no context of a driver has room in it.
 */
#define QUOTA_LEAST_BYTES (UINT64_C(1) << 20)
int parse_quota(const char *s, struct size_spec *ret);

/* Why parse_quota() refused `s` with that error, to stand behind it in a message: "is not a size". */
const char *parse_quota_why(const char *s, int error);

/* number [ "%" ], likewise a percentage: 1 to 1000 permille. */
int parse_permille(const char *s, uint32_t *ret);

/*
 * number "us" | "ms" | "s", in microseconds; never zero. 0, -EINVAL, or -ERANGE for more than
 * `max_us`, which is at most 2^60.
 */
int parse_duration_us(const char *s, uint64_t max_us, uint64_t *ret);

/* A decimal integer in [min, max] and nothing else. 0, -EINVAL or -ERANGE. */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* Which of the `n` words it is, from 0; -1: none. */
int parse_word(const char *s, const char *const *words, int n);

#endif
