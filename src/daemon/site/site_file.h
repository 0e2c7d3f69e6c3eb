/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The site's file (site.h), read at the start and again on SIGHUP. Users and groups in it are
 * looked up by their names, for which a directory service may take any time: so a thread of its own
 * reads the file again, and the old content is in force until then.
 *
 *	idle    ── SIGHUP ── reading ── ends ── idle
 *	reading ── SIGHUP ── reading, and once more when it ends
 *	reading ── 5 s ── late: said
 *	late    ── SIGHUP ── reading: the late one is given up, and changes nothing when it ends
 *
 * Each of these is answered in the log.
 */
#ifndef ALLOT_DAEMON_SITE_SITE_FILE_H
#define ALLOT_DAEMON_SITE_SITE_FILE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/loop.h"
#include "control/message.h"
#include "daemon/site/site.h"

struct site_reading;

struct site_file {
	struct loop_source source; /* a reading has ended */
	const char *path;	   /* NULL: the usual one, if it is there */
	bool explain;		   /* each line, on stdout */
	struct site *site;	   /* in force; the loop's thread owns it */
	struct stat in_force;	   /* the file when it was read for that; zeroed: it was not there */

	/* Of the loop's thread: */
	struct site_reading *reading; /* under way; NULL: none */
	uint64_t began_ns;
	bool late, again;	  /* that was said; SIGHUP came since it began */
	unsigned int given_up;	  /* readings that have not ended */

	pthread_mutex_t lock; /* of what follows */
	struct site_reading *ended;
};

const char *site_file_path(const struct site_file *file);
/*
 * 0, also where the usual one is not there; or -errno with a message: it is not known then. Takes as
 * long as the file and those names do, and says so after 5 s.
 */
int site_file_read(struct site_file *file, struct site *ret, bool *ret_there);

/* -errno. The file stays where it is for as long as there is this process. */
int site_file_watch(struct site_file *file, struct loop *loop, struct site *site);
/* Which configuration is in force. */
void site_file_tell(const struct site_file *file, struct control_about *ret);
/* On the loop's thread; tells the service manager. */
void site_file_reload(struct site_file *file);

#endif
