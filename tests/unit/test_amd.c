/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's part for AMD's GPUs, before a kernel whose topology changes or has too many GPUs, and
 * a policy that cannot be read: what the program is answered, and what a person is told.
 */
#include "guest/amd/amd.h"
#include "guest/core/pass.h"
#include "guest/process/complain.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "amd/topology_read.h"
#include "guest/core/rooms.h"
#include "guest/process/next.h"
#include "tests/unit/tenant_fixture.h"

_Thread_local unsigned int guest_depth;

static struct guest guest = {.mode = GUEST_LIMITED};
static struct guest_page page = {&guest};
_Atomic(struct guest_page *) guest_page = &page;

static char told[256];
static int claim_error;

struct guest *guest_start(void)
{
	abort();
}

void complain_refusal(const char *complaint)
{
	snprintf(told, sizeof(told), "%s", complaint);
}

void guest_name_device(struct guest *g, const uint8_t uuid[16], unsigned int ordinal,
		       uint64_t total_bytes)
{
	CHECK_EQ(ordinal, 0);
}

void guest_explain(const struct guest *g, int error, char *ret, size_t len)
{
	snprintf(ret, len, "the ledger");
}

void guest_explain_policy(const struct guest *g, int error, char *ret, size_t len)
{
	snprintf(ret, len, "the policy");
}

void pass_init(struct guest *g)
{
}

const struct guest_rooms guest_rooms; /* nobody is swappable here */

int guest_claim_slot(struct guest *g, struct slot **ret)
{
	return claim_error;
}

uint64_t guest_generation(const struct guest *g)
{
	return 0; /* no change: nothing is traced */
}

uint64_t guest_limit_cached(struct guest *g, const uint8_t uuid[16], uint64_t total_bytes,
			    _Atomic uint64_t *limit, _Atomic uint64_t *generation)
{
	return 0;
}

/* The kernel. */
static struct {
	int error;
	uint32_t gpus;
} kernel;

/* What sysfs has; the rest is this machine's. */
static struct {
	const char *number;
	bool kfd, drm, dri;
} files;

ssize_t __real_fd_read_text(int dirfd, const char *path, char *buf, size_t len);
ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len)
{
	if (strcmp(path, "/sys/class/kfd/kfd/dev"))
		return __real_fd_read_text(dirfd, path, buf, len);
	return files.number ? snprintf(buf, len, "%s", files.number) : -ENOENT;
}

int __wrap_access(const char *path, int mode)
{
	bool is;

	if (!strcmp(path, TOPOLOGY_DRI))
		is = files.dri;
	else if (!strcmp(path, TOPOLOGY_DIR))
		is = files.kfd;
	else if (!strcmp(path, "/sys/class/drm"))
		is = files.drm;
	else
		return __real_access(path, mode);
	errno = ENOENT;
	return is ? 0 : -1;
}

/* Nothing of these tests asks a driver. */
const struct next *next_libc(void)
{
	abort();
}

int topology_read(const char *root, struct topology **ret, struct topology_complaint *complaint)
{
	struct topology *t;

	snprintf(complaint->text, sizeof(complaint->text), "it is not so");
	if (kernel.error)
		return kernel.error;
	t = calloc(1, sizeof(*t));
	CHECK(t);
	t->nodes = calloc(kernel.gpus + 1, sizeof(*t->nodes));
	CHECK(t->nodes);
	t->node_count = kernel.gpus + 1; /* the first is a processor's */
	t->gpu_count = kernel.gpus;
	for (uint32_t i = 1; i <= kernel.gpus; i++)
		t->nodes[i] = (struct topology_node){.gpu_id = 100 + i, .unique_id = i};
	*ret = t;
	return 0;
}

static bool is_refused(void)
{
	struct guest *g;
	int error;
	struct amd *amd = amd_limited(&g, &error);

	CHECK(!amd == (error != 0));
	CHECK(!error || error == -ENODEV);
	return error;
}

/* Never EAGAIN, and not for ever. */
static void test_passing(void)
{
	kernel.gpus = 2;
	for (int i = 0; i < 2; i++) {
		static const int errors[] = {-EAGAIN, -ENOMEM};

		kernel.error = errors[i];
		CHECK(is_refused());
		CHECK(strstr(told, "told apart: it is not so"));
		CHECK(!guest.amd);
	}
	kernel.error = 0;
	CHECK(!is_refused());
	CHECK(guest.amd && guest.amd->ndevices == 2);
}

/* As in a process that has asked for nothing yet. */
static void start_anew(void)
{
	if (guest.amd)
		topology_free(guest.amd->topology);
	guest.amd = NULL;
}

/* What does not pass is kept. */
static void test_error(int error, const char *says)
{
	start_anew();
	CHECK(is_refused());
	CHECK(guest.amd && guest.amd->error == error);
	CHECK(strstr(guest.amd->complaint, says));
	CHECK(is_refused());
}

/* By its number, under whatever name. */
static void test_name(void)
{
	int fd = open("/dev/null", O_RDWR), other = open("/dev/zero", O_RDWR);

	CHECK(fd > 0 && other > 0);
	files.number = "1:3\n";
	amd_kfd_rdev = 0;
	CHECK_EQ(amd_file(fd), AMD_FILE_KFD);
	CHECK_EQ(amd_file(other), AMD_FILE_NONE);
	CHECK_EQ(close(fd) | close(other), 0);
}

static uint64_t found(bool kfd, bool drm, bool dri)
{
	files.number = NULL;
	files.kfd = kfd;
	files.drm = drm;
	files.dri = dri;
	amd_kfd_rdev = 0;
	amd_is_here();
	return amd_kfd_rdev;
}

/* Without the node; that sysfs tells nothing does not mean that there is no driver. */
static void test_hidden(void)
{
	struct stat st;

	if (!stat("/dev/kfd", &st))
		return;
	CHECK(found(false, false, false) == AMD_KFD_NOT_HERE);
	CHECK(found(false, true, true) == AMD_KFD_NOT_HERE);
	CHECK(found(true, true, true) == AMD_KFD_NO_DEVICE);
	CHECK(found(false, false, true) == AMD_KFD_UNTOLD);
	CHECK(amd_is_here());
}

int main(void)
{
	const char *dir = fixture_tenant("amd");

	snprintf(guest.dir, sizeof(guest.dir), "%.255s", dir);
	CHECK_EQ(policy_open(dir, &guest.policy_map), 0);
	guest.ledger = slot_ledger(fixture_join(dir));
	test_name();
	test_hidden();
	test_passing();
	kernel.gpus = GUEST_DEVICES + 1;
	test_error(-E2BIG, "give its container");
	kernel.gpus = 1;
	claim_error = -EUSERS;
	test_error(-EUSERS, "the ledger");
	kernel.error = -EACCES;
	test_error(-EACCES, "told apart: it is not so");
	start_anew();
	return 0;
}
