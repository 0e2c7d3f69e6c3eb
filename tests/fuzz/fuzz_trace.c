/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forged ring. The input is a list of changes to a good one (two bytes of offset, one of value),
 * each also tried with its records sealed anew, so that what is behind the seal is reached; the last
 * byte may cut the file short.
 */
#include "cli/ps/trace_words.h"
#include "ledger/reader/trace_read.h"
#include "ledger/trace/trace.h"
#include "tests/fuzz/tenant.h"

#define RECORDS 40

static void forget(void)
{
	tenant_forget("trace.0");
	tenant_forget("trace.roles");
}

/* In words and as a picture, which nobody reads here. */
static void show(const struct trace_said *said, uint64_t from_ns)
{
	static FILE *out;

	if (!out)
		out = fopen("/dev/null", "w");
	MUST(out);
	trace_words_print(said, from_ns, out);
	trace_words_name_lane(said, out);
	trace_words_json(said, out);
}

static void read_it(void)
{
	struct trace_list list;

	MUST(trace_load(tenant_dir, 0, &list) == 0);
	MUST(list.n <= TRACE_RECORDS);
	for (size_t i = 0; i < list.n; i++) {
		const struct trace_said *said = &list.said[i];

		MUST(said->event < TRACE_EVENTS);
		MUST(said->device >= -1 && said->device < 64);
		MUST(trace_ended_ns(said) <= said->at_ns);
		MUST(trace_lasted_ns(said) <= trace_ended_ns(said));
		MUST(!i || said[-1].at_ns <= said->at_ns);
		show(said, list.said[0].at_ns);
	}
	trace_list_free(&list);
}

static void seal(struct trace_file *file)
{
	for (uint64_t i = 0; i < TRACE_RECORDS; i++)
		file->record[i].seal = i ^ trace_hash(file->header.born_ns, &file->record[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct trace_file file;
	struct trace *trace = NULL;
	static bool begun;
	int fd;

	if (!begun) {
		tenant_begin();
		atexit(forget);
		begun = true;
	}
	forget();
	MUST(trace_open(tenant_dir, &trace) == 0);
	for (int i = 0; i < RECORDS; i++)
		trace_put(trace, (enum trace_event)(i % TRACE_EVENTS), i - 1, 1, 2, 3);
	fd = tenant_open("trace.0", O_RDWR);
	MUST(pread(fd, &file, sizeof(file), 0) == sizeof(file));
	for (; size >= 3; data += 3, size -= 3)
		((uint8_t *)&file)[(data[0] | data[1] << 8) %
				   (sizeof(file.header) + RECORDS * sizeof(file.record[0]))] ^= data[2];
	MUST(pwrite(fd, &file, sizeof(file), 0) == sizeof(file));
	read_it();
	trace_put(trace, TRACE_BILL, 0, 1, 2, 3);
	seal(&file);
	MUST(pwrite(fd, &file, sizeof(file), 0) == sizeof(file));
	read_it();
	trace_put(trace, TRACE_BILL, 0, 1, 2, 3);
	trace_close(trace);
	if (size) {
		MUST(ftruncate(fd, (off_t)(data[0] * sizeof(file) / 256)) == 0);
		read_it();
	}
	close(fd);
	return 0;
}
