/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The files of KFD's topology in sysfs: text in, numbers out, no I/O. Such a file is one number, or
 * lines of a name, a space and a decimal number:
 *
 *	file = number "\n" | { name " " value "\n" }
 *
 * Lines of names that are not known here are passed over whatever their value is, for kernels add
 * properties. All else is an error: a known name twice, without a number or with one that is out of
 * range, one that is missing without which an answer would be wrong, a name of more than 63 bytes,
 * a zero byte, a last line without its end (a file that was cut).
 *
 * 0 or a negative errno: -EINVAL malformed, -ERANGE a number out of range, -ENODATA something is
 * missing. After an error `ret_what` says which line and what, in printable ASCII; what `ret` holds
 * is written on success only.
 */
#ifndef ALLOT_AMD_TOPOLOGY_PARSE_H
#define ALLOT_AMD_TOPOLOGY_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "amd/topology.h"

/* The kernel writes at most a page. */
#define TOPOLOGY_FILE_BYTES 4096
#define TOPOLOGY_WHAT_BYTES 128

/* gpu_id, generation_id: a number of at most `most`. */
int topology_parse_number(const char *text, size_t len, uint32_t most, uint32_t *ret,
			  char ret_what[TOPOLOGY_WHAT_BYTES]);

/* nodes/<n>/properties: sets what of *ret comes from there and leaves the rest alone. */
int topology_parse_node(const char *text, size_t len, struct topology_node *ret,
			char ret_what[TOPOLOGY_WHAT_BYTES]);

/* nodes/<n>/mem_banks/<m>/properties */
int topology_parse_bank(const char *text, size_t len, struct topology_bank *ret,
			char ret_what[TOPOLOGY_WHAT_BYTES]);

/* nodes/<n>/caches/<m>/properties, but for its map of siblings */
int topology_parse_cache(const char *text, size_t len, struct topology_cache *ret,
			 char ret_what[TOPOLOGY_WHAT_BYTES]);

/* nodes/<n>/io_links/<m>/properties, and p2p_links: `from` and `to` are sysfs's numbers. */
int topology_parse_link(const char *text, size_t len, struct topology_link *ret,
			char ret_what[TOPOLOGY_WHAT_BYTES]);

#endif
