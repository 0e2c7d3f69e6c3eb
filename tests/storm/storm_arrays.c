/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays. */
#include "storm_work.h"

static bool arrays_take(struct worker *w, struct block *b)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1024, .Height = 1 + b->bytes / 4096,
				      .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray array;

	if (desc.Height > 16384)
		desc.Height = 16384;
	if (REFUSED(w, cu.cuArrayCreate_v2(&array, &desc)))
		return false;
	b->object = array;
	return true;
}

static void arrays_give(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuArrayDestroy(b->object));
}

const struct family storm_array = {"array", arrays_take, arrays_give, NULL, NULL};
