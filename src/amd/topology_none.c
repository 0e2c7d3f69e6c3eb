/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Of a build without AMD GPUs: there are none on any machine. */
#include <errno.h>
#include <stdio.h>

#include "amd/topology_read.h"

int topology_read(const char *root, struct topology **ret_topology,
		  struct topology_complaint *complaint)
{
	snprintf(complaint->text, sizeof(complaint->text), "this allot is built without AMD GPUs");
	return -ENOENT;
}
