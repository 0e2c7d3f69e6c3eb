/* SPDX-License-Identifier: Apache-2.0 */
/* allot's own exit statuses, where it does not end with the command's. */
#ifndef ALLOT_CLI_SAY_EXIT_STATUS_H
#define ALLOT_CLI_SAY_EXIT_STATUS_H

/* allot's own errors end with this, as env(1)'s do; 126 and 127 are env(1)'s too. */
#define EXIT_ALLOT	 125
#define EXIT_CANNOT_EXEC 126
#define EXIT_NOT_FOUND	 127

#endif
