/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "cli/say.h"
#include "cli/units.h"
#include "nvidia/uuid.h"

static int read_all(struct devices *d)
{
	struct nvml *nvml;
	unsigned int n = 0;
	int r = nvml_open(NULL, &nvml);

	if (r < 0)
		return r;
	r = nvml_device_count(nvml, &n);
	for (unsigned int i = 0; r == 0 && i < n && i < POLICY_DEVICES; i++) {
		r = nvml_device_get(nvml, i, &d->list[i]);
		d->n = i + 1;
	}
	nvml_close(nvml);
	return r < 0 ? r : n ? 0 : -ENODEV;
}

void devices_read(struct devices *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->error = read_all(ret);
	if (ret->error)
		ret->n = 0;
}

const char *devices_error_words(int err)
{
	switch (err) {
	case -ENOENT:
		return "no NVIDIA driver here (libnvidia-ml.so.1 is not found); install one, or "
		       "try \"allot sim\"";
	case -ENODEV:
		return "the NVIDIA driver finds no device; see \"allot doctor\", or try \"allot "
		       "sim\"";
	case -EACCES:
		return "the NVIDIA driver refuses access; check the permissions of /dev/nvidia*";
	}
	return "the NVIDIA driver does not answer as it should; see \"allot doctor\"";
}

bool selection_has(const struct selection *selection, unsigned int index)
{
	for (unsigned int i = 0; i < selection->n; i++)
		if (selection->index[i] == index)
			return true;
	return false;
}

/* The device that a word names, -ENODEV when it names none, -EINVAL when it is no name. */
static int find(const struct devices *d, const char *word)
{
	uint8_t uuid[16];
	uint64_t index;

	if (!parse_u64(word, 0, UINT32_MAX, &index))
		return index < d->n ? (int)index : -ENODEV;
	if (uuid_parse(word, uuid) < 0)
		return -EINVAL;
	for (unsigned int i = 0; i < d->n; i++)
		if (!memcmp(d->list[i].uuid, uuid, sizeof(uuid)))
			return (int)i;
	return -ENODEV;
}

static int explain(const struct devices *d, const char *list, const char *word, int r)
{
	if (r == -EINVAL)
		say_error("--gpu \"%s\": \"%s\" is neither an index nor a UUID; write it like "
			  "--gpu 0,1 or --gpu %s",
			  list, word, units_uuid(d->list[0].uuid).s);
	else if (d->n == 1)
		say_error("--gpu \"%s\": there is no GPU %s, this machine has one; write --gpu 0",
			  list, word);
	else
		say_error("--gpu \"%s\": there is no GPU %s, this machine has %u; write indices "
			  "from 0 to %u like --gpu 0,1 (\"nvidia-smi -L\" lists them)",
			  list, word, d->n, d->n - 1);
	return r;
}

int devices_select(const struct devices *devices, const char *list, struct selection *ret)
{
	struct selection sel = {.n = 0};
	char *copy, *rest, *word;
	int r = 0;

	if (devices->error) {
		say_error("--gpu \"%s\": %s", list, devices_error_words(devices->error));
		return devices->error;
	}
	copy = rest = strdup(list);
	if (!copy) {
		say_error("--gpu: out of memory");
		return -ENOMEM;
	}
	while (r >= 0 && (word = strsep(&rest, ","))) {
		r = find(devices, word);
		if (r < 0) {
			explain(devices, list, word, r);
		} else if (selection_has(&sel, (unsigned int)r)) {
			say_error(
				"--gpu \"%s\": \"%s\" names GPU %d a second time; name each once, "
				"like --gpu 0,1",
				list, word, r);
			r = -EINVAL;
		} else {
			sel.index[sel.n++] = (unsigned int)r;
		}
	}
	free(copy);
	if (r < 0)
		return r;
	*ret = sel;
	return 0;
}

static bool one_model(const struct devices *d)
{
	for (unsigned int i = 1; i < d->n; i++)
		if (strcmp(d->list[i].name, d->list[0].name))
			return false;
	return true;
}

/* As find(), with the beginning of a UUID in place of the whole. */
static int find_visible(const struct devices *d, const char *word)
{
	int found = -ENODEV;

	if (strncasecmp(word, "GPU-", 4))
		return find(d, word);
	for (unsigned int i = 0; i < d->n; i++) {
		if (strncasecmp(units_uuid(d->list[i].uuid).s, word, strlen(word)))
			continue;
		if (found >= 0)
			return -ENOTUNIQ;
		found = (int)i;
	}
	return found;
}

int devices_visible(const struct devices *devices, const char *visible, struct selection *ret)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	bool by_pci = (order && !strcmp(order, "PCI_BUS_ID")) || one_model(devices);
	struct selection sel = {.n = 0};
	char *copy, *rest, *word;

	if (!visible) {
		for (; sel.n < devices->n; sel.n++)
			sel.index[sel.n] = sel.n;
		*ret = sel;
		return 0;
	}
	copy = rest = strdup(visible);
	if (!copy)
		return -ENOMEM;
	while ((word = strsep(&rest, ","))) {
		int r;

		word += strspn(word, " ");
		word[strcspn(word, " ")] = 0;
		r = find_visible(devices, word);
		if (r >= 0 && word[0] >= '0' && word[0] <= '9' && !by_pci) {
			free(copy);
			return -ENOTUNIQ;
		}
		if (r < 0 || selection_has(&sel, (unsigned int)r))
			break;
		sel.index[sel.n++] = (unsigned int)r;
	}
	free(copy);
	*ret = sel;
	return 0;
}
