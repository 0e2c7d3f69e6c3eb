/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which compute unit of a GPU a bit of a CU mask stands for. Pure.
 *
 * The kernel spreads the bits of SET_CU_MASK so that a mask of the lowest n bits is spread well: in
 * a GPU of n XCCs bit i belongs to XCC i mod n; the bits of one XCC go to its shader engines in
 * turn, when each engine has one to the next array of each engine, and when each array has one to
 * the next unit of each array; arrays that have no such unit are passed over. (Source:
 * mqd_symmetrically_map_cu_mask() in the kernel's kfd_mqd_manager.c; its bounds are those here.)
 * From GFX10 on units come in pairs that share a scheduler (WGPs), the bits of which have to be
 * equal; there two bits at a time are spread in that way.
 *
 * The units of an array that are switched off for good are its last ones as far as masks go. How
 * many each array lacks sysfs does not say, only the sum.
 */
#ifndef ALLOT_AMD_CU_MAP_H
#define ALLOT_AMD_CU_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/topology.h"

#define CU_XCCS	      8
#define CU_ENGINES    8 /* of an XCC */
#define CU_ARRAYS     2 /* of an engine */
#define CU_PER_ARRAY  16
#define CU_MASK_BITS  1024 /* the kernel takes no more */
#define CU_MASK_WORDS (CU_MASK_BITS / 32)

/* A GPU's compute units, as far as they work. */
struct cu_geometry {
	uint32_t xccs, engines, arrays;
	bool pairs;
	uint8_t cus[CU_XCCS][CU_ENGINES][CU_ARRAYS];
};

/*
 * The parts of a GPU in one row: XCCs, then engines, then arrays. Parts that it does not have, or
 * that no bit stands for, have no units.
 */
enum cu_level {
	CU_LEVEL_XCC,
	CU_LEVEL_ENGINE,
	CU_LEVEL_ARRAY,
	CU_LEVELS,
};
#define CU_LEAVES (CU_XCCS * CU_ENGINES * CU_ARRAYS)
#define CU_PARTS  (CU_XCCS + CU_XCCS * CU_ENGINES + CU_LEAVES)
#define CU_NOWHERE UINT8_MAX

/* A unit is given by a mask as a whole: one CU, or a pair. */
struct cu_map {
	uint32_t unit_bits; /* 1 or 2: unit u is bits u * unit_bits and on */
	uint32_t slots;	    /* units as bits count them, those among them that are nowhere too */
	uint32_t units;
	uint32_t xccs; /* that have units */
	uint16_t part_units[CU_PARTS];
	uint8_t leaf[CU_MASK_BITS]; /* the array of a unit; CU_NOWHERE */
};

/* The XCC, engine or array, as an index of part_units, that the array `leaf` is in, or is. */
uint32_t cu_map_part(uint32_t leaf, enum cu_level level);

/*
 * From sysfs. Units that do not work are taken to be missing as evenly as can be, from the last
 * arrays; the true ones shift a mask's last few units by one engine. 0, or -EINVAL for figures that
 * do not fit together.
 */
int cu_geometry_of_node(const struct topology_node *node, struct cu_geometry *ret);

/*
 * Makes it exact by INFO's answer (drm_amdgpu_info_device.cu_bitmap), which has engines 4 to 7
 * beside or after engines 0 to 3, by generation. 0, or -EINVAL if the two do not agree or INFO does
 * not tell, as for more than one XCC: then it is unchanged.
 */
int cu_geometry_refine(struct cu_geometry *geometry, const struct topology_node *node,
		       const uint32_t cu_bitmap[4][4]);

/*
 * 0, -EINVAL for a geometry that is none, or -ENOTSUP where it is not known how the kernel spreads
 * bits, or there are too many units for a mask: then none can express a share of that GPU. Where
 * XCCs are not alike, some units of the larger ones have no bit, and only a queue without a mask
 * uses them.
 */
int cu_map_init(const struct cu_geometry *geometry, struct cu_map *ret);

#endif
