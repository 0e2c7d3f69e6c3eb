/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api.h"

int api_open(struct loop *loop, const struct kube_conf *conf, struct api **ret) { return -38; }
void api_close(struct api *api) { }
