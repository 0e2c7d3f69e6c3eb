/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and device names for people. */
#ifndef ALLOT_TEXT_UNITS_H
#define ALLOT_TEXT_UNITS_H

#include <stddef.h>
#include <stdint.h>

struct units_text {
	char s[48];
};

/* "8 GiB", "1.5 GiB", "520 MiB", "0": cut to a tenth, never rounded up. */
struct units_text units_bytes(uint64_t bytes);

/* "25%", "12.5%" */
struct units_text units_permille(uint32_t permille);

/* "0", "1.5 ms", "12.3 s", "35 min": three digits, cut, never rounded up. */
struct units_text units_duration(uint64_t ns);

/* "0.1 W", "350 W"; "12.3 J", from 1 Wh on "4.5 Wh", "12 kWh". Likewise cut. */
struct units_text units_power(uint32_t milliwatt);
struct units_text units_energy(uint64_t microjoule);

/* "1 process", "3 processes" */
struct units_text units_count(size_t n, const char *one, const char *many);

/*
 * A device by its name in policies and ledgers, as "GPU-00112233-4455-6677-8899-aabbccddeeff" or,
 * of AMD's, "GPU-0123456789abcdef" or "0000:03:00.0". For tables the first group of a UUID will
 * do; what AMD's have is short, and the beginnings of several are often alike.
 */
struct units_text units_uuid(const uint8_t uuid[16]);
struct units_text units_uuid_short(const uint8_t uuid[16]);

#endif
