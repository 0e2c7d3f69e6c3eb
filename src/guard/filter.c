/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/err.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
/* Set in the numbers of x32, whose architecture is the same. */
#define FOREIGN_BIT 0x40000000u
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE 0 /* an architecture whose system calls are not known here: all are refused */
#endif

/*
 * From Linux 5.19 on: once the listener has received a question, only fatal signals wake the thread
 * that waits for the answer.
 */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static const struct row {
	uint8_t nr;
	enum kfd_decision decision;
	bool drm;
} rows[] = {
#define KFD_IOCTL(n, name, args, decision) {n, KFD_##decision, false},
#define KFD_OTHER(n, name, decision)	   {n, KFD_##decision, false},
#include "amd/kfd_ioctl.def"
#define DRM_ROW(name, decision) {DRM_NR_##name, KFD_##decision, true},
#include "amd/drm_ioctl.def"
};

/*
 * Sharing and mapping are not asked about: the kernel's own figure has a process's memory from any
 * source. Releasing is asked about, because the tenant's other processes may take that memory at
 * once.
 */
static bool filter_is_asked(enum kfd_decision decision)
{
	return decision == KFD_COUNT || decision == KFD_RELEASE || decision == KFD_MOVE ||
	       decision == KFD_KEEP || decision == KFD_REFUSE;
}

/* DRM's own numbers for displays, of which only some are listed: these work on display nodes. */
#define DRM_DISPLAY_FIRST 0xa0
#define DRM_DISPLAY_LAST  0xd2

/*
 * True if a driver may use the number for something that is not known here. A future number of
 * /dev/kfd may be one that only DRM has a row for. A driver that is known has no future numbers.
 */
static bool filter_is_open(unsigned int nr, bool kfd_knows, bool drm_knows, bool known_driver)
{
	if (known_driver)
		return !kfd_knows && !drm_knows && nr >= DRM_DISPLAY_FIRST && nr <= DRM_DISPLAY_LAST;
	return !kfd_knows && (!drm_knows || nr < DRM_COMMAND_BASE);
}

bool guard_filter_asks(unsigned int nr, bool known_driver)
{
	bool knows[2] = {false};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].nr != nr)
			continue;
		if (filter_is_asked(rows[i].decision))
			return true;
		knows[rows[i].drm] = true;
	}
	return filter_is_open(nr, knows[false], knows[true], known_driver);
}

/*
 * Ioctls that the kernel answers for any file, before a driver sees them. Programs use them all the
 * time.
 */
static const uint32_t for_any_file[] = {FIOCLEX, FIONCLEX, FIONBIO, FIOASYNC};

#define FIELD(field) offsetof(struct seccomp_data, field)
#define LOAD(field)  ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(field)))
#define ANSWER(what) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what))

/* Jumps to an instruction further down, with PENDING until its place is known. */
struct jumps {
	uint8_t at[GUARD_FILTER_MOST];
	size_t n;
};
#define PENDING UINT8_MAX

static void filter_jump(struct sock_filter *program, size_t *n, struct jumps *jumps,
			struct sock_filter test)
{
	jumps->at[jumps->n++] = (uint8_t)*n;
	program[(*n)++] = test;
}

#define IF(test, value) \
	((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, value, PENDING, 0))
#define UNLESS(test, value) \
	((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, value, 0, PENDING))

static void filter_land(struct sock_filter *program, size_t n, const struct jumps *jumps)
{
	for (size_t i = 0; i < jumps->n; i++) {
		struct sock_filter *from = &program[jumps->at[i]];

		*(from->jt == PENDING ? &from->jt : &from->jf) = (uint8_t)(n - jumps->at[i] - 1);
	}
}

size_t guard_filter_build(bool known_driver, struct sock_filter program[static GUARD_FILTER_MOST])
{
	struct jumps refuse = {.n = 0}, allow = {.n = 0}, ask = {.n = 0};
	size_t n = 0;

	program[n++] = LOAD(arch);
	filter_jump(program, &n, &refuse, UNLESS(BPF_JEQ, NATIVE));
	program[n++] = LOAD(nr);
#ifdef FOREIGN_BIT
	filter_jump(program, &n, &refuse, IF(BPF_JGE, FOREIGN_BIT));
#endif
	filter_jump(program, &n, &allow, UNLESS(BPF_JEQ, SYS_ioctl));
	program[n++] = LOAD(args[1]); /* the lower half: the kernel takes no more of a request */
	for (size_t i = 0; i < sizeof(for_any_file) / sizeof(for_any_file[0]); i++)
		filter_jump(program, &n, &allow, IF(BPF_JEQ, for_any_file[i]));
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, _IOC_NRMASK);
	/* From the highest on, each number where the answer is not that of the next lower one. */
	for (unsigned int nr = _IOC_NRMASK + 1; nr-- > 0;)
		if (!nr || guard_filter_asks(nr, known_driver) !=
				   guard_filter_asks(nr - 1, known_driver))
			filter_jump(program, &n, guard_filter_asks(nr, known_driver) ? &ask : &allow,
				    IF(BPF_JGE, nr));
	filter_land(program, n, &allow);
	program[n++] = ANSWER(SECCOMP_RET_ALLOW);
	filter_land(program, n, &ask);
	program[n++] = ANSWER(SECCOMP_RET_USER_NOTIF);
	filter_land(program, n, &refuse);
	program[n++] = ANSWER(SECCOMP_RET_ERRNO | ENOSYS);
	return n;
}

static int filter_install_program(const struct sock_fprog *program, unsigned long flags)
{
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			  SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, program);

	return fd < 0 ? err_errno() : (int)fd;
}

int guard_filter_install(bool known_driver)
{
	struct sock_filter filter[GUARD_FILTER_MOST];
	struct sock_fprog program = {.filter = filter};
	int fd;

	program.len = (unsigned short)guard_filter_build(known_driver, filter);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno();
	fd = filter_install_program(&program, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
	return fd == -EINVAL ? filter_install_program(&program, 0) : fd;
}
