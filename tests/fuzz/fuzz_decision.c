/* SPDX-License-Identifier: Apache-2.0 */
/* Schedulers' annotations, which anybody who may write a Pod writes. The first byte says whose, and
 * in what unit. */
#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "kube/schedulers/decision.h"
#include "kube/grants/vgpu_config.h"
#include "tests/fuzz/fuzz.h"

static void check_container(const struct decision_container *container)
{
	char text[VGPU_CONFIG_BYTES];
	int r = vgpu_config_text(container, text);

	MUST(container->n <= POLICY_DEVICES);
	for (unsigned int i = 0; i < container->n; i++) {
		MUST(container->device[i].cores <= 100);
		MUST(container->device[i].memory_bytes <= SIZE_MAX_BYTES);
	}
	MUST(r == 0 || r == -ENODATA);
	MUST(r || (!strncmp(text, "Used", 4) && text[strlen(text) - 1] == '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct decision decision;
	struct kube_conf conf = {.nresources = 1, .resource = {{"a/memory", KUBE_MEMORY, 0}}};
	char why[DECISION_WHY] = "", *text;
	int r;

	if (!size)
		return 0;
	conf.scheduler = (enum kube_scheduler)(data[0] & 3);
	conf.resource[0].amount = data[0] & 4 ? UINT64_C(1) << 30 : 1;
	text = malloc(size);
	MUST(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	r = decision_read_bytes(&conf, text, size - 1, &decision, why);
	MUST(r == 0 || (r == -EINVAL && why[0] && !why[DECISION_WHY - 1]));
	if (!r) {
		MUST(decision.n <= DECISION_CONTAINERS && !memchr(text, '\0', size - 1));
		for (unsigned int i = 0; i < decision.n; i++)
			check_container(&decision.container[i]);
		MUST(decision_find(&decision, decision.n) == -1);
	}
	free(text);
	return 0;
}
