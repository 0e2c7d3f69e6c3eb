/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <runtime>/.residency: figures by which the role holder of residency (roles/residency_host.h) and
 * the processes of all tenants tell each other how much memory there is room for. Its election is
 * roles/role.h; its layout and locks, role_file.h.
 */
#ifndef ALLOT_LEDGER_ROLE_RESIDENCY_FILE_H
#define ALLOT_LEDGER_ROLE_RESIDENCY_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct residency_file;

/* Returns true if a process of a tenant that overcommits lives: it has the file open as a role. */
bool residency_file_is_used(const char *runtime);

/* A tenant that is to leave finds no room on the host: who keeps some there gives it back. */
void residency_file_miss(struct residency_file *file);
uint32_t residency_file_missed(const struct residency_file *file);

/*
 * A tenant has come, or gone, or has another quota: the role holder looks at all of them. Nothing
 * happens where there is no such file.
 */
void residency_file_tell(const char *runtime);

/*
 * Bytes of a device, as the last holder of the role found them: promised to tenants that do not
 * overcommit, and unused; room for all memory that can leave; and such memory that is there.
 */
struct residency_room {
	uint64_t promised, all, there;
	int device; /* by its number in the file, which is less than TURN_DEVICES; not to be said */
};

void residency_file_say_room(struct residency_file *file, int i, const uint8_t uuid[16],
			     const struct residency_room *room);
/* That was all of it, for now. */
void residency_file_measured(struct residency_file *file);
/* 0 for a device that was not met. */
uint64_t residency_file_promised(const struct residency_file *file, const uint8_t uuid[16]);

/*
 * As it is now: whoever has the role looks first, and is waited for a moment. -ENOENT where nobody
 * overcommits, or has met the device.
 */
int residency_file_ask_room(const char *runtime, const uint8_t uuid[16],
			    struct residency_room *ret);

/*
 * Returns how many bytes on the device could leave of tenants that overcommit, by what the role holder
 * has found since it was asked. UINT64_MAX where nobody answers.
 */
uint64_t residency_file_ask_there(const char *runtime, const uint8_t uuid[16]);

/* True while the role holder has a tenant move: others leave processors and the driver to that. */
void residency_file_say_moves(struct residency_file *file, bool moves);
const uint32_t *residency_file_moves(const struct residency_file *file);

/*
 * One was to leave for others, and could not, since the host had no room for it. When that was last
 * so, by CLOCK_MONOTONIC; 0: never, or there is no such file.
 */
void residency_file_say_full(struct residency_file *file, uint64_t now_ns);
uint64_t residency_file_full_ns(const char *runtime);

/* What a process sees that has it not mapped. */
struct residency_look {
	bool taken;	/* a process has the role */
	bool moves;	/* the last holder has some tenant move, or ended before it had */
	uint32_t beats; /* steps of all holders so far */
};

/* -ENOENT where there is no such file, or errors of shared_file_open. */
int residency_file_look(const char *runtime, struct residency_look *ret);

#endif
