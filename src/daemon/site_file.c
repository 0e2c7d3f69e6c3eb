/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/site_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "control/message.h"
#include "daemon/log.h"
#include "daemon/notify.h"

const char *site_file_path(const struct site_file *file)
{
	return file->path ? file->path : CONTROL_CONFIG;
}

static void site_file_say_line(void *arg, unsigned int line, bool wrong, const char *words)
{
	const struct site_file *file = arg;

	if (wrong)
		log_line(LOG_FAULT, "%s:%u: %s", site_file_path(file), line, words);
	else if (file->explain)
		printf("%s:%u: %s\n", site_file_path(file), line, words);
}

int site_file_read(struct site_file *file, struct site *ret, bool *ret_there)
{
	const char *path = site_file_path(file);
	FILE *in = fopen(path, "re");
	int r = in ? 0 : err_errno();

	*ret_there = in;
	if (in)
		r = site_read(in, site_file_say_line, file, ret);
	else if (r == -ENOENT && !file->path)
		r = site_none(ret);
	if (r == -EINVAL)
		log_line(LOG_FAULT, "%s is not in force: put these lines right", path);
	else if (r < 0)
		log_line(LOG_FAULT, "%s cannot be read: %s", path, strerror(-r));
	if (in)
		fclose(in);
	return r;
}

/* --- Anew ------------------------------------------------------------------------------------- */

static void *site_file_read_anew(void *arg)
{
	struct site_file *file = arg;
	const uint64_t one = 1;

	file->error = site_file_read(file, &file->fresh, &file->there);
	if (write(file->source.fd, &one, sizeof(one)) != sizeof(one))
		log_line(LOG_FAULT, "%s was read in vain: %s", site_file_path(file), strerror(errno));
	return NULL;
}

/* Requests are served by this thread: none is held to half of the old and half of the new. */
static void site_file_end(struct site_file *file)
{
	const char *path = site_file_path(file);

	file->reading = false;
	if (file->error < 0) {
		log_line(LOG_FAULT, "%s: what it said before stays in force", path);
	} else {
		site_free(file->site);
		*file->site = file->fresh;
		log_line(LOG_SAY, file->there ? "%s was read anew; tenants that live keep what they have"
					      : "%s is not there: users are not bounded",
			 path);
	}
	if (file->again) /* it may have changed since */
		site_file_reload(file);
	else
		notify_send("READY=1");
}

static void site_file_take(struct loop_source *source)
{
	uint64_t n;

	if (read(source->fd, &n, sizeof(n)) == sizeof(n))
		site_file_end((struct site_file *)source);
}

void site_file_reload(struct site_file *file)
{
	pthread_attr_t detached;
	pthread_t thread;
	int r;

	file->again = file->reading;
	if (file->reading)
		return;
	notify_send("RELOADING=1");
	file->reading = true;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	r = -pthread_create(&thread, &detached, site_file_read_anew, file);
	pthread_attr_destroy(&detached);
	if (r < 0) {
		log_line(LOG_FAULT, "%s cannot be read: %s", site_file_path(file), strerror(-r));
		file->error = r;
		site_file_end(file);
	}
}

int site_file_watch(struct site_file *file, struct loop *loop, struct site *site)
{
	file->site = site;
	file->source = (struct loop_source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					    .ready = site_file_take};
	return file->source.fd < 0 ? err_errno() : loop_add(loop, &file->source);
}
