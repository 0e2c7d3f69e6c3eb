/* SPDX-License-Identifier: Apache-2.0 */
/* Claims as the API server gives them; in their text here ' is ". */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kube/claims/claim.h"
#include "tests/check.h"

#define GIB UINT64_C(0x40000000)
#define UID "0f7e2d6c-8a0c-4b7e-9d0f-1f2e3d4c5b6a"
#define A   "gpu-00000000-0000-0000-0000-000000000001"
#define B   "gpu-00000000-0000-0000-0000-000000000002"
#define C   "gpu-00000000-0000-0000-0000-000000000003"

static struct kube_conf conf = {.driver = "gpu.allot.dev", .node = "node1"};
static const struct claim_id id = {"default", "shares", UID};
static struct node_devices devices = {
	.n = 3,
	.list = {{.device = {.uuid = {[15] = 1}, .total_bytes = 24 * GIB}},
		 {.device = {.uuid = {[15] = 2}, .total_bytes = 24 * GIB}},
		 {.device = {.uuid = {[15] = 3}}, .sick = true, .why = "Xid 79"}},
};
static struct claim claim;
static char why[CLAIM_WHY];

/* JSON, which is written with ' for " here. Until the next call. */
static const char *quoted(const char *text)
{
	static char bytes[12000];
	size_t n = strlen(text);

	CHECK(n < sizeof(bytes));
	for (size_t i = 0; i <= n; i++)
		bytes[i] = text[i] == '\'' ? '"' : text[i];
	return bytes;
}

static int read_text(const char *text)
{
	*why = 0;
	return claim_read(quoted(text), strlen(text), &id, &conf, &devices, &claim, why);
}

/* A claim with such results and configuration. */
static int read_claim(const char *results, const char *config)
{
	char text[4096];

	snprintf(text, sizeof(text),
		 "{'metadata':{'uid':'" UID "'},'status':{'allocation':{'devices':{'results':[%s],"
		 "'config':[%s]}}}}",
		 results, config);
	return read_text(text);
}

#define RESULT(request, device, more) \
	"{'request':'" request "','driver':'gpu.allot.dev','pool':'node1','device':'" device "'" more "}"
#define SHARE(memory, cores) \
	",'shareID':'s-" memory "','consumedCapacity':{'memory':'" memory "','cores':'" cores "'}"
#define CONFIG(more, parameters)                                                              \
	"{'source':'FromClaim'" more ",'opaque':{'driver':'gpu.allot.dev','parameters':{" \
	"'apiVersion':'allot.dev/v1','kind':'GpuConfig'" parameters "}}}"

static const struct policy *policy(unsigned int i)
{
	return &claim.grant[i].grant.policy;
}

static void refused(int error, const char *words)
{
	if (!strstr(why, words))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, why);
	CHECK(error < 0);
	CHECK(strstr(why, words));
}

static void check_share(void)
{
	CHECK_EQ(read_claim(RESULT("main", A, SHARE("8Gi", "25")), ""), 0);
	CHECK_EQ(claim.ngrants, 1);
	CHECK_EQ(claim.nresults, 1);
	CHECK(!strcmp(claim.grant[0].request, "main"));
	CHECK(!strcmp(claim.grant[0].pool, "node1"));
	CHECK(!strcmp(claim.grant[0].grant.id, "claim." UID ".main"));
	CHECK(!strncmp(policy(0)->name, "default.shares.main-", 20));
	CHECK(!strcmp(claim.result[0].device, A));
	CHECK(!strcmp(claim.result[0].share, "s-8Gi"));
	CHECK_EQ(policy(0)->ndevices, 1);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_SHARE);
	CHECK_EQ(policy(0)->flags, 0);
	CHECK_EQ(policy(0)->device[0].uuid[15], 1);
	CHECK_EQ(policy(0)->device[0].limit_bytes, 8 * GIB);
	CHECK_EQ(policy(0)->device[0].total_bytes, 24 * GIB);
	CHECK_EQ(policy(0)->device[0].share_permille, 250);
}

/* No time is guaranteed: the least share, since a tenant without turns would take that of others. */
static void check_memory_alone(void)
{
	CHECK_EQ(read_claim(RESULT("main", A, ",'consumedCapacity':{'memory':'1Gi'}"), ""), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_SHARE);
	CHECK_EQ(policy(0)->device[0].share_permille, 1);
	CHECK_EQ(read_claim(RESULT("main", A, ",'consumedCapacity':{'gpu.allot.dev/memory':'1Gi'}"), ""), 0);
	CHECK_EQ(policy(0)->device[0].limit_bytes, GIB);
}

