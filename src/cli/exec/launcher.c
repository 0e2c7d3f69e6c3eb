/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/launcher.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/say/say.h"

/* Programs that execute the command in their arguments, and their letters that take a word. */
static const struct {
	const char *name, *letters;
} wrappers[] = {
	{"env", "uCS"}, {"nice", "n"},	   {"nohup", ""},
	{"setsid", ""}, {"stdbuf", "ioe"}, {"timeout", "ks"},
};

static const char *launcher_wrapper_letters(const char *command)
{
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (!strcmp(text_file_name(command), wrappers[i].name))
			return wrappers[i].letters;
	return NULL;
}

/* Also "timeout 10s", "env A=b". A guess: where it is wrong nothing is recognised. */
static bool launcher_is_for_wrapper(const char *word)
{
	return *word == '-' || (*word >= '0' && *word <= '9') || strchr(word, '=');
}

/* The command behind wrappers. */
static char *const *launcher_behind(char *const *command)
{
	const char *letters;

	while ((letters = launcher_wrapper_letters(command[0]))) {
		char *const *next = command + 1;

		for (; *next && launcher_is_for_wrapper(*next); next++)
			if ((*next)[0] == '-' && (*next)[1] && !(*next)[2] &&
			    strchr(letters, (*next)[1]) && next[1])
				next++;
		if (!*next)
			break;
		command = next;
	}
	return command;
}

enum how { CONTAINER, IMAGE, INSIDE };

static const struct {
	const char *name;
	enum how how;
} launchers[] = {
	{"podman", CONTAINER},	{"docker", CONTAINER},	 {"nerdctl", CONTAINER},
	{"apptainer", IMAGE},	{"singularity", IMAGE},	 {"kubectl", INSIDE},
	{"ssh", INSIDE},	{"srun", INSIDE},	 {"sbatch", INSIDE},
	{"sudo", INSIDE},	{"su", INSIDE},		 {"doas", INSIDE},
	{"machinectl", INSIDE}, {"systemd-run", INSIDE},
};

static void launcher_say(const char *name, enum how how)
{
	switch (how) {
	case CONTAINER:
		say_note("warning: what %s starts is not limited, for it is a child of something "
			 "else; give the container a device of allot: man allot-cdi",
			 name);
		break;
	case IMAGE:
		say_note(
			"warning: what %s starts is not limited, for its image has neither library "
			"nor tenant; mount both (man allot-run, OTHER LAUNCHERS)",
			name);
		break;
	case INSIDE:
		say_note("warning: what %s starts is not limited, for it is a child of something "
			 "else; start allot there: %s ... allot run ... -- COMMAND",
			 name, name);
		break;
	}
}

void launcher_warn(char *const *command)
{
	const char *name = text_file_name(launcher_behind(command)[0]);

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (!strcmp(name, launchers[i].name))
			launcher_say(name, launchers[i].how);
}

/* Where unshare(1) is to change its root to; NULL: nowhere. */
static const char *launcher_unshare_root(char *const *command)
{
	for (int i = 1; command[i] && launcher_is_for_wrapper(command[i]); i++) {
		if (!strncmp(command[i], "--root=", 7))
			return command[i] + 7;
		if (!strcmp(command[i], "--root") || !strcmp(command[i], "-R"))
			return command[i + 1];
	}
	return NULL;
}

static const char *launcher_root(char *const *command)
{
	int i = 1;

	if (!strcmp(text_file_name(command[0]), "unshare"))
		return launcher_unshare_root(command);
	if (strcmp(text_file_name(command[0]), "chroot"))
		return NULL;
	while (command[i] && command[i][0] == '-')
		i++;
	return command[i];
}

const char *launcher_bare_root(char *const *command, const char *library)
{
	const char *root = launcher_root(launcher_behind(command));
	char path[2 * PATH_MAX];

	if (!root)
		return NULL;
	snprintf(path, sizeof(path), "%s%s", root, library);
	return access(path, R_OK) < 0 ? root : NULL;
}
