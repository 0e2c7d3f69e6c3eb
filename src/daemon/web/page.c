/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/page.h"

#include "page_text.h"

const char page_policy[] = PAGE_POLICY;

int page_write(FILE *out, void *arg)
{
	fwrite(page_text, 1, sizeof(page_text), out);
	return 0;
}