static void check_whole(void)
{
	CHECK_EQ(read_claim(RESULT("main", A, ""), ""), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_OFF);
	CHECK_EQ(policy(0)->device[0].limit_permille, 1000);
	refused(read_claim(RESULT("main", A, "") "," RESULT("main", A, ""), ""), "given before");
	refused(read_claim(RESULT("main", A, "") "," RESULT("main", A, SHARE("1Gi", "1")), ""), "more of the");
	refused(read_claim(RESULT("main", A, SHARE("1Gi", "1")) "," RESULT("main", A, ""), ""), "given before");
}

static void check_requests(void)
{
	CHECK_EQ(read_claim(RESULT("a", A, SHARE("8Gi", "25")) "," RESULT("b", B, SHARE("4Gi", "10")) ","
			    RESULT("a", B, SHARE("2Gi", "5")), ""), 0);
	CHECK_EQ(claim.ngrants, 2);
	CHECK_EQ(claim.nresults, 3);
	CHECK_EQ(policy(0)->ndevices, 2);
	CHECK_EQ(policy(0)->device[1].limit_bytes, 2 * GIB);
	CHECK_EQ(policy(1)->ndevices, 1);
	CHECK_EQ(policy(1)->device[0].uuid[15], 2);
	CHECK(strcmp(policy(0)->name, policy(1)->name));
	CHECK(strcmp(claim.grant[0].grant.id, claim.grant[1].grant.id));
	CHECK_EQ(claim.result[2].grant, 0);
}

/* Several shares of one device in a request are one. */
static void check_sum(void)
{
	CHECK_EQ(read_claim(RESULT("a", A, SHARE("8Gi", "25")) "," RESULT("a", A, SHARE("4Gi", "10")), ""), 0);
	CHECK_EQ(policy(0)->ndevices, 1);
	CHECK_EQ(policy(0)->device[0].limit_bytes, 12 * GIB);
	CHECK_EQ(policy(0)->device[0].share_permille, 350);
	CHECK_EQ(claim.nresults, 2);
	refused(read_claim(RESULT("a", A, SHARE("8Gi", "60")) "," RESULT("a", A, SHARE("4Gi", "60")), ""),
		"more of the device than there is");
	refused(read_claim(RESULT("a", A, SHARE("25Gi", "60")), ""), "more of the device than there is");
}

static void check_others(void)
{
	static const char other[] = "{'request':'nic','driver':'nic.example','pool':'x','device':'eth0',"
				    "'consumedCapacity':{'bandwidth':'1G'}}";
	char text[1024];

	snprintf(text, sizeof(text), "%s,%s", other, RESULT("a", A, SHARE("8Gi", "25")));
	CHECK_EQ(read_claim(text, "{'opaque':{'driver':'nic.example','parameters':{'mtu':9000}}}"), 0);
	CHECK_EQ(claim.ngrants, 1);
	CHECK_EQ(claim.nresults, 1);
	refused(read_claim(other, ""), "no device of driver gpu.allot.dev");
}

static void check_capacity(void)
{
	refused(read_claim(RESULT("a", A, SHARE("-1", "25")), ""), "memory: \"-1\" is negative or too large");
	refused(read_claim(RESULT("a", A, SHARE("lots", "25")), ""), "memory: \"lots\" is no quantity");
	refused(read_claim(RESULT("a", A, SHARE("0", "25")), ""), "memory is 0");
	refused(read_claim(RESULT("a", A, SHARE("1Ki", "25")), ""), "at least 1 MiB");
	refused(read_claim(RESULT("a", A, SHARE("9223372036854775808", "25")), ""), "too large");
	refused(read_claim(RESULT("a", A, SHARE("8Gi", "101")), ""), "cores: \"101\" is negative or too large");
	refused(read_claim(RESULT("a", A, SHARE("8Gi", "33.33")), ""), "finer");
	refused(read_claim(RESULT("a", A, ",'consumedCapacity':{'memory':8}"), ""), "memory is no text");
	refused(read_claim(RESULT("a", A, ",'consumedCapacity':{'memory':'1Gi','sms':'4'}"), ""), "has \"sms\"");
	refused(read_claim(RESULT("a", A, ",'consumedCapacity':{'cores':'10'}"), ""), "memory is 0");
	refused(read_claim(RESULT("a", A, ",'shareID':'x'"), ""), "without consumedCapacity");
}

