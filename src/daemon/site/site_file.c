/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/site/site_file.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/guarded.h"
#include "base/now.h"
#include "control/message.h"
#include "daemon/site/notify.h"
#include "text/log.h"

/* An answer within this is a slow one; and how many are waited for that do not come. */
#define PATIENCE_NS (5 * NS_PER_S)
#define READINGS    4

/* The state of one reading thread: its own, until it is in the list of ended ones. */
struct site_reading {
	struct site_file *file;
	atomic_bool given_up; /* it says nothing any more */
	struct site fresh;
	struct stat st; /* zeroed: it is not there */
	bool there;
	int error;
	struct site_reading *next;
};

const char *site_file_path(const struct site_file *file)
{
	return file->path ? file->path : CONTROL_CONFIG;
}

static void site_file_say_line(void *arg, unsigned int line, bool wrong, const char *words)
{
	const struct site_reading *reading = arg;
	const char *path = site_file_path(reading->file);

	if (reading->given_up)
		return;
	if (wrong)
		log_line(LOG_FAULT, "%s:%u: %s", path, line, words);
	else if (reading->file->explain)
		printf("%s:%u: %s\n", path, line, words);
}

/* Users who can change the file could give themselves any limit. */
static int site_file_open(struct site_reading *reading, FILE **ret)
{
	const char *path = site_file_path(reading->file);
	struct guarded_why why = {.words = NULL};
	CLEANUP_CLOSE int fd = guarded_open(path, &why);

	if (fd >= 0) {
		*ret = fdopen(fd, "r");
		if (*ret)
			TAKE_FD(fd);
		return *ret ? 0 : err_errno();
	}
	if (why.words && !reading->given_up)
		log_line(LOG_FAULT, "%s is not believed: %s: %s; %s", path, why.path, why.words,
			 fd == -ENOLINK ? "put it back, or remove the link"
					: "have root alone own and write it");
	return fd;
}

static void site_file_do(struct site_reading *reading)
{
	const char *path = site_file_path(reading->file);
	FILE *in = NULL;
	int r = site_file_open(reading, &in);

	reading->there = in;
	if (in && fstat(fileno(in), &reading->st) < 0)
		reading->st = (struct stat){0};
	if (in)
		r = site_read(in, site_file_say_line, reading, &reading->fresh);
	else if (r == -ENOENT && !reading->file->path)
		r = site_none(&reading->fresh);
	if (r == -EINVAL && !reading->given_up)
		log_line(LOG_FAULT, "%s is not in force: put these lines right", path);
	else if (r < 0 && !reading->given_up)
		log_line(LOG_FAULT, "%s cannot be read: %s", path, strerror(-r));
	if (in)
		fclose(in);
	reading->error = r;
}

static void site_file_warn_late(const struct site_file *file, const char *meanwhile)
{
	log_line(LOG_WARN, "%s has not been read for %u s: the file, or the directory service that knows "
		 "its users and groups, does not answer; %s",
		 site_file_path(file), (unsigned int)(PATIENCE_NS / NS_PER_S), meanwhile);
}

static void *site_file_read_first(void *arg)
{
	site_file_do(arg);
	return NULL;
}

/* Waits without limit: no older content is in force. */
static void site_file_await(struct site_reading *reading)
{
	uint64_t until_ns = now_monotonic_ns() + PATIENCE_NS;
	const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
				       .tv_nsec = (long)(until_ns % NS_PER_S)};
	pthread_t thread;

	if (pthread_create(&thread, NULL, site_file_read_first, reading) != 0) {
		site_file_do(reading);
		return;
	}
	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0)
		return;
	site_file_warn_late(reading->file, "it is waited for");
	pthread_join(thread, NULL);
}

int site_file_read(struct site_file *file, struct site *ret, bool *ret_there)
{
	struct site_reading reading = {.file = file};

	site_file_await(&reading);
	*ret_there = reading.there;
	if (!reading.error) {
		*ret = reading.fresh;
		file->in_force = reading.st;
	}
	return reading.error;
}

