/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in a container that asked for a device of allot (cdi/spec.h). The library in it knows them,
 * too.
 */
#ifndef ALLOT_BASE_CONTAINER_H
#define ALLOT_BASE_CONTAINER_H

#define CONTAINER_HOME	  "/opt/allot"
#define CONTAINER_LIBRARY CONTAINER_HOME "/liballot.so"
#define CONTAINER_TENANT  CONTAINER_HOME "/tenant"

/* Has glibc's loader load the library into every program, by a name with "/./" in it. */
#define CONTAINER_PRELOAD "/etc/ld.so.preload"

#endif
