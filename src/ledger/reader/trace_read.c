/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/reader/trace_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/number.h"
#include "ledger/layout.h"
#include "ledger/shared_file.h"
#include "ledger/trace/trace.h"

enum trace_time { TRACE_TIME_AT, TRACE_TIME_SPAN, TRACE_TIME_PAST };

static const uint8_t trace_times[TRACE_EVENTS] = {
#define TRACE(name, json, room, time, n0, u0, n1, u1, n2, u2, words) TRACE_TIME_##time,
#include "ledger/trace/trace.def"
#undef TRACE
};

/* No further back than the clock goes. */
static uint64_t trace_back(uint64_t from_ns, uint64_t by_ns)
{
	return by_ns < from_ns ? from_ns - by_ns : 0;
}

uint64_t trace_ended_ns(const struct trace_said *said)
{
	return trace_times[said->event] == TRACE_TIME_PAST ? min_u64(said->number[2], said->at_ns)
							   : said->at_ns;
}

uint64_t trace_lasted_ns(const struct trace_said *said)
{
	uint64_t ended_ns = trace_ended_ns(said);

	return trace_times[said->event] == TRACE_TIME_AT
		       ? 0
		       : ended_ns - trace_back(ended_ns, said->number[0]);
}

static bool trace_parse_one(const struct trace_file *file, unsigned int at, struct trace_said *ret)
{
	const struct trace_record *record = &file->record[at];
	uint64_t place = record->seal ^ trace_hash(file->header.born_ns, record);

	if (!record->seal || place % TRACE_RECORDS != at || place >= file->header.next ||
	    record->event >= TRACE_EVENTS)
		return false;
	*ret = (struct trace_said){
		.at_ns = record->at_ns,
		.place = place,
		.pid = file->header.pid,
		.thread = record->thread,
		.event = (enum trace_event)record->event,
		.device = record->device < LEDGER_DEVICES ? record->device : -1,
		.number = {record->number[0], record->number[1], record->number[2]},
	};
	return true;
}

int trace_parse(const struct trace_file *file, struct trace_said *ret)
{
	const struct trace_header *header = &file->header;
	int n = 0;

	if (header->magic != TRACE_MAGIC || header->version != TRACE_VERSION ||
	    header->records != TRACE_RECORDS)
		return header->born_ns ? -EPROTO : -ENODATA;
	if (!header->born_ns)
		return -ENODATA;
	for (unsigned int i = 0; i < TRACE_RECORDS; i++)
		n += trace_parse_one(file, i, &ret[n]);
	return n;
}

/*
 * The place of the next record is read once more behind the records, as some may have come
 * meanwhile; and so is the birth, as another process may have taken the ring.
 */
static int trace_read_file(const char *dir, unsigned int number, struct trace_file *ret)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct trace_header after;
	char name[16];

	tenant_ring_name(number, name);
	fd = shared_file_open(dir, name, O_RDONLY, sizeof(*ret));
	/* A process that makes it, or was killed as it did, may not have given it its length. */
	if (fd == -EPROTO) {
		fd = shared_file_open(dir, name, O_RDONLY, 0);
		return fd < 0 ? fd : -ENODATA;
	}
	if (fd < 0)
		return fd;
	if (fd_pread_all(fd, ret, sizeof(*ret), 0) < 0 ||
	    fd_pread_all(fd, &after, sizeof(after), 0) < 0)
		return -EPROTO;
	if (after.born_ns != ret->header.born_ns)
		return -ENODATA;
	ret->header.next = after.next;
	return 0;
}

static int trace_compare(const void *a, const void *b)
{
	const struct trace_said *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Keeps those of the last `n` that are not before it. */
static void trace_keep_since(struct trace_list *list, size_t n, uint64_t since_ns)
{
	const struct trace_said *from = list->said + list->n;

	for (size_t i = 0; i < n; i++)
		if (from[i].at_ns >= since_ns)
			list->said[list->n++] = from[i];
}

int trace_load(const char *dir, uint64_t since_ns, struct trace_list *ret)
{
	CLEANUP_FREE struct trace_file *file = malloc(sizeof(*file));

	*ret = (struct trace_list){0};
	ret->said = calloc(TRACE_ALL * TRACE_RECORDS, sizeof(*ret->said));
	if (!file || !ret->said)
		return -ENOMEM;
	for (unsigned int i = 0; i < TRACE_ALL; i++) {
		int r = trace_read_file(dir, i, file);
		int n = r < 0 ? r : trace_parse(file, ret->said + ret->n);

		if (n == -ENODATA || r == -ENOENT)
			continue;
		if (n < 0) {
			ret->error = n;
			continue;
		}
		ret->rings++;
		trace_keep_since(ret, (size_t)n, since_ns);
	}
	qsort(ret->said, ret->n, sizeof(*ret->said), trace_compare);
	return 0;
}

void trace_list_free(struct trace_list *list)
{
	free(list->said);
	list->said = NULL;
}
