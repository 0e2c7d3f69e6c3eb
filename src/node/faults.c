/* SPDX-License-Identifier: Apache-2.0 */
#include "node/faults.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "nvidia/nvml.h"
#include "nvidia/uuid.h"
#include "text/log.h"

#define HOLD_NS	   (60 * NS_PER_S)
#define EVENTS_MOST 256 /* of one look: a device may report errors all the time */

struct faults_reader {
	struct nvml *nvml;	    /* NULL: it is not there */
	struct nvml_errors *errors; /* NULL: no device tells */
	uint64_t anew_ns;	    /* they are not opened again before, after a failure */
	unsigned int n;
	struct fault_state state[POLICY_DEVICES];
	size_t nsilent; /* devices that did not answer, by the latest look */
	uint8_t silent[POLICY_DEVICES][16];
};

/* --- One error ----------------------------------------------------------------------------- */

bool fault_is_of_device(uint64_t xid)
{
	/* As in NVIDIA's k8s-device-plugin, internal/rm/health.go. */
	static const uint64_t of_programs[] = {
		13,  /* exception of the graphics engine */
		31,  /* page fault of the GPU's memory */
		43,  /* a program's channel was stopped */
		45,  /* preemptive cleanup after an earlier error */
		68,  /* exception of the video processor */
		109, /* time-out of a context switch */
	};

	for (size_t i = 0; i < sizeof(of_programs) / sizeof(of_programs[0]); i++)
		if (of_programs[i] == xid)
			return false;
	return true;
}

bool fault_is_over(struct fault_state *state, enum nvml_recovery recovery, uint64_t now_ns)
{
	state->recovery = recovery;
	if (recovery == NVML_RECOVERY_NONE)
		return state->needed || now_ns - state->since_ns >= HOLD_NS;
	state->needed |= recovery != NVML_RECOVERY_UNKNOWN;
	return false;
}

void fault_print(const struct fault_state *state, char ret[static FAULT_WORDS])
{
	static const char *const needs[] = {
		[NVML_RECOVERY_NONE] = "",
		[NVML_RECOVERY_RESET] = "; reset it (nvidia-smi --gpu-reset)",
		[NVML_RECOVERY_REBOOT] = "; reboot the node",
		[NVML_RECOVERY_DRAIN_P2P] = "; end what uses its links",
		[NVML_RECOVERY_DRAIN_AND_RESET] = "; end what uses it, then reset it (nvidia-smi --gpu-reset)",
		[NVML_RECOVERY_UNKNOWN] = "; when it is mended, start allotd anew",
	};

	if (state->xid)
		snprintf(ret, FAULT_WORDS, "the driver reported Xid %" PRIu64 "%s", state->xid, needs[state->recovery]);
	else
		snprintf(ret, FAULT_WORDS, "the driver wants it mended%s", needs[state->recovery]);
}

const char *faults_find(const struct faults *faults, const uint8_t uuid[static 16])
{
	for (unsigned int i = 0; i < faults->n; i++)
		if (!memcmp(faults->list[i].uuid, uuid, 16))
			return faults->list[i].words;
	return NULL;
}

/* --- States -------------------------------------------------------------------------------- */

static struct fault_state *faults_state(struct faults_reader *reader, const uint8_t uuid[static 16])
{
	for (unsigned int i = 0; i < reader->n; i++)
		if (!memcmp(reader->state[i].uuid, uuid, 16))
			return &reader->state[i];
	return NULL;
}

/* There is room for each device that a policy can have; others are nobody's. */
static void faults_note(struct faults_reader *reader, const uint8_t uuid[static 16], uint64_t xid)
{
	struct fault_state *state = faults_state(reader, uuid);

	if (!state && reader->n == POLICY_DEVICES)
		return;
	if (!state)
		state = &reader->state[reader->n++];
	*state = (struct fault_state){.xid = xid, .since_ns = now_monotonic_ns(), .recovery = NVML_RECOVERY_UNKNOWN};
	memcpy(state->uuid, uuid, 16);
}

/* --- NVML ---------------------------------------------------------------------------------- */

