/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_KUBE_WIRE_NAME_H
#define ALLOT_KUBE_WIRE_NAME_H

#include <stdbool.h>

/*
 * Returns true for a namespace's or an object's name as Kubernetes has them: it can be part of a path, and has
 * nothing that a URL must escape.
 */
bool name_is_valid(const char *name);

#endif
