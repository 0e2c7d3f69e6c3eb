/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of an AMD GPU in policies and ledgers, which name devices by 16 bytes as NVIDIA's UUIDs
 * are. It is made of what stays the same over restarts, in every process and container: the GPU's
 * own unique id, or for one that has none, its place on the PCI bus; and of a board that is divided
 * (MI300 in DPX, QPX, CPX) which partition it is, since the id and the place may be the board's. Pure.
 */
#ifndef ALLOT_AMD_IDENTITY_H
#define ALLOT_AMD_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/topology.h"

/* Neither half is ever zero, and no UUID that NVIDIA makes has this first half. */
void amd_identity(const struct topology_node *node, uint8_t ret_uuid[16]);

/* True if 16 bytes of a policy or a ledger are the name of an AMD GPU. */
bool amd_identity_is(const uint8_t uuid[16]);

/* True if both are partitions of one board, or the same: as far as id or place tell. */
bool amd_identity_is_same_board(const uint8_t a[16], const uint8_t b[16]);

/*
 * As people write it: "GPU-" and 16 hexadecimal digits, as in ROCm's tools and
 * ROCR_VISIBLE_DEVICES, or the PCI address of one without a unique id; and ".3" behind either for
 * partition 3, none for the first. "" for bytes that are no such name.
 */
#define AMD_IDENTITY_BYTES 24
void amd_identity_text(const uint8_t uuid[16], char ret_text[AMD_IDENTITY_BYTES]);

/* Back from that, in small or capital letters. -EINVAL for what is not of one of the two forms. */
int amd_identity_parse(const char *text, uint8_t ret_uuid[16]);

#endif
