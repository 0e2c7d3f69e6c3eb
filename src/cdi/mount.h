/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's directory in a container that is being made. */
#ifndef ALLOT_CDI_MOUNT_H
#define ALLOT_CDI_MOUNT_H

#include "cdi/container.h"

/*
 * Moves the calling process, which must have one thread, into the container's mount namespace,
 * where all of the machine's files are still beside the container's. 0 or -errno.
 */
int cdi_mount_enter(const struct container *container);

/*
 * To be called after cdi_mount_enter: mounts the tenant's directory at CDI_TENANT, read-only except
 * for the ledger. Links of the image in that path lead nowhere but into the image. 0 or -errno;
 * -ENOSYS before Linux 5.6; -EEXIST: the container has a tenant already, by an earlier hook.
 */
int cdi_mount_tenant(const struct container *container, const char *tenant_dir);

/*
 * The same for a tenant that is another's than the container's root's: a directory of that root's has its
 * policy and its ledger.
 */
int cdi_mount_files(const struct container *container, const char *tenant_dir);

#endif
