/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions for test programs: print where and what, then exit 1. They stay active in every
 * build type, unlike assert().
 */
#ifndef ALLOT_TESTS_CHECK_H
#define ALLOT_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* Both sides are shown as signed and unsigned-safe long long. */
#define CHECK_EQ(a, b)                                                                     \
	do {                                                                               \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);            \
		if (check_a_ != check_b_) {                                                \
			fprintf(stderr, "%s:%d: failed: %s == %s (%lld, %lld)\n",          \
				__FILE__, __LINE__, #a, #b, check_a_, check_b_);           \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* meson counts exit status 77 as skipped. */
#define SKIP(why)                                        \
	do {                                             \
		fprintf(stderr, "skipped: %s\n", (why)); \
		exit(77);                                \
	} while (0)

#endif
