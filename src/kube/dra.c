/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra.h"

int dra_open(struct loop *loop, struct grpc *grpc, struct api *api, const struct kube_conf *conf, const struct node_devices *devices, struct dra **ret) { return -38; }
void dra_tell(struct dra *dra) { }
void dra_close(struct dra *dra) { }
