/*
 * A recording from anybody: opened, described and read to its end, or refused with one line. Each input is tried twice: as it is, and
 * with all its hashes made right, since whoever means harm can do that too, and a changed byte would get no further otherwise.
 */
#include "fuzz.h"

#include "trace/file_format.h"
#include "trace/info.h"
#include "trace/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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

/* ---- hashes ---- */

/* The last eight of a structure's 64 bytes. */
static void hash_struct(uint8_t *p)
{
	uint64_t h = XXH64(p, 56, 0);

	memcpy(p + 56, &h, sizeof(h));
}

static void hash_header(uint8_t *p, uint32_t meta)
{
	XXH64_state_t *x = XXH64_createState();
	uint64_t h;

	fuzz_check(x != NULL, "out of memory");
	XXH64_reset(x, 0);
	XXH64_update(x, p, 56);
	XXH64_update(x, p + 64, meta);
	h = XXH64_digest(x);
	memcpy(p + 56, &h, sizeof(h));
	XXH64_freeState(x);
}

/* One block at p, its payload included: its length, or 0 when this is none or it is cut off. */
static size_t hash_block(uint8_t *p, size_t left)
{
	struct qtr_block b;

	memcpy(&b, p, sizeof(b));
	if (b.magic != QTR_BLOCK_MAGIC || b.bytes > left - sizeof(b))
		return 0;
	b.payload_hash = XXH64(p + sizeof(b), b.bytes, 0);
	memcpy(p, &b, sizeof(b));
	hash_struct(p);
	return sizeof(b) + b.bytes;
}

static void hash_all(uint8_t *p, size_t size)
{
	struct qtr_header h;
	struct qtr_trailer t;
	size_t at, n;

	if (size < sizeof(h) + sizeof(t))
		return;
	memcpy(&h, p, sizeof(h));
	if (h.meta_bytes > size - sizeof(h) - sizeof(t))
		return;
	hash_header(p, h.meta_bytes);
	at = sizeof(h) + h.meta_bytes;
	while (size - at >= 64 && (n = hash_block(p + at, size - at)))
		at += n;
	if (size - at < 64 + sizeof(t))
		return;
	hash_struct(p + at); /* the index mark, or nothing that matters */
	memcpy(&t, p + size - sizeof(t), sizeof(t));
	if (t.index_offset <= size && t.index_bytes <= size - t.index_offset)
		t.index_hash = XXH64(p + t.index_offset, t.index_bytes, 0);
	memcpy(p + size - sizeof(t), &t, sizeof(t));
	hash_struct(p + size - sizeof(t));
}

/* ---- a file ---- */

static void try_file(const uint8_t *data, size_t size)
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
		return;
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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	fuzz_check(copy != NULL, "out of memory");
	try_file(data, size);
	memcpy(copy, data, size);
	hash_all(copy, size);
	try_file(copy, size);
	free(copy);
	return 0;
}
