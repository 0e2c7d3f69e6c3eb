/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/patch.h"

#include <errno.h>
#include <stdlib.h>

int patch_send(struct api *api, const char *path, char *body,
	       void (*ended)(void *arg, int status, const char *bytes, size_t len), void *arg,
	       struct api_call **ret)
{
	int r = -ENOMEM;

	if (body)
		r = api_ask(api,
			    &(struct api_request){.method = "PATCH",
						  .path = path,
						  .type = "application/merge-patch+json",
						  .body = body,
						  .timeout_ms = PATCH_MS,
						  .ended = ended,
						  .arg = arg},
			    ret);
	free(body);
	return r;
}
