/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer is one function, linked either with libFuzzer (meson -Dfuzzing=true) or with replay.c,
 * which feeds it its corpus as a test. It checks what must hold for any input; a sanitizer checks
 * the rest.
 */
#ifndef ALLOT_TESTS_FUZZ_FUZZ_H
#define ALLOT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike CHECK it aborts, which is what libFuzzer keeps an input for. */
#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                         \
		}                                                                        \
	} while (0)

#endif
