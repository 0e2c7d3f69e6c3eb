/* SPDX-License-Identifier: Apache-2.0 */
/* Device models and annotations' values of any bytes, in what is written of them. */
#include <string.h>

#include "kube/schedulers/annotation.h"
#include "kube/schedulers/node_lock.h"
#include "tests/fuzz/fuzz.h"

static unsigned int count(const char *text, char c)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

/* A model ends no field and no device. */
static void check_registered(const char *model)
{
	struct node_devices devices = {.n = 2, .list = {{.numa = -1}, {.numa = 1}}};
	struct kube_conf conf = {.scheduler = KUBE_VOLCANO};
	char *volcano, *xpu, *hami;

	strncpy(devices.list[0].device.model, model, sizeof(devices.list[0].device.model) - 1);
	volcano = annotation_registered(&conf, &devices);
	conf.scheduler = KUBE_XPU;
	xpu = annotation_registered(&conf, &devices);
	conf.scheduler = KUBE_HAMI;
	hami = annotation_registered(&conf, &devices);
	MUST(volcano && xpu);
	MUST(count(volcano, ':') == 2 && count(volcano, ',') == 10 && !count(volcano, ';'));
	MUST(count(xpu, ':') == 2 && count(xpu, ',') == 12 && !count(xpu, ' '));
	/* NULL is of a model that is not UTF-8. */
	MUST(!hami || (hami[0] == '[' && hami[strlen(hami) - 1] == ']'));
	free(volcano);
	free(xpu);
	free(hami);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *body;
	struct annotation one = {"volcano.sh/devices-to-allocate", text};

	MUST(text);
	memcpy(text, data, size);
	text[size] = '\0';
	check_registered(text);
	body = annotation_patch(&one, 1);
	MUST(!body || strlen(body) > strlen(text));
	free(body);
	annotation_is_asked(text);
	if (node_lock_release(KUBE_HAMI, text, size, "default", "a", &body) == 0)
		free(body);
	free(text);
	return 0;
}
