/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/launcher.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/out/say.h"

enum how { CONTAINER, INSIDE };

static const struct {
	const char *name;
	enum how how;
} launchers[] = {
	{"podman", CONTAINER}, {"docker", CONTAINER}, {"nerdctl", CONTAINER},
	{"kubectl", INSIDE},   {"ssh", INSIDE},	      {"srun", INSIDE},
	{"sudo", INSIDE},      {"su", INSIDE},	      {"doas", INSIDE},
	{"machinectl", INSIDE}, {"systemd-run", INSIDE},
};

void launcher_warn(char *const *command)
{
	const char *name = text_file_name(command[0]);

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (strcmp(name, launchers[i].name))
			continue;
		if (launchers[i].how == CONTAINER)
			say_note("warning: what %s starts is not limited, for it is a child of "
				 "something else; give the container a device of allot: man "
				 "allot-cdi",
				 name);
		else
			say_note("warning: what %s starts is not limited, for it is a child of "
				 "something else; start allot there: %s ... allot run ... -- "
				 "COMMAND",
				 name, name);
	}
}

const char *launcher_bare_root(char *const *command, const char *library)
{
	char path[2 * PATH_MAX];
	int i = 1;

	if (strcmp(text_file_name(command[0]), "chroot"))
		return NULL;
	while (command[i] && command[i][0] == '-')
		i++;
	if (!command[i])
		return NULL;
	snprintf(path, sizeof(path), "%s%s", command[i], library);
	return access(path, R_OK) < 0 ? command[i] : NULL;
}
