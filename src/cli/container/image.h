/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that liballot.so reaches the programs of a container's image. */
#ifndef ALLOT_CLI_CONTAINER_IMAGE_H
#define ALLOT_CLI_CONTAINER_IMAGE_H

#include "cdi/container.h"

/*
 * Makes the container's root that of the calling process, for good, and looks at the program that
 * it is to run, and at the loader which starts that: only glibc's reads /etc/ld.so.preload. 0, or
 * a message and EXIT_ALLOT.
 */
int image_check(const struct container *container);

#endif
