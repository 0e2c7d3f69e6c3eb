/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slices/slices_watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "text/log.h"

#define SECONDS	   600 /* a watch ends then, and what is there is listed: no event is lost for longer */
#define LATE_MS	   30000 /* a server that does not end it then is gone */
#define SETTLE_MS  500	 /* several events are one look */
#define SHORT_NS   (60 * NS_PER_S) /* a watch that ended earlier has failed */
#define RETRY_MS   1000
#define PATH_BYTES 2048

static void watch_heard(void *arg, const char *bytes, size_t len)
{
	struct slices_watch *watch = arg;

	watch->failures = 0;
	watch->look(watch->arg, SETTLE_MS);
}

/* 410 is none: the version is too old, and the list that follows has a newer one. */
static void watch_tell(struct slices_watch *watch, int status)
{
	bool refused = status >= 400 && status < 500 && status != 410 && status != 429;

	if (refused && !watch->told)
		log_line(LOG_WARN,
			 "kubernetes: this node's ResourceSlices cannot be watched: HTTP %d; if a kubelet deletes "
			 "them, as it may when it starts, they are missing for up to 20 minutes; give allotd's "
			 "service account the right to watch resourceslices",
			 status);
	watch->told = refused;
}

/* Servers that refuse a watch are asked each SECONDS at most, so that there is a look all the same. */
static void watch_ended(void *arg, int status, const char *bytes, size_t len)
{
	struct slices_watch *watch = arg;
	bool failed = now_monotonic_ns() - watch->begun_ns < SHORT_NS;

	watch->call = NULL;
	if (status == -ECANCELED)
		return;
	watch_tell(watch, status);
	watch->failures = failed ? watch->failures + 1 : 0;
	watch->look(watch->arg, min_u64(SECONDS * 1000, (uint64_t)RETRY_MS << min_u64(watch->failures, 16)));
}

/* A version is opaque, but none has a character that a URL has another sense for. */
static bool watch_is_version(const char *version)
{
	return version && strlen(version) < 64 &&
	       strspn(version, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") ==
		       strlen(version);
}

void slices_watch_begin(struct slices_watch *watch, const char *path, const char *version)
{
	char text[PATH_BYTES];
	int r;

	slices_watch_end(watch);
	watch->begun_ns = now_monotonic_ns();
	snprintf(text, sizeof(text), "%s&watch=1&timeoutSeconds=%d&resourceVersion=%s", path, SECONDS,
		 watch_is_version(version) ? version : "");
	r = api_ask(watch->api,
		    &(struct api_request){.method = "GET",
					  .path = text,
					  .timeout_ms = SECONDS * 1000 + LATE_MS,
					  .line = watch_heard,
					  .ended = watch_ended,
					  .arg = watch},
		    &watch->call);
	if (r)
		watch_ended(watch, r, "", 0);
}

void slices_watch_end(struct slices_watch *watch)
{
	if (watch->call)
		api_forget(watch->call);
	watch->call = NULL;
}
