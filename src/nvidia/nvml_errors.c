/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/nvml_errors.h"

#include <errno.h>
#include <stdlib.h>

#include "nvidia/nvml_priv.h"
#include "nvidia/uuid.h"

#define GET_GPU_RECOVERY_ACTION 230 /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, of drivers from 570 on */

struct nvml_errors {
	struct nvml *nvml;
	nvmlEventSet_t set;
};

/* Returns how many of the devices tell their errors. */
static unsigned int nvml_errors_register(struct nvml_errors *errors)
{
	const struct nvml_library *lib = &errors->nvml->lib;
	unsigned int n = 0, told = 0;
	nvmlDevice_t dev;

	lib->nvmlDeviceGetCount_v2(&n);
	for (unsigned int i = 0; i < n; i++)
		told += !lib->nvmlDeviceGetHandleByIndex_v2(i, &dev) &&
			!lib->nvmlDeviceRegisterEvents(dev, nvmlEventTypeXidCriticalError, errors->set);
	return told;
}

int nvml_errors_open(struct nvml *nvml, struct nvml_errors **ret)
{
	struct nvml_errors *errors = calloc(1, sizeof(*errors));
	int r;

	if (!errors)
		return -ENOMEM;
	errors->nvml = nvml;
	r = nvml_errno(nvml->lib.nvmlEventSetCreate(&errors->set));
	if (r < 0) {
		free(errors);
		return r;
	}
	if (!nvml_errors_register(errors)) {
		nvml_errors_close(errors);
		return -ENOTSUP;
	}
	*ret = errors;
	return 0;
}

void nvml_errors_close(struct nvml_errors *errors)
{
	if (errors)
		errors->nvml->lib.nvmlEventSetFree(errors->set);
	free(errors);
}

int nvml_errors_next(struct nvml_errors *errors, uint8_t ret_uuid[static 16], uint64_t *ret_xid)
{
	const struct nvml_library *lib = &errors->nvml->lib;
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	nvmlEventData_t event = {.eventType = 0};
	nvmlReturn_t r = lib->nvmlEventSetWait_v2(errors->set, &event, 0);

	if (r == NVML_ERROR_TIMEOUT)
		return 0;
	if (!r)
		r = lib->nvmlDeviceGetUUID(event.device, text, sizeof(text));
	if (r)
		return nvml_errno(r);
	if (uuid_parse(text, ret_uuid) < 0)
		return -EIO;
	*ret_xid = event.eventData;
	return 1;
}

enum nvml_recovery nvml_device_recovery(struct nvml *nvml, const uint8_t uuid[static 16])
{
	nvmlFieldValue_t value = {.fieldId = GET_GPU_RECOVERY_ACTION, .nvmlReturn = NVML_ERROR_NOT_SUPPORTED};
	char text[UUID_TEXT_SIZE];
	nvmlDevice_t dev;

	uuid_format(uuid, text);
	if (nvml->lib.nvmlDeviceGetHandleByUUID(text, &dev) || nvml->lib.nvmlDeviceGetFieldValues(dev, 1, &value) ||
	    value.nvmlReturn || value.value.uiVal >= NVML_RECOVERY_UNKNOWN)
		return NVML_RECOVERY_UNKNOWN;
	return (enum nvml_recovery)value.value.uiVal;
}
