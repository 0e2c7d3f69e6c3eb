/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_TESTS_FAMILIES_FILL_H
#define ALLOT_TESTS_FAMILIES_FILL_H

/*
 * Fills the device through a family, by the functions that families_ways.c found, and gives it
 * back. Exit status.
 */
int fill_family(const char *name);

#endif
