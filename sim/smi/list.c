/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/smi/list.h"

#include <stdio.h>
#include <string.h>

bool list_parse_format(const char *text, struct list_format *ret)
{
	char copy[64], *rest = copy, *word;
	struct list_format format = {.header = true, .units = true};
	bool csv = false;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return false;
	while ((word = strsep(&rest, ","))) {
		word += strspn(word, " ");
		if (!strcmp(word, "csv"))
			csv = true;
		else if (!strcmp(word, "noheader"))
			format.header = false;
		else if (!strcmp(word, "nounits"))
			format.units = false;
		else
			return false;
	}
	*ret = format;
	return csv;
}

const char *list_parse_query(char *words, bool apps, struct list_query *ret)
{
	struct list_query query = {.apps = apps};
	char *word;

	while ((word = strsep(&words, ","))) {
		const struct field *field;

		word += strspn(word, " ");
		word[strcspn(word, " ")] = 0;
		field = fields_find(apps ? fields_apps : fields_gpu, word);
		if (!field)
			return word;
		if (query.n == LIST_FIELDS)
			return "";
		query.field[query.n++] = field;
	}
	*ret = query;
	return NULL;
}

void list_print_devices(struct driver *driver)
{
	for (unsigned int i = 0; i < driver->n; i++) {
		char name[DRIVER_TEXT], uuid[DRIVER_TEXT];

		driver_name(driver, &driver->device[i], name);
		driver_uuid(driver, &driver->device[i], uuid);
		printf("GPU %u: %s (UUID: %s)\n", driver->device[i].index, name, uuid);
	}
}

static void list_print_heading(const struct list_query *query)
{
	for (unsigned int i = 0; i < query->n; i++) {
		const struct field *field = query->field[i];

		printf("%s%s", i ? ", " : "", field->name);
		if (field->unit)
			printf(" [%s]", field->unit);
	}
	putchar('\n');
}

static void list_print_line(const struct list_query *query, const struct fields_line *line, bool units)
{
	for (unsigned int i = 0; i < query->n; i++) {
		char value[DRIVER_TEXT];

		fields_put(query->field[i], line, units, value);
		printf("%s%s", i ? ", " : "", value);
	}
	putchar('\n');
}

void list_print_query(struct driver *driver, const struct list_query *query, struct list_format format)
{
	static nvmlProcessInfo_t processes[DRIVER_PROCESSES];

	if (format.header)
		list_print_heading(query);
	for (unsigned int i = 0; i < driver->n; i++) {
		struct fields_line line = {.driver = driver, .device = &driver->device[i]};
		unsigned int n = query->apps ? driver_processes(driver, line.device, processes) : 0;

		if (!query->apps)
			list_print_line(query, &line, format.units);
		for (unsigned int k = 0; k < n; k++) {
			line.process = &processes[k];
			list_print_line(query, &line, format.units);
		}
	}
}
