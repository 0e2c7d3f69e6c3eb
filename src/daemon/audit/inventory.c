/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/inventory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "text/log.h"

struct news {
	bool has_devices, has_faults, has_look; /* which nobody has heard yet */
	struct devices devices;			/* offered last */
	struct faults faults;
};

struct inventory {
	struct loop_source source;
	struct inventory_hearer hearer;
	pthread_mutex_t lock;
	struct news news; /* with the lock */
};

/* All that nobody has heard yet, which counts as heard from here on. */
static struct news inventory_take_news(struct inventory *inventory)
{
	struct news news;

	pthread_mutex_lock(&inventory->lock);
	news = inventory->news;
	inventory->news.has_devices = inventory->news.has_faults = inventory->news.has_look = false;
	pthread_mutex_unlock(&inventory->lock);
	return news;
}

static void inventory_take(struct loop_source *source)
{
	struct inventory *inventory = (struct inventory *)source;
	const struct inventory_hearer *hearer = &inventory->hearer;
	struct news news;
	uint64_t n;

	if (read(source->fd, &n, sizeof(n)) != sizeof(n))
		return;
	news = inventory_take_news(inventory);
	if (news.has_devices)
		hearer->changed(hearer->arg, &news.devices);
	if (news.has_faults)
		hearer->failed(hearer->arg, &news.faults);
	if (news.has_look)
		hearer->looked(hearer->arg);
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
	inventory->news.devices = *devices;
	inventory->news.has_devices = true;
	pthread_mutex_unlock(&inventory->lock);
	inventory_ring(inventory);
}

void inventory_offer_faults(struct inventory *inventory, const struct faults *faults)
{
	pthread_mutex_lock(&inventory->lock);
	inventory->news.faults = *faults;
	inventory->news.has_faults = true;
	pthread_mutex_unlock(&inventory->lock);
	inventory_ring(inventory);
}

void inventory_tell_look(struct inventory *inventory)
{
	pthread_mutex_lock(&inventory->lock);
	inventory->news.has_look = true;
	pthread_mutex_unlock(&inventory->lock);
	inventory_ring(inventory);
}
