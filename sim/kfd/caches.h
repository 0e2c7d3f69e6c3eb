/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the emulated machine tells of its CPUs' caches. libhsakmt takes no machine that tells
 * nothing, and kernels of some virtual machines do not know any.
 */
#ifndef ALLOT_SIM_KFD_CACHES_H
#define ALLOT_SIM_KFD_CACHES_H

struct tree;

/* The kernel's folder of CPUs, and the one in which those of its first NUMA node are links. */
#define CACHES_CPUS	 "/sys/devices/system/cpu"
#define CACHES_NODES	 "/sys/devices/system/node"
#define CACHES_NODE_CPUS CACHES_NODES "/node0"

/*
 * Writes three caches for each CPU of the tree's, unless a CPU in the folder `host`, which is
 * CACHES_CPUS but for tests, tells of any: then the real ones are to be seen. 0 or -errno.
 */
int caches_write(const struct tree *t, const char *host);

#endif
