/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device/selection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "amd/identity.h"
#include "base/parse.h"
#include "cli/say/say.h"
#include "nvidia/uuid.h"
#include "text/units.h"

bool selection_has(const struct selection *selection, unsigned int index)
{
	for (unsigned int i = 0; i < selection->n; i++)
		if (selection->index[i] == index)
			return true;
	return false;
}

/* NVIDIA's come first. */
static unsigned int selection_count_nvidia(const struct devices *d)
{
	unsigned int n = 0;

	while (n < d->n && d->list[n].vendor == DEVICE_NVIDIA)
		n++;
	return n;
}

/* A range of the list: one vendor's devices, which its variable numbers from 0. */
struct range {
	unsigned int first, end;
};

/* "nvidia0", "amd1", as `allot topo` has them: NVIDIA's index, AMD's node. */
static int selection_find_by_topo(const struct devices *d, const char *word)
{
	char name[24];

	for (unsigned int i = 0; i < d->n; i++) {
		snprintf(name, sizeof(name), "%s%u",
			 d->list[i].vendor == DEVICE_NVIDIA ? "nvidia" : "amd", d->list[i].number);
		if (!strcmp(word, name))
			return (int)i;
	}
	return -ENODEV;
}

/* The device of the range that a word names, -ENODEV for none, -EINVAL for no name at all. */
static int selection_find_device(const struct devices *d, struct range range, const char *word)
{
	uint8_t uuid[16];
	uint64_t index;

	if (!parse_u64(word, 0, UINT32_MAX, &index))
		return index < range.end - range.first ? (int)(range.first + index) : -ENODEV;
	if (amd_identity_parse(word, uuid) < 0 && uuid_parse(word, uuid) < 0)
		return -EINVAL;
	for (unsigned int i = range.first; i < range.end; i++)
		if (!memcmp(d->list[i].uuid, uuid, sizeof(uuid)))
			return (int)i;
	return -ENODEV;
}

/* As selection_find_device(), with the beginning of a name in place of the whole. */
static int selection_find_visible(const struct devices *d, struct range range, const char *word)
{
	int found = -ENODEV;

	if (strncasecmp(word, "GPU-", 4))
		return selection_find_device(d, range, word);
	for (unsigned int i = range.first; i < range.end; i++) {
		if (strncasecmp(units_uuid(d->list[i].uuid).s, word, strlen(word)))
			continue;
		if (found >= 0)
			return -ENOTUNIQ;
		found = (int)i;
	}
	return found;
}

static int selection_explain(const struct devices *d, const char *list, const char *word, int r)
{
	if (r == -ENOTUNIQ)
		say_error("--gpu \"%s\": \"%s\" is the beginning of several devices' names; write more "
			  "of it, like --gpu %s",
			  list, word, units_uuid(d->list[0].uuid).s);
	else if (r == -EINVAL)
		say_error("--gpu \"%s\": \"%s\" is neither an index nor a device's name; write it "
			  "like --gpu 0,1 or --gpu %s",
			  list, word, units_uuid(d->list[0].uuid).s);
	else if (*d->amd_trouble)
		say_error("--gpu \"%s\": there is no GPU %s among the %u that allot sees; %s", list,
			  word, d->n, d->amd_trouble);
	else if (d->n == 1)
		say_error("--gpu \"%s\": there is no GPU %s, this machine has one; write --gpu 0",
			  list, word);
	else
		say_error("--gpu \"%s\": there is no GPU %s, this machine has %u; write indices "
			  "from 0 to %u like --gpu 0,1 (\"allot doctor\" lists them)",
			  list, word, d->n, d->n - 1);
	return r;
}

/* By all that people may write: -EINVAL, -ENODEV, or -ENOTUNIQ for a beginning of several. */
static int selection_find_named(const struct devices *d, const char *word)
{
	struct range all = {0, d->n};
	int r = selection_find_by_topo(d, word);

	if (r == -ENODEV)
		r = selection_find_device(d, all, word);
	if (r == -EINVAL && !strncasecmp(word, "GPU-", 4) && word[4]) {
		r = selection_find_visible(d, all, word);
		r = r == -ENODEV ? -EINVAL : r;
	}
	return r;
}

