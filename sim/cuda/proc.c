/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: a name, the CUDA version that the caller was written for, and which default
 * stream it means, to an exported symbol. The answer is the newest form of the name that the
 * version knows; for the per-thread default stream the form for that, where the name has one.
 * An H200's driver (580.159) gave the same for all 450 names x 76 versions x 4 flags.
 */
#include <stdbool.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stubs.h"

enum streams { ANY, PER_THREAD };

static const struct {
	enum cuda_fn fn;
	const char *name;
	int version;
	enum streams streams;
} versions[] = {
#define CUDA_VERSION_ROW(symbol, name, version, streams) \
	{CUDA_FN_##symbol, #name, version, streams},
#include "sim/cuda/versions.def"
};

#define N ((int)(sizeof(versions) / sizeof(versions[0])))

/* The forms of a name are neighbours; the table is sorted by name. */
static int proc_first_form(const char *name)
{
	int low = 0, high = N;

	while (low < high) {
		int mid = (low + high) / 2;

		if (strcmp(versions[mid].name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < N && !strcmp(versions[low].name, name) ? low : -1;
}

static int proc_newest(int first, int version, enum streams streams)
{
	int best = -1;

	for (int i = first; i < N && !strcmp(versions[i].name, versions[first].name); i++)
		if (versions[i].streams == streams && versions[i].version <= version &&
		    (best < 0 || versions[i].version > versions[best].version))
			best = i;
	return best;
}

static bool proc_has_form(int first, enum streams streams)
{
	for (int i = first; i < N && !strcmp(versions[i].name, versions[first].name); i++)
		if (versions[i].streams == streams)
			return true;
	return false;
}

/* A name with a form for the per-thread default stream has that only, when asked for it. */
static CUdriverProcAddressQueryResult proc_find_form(const char *symbol, int version,
						     cuuint64_t flags, void **ret_pfn)
{
	int first = proc_first_form(symbol), form;
	enum streams streams = ANY;

	*ret_pfn = NULL;
	if (first < 0)
		return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&
	    proc_has_form(first, PER_THREAD))
		streams = PER_THREAD;
	form = proc_newest(first, version, streams);
	if (form < 0)
		return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	*ret_pfn = sim_entry(versions[form].fn);
	return CU_GET_PROC_ADDRESS_SUCCESS;
}

static bool proc_asked_well(const char *symbol, void **pfn, cuuint64_t flags)
{
	return symbol && pfn &&
	       !(flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
}

/* Answers every well-formed question: what it found is in the pointer and the status. */
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolStatus)
{
	CUdriverProcAddressQueryResult status;

	if (!proc_asked_well(symbol, pfn, flags))
		return CUDA_ERROR_INVALID_VALUE;
	status = proc_find_form(symbol, cudaVersion, flags, pfn);
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS;
}

/* The first form says so when there is nothing, and leaves the pointer alone. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	void *found;

	if (!proc_asked_well(symbol, pfn, flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (proc_find_form(symbol, cudaVersion, flags, &found) != CU_GET_PROC_ADDRESS_SUCCESS)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = found;
	return CUDA_SUCCESS;
}
