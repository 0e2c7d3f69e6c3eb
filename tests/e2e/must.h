/* SPDX-License-Identifier: Apache-2.0 */
/* For programs under test that call the driver: what fails ends them, and says where. */
#ifndef ALLOT_TESTS_E2E_MUST_H
#define ALLOT_TESTS_E2E_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(call)                                                                          \
	do {                                                                                \
		CUresult must_ = (call);                                                    \
                                                                                            \
		if (must_) {                                                                \
			fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, \
				must_);                                                     \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

#endif
