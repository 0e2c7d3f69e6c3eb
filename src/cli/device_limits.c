/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device_limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"

#define RIGHT "write it like 8GiB, 512M, 1.5G, 8GB or 25%%"

static int explain(const char *list, const char *word, int r)
{
	if (!*word)
		say_error("--memory \"%s\": a value is empty; " RIGHT, list);
	else if (r == -ERANGE && strchr(word, '%'))
		say_error("--memory \"%s\": \"%s\" is more than the whole device; " RIGHT, list,
			  word);
	else if (r == -ERANGE)
		say_error("--memory \"%s\": \"%s\" is more than any device has; " RIGHT, list,
			  word);
	else if (strspn(word, "0.") && !word[strspn(word, "0.")])
		say_error("--memory \"%s\": zero would refuse every allocation; " RIGHT, list);
	else
		say_error("--memory \"%s\": \"%s\" is not a size; " RIGHT, list, word);
	return r;
}

int limits_parse(const char *text, struct limits *ret)
{
	struct limits limits = {.text = text};
	char *copy = strdup(text), *rest = copy, *word;
	int r = 0;

	if (!copy) {
		say_error("--memory: out of memory");
		return -ENOMEM;
	}
	while (r == 0 && (word = strsep(&rest, ","))) {
		if (limits.n == POLICY_DEVICES) {
			say_error("--memory: more than %d values; give one for all devices or one "
				  "for each, like --memory 8GiB,25%%",
				  POLICY_DEVICES);
			r = -E2BIG;
			break;
		}
		r = parse_size_spec(word, &limits.spec[limits.n++]);
		if (r < 0)
			explain(text, word, r);
	}
	free(copy);
	if (r < 0)
		return r;
	*ret = limits;
	return 0;
}

int limits_apply(const struct limits *limits, struct policy *policy)
{
	unsigned int n = policy->ndevices;

	if (!limits->text)
		return 0;
	if (limits->n != 1 && limits->n != n) {
		say_error("--memory \"%s\": %u values for %u device%s; give one for all or one for "
			  "each, like --gpu 0,1 --memory 8GiB,25%%",
			  limits->text, limits->n, n, n == 1 ? "" : "s");
		return -EINVAL;
	}
	for (unsigned int i = 0; i < n; i++) {
		const struct size_spec *spec = &limits->spec[limits->n == 1 ? 0 : i];

		policy->device[i].limit_bytes = spec->bytes;
		policy->device[i].limit_permille = spec->permille;
	}
	return 0;
}

struct units_text limits_words(const struct policy_device *device)
{
	struct units_text t;

	if (device->limit_bytes)
		return units_bytes(device->limit_bytes);
	if (device->limit_permille < 1000)
		return units_permille(device->limit_permille);
	snprintf(t.s, sizeof(t.s), "no limit");
	return t;
}
