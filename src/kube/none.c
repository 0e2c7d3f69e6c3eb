/* SPDX-License-Identifier: Apache-2.0 */
/* In place of kube.c where its libraries were not there when this was built. */
#include <errno.h>

#include "kube/kube.h"
#include "text/log.h"

int kube_open(struct loop *loop, const struct kube_conf *conf, const char *runtime,
	      const struct devices *devices, struct kube **ret)
{
	log_line(LOG_FAULT, "[kubernetes] is in the configuration, and this allotd is built without it: build it "
		 "with libnghttp2, libprotobuf-c, libcurl and jansson");
	return -ENOTSUP;
}

void kube_tell(struct kube *kube, const struct devices *devices)
{
}

void kube_tell_words(struct kube *kube, enum node_words which, const struct faults *words)
{
}

void kube_close(struct kube *kube)
{
}
