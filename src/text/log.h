/* SPDX-License-Identifier: Apache-2.0 */
/* allotd's own messages: one line each on stderr, with its priority if the journal reads it. */
#ifndef ALLOT_TEXT_LOG_H
#define ALLOT_TEXT_LOG_H

enum log_level { LOG_FAULT = 3, LOG_WARN = 4, LOG_SAY = 6 }; /* as syslog(3) numbers them */

/* Text that others wrote is made fit to be shown. */
__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *fmt, ...);

#endif
