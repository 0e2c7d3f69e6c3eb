/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between GPUs as a person writes them down. One line each:
 *
 *	link = from ("->" | "<->") to ("xgmi" | "pcie") [weight [MB/s]]
 *
 * GPUs go by number from 1 on, as `allot topo` and rocminfo number them beside one CPU. In "1 -> 2"
 * GPU 1 reaches memory of GPU 2; "<->" is both. What follows a "#" is a remark. Pure: text in.
 */
#ifndef ALLOT_SIM_KFD_LINKS_H
#define ALLOT_SIM_KFD_LINKS_H

#include <stddef.h>

struct tree;

#define LINKS_FILE_BYTES 65536
#define LINKS_WHAT_BYTES 128

/*
 * Adds the links to a tree of one CPU and GPUs that have none to each other. GPUs with an xGMI link
 * are of one hive. 0 or -EINVAL; then `ret_what` says which line and what, in printable ASCII.
 */
int links_parse(const char *text, size_t len, struct tree *tree, char ret_what[LINKS_WHAT_BYTES]);

#endif
