/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/name.h"

#include <string.h>

#include "kube/state/conf.h"

bool name_is_valid(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.");

	return n && n < KUBE_NAME_BYTES && !name[n] && *name != '.';
}