void site_file_tell(const struct site_file *file, struct control_about *ret)
{
	const struct stat *st = &file->in_force;
	const char *path = site_file_path(file);
	char whole[PATH_MAX];

	*ret = (struct control_about){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.bytes = (uint64_t)st->st_size,
		.mtime_ns = (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec};
	/* The requester's working directory is another one. */
	if (*path != '/' && realpath(path, whole))
		path = whole;
	snprintf(ret->config, sizeof(ret->config), "%.*s", (int)sizeof(ret->config) - 1, path);
}

/* --- Reading again ---------------------------------------------------------------------------- */

static void *site_file_read_anew(void *arg)
{
	struct site_reading *reading = arg;
	struct site_file *file = reading->file;
	const uint64_t one = 1;

	site_file_do(reading);
	pthread_mutex_lock(&file->lock);
	reading->next = file->ended;
	file->ended = reading;
	pthread_mutex_unlock(&file->lock);
	if (write(file->source.fd, &one, sizeof(one)) != sizeof(one))
		log_line(LOG_FAULT, "%s was read in vain: %s", site_file_path(file), strerror(errno));
	return NULL;
}

/* Requests are served by this thread: none is held to half of the old and half of the new. */
static void site_file_end(struct site_file *file, const struct site_reading *reading)
{
	const char *path = site_file_path(file);

	if (reading->error < 0) {
		log_line(LOG_FAULT, "%s: what it said before stays in force", path);
	} else {
		site_free(file->site);
		*file->site = reading->fresh;
		file->in_force = reading->st;
		log_line(LOG_SAY, reading->there ? "%s was read anew; tenants that live keep what they have"
						 : "%s is not there: users are not bounded",
			 path);
	}
	file->reading = NULL;
	if (file->again) /* it may have changed since */
		site_file_reload(file);
	else if (!file->late)
		notify_send("READY=1");
}

static void site_file_take_ended(struct site_file *file)
{
	struct site_reading *reading, *next;

	pthread_mutex_lock(&file->lock);
	reading = file->ended;
	file->ended = NULL;
	pthread_mutex_unlock(&file->lock);
	for (; reading; reading = next) {
		next = reading->next;
		if (reading == file->reading) {
			site_file_end(file, reading);
		} else {
			file->given_up--;
			if (!reading->error)
				site_free(&reading->fresh);
		}
		free(reading);
	}
}

/* The service manager need not wait for it: the old content is in force. */
static void site_file_say_late(struct site_file *file)
{
	if (!file->reading || file->late || now_monotonic_ns() < file->began_ns + PATIENCE_NS)
		return;
	file->late = true;
	site_file_warn_late(file, "what it said before stays in force");
	notify_send("READY=1");
}

static void site_file_ready(struct loop_source *source)
{
	struct site_file *file = (struct site_file *)source;
	uint64_t n;

	if (read(source->fd, &n, sizeof(n)) == sizeof(n))
		site_file_take_ended(file);
	site_file_say_late(file);
}

static int site_file_timeout_ms(struct loop_source *source)
{
	const struct site_file *file = (const struct site_file *)source;
	uint64_t now_ns = now_monotonic_ns(), due_ns = file->began_ns + PATIENCE_NS;

	if (!file->reading || file->late)
		return -1;
	return due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / NS_PER_MS) + 1;
}

static int site_file_start(struct site_file *file)
{
	struct site_reading *reading = calloc(1, sizeof(*reading));
	pthread_attr_t detached;
	pthread_t thread;
	int r;

	if (!reading)
		return -ENOMEM;
	reading->file = file;
	file->reading = reading;
	file->began_ns = now_monotonic_ns();
	file->late = file->again = false;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	r = -pthread_create(&thread, &detached, site_file_read_anew, reading);
	pthread_attr_destroy(&detached);
	if (r < 0) {
		file->reading = NULL;
		free(reading);
	}
	return r;
}

static void site_file_begin(struct site_file *file)
{
	int r;

	notify_send("RELOADING=1");
	r = site_file_start(file);
	if (r == 0)
		return;
	log_line(LOG_FAULT, "%s cannot be read: %s; what it said before stays in force",
		 site_file_path(file), strerror(-r));
	notify_send("READY=1");
}

static void site_file_give_up(struct site_file *file, uint64_t since_s)
{
	log_line(LOG_WARN, "%s: what began to read it %u s ago is given up, and is read anew",
		 site_file_path(file), (unsigned int)since_s);
	file->reading->given_up = true;
	file->given_up++;
	site_file_begin(file);
}

void site_file_reload(struct site_file *file)
{
	uint64_t since_s = (now_monotonic_ns() - file->began_ns) / NS_PER_S;

	if (!file->reading) {
		site_file_begin(file);
	} else if (!file->late) {
		file->again = true;
		log_line(LOG_SAY, "%s is being read since %u s, and will be once more when that ends",
			 site_file_path(file), (unsigned int)since_s);
	} else if (file->given_up + 1 < READINGS) {
		site_file_give_up(file, since_s);
	} else {
		log_line(LOG_FAULT, "%s: %d readings of it have not ended, the last of which began %u s ago: "
			 "what it said before stays in force; have allotd restarted if that goes on",
			 site_file_path(file), READINGS, (unsigned int)since_s);
	}
}

int site_file_watch(struct site_file *file, struct loop *loop, struct site *site)
{
	file->site = site;
	pthread_mutex_init(&file->lock, NULL);
	file->source = (struct loop_source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					    .ready = site_file_ready,
					    .timeout_ms = site_file_timeout_ms};
	return file->source.fd < 0 ? err_errno() : loop_add(loop, &file->source);
}
