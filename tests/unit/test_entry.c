/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the tenant's table that one process holds by several objects: it leaves an entry with
 * the last of them, and its own row carries an export only while the exporting object lives.
 */
#include "guest/lend/entry.h"

#include <pthread.h>

#include "ledger/shared.h"
#include "tests/unit/tenant_fixture.h"

#define LIMIT (100 * MIB)

static struct guest guest;

static void check_keys(void)
{
	const char one[] = "a handle", other[] = "A handle";
	struct shared_key key = entry_key(one, sizeof(one)), same = entry_key(one, sizeof(one));
	struct shared_key differs = entry_key(other, sizeof(other)), none = entry_key(one, 0);

	CHECK(key.word[0] == same.word[0] && key.word[1] == same.word[1]);
	CHECK(key.word[0] != differs.word[0] && key.word[1] != differs.word[1]);
	CHECK(key.word[0] != key.word[1]);
	CHECK(none.word[0] && none.word[1]);
}

static void hold(struct shared_key key, unsigned int flags, struct object *object)
{
	int r;

	entry_hold(&guest, key, object);
	r = shared_add(guest.claimed, key, 0, 8 * MIB, CAT_IMPORTED, flags, LIMIT);
	CHECK(r == 0 || r == -EEXIST);
	CHECK(object->flags & OBJECT_SHARED);
}

static void check_last_leaves(void)
{
	struct object first = {.flags = OBJECT_IMPORTED}, second = {.flags = OBJECT_IMPORTED};
	struct object bystander = {.flags = 0};
	struct shared_key key = entry_key("import", 6);

	hold(key, 0, &first);
	hold(key, 0, &second);
	CHECK_EQ(shared_used(guest.ledger, 0, NULL), 8 * MIB);
	entry_leave(&guest, &bystander);
	entry_leave(&guest, &first);
	CHECK(shared_known(guest.ledger, key));
	entry_leave(&guest, &second);
	CHECK(!shared_known(guest.ledger, key));
	CHECK_EQ(shared_used(guest.ledger, 0, NULL), 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_SHARE), 0);
}

/* The exporter imports it, too, and then frees what it exported: the entry carries the bytes. */
static void check_export_goes_first(void)
{
	struct object exported = {.flags = 0}, imported = {.flags = OBJECT_IMPORTED};
	struct shared_key key = entry_key("export", 6);

	hold(key, SHARED_COVERED, &exported);
	hold(key, 0, &imported);
	CHECK(shared_covered(guest.ledger, key));
	CHECK_EQ(shared_used(guest.ledger, 0, NULL), 0);
	entry_leave(&guest, &exported);
	CHECK(!shared_covered(guest.ledger, key));
	CHECK_EQ(shared_used(guest.ledger, 0, NULL), 8 * MIB);
	entry_leave(&guest, &imported);
	CHECK(!shared_known(guest.ledger, key));
}

/* The process finds out for one object after the other that what it shares has another key by now. */
static void check_renamed(void)
{
	struct object first = {.flags = 0}, second = {.flags = OBJECT_IMPORTED};
	struct shared_key key = entry_key("before", 6), now = entry_key("after", 5);

	hold(key, SHARED_COVERED, &first);
	hold(key, 0, &second);
	CHECK_EQ(shared_rename(guest.claimed, key, now), 0);
	entry_rename(&guest, now, &first);
	CHECK_EQ(object_count(guest.objects, OBJECT_SHARE), 2);
	entry_rename(&guest, now, &second);
	CHECK_EQ(object_count(guest.objects, OBJECT_SHARE), 1);
	entry_leave(&guest, &second);
	CHECK(shared_known(guest.ledger, now));
	entry_leave(&guest, &first);
	CHECK(!shared_known(guest.ledger, now));
	CHECK_EQ(object_count(guest.objects, OBJECT_SHARE), 0);
}

/* No room in the table, say: who held it before does so still. */
static void check_not_added(void)
{
	struct object first = {.flags = OBJECT_IMPORTED}, second = {.flags = OBJECT_IMPORTED};
	struct shared_key key = entry_key("room", 4);

	hold(key, 0, &first);
	entry_hold(&guest, key, &second);
	entry_unhold(&guest, &second);
	CHECK(!(second.flags & OBJECT_SHARED));
	CHECK(shared_known(guest.ledger, key));
	entry_leave(&guest, &first);
	entry_hold(&guest, key, &second);
	entry_unhold(&guest, &second);
	CHECK(!shared_known(guest.ledger, key));
	CHECK_EQ(object_count(guest.objects, OBJECT_SHARE), 0);
}

#define THREADS 3
#define ROUNDS	4000

static void *come_and_go(void *arg)
{
	struct shared_key key = entry_key("busy", 4);

	for (int i = 0; i < ROUNDS; i++) {
		struct object object = {.flags = OBJECT_IMPORTED};

		hold(key, 0, &object);
		CHECK(shared_known(guest.ledger, key));
		entry_leave(&guest, &object);
	}
	return arg;
}

/* As long as one object holds the entry, the process does. */
static void check_threads(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, come_and_go, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK_EQ(shared_used(guest.ledger, 0, NULL), 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_SHARE), 0);
}

int main(void)
{
	guest.claimed = fixture_join(fixture_tenant("entry"));
	guest.ledger = slot_ledger(guest.claimed);
	CHECK_EQ(object_table_new(&guest.objects), 0);
	check_keys();
	check_last_leaves();
	check_export_goes_first();
	check_renamed();
	check_not_added();
	check_threads();
	return 0;
}
