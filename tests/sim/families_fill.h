/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_TESTS_FAMILIES_FILL_H
#define ALLOT_TESTS_FAMILIES_FILL_H

#include "nvidia/cuda_api.h"

/* The driver, by whichever way families_ways.c took; a member that it does not lead to is NULL. */
extern struct cuda_driver cu;

/* Fills the device through a family and gives it back. Exit status. */
int fill_family(const char *name);

#endif
