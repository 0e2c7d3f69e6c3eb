/* SPDX-License-Identifier: Apache-2.0 */
/* A site's file without a file. */
#ifndef ALLOT_TESTS_SITE_FIXTURE_H
#define ALLOT_TESTS_SITE_FIXTURE_H

#include <string.h>

#include "daemon/site/site.h"
#include "tests/check.h"

static inline void site_fixture_hear(void *arg, unsigned int line, bool wrong, const char *words)
{
	CHECK(!wrong);
}

static inline struct site site_of(const char *text)
{
	FILE *in = fmemopen((void *)text, strlen(text), "r");
	struct site site;

	CHECK(in);
	CHECK_EQ(site_read(in, site_fixture_hear, NULL, &site), 0);
	fclose(in);
	return site;
}

#endif
