/* SPDX-License-Identifier: Apache-2.0 */
/* A ResourceClaim, written by whoever may: what is read of it is a policy, and is the same by its memos. */
#include <string.h>

#include "kube/claims/claim.h"
#include "tests/fuzz/fuzz.h"

#define UID "0f7e2d6c-8a0c-4b7e-9d0f-1f2e3d4c5b6a"

static const struct kube_conf conf = {.driver = "gpu.allot.dev", .node = "node1"};
static const struct claim_id id = {"default", "shares", UID};
static const struct node_devices devices = {
	.n = 3,
	.list = {{.device = {.uuid = {[15] = 1}, .total_bytes = UINT64_C(24) << 30}},
		 {.device = {.uuid = {[15] = 2}}},
		 {.device = {.uuid = {[15] = 3}}, .sick = true, .why = "Xid 79"}},
};
static struct claim claim, again;
static char why[CLAIM_WHY];

static void check_grant(unsigned int i)
{
	const struct grant *grant = &claim.grant[i].grant;

	MUST(!policy_check(&grant->policy));
	MUST(!(grant->policy.flags & POLICY_ALL_DEVICES));
	MUST(!strncmp(grant->id, claim_prefix(UID).s, strlen(claim_prefix(UID).s)));
	for (uint32_t d = 0; d < grant->policy.ndevices; d++)
		MUST(grant->policy.device[d].uuid[15] == 1 || grant->policy.device[d].uuid[15] == 2);
	MUST(claim_recall(grant->id, grant->memo, &devices, &again, why) == (int)claim.ngrants);
	MUST(again.grant[i].grant.policy.ndevices == grant->policy.ndevices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char memo[GRANT_MEMO_BYTES], name[CLAIM_NAME_BYTES];

	again.ngrants = again.nresults = 0;
	memset(why, 0, sizeof(why));
	(void)claim_is_here((const char *)data, size, UID, &conf);
	if (claim_read((const char *)data, size, &id, &conf, &devices, &claim, why) < 0) {
		MUST(*why && memchr(why, 0, sizeof(why)));
	} else {
		MUST(claim.ngrants && claim.ngrants <= claim.nresults && claim.nresults <= CLAIM_RESULTS);
		for (unsigned int i = 0; i < claim.ngrants; i++)
			check_grant(i);
		MUST(again.nresults == claim.nresults);
	}
	if (size >= sizeof(memo))
		return 0;
	memcpy(memo, data, size);
	memo[size] = 0;
	again.ngrants = again.nresults = 0;
	(void)claim_recall_name(memo, name);
	MUST(claim_recall("x", memo, &devices, &again, why) <= CLAIM_RESULTS);
	return 0;
}
