/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of /dev/kfd, as a file that anybody may have written. The first byte says whether the sum
 * is put right first, without which next to nothing would get past it. What is read makes sense: it
 * is written and read again, and a plan for the kernel is made of each process.
 */
#include <errno.h>
#include <string.h>

#include "criu/kfd/kfd_image.h"
#include "criu/kfd/kfd_plan.h"
#include "image/crc32c.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (1u << 20)

static void check_again(const struct kfd_image *image)
{
	struct kfd_image again;
	struct damage damage;
	void *file;
	size_t len;

	MUST(kfd_image_pack(image, &file, &len) == 0);
	MUST(kfd_image_unpack(file, len, &again, &damage) == 0);
	MUST(!memcmp(again.n, image->n, sizeof(again.n)));
	kfd_image_done(&again);
	free(file);
}

static void check_plans(const struct kfd_image *image)
{
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_PROCESSES] && i < 4; i++) {
		struct kfd_plan plan;

		int r = kfd_plan_make(image, i, &plan);

		MUST(r == 0 || r == -EFBIG); /* handles may be as far apart as they like */
		if (r < 0)
			continue;
		MUST(plan.nfillers <= KFD_PLAN_FILLERS);
		MUST(plan.args.num_bos == image->processes[i].nholders + plan.nfillers);
		MUST(plan.args.priv_data_size >= image->processes[i].priv_bytes);
		kfd_plan_close_files(&plan);
		kfd_plan_done(&plan);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kfd_image image;
	struct damage damage = {.text = ""};
	uint32_t crc;
	char *file;
	int r;

	if (!size || size > INPUT_MAX)
		return 0;
	file = malloc(size);
	MUST(file);
	memcpy(file, data + 1, --size);
	if (data[0] % 4 && size >= sizeof(crc)) {
		crc = crc32c(0, file, size - sizeof(crc));
		memcpy(file + size - sizeof(crc), &crc, sizeof(crc));
	}
	r = kfd_image_unpack(file, size, &image, &damage);
	free(file);
	if (r < 0) {
		MUST(r == -EBADMSG || r == -ENODATA || r == -EPROTONOSUPPORT);
		MUST(damage.text[0] && strlen(damage.text) < sizeof(damage.text));
		return 0;
	}
	check_again(&image);
	check_plans(&image);
	kfd_image_done(&image);
	return 0;
}
