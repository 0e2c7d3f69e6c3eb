/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/settings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/finding.h"
#include "dropin/variables.h"
#include "dropin/vgpu_file.h"
#include "text/text.h"

static void settings_check_variable(const char *variable)
{
	const char *why = variables_why_unheeded(variable);
	char shown[160];

	snprintf(shown, sizeof(shown), "%s", variable);
	text_make_printable(shown);
	if (why) {
		finding_say(FINDING_WARN, why, "%s does nothing", shown);
	} else if (variables_matter(variable)) {
		finding_say(FINDING_OK, NULL, "%s holds for programs that are started here", shown);
	}
}

void settings_check(void)
{
	static const char wrong[] = "put it right, or remove it: until then programs get no GPU";
	struct config config = {.present = false};

	if (variables_read(&config, environ) < 0) {
		finding_say(FINDING_FAIL, wrong, "%s", config.complaint);
	} else {
		for (char **variable = environ; variable && *variable; variable++)
			settings_check_variable(*variable);
	}
	config = (struct config){.present = false};
	if (vgpu_file_read(&config) < 0)
		finding_say(FINDING_FAIL, wrong, "%s", config.complaint);
	else if (config_is_by_file(&config))
		finding_say(FINDING_OK, NULL, VGPU_FILE " limits programs here");
	if (*config.remark)
		finding_say(FINDING_WARN, "what it was to limit is not limited", "%s",
			    config.remark);
}