static void check_wrong(void)
{
	CHECK_EQ(read_text(""), -EINVAL);
	CHECK_EQ(read_text("[]"), -ESTALE);
	CHECK_EQ(read_text("{'metadata':{'uid':'" UID "'},'metadata':{'uid':'" UID "'}}"), -EINVAL);
	CHECK_EQ(read_text("{'metadata':{'uid':'other'},'status':{}}"), -ESTALE);
	CHECK(strstr(why, "has uid other"));
	CHECK_EQ(read_text("{'metadata':{'uid':'" UID "'},'status':{}}"), -EAGAIN);
	CHECK_EQ(read_claim(RESULT("a", C, ""), ""), -EIO);
	CHECK(strstr(why, "is sick: Xid 79"));
	CHECK_EQ(read_claim(RESULT("a", "gpu-x", ""), ""), -ENODEV);
	CHECK(strstr(why, "gpu-x is not on this node"));
	refused(read_claim(RESULT("", A, ""), ""), "request is missing");
	refused(read_claim(RESULT("../a", A, ""), ""), "no name of a request");
	refused(read_claim(RESULT("a/b/c", A, ""), ""), "no name of a request");
	refused(read_claim(RESULT("A", A, ""), ""), "no name of a request");
	refused(read_claim(RESULT("a", A, ",'adminAccess':true"), ""), "adminAccess");
	refused(read_claim("{'request':'a','driver':'gpu.allot.dev','device':'" A "'}", ""), "pool is missing");
	refused(read_claim(RESULT("a", A, SHARE("1Gi", "1")) ",{'request':'a','driver':'gpu.allot.dev',"
			   "'pool':'node2','device':'" B "'}", ""), "two pools");
}

/* "a/b" and "a-b" are two, and the longest names are cut. */
static void check_names(void)
{
#define LABEL "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-12345678"
	CHECK_EQ(read_claim(RESULT("a/b", A, SHARE("1Gi", "1")) "," RESULT("a-b", A, SHARE("1Gi", "1")), ""), 0);
	CHECK(!strcmp(claim.grant[0].grant.id, "claim." UID ".a_b"));
	CHECK(!strcmp(claim.grant[0].request, "a/b"));
	CHECK(strcmp(policy(0)->name, policy(1)->name));
	CHECK_EQ(read_claim(RESULT(LABEL "/" LABEL, A, SHARE("1Gi", "1")) ","
			    RESULT(LABEL "/" LABEL "x", A, SHARE("1Gi", "1")), ""), 0);
	CHECK(strcmp(claim.grant[0].grant.id, claim.grant[1].grant.id));
	CHECK(!strncmp(claim.grant[0].grant.id, "claim." UID "." LABEL "_", 43 + 62));
	CHECK(claim_uid_valid(UID));
	CHECK(!claim_uid_valid("") && !claim_uid_valid("a.b") && !claim_uid_valid("../x") &&
	      !claim_uid_valid(UID "0"));
}

static void check_config(void)
{
	static const char one[] = RESULT("a", A, SHARE("8Gi", "25"));

	CHECK_EQ(read_claim(one, CONFIG("", ",'limit':true,'priority':'low','mode':'space','swappable':true")), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_CAP);
	CHECK_EQ(policy(0)->priority, POLICY_PRIORITY_LOW);
	CHECK_EQ(policy(0)->mode, POLICY_MODE_SPACE);
	CHECK_EQ(policy(0)->flags, POLICY_SWAPPABLE);
	CHECK_EQ(read_claim(one, CONFIG("", ",'overcommit':true")), 0);
	CHECK_EQ(policy(0)->flags, POLICY_SWAPPABLE | POLICY_OVERCOMMIT);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_SHARE);
	/* The last that says something holds. */
	CHECK_EQ(read_claim(one, CONFIG("", ",'limit':true,'priority':'low'") "," CONFIG("", ",'limit':false")), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_SHARE);
	CHECK_EQ(policy(0)->priority, POLICY_PRIORITY_LOW);
	/* For others. */
	CHECK_EQ(read_claim(one, CONFIG(",'requests':['b','aa']", ",'limit':true")), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_SHARE);
	CHECK_EQ(read_claim(one, CONFIG(",'requests':['b','a']", ",'limit':true")), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_CAP);
	/* A request's is its subrequests'. */
	conf.claims_high = true;
	CHECK_EQ(read_claim(RESULT("a/big", A, SHARE("8Gi", "25")) "," RESULT("b", A, SHARE("1Gi", "1")),
			    CONFIG(",'requests':['a']", ",'limit':true") ","
			    CONFIG(",'requests':['a/small','b']", ",'priority':'high'")), 0);
	CHECK_EQ(policy(0)->compute, POLICY_COMPUTE_CAP);
	CHECK_EQ(policy(0)->priority, POLICY_PRIORITY_NORMAL);
	CHECK_EQ(policy(1)->compute, POLICY_COMPUTE_SHARE);
	CHECK_EQ(policy(1)->priority, POLICY_PRIORITY_HIGH);
	conf.claims_high = false;
}

