/* SPDX-License-Identifier: Apache-2.0 */
/*
 * granter CDI-DIR put ID TENANT UUID BYTES PERMILLE [XPU-DIR] | beside ID OF | drop ID | list PREFIX | memo ID |
 * sweep RUNTIME: what kube/grants/grant.h does, by hand. Of PERMILLE 0 there is no share. The memo is "for ID".
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/grants/grant.h"
#include "nvidia/uuid.h"

static struct kube_conf conf;
static char why[GRANT_WHY];

static int put(char **arg)
{
	static struct grant grant;
	struct policy_device *device = grant.policy.device;

	snprintf(grant.id, sizeof(grant.id), "%s", arg[0]);
	snprintf(grant.policy.name, sizeof(grant.policy.name), "%s", arg[1]);
	snprintf(grant.memo, sizeof(grant.memo), "for %s", arg[0]);
	grant.policy.ndevices = 1;
	if (arg[5]) {
		grant.xpu = true;
		snprintf(conf.xpu, sizeof(conf.xpu), "%s", arg[5]);
	}
	if (uuid_parse(arg[2], device->uuid) < 0)
		errx(2, "%s: no UUID", arg[2]);
	device->limit_bytes = strtoull(arg[3], NULL, 10);
	device->share_permille = (uint32_t)strtoul(arg[4], NULL, 10);
	if (device->share_permille)
		grant.policy.compute = POLICY_COMPUTE_SHARE;
	return grant_put(&conf, &grant, why);
}

static int print(const char *id, void *arg)
{
	(void)arg;
	puts(id);
	return 0;
}

static int memo(const char *id)
{
	char text[GRANT_MEMO_BYTES];
	int r = grant_memo(&conf, id, text);

	if (r == 0)
		puts(text);
	else
		snprintf(why, sizeof(why), "%s", strerror(-r));
	return r;
}

int main(int argc, char **argv)
{
	int r = 0;

	if (argc < 4)
		errx(2, "see the source");
	snprintf(conf.cdi, sizeof(conf.cdi), "%s", argv[1]);
	if (!strcmp(argv[2], "put") && argc >= 8)
		r = put(argv + 3);
	else if (!strcmp(argv[2], "beside") && argc == 5)
		r = grant_put_beside(&conf, argv[3], argv[4], why);
	else if (!strcmp(argv[2], "drop"))
		r = grant_drop(&conf, argv[3], why);
	else if (!strcmp(argv[2], "list"))
		r = grant_list(&conf, argv[3], print, NULL);
	else if (!strcmp(argv[2], "memo"))
		r = memo(argv[3]);
	else if (!strcmp(argv[2], "sweep"))
		printf("%u\n", grant_sweep(&conf, argv[3]));
	else
		errx(2, "see the source");
	if (r < 0)
		errx(1, "%s", why);
	return 0;
}
