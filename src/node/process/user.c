/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/user.h"

#include <pwd.h>
#include <stdio.h>

#include "text/text.h"

void user_name(uid_t uid, char ret[static USER_BYTES])
{
	struct passwd entry, *found = NULL;
	char text[1024];

	if (!getpwuid_r(uid, &entry, text, sizeof(text), &found) && found)
		snprintf(ret, USER_BYTES, "%s", entry.pw_name);
	else
		snprintf(ret, USER_BYTES, "%u", (unsigned int)uid);
	text_make_printable(ret);
}