/* Users write claims; who runs the cluster writes classes. */
static void check_priority(void)
{
	static const char one[] = RESULT("a", A, SHARE("8Gi", "25"));
	static const char of_class[] =
		"{'source':'FromClass','opaque':{'driver':'gpu.allot.dev','parameters':"
		"{'apiVersion':'allot.dev/v1','kind':'GpuConfig','priority':'high'}}}";

	refused(read_claim(one, CONFIG("", ",'priority':'high'")), "have a DeviceClass with it");
	CHECK_EQ(read_claim(one, of_class), 0);
	CHECK_EQ(policy(0)->priority, POLICY_PRIORITY_HIGH);
	conf.claims_high = true;
	CHECK_EQ(read_claim(one, CONFIG("", ",'priority':'high'")), 0);
	CHECK_EQ(policy(0)->priority, POLICY_PRIORITY_HIGH);
	conf.claims_high = false;
}

static void check_wrong_config(void)
{
	static const char one[] = RESULT("a", A, SHARE("8Gi", "25"));

	refused(read_claim(one, CONFIG("", ",'limits':true")), "no field \"limits\"");
	refused(read_claim(one, CONFIG("", ",'limit':'yes'")), "config[0].opaque.parameters.limit: it is true or");
	refused(read_claim(one, CONFIG("", ",'priority':'urgent'")), "it is one of normal, low, high");
	refused(read_claim(one, CONFIG("", ",'mode':1")), "it is one of turns, space");
	refused(read_claim(one, "{'opaque':{'driver':'gpu.allot.dev','parameters':{'kind':'GpuConfig'}}}"),
		"apiVersion: it is \"allot.dev/v1\" here");
	refused(read_claim(one, "{'opaque':{'driver':'gpu.allot.dev','parameters':"
				"{'apiVersion':'allot.dev/v1','kind':'X'}}}"), "kind: it is \"GpuConfig\"");
	refused(read_claim(one, "{'opaque':{'driver':'gpu.allot.dev','parameters':[]}}"), "no object");
	refused(read_claim(one, "{'opaque':{'driver':'gpu.allot.dev'}}"), "no object");
	refused(read_claim(RESULT("a", A, ",'consumedCapacity':{'memory':'1Gi'}"), CONFIG("", ",'limit':true")),
		"`limit` needs cores");
	refused(read_claim(RESULT("a", A, SHARE("8Gi", "25")) "," RESULT("a", B, SHARE("8Gi", "30")),
			   CONFIG("", ",'mode':'space'")), "same cores");
}

/* By its memos alone a claim is what it was. */
static void check_recall(void)
{
	static struct claim again;
	unsigned int n;

	check_requests();
	n = claim.ngrants;
	for (unsigned int i = 0; i < n; i++) {
		const struct grant *grant = &claim.grant[i].grant;

		CHECK_EQ(claim_recall(grant->id, grant->memo, &devices, &again, why), n);
		CHECK(!strcmp(again.grant[i].request, claim.grant[i].request));
		CHECK(!strcmp(again.grant[i].pool, "node1"));
		CHECK(!strcmp(again.grant[i].grant.id, grant->id));
		CHECK_EQ(again.grant[i].grant.policy.ndevices, grant->policy.ndevices);
		CHECK(!memcmp(again.grant[i].grant.policy.device[0].uuid, grant->policy.device[0].uuid, 16));
	}
	CHECK_EQ(again.ngrants, n);
	CHECK_EQ(again.nresults, claim.nresults);
	devices.list[0].sick = true;
	CHECK_EQ(claim_recall("x", claim.grant[0].grant.memo, &devices, &again, why), -EIO);
	devices.list[0].sick = false;
	CHECK_EQ(claim_recall("x", "", &devices, &again, why), -EBADMSG);
	CHECK_EQ(claim_recall("x", "{}", &devices, &again, why), -EBADMSG);
	CHECK_EQ(claim_recall("x", "{\"of\":1,\"request\":\"a\",\"pool\":\"p\",\"devices\":[\"" A "\"]}", &devices,
			      &again, why), -EBADMSG);
}

