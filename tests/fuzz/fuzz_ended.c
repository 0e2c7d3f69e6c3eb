/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the journal: it is none, or it is written as it was read; and sums of it are made. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/ps/sums.h"
#include "node/ended.h"
#include "tests/fuzz/fuzz.h"

static void write_and_read(const struct ended *e, bool part)
{
	int fd = memfd_create("line", MFD_CLOEXEC);
	char text[2048] = "";
	struct ended again;

	MUST(fd >= 0 && ended_append(fd, e, part) == 0);
	MUST(pread(fd, text, sizeof(text) - 1, 0) > 2);
	close(fd);
	MUST(text[0] == '\n' && text[strlen(text) - 1] == '\n' && strchr(text + 1, '\n')[1] == '\0');
	MUST(ended_parse(text + 1, part, &again) && !memcmp(&again, e, sizeof(again)));
}

static void add_up(const struct ended *e, enum sums_by by)
{
	struct sums sums;

	sums_begin(&sums, by, INT64_C(1796040000) - 90 * 86400, INT64_C(1796040000));
	MUST(sums_add(&sums, 0, e) == 0);
	sums_end(&sums);
	MUST(sums.n <= 92);
	sums_free(&sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char line[1024];
	struct ended e;

	if (size >= sizeof(line))
		return 0;
	memcpy(line, data, size);
	line[size] = 0;
	for (int part = 0; part < 2; part++) {
		if (!ended_parse(line, part, &e))
			continue;
		write_and_read(&e, part);
		add_up(&e, SUMS_NAME);
		add_up(&e, SUMS_DAY);
	}
	return 0;
}
