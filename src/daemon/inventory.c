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
	struct inventory_hearer hearer;
	pthread_mutex_t lock;
	bool has_devices, has_faults, has_look; /* which nobody has heard yet */
	struct devices devices;	      /* offered last */
	struct faults faults;
};

static bool inventory_take_devices(struct inventory *inventory, struct devices *ret)
{
	bool has;

	pthread_mutex_lock(&inventory->lock);
	has = inventory->has_devices;
	inventory->has_devices = false;
	*ret = inventory->devices;
	pthread_mutex_unlock(&inventory->lock);
	return has;
}

static bool inventory_take_look(struct inventory *inventory)
{
	bool has;

	pthread_mutex_lock(&inventory->lock);
	has = inventory->has_look;
	inventory->has_look = false;
	pthread_mutex_unlock(&inventory->lock);
	return has;
}

static bool inventory_take_faults(struct inventory *inventory, struct faults *ret)
{
	bool has;

	pthread_mutex_lock(&inventory->lock);
	has = inventory->has_faults;
	inventory->has_faults = false;
	*ret = inventory->faults;
	pthread_mutex_unlock(&inventory->lock);
	return has;
}

static void inventory_take(struct loop_source *source)
{
	struct inventory *inventory = (struct inventory *)source;
	struct devices devices;
	struct faults faults;
	uint64_t n;

	if (read(source->fd, &n, sizeof(n)) != sizeof(n))
		return;
	if (inventory_take_devices(inventory, &devices))
		inventory->hearer.changed(inventory->hearer.arg, &devices);
	if (inventory_take_faults(inventory, &faults))
		inventory->hearer.failed(inventory->hearer.arg, &faults);
	if (inventory_take_look(inventory))
		inventory->hearer.looked(inventory->hearer.arg);
}

int inventory_open(struct loop *loop, const struct inventory_hearer *hearer, struct inventory **ret)
{
	struct inventory *inventory = calloc(1, sizeof(*inventory));
	int r;

	if (!inventory)
		return -ENOMEM;
	*inventory = (struct inventory){
		.source = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = inventory_take},
		.hearer = *hearer,
		.lock = PTHREAD_MUTEX_INITIALIZER};
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

static void inventory_ring(struct inventory *inventory)
{
	const uint64_t one = 1;

	if (write(inventory->source.fd, &one, sizeof(one)) != sizeof(one))
		log_line(LOG_FAULT, "what became of devices is not taken in: %s", strerror(errno));
}

void inventory_offer(struct inventory *inventory, const struct devices *devices)
{
	pthread_mutex_lock(&inventory->lock);
	inventory->devices = *devices;
	inventory->has_devices = true;
	pthread_mutex_unlock(&inventory->lock);
	inventory_ring(inventory);
}

void inventory_offer_faults(struct inventory *inventory, const struct faults *faults)
{
	pthread_mutex_lock(&inventory->lock);
	inventory->faults = *faults;
	inventory->has_faults = true;
	pthread_mutex_unlock(&inventory->lock);
	inventory_ring(inventory);
}

void inventory_tell_look(struct inventory *inventory)
{
	pthread_mutex_lock(&inventory->lock);
	inventory->has_look = true;
	pthread_mutex_unlock(&inventory->lock);
	inventory_ring(inventory);
}
