/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/weights.h"

#include "base/number.h"

void weights_divide(struct part *parts, uint32_t n)
{
	uint64_t all = 0, sharing = 0, capped = 0, left;

	for (uint32_t i = 0; i < n; i++) {
		all += parts[i].weight;
		sharing += parts[i].cap_permille ? 0 : parts[i].weight;
		capped += parts[i].cap_permille;
	}
	left = capped < 1000 ? 1000 - capped : 0;
	for (uint32_t i = 0; i < n; i++) {
		struct part *part = &parts[i];
		uint64_t among_all, of_left;

		if (part->cap_permille) {
			part->permille = part->cap_permille;
			continue;
		}
		among_all = UINT64_C(1000) * part->weight / all;
		of_left = left * part->weight / sharing;
		part->permille = (uint32_t)clamp_i64((int64_t)max_u64(among_all, of_left), 1, 1000);
	}
}
