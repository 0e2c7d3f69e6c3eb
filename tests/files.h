/* SPDX-License-Identifier: Apache-2.0 */
/* How many files this process has open. */
#ifndef ALLOT_TESTS_FILES_H
#define ALLOT_TESTS_FILES_H

#include <dirent.h>

#include "tests/check.h"

/* Entries of the list of descriptors, its own and two for folders among them: to compare. */
static inline int count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
