/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/inventory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "text/log.h"

struct inventory {
	struct loop_source source;
	inventory_changed *changed;
	void *arg;
	pthread_mutex_t lock;
	struct devices devices; /* offered last */
};

static void inventory_take(struct loop_source *source)
{
	struct inventory *inventory = (struct inventory *)source;
	struct devices devices;
	uint64_t n;

	if (read(source->fd, &n, sizeof(n)) != sizeof(n))
		return;
	pthread_mutex_lock(&inventory->lock);
	devices = inventory->devices;
	pthread_mutex_unlock(&inventory->lock);
	inventory->changed(inventory->arg, &devices);
}

int inventory_open(struct loop *loop, const struct devices *devices, inventory_changed *changed, void *arg,
		   struct inventory **ret)
{
	struct inventory *inventory = calloc(1, sizeof(*inventory));
	int r;

	if (!inventory)
		return -ENOMEM;
	*inventory = (struct inventory){
		.source = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = inventory_take},
		.changed = changed,
		.arg = arg,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.devices = *devices};
	r = inventory->source.fd < 0 ? err_errno() : loop_add(loop, &inventory->source);
	if (r < 0)
		inventory_close(inventory);
	else
		*ret = inventory;
	return r;
}

void inventory_close(struct inventory *inventory)
{
	if (inventory && inventory->source.fd >= 0)
		close(inventory->source.fd);
	free(inventory);
}

static void inventory_tell(const struct inventory *inventory)
{
	const uint64_t one = 1;

	if (write(inventory->source.fd, &one, sizeof(one)) != sizeof(one))
		log_line(LOG_FAULT, "devices that changed are not taken in: %s", strerror(errno));
}

void inventory_offer(struct inventory *inventory, const struct devices *devices)
{
	pthread_mutex_lock(&inventory->lock);
	inventory->devices = *devices;
	pthread_mutex_unlock(&inventory->lock);
	inventory_tell(inventory);
}

static bool inventory_names(const uint8_t (*lost)[16], size_t n, const uint8_t uuid[16])
{
	for (size_t i = 0; i < n; i++)
		if (!memcmp(lost[i], uuid, sizeof(lost[i])))
			return true;
	return false;
}

void inventory_lose(struct inventory *inventory, const uint8_t (*lost)[16], size_t n)
{
	static const uint8_t unknown[16];
	bool unnamed = inventory_names(lost, n, unknown), changed = false;

	pthread_mutex_lock(&inventory->lock);
	for (unsigned int i = 0; i < inventory->devices.n; i++) {
		struct device *d = &inventory->devices.list[i];
		bool now = inventory_names(lost, n, d->uuid) || (d->lost && unnamed);

		changed |= now != d->lost;
		d->lost = now;
	}
	pthread_mutex_unlock(&inventory->lock);
	if (changed)
		inventory_tell(inventory);
}
