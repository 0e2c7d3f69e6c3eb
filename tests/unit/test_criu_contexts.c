/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Contexts that CRIU's plugin saves or refuses, against a kernel that answers as amdgpu_ctx.c does: in a
 * partition that lacks rings of a kind, and while others hold the GPU's clocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "criu/contexts.h"
#include "criu/gpu/drm.h"
#include "tests/check.h"

#define NOBODY	   0
#define A_CONTEXT  3 /* of the file that is dumped */
#define OURS	   9 /* of the plugin's own file */
#define ELSEWHERE  100
#define NOT_ASKED  1

static int dumped, others; /* descriptors: of the file that is dumped, and of /dev/null */
static uint32_t holder, level;
static int work_answer; /* to WAIT_CS, as errno; 0: it was submitted */
static int changes;	/* of the GPU's clocks */

static int answer(int error)
{
	errno = error;
	return error ? -1 : 0;
}

static int kernel_context(int fd, union drm_amdgpu_ctx *a)
{
	uint32_t id = a->in.ctx_id;

	if (a->in.op == AMDGPU_CTX_OP_ALLOC_CTX) {
		CHECK(fd != dumped); /* nothing is made in a file of the process's */
		a->out = (union drm_amdgpu_ctx_out){.alloc = {.ctx_id = OURS}};
		return 0;
	}
	if (id != (fd == dumped ? A_CONTEXT : OURS))
		return answer(EINVAL);
	switch (a->in.op) {
	case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
		a->out = (union drm_amdgpu_ctx_out){.pstate = {.flags = level}};
		return 0;
	case AMDGPU_CTX_OP_SET_STABLE_PSTATE:
		if (holder && holder != id)
			return answer(EBUSY);
		changes += a->in.flags != level;
		return 0;
	}
	a->out = (union drm_amdgpu_ctx_out){.state = {.flags = 0}};
	return 0;
}

static int kernel_rings(struct drm_amdgpu_info *a)
{
	struct drm_amdgpu_info_hw_ip info = {.available_rings = 1};

	CHECK_EQ(a->query, AMDGPU_INFO_HW_IP_INFO);
	memcpy((void *)(uintptr_t)a->return_pointer, &info, sizeof(info));
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *block;

	va_start(ap, request);
	block = va_arg(ap, void *);
	va_end(ap);
	switch (_IOC_NR(request)) {
	case DRM_NR_AMDGPU_CTX:
		return kernel_context(fd, block);
	case DRM_NR_AMDGPU_INFO:
		return kernel_rings(block);
	case DRM_NR_AMDGPU_WAIT_CS:
		return answer(work_answer);
	case DRM_NR_SYNCOBJ_QUERY:
		return answer(ENOENT);
	}
	return answer(EINVAL);
}

int __wrap_drm_open(uint32_t minor);
int __wrap_drm_open(uint32_t minor)
{
	return others < 0 ? -EACCES : dup(others);
}

static int dump(char what[CONTEXTS_WHAT_BYTES], uint32_t *ret_n)
{
	struct catalog c = {.n = {0}};
	int r;

	*what = 0;
	r = contexts_dump(&c, dumped, NOT_ASKED, what);
	*ret_n = c.n[CATALOG_CONTEXTS];
	CHECK_EQ(changes, 0);
	catalog_done(&c);
	return r;
}

static void check_saved(void)
{
	char what[CONTEXTS_WHAT_BYTES];
	uint32_t n;

	CHECK_EQ(dump(what, &n), 0);
	CHECK_EQ(n, 1);
}

static void check_refused(const char *words)
{
	char what[CONTEXTS_WHAT_BYTES];
	uint32_t n;

	CHECK_EQ(dump(what, &n), -EBUSY);
	CHECK(strstr(what, words));
}

/* A partition without rings of a kind has no work there: amdgpu_xcp_select_scheds. */
static void test_work(void)
{
	work_answer = ENOENT;
	check_saved();
	work_answer = 0;
	check_refused("its context 3 has submitted work");
	work_answer = ECANCELED; /* which failed */
	check_refused("its context 3 has submitted work");
	work_answer = EINVAL;
	check_saved();
}

static void test_clocks(void)
{
	level = 4 /* PEAK */;
	holder = A_CONTEXT;
	check_refused("its context 3 holds the GPU's clocks");
	holder = ELSEWHERE;
	check_saved();
	holder = NOBODY; /* an administrator's */
	check_saved();
	holder = A_CONTEXT;
	close(others);
	others = -EBADF;
	check_refused("its context 3 holds the GPU's clocks");
}

int main(void)
{
	dumped = open("/dev/null", O_RDWR | O_CLOEXEC);
	others = open("/dev/null", O_RDWR | O_CLOEXEC);
	work_answer = EINVAL;
	test_work();
	test_clocks();
	return 0;
}