/* The driver may ask for something since an error that came before this process. */
static void faults_note_needs(struct faults_reader *reader)
{
	struct nvml_device device;
	unsigned int n = 0;

	nvml_device_count(reader->nvml, &n);
	for (unsigned int i = 0; i < n; i++) {
		enum nvml_recovery recovery;

		if (nvml_device_get(reader->nvml, i, &device) < 0 || faults_state(reader, device.uuid))
			continue;
		recovery = nvml_device_recovery(reader->nvml, device.uuid);
		if (recovery != NVML_RECOVERY_NONE && recovery != NVML_RECOVERY_UNKNOWN)
			faults_note(reader, device.uuid, 0);
	}
}

static void faults_open_errors(struct faults_reader *reader)
{
	if (nvml_errors_open(reader->nvml, &reader->errors) < 0)
		reader->errors = NULL;
}

void faults_renew(struct faults_reader *reader)
{
	if (nvml_open(NULL, &reader->nvml) < 0) {
		reader->nvml = NULL;
		return;
	}
	faults_open_errors(reader);
	faults_note_needs(reader);
}

void faults_rest(struct faults_reader *reader)
{
	nvml_errors_close(reader->errors);
	nvml_close(reader->nvml);
	reader->errors = NULL;
	reader->nvml = NULL;
}

int faults_open(struct faults_reader **ret)
{
	struct faults_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	faults_renew(reader);
	*ret = reader;
	return 0;
}

void faults_close(struct faults_reader *reader)
{
	if (reader)
		faults_rest(reader);
	free(reader);
}

/* --- Looks --------------------------------------------------------------------------------- */

static void faults_take_events(struct faults_reader *reader)
{
	uint8_t uuid[16];
	uint64_t xid;
	int r = 1;

	for (int i = 0; i < EVENTS_MOST && (r = nvml_errors_next(reader->errors, uuid, &xid)) == 1; i++)
		if (fault_is_of_device(xid))
			faults_note(reader, uuid, xid);
	/*
	 * A lost device may hide the errors of all others, so the set of devices is opened again.
	 */
	if (r < 0 && now_monotonic_ns() >= reader->anew_ns) {
		log_line(LOG_FAULT, "NVML does not tell of devices' errors: %s; they are asked for anew", strerror(-r));
		reader->anew_ns = now_monotonic_ns() + HOLD_NS;
		nvml_errors_close(reader->errors);
		faults_open_errors(reader);
	}
}

static void faults_add(struct faults *faults, const uint8_t uuid[static 16], const char *words)
{
	struct fault *fault = &faults->list[faults->n];

	if (faults->n == POLICY_DEVICES || faults_find(faults, uuid))
		return;
	memcpy(fault->uuid, uuid, 16);
	snprintf(fault->words, sizeof(fault->words), "%s", words);
	faults->n++;
}

/* Forgets faults that are over. */
static void faults_look_at_states(struct faults_reader *reader, struct faults *ret)
{
	uint64_t now_ns = now_monotonic_ns();
	char words[FAULT_WORDS];
	unsigned int n = 0;

	for (unsigned int i = 0; i < reader->n; i++) {
		struct fault_state *state = &reader->state[i];

		if (fault_is_over(state, nvml_device_recovery(reader->nvml, state->uuid), now_ns))
			continue;
		fault_print(state, words);
		faults_add(ret, state->uuid, words);
		reader->state[n++] = *state;
	}
	reader->n = n;
}

/* A device that does not even say its name is one of those that did not answer before. */
static void faults_note_silent(struct faults_reader *reader, const uint8_t (*silent)[16], size_t n)
{
	static const uint8_t unnamed[16];

	if (!uuid_is_listed(silent, n, unnamed))
		reader->nsilent = 0;
	for (size_t i = 0; i < n && reader->nsilent < POLICY_DEVICES; i++)
		if (memcmp(silent[i], unnamed, 16) &&
		    !uuid_is_listed(reader->silent, reader->nsilent, silent[i]))
			memcpy(reader->silent[reader->nsilent++], silent[i], 16);
}

void faults_read(struct faults_reader *reader, const uint8_t (*silent)[16], size_t n, struct faults *ret)
{
	*ret = (struct faults){.n = 0};
	if (reader->errors)
		faults_take_events(reader);
	if (reader->nvml)
		faults_look_at_states(reader, ret);
	faults_note_silent(reader, silent, n);
	for (size_t i = 0; i < reader->nsilent; i++)
		faults_add(ret, reader->silent[i], "it does not answer its driver any more");
}
