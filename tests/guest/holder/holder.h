/* SPDX-License-Identifier: Apache-2.0 */
/* What cases for CRIU are made of: processes that agree on steps, and what they hold. */
#ifndef HOLDER_H
#define HOLDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/abi/drm.h"

#define BYTES 65536
#define PROCS 8	 /* of the largest case, and devices */
#define KEPT  33 /* the descriptor that stays open */
#define RW    (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE)

/* What a case has. */
enum {
	ADDRESSES = 1,
	KEEPS = 2,
	CROWDED = 4,
	HIGH = 8,
	SHARES = 16,
	OWNER_HAS_OWN = 32,
	TAKER_HAS_OWN = 64,
	TAKER_FIRST = 128,
	NOTES = 256, /* of addresses, as a tenant's library does */
	LIES = 512,
};
extern unsigned int with;

extern struct common {
	atomic_int ready, go, wrong;
	atomic_int step[PROCS];	 /* how far each process is */
	int dmabuf[PROCS][PROCS]; /* descriptors, as their process has them */
	pid_t pid[PROCS];
	char what[256];
} *common;

void wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void wait_for(atomic_int *word, int value, const char *what);
void wait_for_word(volatile uint32_t *word, uint32_t value, const char *what);

/* All is made. From here on the processes may be dumped. */
void rest(void);

/* Render nodes, the first of which is 0, and their buffers of BYTES, all of which must work. */
int call(int fd, unsigned int nr, void *args, size_t bytes);
#define CALL(fd, nr, args) call(fd, nr, args, sizeof(*(args)))
int node(int i);
uint32_t create(int fd);
uint32_t create_as(int fd, uint64_t alignment, uint64_t domains, uint64_t flags);
void close_handle(int fd, uint32_t handle);
int export(int fd, uint32_t handle);
uint32_t import(int fd, int dmabuf); /* closes the descriptor */
struct engine;
void copy_by_engine(struct engine *engine, int dmabuf, void *memory, bool out); /* BYTES */
void *map(int fd, uint32_t handle);
void *map_dmabuf(int dmabuf);
int map_address(int fd, uint32_t handle, uint64_t address, uint64_t offset, uint64_t bytes);
void set_addresses(int fd, uint32_t handle, const struct drm_amdgpu_gem_vm_entry *list, int n);
void note(int fd, const struct drm_amdgpu_gem_va *done);
int take(pid_t pid, int fd); /* another process's descriptor */
int from_outside(void);	     /* the one of the other tree */

/* What must be as it was. */
void fill(void *at, uint32_t word);
void check_filled(const char *what, const void *at, int from, uint32_t word);
void check_handles(const char *what, int fd, const uint32_t *wanted);
void check_addresses(int fd, uint32_t handle, const struct drm_amdgpu_gem_vm_entry *wanted,
		     uint32_t n);
void check_kept(volatile uint32_t *buffer);

/* What processes of cases do. */
void alone(void);
void unreached(void);
void beside(void);
void beside_worked(void);
void beside_syncobj(void);
void beside_users(void);
void exporter(void);
void importer(void);
void rocm_owner(void);
void rocm_taker(void);
void one_of_many(int self);
void kfd_pair(int self);
void kfd_tenant(int self);
void kfd_churn(int self);
void kfd_node(void);
void kfd_lent(void);
void outside(void);
void inside_descriptor(void);
void inside_import(void);
void inside_connected(void);
void inside_kfd(void);
void inside_kfd_twice(void);

#endif
