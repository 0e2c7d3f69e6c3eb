/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/find.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/spec.h"

#define FILE_MOST ((size_t)4 << 20) /* bytes */

/* Returns the end of `text` without the bytes of `set` that are there. */
static const char *find_skip_back(const char *text, const char *end, const char *set)
{
	while (end > text && strchr(set, end[-1]))
		end--;
	return end;
}

/* Returns true if the value at `at` is behind `key`, as in `name: x` or `"name":"x"`. */
static bool find_is_value_of(const char *text, const char *at, const char *key)
{
	size_t len = strlen(key);
	const char *end = find_skip_back(text, at, " \t\r\n\"'");

	if (end == text || end[-1] != ':')
		return false;
	end = find_skip_back(text, end - 1, " \t\r\n\"'");
	return (size_t)(end - text) >= len && !memcmp(end - len, key, len);
}

/* JSON and YAML have a short text the same way, but for quotes. */
static bool find_has_value(const char *text, const char *key, const char *value)
{
	size_t len = strlen(value);

	for (const char *at = strstr(text, value); at; at = strstr(at + 1, value))
		if (strchr(" \t\r\n\"',}", at[len]) && find_is_value_of(text, at, key))
			return true;
	return false;
}

static bool find_file_has(const char *path, const char *kind, const char *name)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(FILE_MOST + 1) : NULL;
	bool has = false;

	if (text) {
		text[fread(text, 1, FILE_MOST, file)] = '\0';
		has = find_has_value(text, "kind", kind) && find_has_value(text, "name", name);
	}
	free(text);
	if (file)
		fclose(file);
	return has;
}

/* Runtimes read no file with another ending. */
static bool find_is_others(const char *file)
{
	const char *end = strrchr(file, '.');

	return *file != '.' && strncmp(file, CDI_VENDOR, strlen(CDI_VENDOR)) != 0 && end &&
	       (!strcmp(end, ".json") || !strcmp(end, ".yaml"));
}

bool cdi_dir_has(const char *dir, const char *kind, const char *name)
{
	struct dirent **files = NULL;
	int n = scandir(dir, &files, NULL, alphasort);
	char path[PATH_MAX];
	bool has = false;

	for (int i = 0; i < n; i++) {
		if (!has && find_is_others(files[i]->d_name) &&
		    snprintf(path, sizeof(path), "%s/%s", dir, files[i]->d_name) < (int)sizeof(path))
			has = find_file_has(path, kind, name);
		free(files[i]);
	}
	free(files);
	return has;
}
