/* A recording from anybody: opened, described and read to its end, or refused with one line. */
#include "fuzz.h"

#include "trace/info.h"
#include "trace/source.h"

#include <errno.h>
#include <string.h>

static void read_stream(struct trace_source *s, struct trace_cursor *cur, uint32_t stream, uint64_t *words)
{
	struct trace_block b;
	int rc;

	while ((rc = s->ops->next(s, cur, stream, &b)) > 0) {
		uint64_t sum = 0;

		for (size_t i = 0; i < b.nr; i++)
			sum ^= b.words[i];
		*words += b.nr + (sum & 0);
		s->ops->put(s, cur, &b);
	}
	fuzz_check(rc <= 0 && rc != -EAGAIN, "%d", rc);
	if (rc < 0)
		fuzz_check_message(s->error, sizeof(s->error));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_file(data, size);
	struct trace_source *s;
	struct trace_info info;
	char err[300] = "";
	uint64_t words = 0;
	int rc;

	rc = trace_info_read(path, true, &info, err, sizeof(err));
	if (rc) {
		fuzz_check_message(err, sizeof(err));
	} else {
		fuzz_check(info.file_bytes == size, "%llu of %zu", (unsigned long long)info.file_bytes, size);
		if (info.damaged)
			fuzz_check_message(info.error, sizeof(info.error));
		trace_info_done(&info);
	}
	err[0] = 0;
	rc = trace_file_open(path, &s, err, sizeof(err));
	if (rc) {
		fuzz_check_message(err, sizeof(err));
		return 0;
	}
	struct trace_cursor *cur;

	if (!s->ops->cursor_open(s, &cur)) {
		/* Stream numbers come from the file: the first ones, and one that nobody has. */
		for (uint32_t i = 0; i < 64 && s->ops->has_stream(s, cur, i); i++)
			read_stream(s, cur, i, &words);
		if (!s->ops->has_stream(s, cur, UINT32_MAX))
			fuzz_check(words < (1ULL << 32), "more words than fit into %zu bytes", size);
		s->ops->cursor_close(s, cur);
	}
	s->ops->close(s);
	return 0;
}
