/* SPDX-License-Identifier: Apache-2.0 */
/* `allot cdi hook`: called by a runtime for each container that asked for a device of allot. */
#ifndef ALLOT_CLI_CONTAINER_HOOK_H
#define ALLOT_CLI_CONTAINER_HOOK_H

/*
 * Reads the container's state on standard input, makes a tenant for it and puts it there. An exit
 * status: with any but 0 the runtime does not start the container.
 */
int hook_run(int argc, char **argv);

#endif