static int is_here(const char *text)
{
	return claim_is_here(quoted(text), strlen(text), UID, &conf);
}

static void check_is_here(void)
{
#define CLAIM(uid, results) \
	"{'metadata':{'uid':'" uid "'},'status':{'allocation':{'devices':{'results':[" results "]}}}}"
#define AT(driver, pool) "{'driver':'" driver "','pool':'" pool "'}"
	CHECK(is_here(CLAIM(UID, AT("gpu.allot.dev", "node1"))) == 1);
	CHECK(is_here(CLAIM(UID, AT("gpu.nvidia.com", "node1") "," AT("gpu.allot.dev", "node1"))) == 1);
	CHECK(is_here(CLAIM(UID, AT("gpu.allot.dev", "node2"))) == 0);
	CHECK(is_here(CLAIM(UID, AT("gpu.nvidia.com", "node1"))) == 0);
	CHECK(is_here(CLAIM("another", AT("gpu.allot.dev", "node1"))) == 0);
	CHECK(is_here(CLAIM(UID, "1,[],{}")) == 0);
	CHECK(is_here("{'metadata':{'uid':'" UID "'}}") == 0);
	CHECK(is_here("{'metadata':{}}") == -EINVAL);
	CHECK(is_here("{") == -EINVAL);
	CHECK(is_here("{'kind':'Status','reason':'NotFound','details':{'kind':'resourceclaims'}}") == 0);
	CHECK(is_here("{'kind':'Status','reason':'NotFound','details':{'kind':'namespaces'}}") == -EINVAL);
	CHECK(is_here("404 page not found") == -EINVAL);
#undef CLAIM
#undef AT
}

static void check_recall_name(void)
{
	char name[CLAIM_NAME_BYTES];

	CHECK(read_claim(RESULT("a", A, SHARE("1Gi", "10")), "") == 0);
	CHECK(claim_recall_name(claim.grant[0].grant.memo, name) == 0 && !strcmp(name, "default/shares"));
	CHECK(claim_recall_name("{\"of\":1,\"request\":\"a\"}", name) == -EBADMSG);
	CHECK(claim_recall_name("{\"claim\":\"a\"}", name) == -EBADMSG);
	CHECK(claim_recall_name("{", name) == -EBADMSG);
}

/* As many devices as Kubernetes allocates for a claim, each a request of its own, and one more. */
static void check_many(void)
{
	char results[8192] = "", text[12000];
	size_t n = 0;

	for (int i = 0; i <= CLAIM_RESULTS; i++) {
		snprintf(text, sizeof(text),
			 "{'metadata':{'uid':'" UID "'},'status':{'allocation':{'devices':{'results':[%s]}}}}",
			 results);
		if (i)
			CHECK_EQ(read_text(text), 0);
		n += (size_t)snprintf(results + n, sizeof(results) - n,
				      "%s{'request':'a%d','driver':'gpu.allot.dev','pool':'n','device':'" A
				      "','consumedCapacity':{'memory':'1Mi'}}",
				      i ? "," : "", i);
	}
	CHECK_EQ(claim.ngrants, CLAIM_RESULTS);
	snprintf(text, sizeof(text),
		 "{'metadata':{'uid':'" UID "'},'status':{'allocation':{'devices':{'results':[%s]}}}}", results);
	refused(read_text(text), "more than 32 devices");
}

int main(void)
{
	check_share();
	check_memory_alone();
	check_whole();
	check_requests();
	check_sum();
	check_others();
	check_capacity();
	check_wrong();
	check_names();
	check_config();
	check_priority();
	check_wrong_config();
	check_recall();
	check_many();
	check_is_here();
	check_recall_name();
	return 0;
}
