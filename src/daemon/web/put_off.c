/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/put_off.h"

#include "base/now.h"
#include "daemon/web/exposition.h"
#include "node/process/allowance.h"
#include "text/log.h"

/* At most one line of each kind is written in this time. */
#define QUIET_NS (60 * NS_PER_S)

static const char *const put_off_words[ALLOWANCE_KINDS] = {
	[ALLOWANCE_MAPPINGS] = "has processes with so many mappings that they are not all read at once; "
			       "until they are, nobody says whether these are limited",
	[ALLOWANCE_ENVIRONMENTS] = "has processes with so long environments that they are not all read "
				   "at once; until they are, that user's tenants do not end",
	[ALLOWANCE_DESCRIPTORS] = "has processes with so many descriptors that they are not all read at "
				  "once; until they are, what these have of AMD GPUs is not all known",
	[ALLOWANCE_FIGURES] = "has more in the ledgers of tenants than is read of one user; they are not "
			      "all read, and allot ps says which",
};

void put_off_say(uint64_t now_ns)
{
	static struct {
		uint64_t times, said_ns;
	} known[ALLOWANCE_KINDS];

	for (int kind = 0; kind < ALLOWANCE_KINDS; kind++) {
		uid_t uid;
		uint64_t times = allowance_count((enum allowance_kind)kind, &uid);

		if (times == known[kind].times ||
		    (known[kind].said_ns && now_ns < known[kind].said_ns + QUIET_NS))
			continue;
		known[kind].times = times;
		known[kind].said_ns = now_ns;
		log_line(LOG_WARN, "user %u %s", (unsigned int)uid, put_off_words[kind]);
	}
}

void put_off_write(FILE *out)
{
	static const char name[] = "allot_put_off_total";
	uid_t uid;

	exposition_head(out, name, "counter",
			"How often something of a user's was not read at once, for a bound.");
	for (int kind = 0; kind < ALLOWANCE_KINDS; kind++)
		exposition_put(out, name, LABELS("what", allowance_word((enum allowance_kind)kind)),
			       allowance_count((enum allowance_kind)kind, &uid));
}
