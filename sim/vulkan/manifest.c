/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/vulkan/manifest.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST_BYTES 4096

/* Reads the manifest's library_path, which is one string without escapes. */
static int manifest_read(const char *path, char ret[static PATH_MAX])
{
	char text[MANIFEST_BYTES];
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	const char *at;

	if (file)
		fclose(file);
	text[n] = '\0';
	at = strstr(text, "\"library_path\"");
	if (!at || sscanf(at, "\"library_path\" : \"%4000[^\"]\"", ret) != 1)
		return -ENOENT;
	return *ret == '/' && access(ret, R_OK) < 0 ? -ENOENT : 0;
}

int manifest_find_lavapipe(char ret[static PATH_MAX])
{
	static const char *const places[] = {"/etc/vulkan/icd.d/lvp_icd.*json",
					     "/usr/share/vulkan/icd.d/lvp_icd.*json"};
	int r = -ENOENT;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r; i++) {
		glob_t found = {0};

		if (glob(places[i], 0, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc && r; k++)
				r = manifest_read(found.gl_pathv[k], ret);
		globfree(&found);
	}
	return r;
}
