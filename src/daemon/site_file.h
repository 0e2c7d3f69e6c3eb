/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The site's file (site.h), read at the start and anew by SIGHUP. Users and groups in it are looked up
 * by their names, for which a directory service may take as long as it likes: what is read anew is
 * read on a thread of its own, and what was said before is in force until then.
 */
#ifndef ALLOT_DAEMON_SITE_FILE_H
#define ALLOT_DAEMON_SITE_FILE_H

#include "daemon/loop.h"
#include "daemon/site.h"

struct site_file {
	struct loop_source source; /* a thread has read it */
	const char *path;	   /* NULL: the usual one, if it is there */
	bool explain;		   /* each line, on stdout */
	struct site *site;	   /* what is in force: the loop's thread has it alone */
	bool reading, again;	   /* a thread does; SIGHUP came since it began */

	/* Of that thread, until it has written to the source: */
	struct site fresh;
	bool there;
	int error;
};

const char *site_file_path(const struct site_file *file);
/* 0, also where the usual one is not there; or -errno with a message: it is not known then. */
int site_file_read(struct site_file *file, struct site *ret, bool *ret_there);

/* -errno. The file stays where it is for as long as there is this process. */
int site_file_watch(struct site_file *file, struct loop *loop, struct site *site);
/* On the loop's thread; tells the service manager. */
void site_file_reload(struct site_file *file);

#endif