/* The first and the last of a word's devices: "all", "0-3", or one. */
static int selection_find_range(const struct devices *d, const char *word, struct range *ret)
{
	uint64_t first, last;
	char low[24];
	const char *dash = strchr(word, '-');
	int r;

	if (!strcmp(word, "all")) {
		*ret = (struct range){0, d->n};
		return 0;
	}
	if (dash && (size_t)(dash - word) < sizeof(low)) {
		memcpy(low, word, (size_t)(dash - word));
		low[dash - word] = '\0';
		if (!parse_u64(low, 0, UINT32_MAX, &first) &&
		    !parse_u64(dash + 1, 0, UINT32_MAX, &last)) {
			if (last < first)
				return -EINVAL;
			if (last >= d->n)
				return -ENODEV;
			*ret = (struct range){(unsigned int)first, (unsigned int)last + 1};
			return 0;
		}
	}
	r = selection_find_named(d, word);
	if (r < 0)
		return r;
	*ret = (struct range){(unsigned int)r, (unsigned int)r + 1};
	return 0;
}

static int selection_add(const struct devices *d, const char *list, const char *word,
			 struct selection *sel)
{
	struct range range;
	int r = selection_find_range(d, word, &range);

	if (r < 0)
		return selection_explain(d, list, word, r);
	for (unsigned int i = range.first; i < range.end; i++) {
		if (selection_has(sel, i))
			return say_fail(-EINVAL, "--gpu \"%s\": \"%s\" names GPU %u a second time; "
					"name each once, like --gpu 0,1", list, word, i);
		sel->index[sel->n++] = i;
	}
	return 0;
}

int selection_parse(const struct devices *devices, const char *list, struct selection *ret)
{
	struct selection sel = {.n = 0};
	char *copy, *rest, *word;
	int r = 0;

	if (*devices->trouble)
		return say_fail(-ENODEV, "--gpu \"%s\": %s", list, devices->trouble);
	copy = rest = strdup(list);
	if (!copy)
		return say_fail(-ENOMEM, "--gpu: out of memory");
	while (r >= 0 && (word = strsep(&rest, ",")))
		r = selection_add(devices, list, word, &sel);
	free(copy);
	if (r < 0)
		return r;
	*ret = sel;
	return 0;
}

static bool selection_one_model(const struct devices *d, struct range range)
{
	for (unsigned int i = range.first; i < range.end; i++)
		if (strcmp(d->list[i].model, d->list[range.first].model))
			return false;
	return true;
}

/*
 * Adds those of the range that a variable lists; -ENOTUNIQ for an index if indices are not unique.
 */
static int selection_add_visible(const struct devices *d, struct range range, const char *variable,
				 bool by_index, struct selection *sel)
{
	const char *text = getenv(variable);
	char *copy, *rest, *word;
	int r = 0;

	if (!text) {
		for (unsigned int i = range.first; i < range.end; i++)
			sel->index[sel->n++] = i;
		return 0;
	}
	copy = rest = strdup(text);
	if (!copy)
		return -ENOMEM;
	while (r == 0 && (word = strsep(&rest, ","))) {
		int found;

		word += strspn(word, " ");
		word[strcspn(word, " ")] = 0;
		found = selection_find_visible(d, range, word);
		if (found >= 0 && word[0] >= '0' && word[0] <= '9' && !by_index)
			r = -ENOTUNIQ;
		else if (found < 0 || selection_has(sel, (unsigned int)found))
			break;
		else
			sel->index[sel->n++] = (unsigned int)found;
	}
	free(copy);
	return r;
}

int selection_visible(const struct devices *devices, struct selection *ret)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	struct range nvidia = {0, selection_count_nvidia(devices)}, amd = {nvidia.end, devices->n};
	bool by_pci =
		(order && !strcmp(order, "PCI_BUS_ID")) || selection_one_model(devices, nvidia);
	struct selection sel = {.n = 0};
	int r = selection_add_visible(devices, nvidia, "CUDA_VISIBLE_DEVICES", by_pci, &sel);

	if (r == 0)
		r = selection_add_visible(devices, amd, "ROCR_VISIBLE_DEVICES", true, &sel);
	if (r < 0)
		return r;
	*ret = sel;
	return 0;
}
