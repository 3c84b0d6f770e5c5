/*
 * The index of blocks by stream.
 *
 * Invariant: for each stream the offsets ascend, and the sums are those of the blocks added. A loaded index obeys the
 * same rules as a built one; nothing in a file is believed before its hash and its ranges have been checked.
 */
#include "trace/index.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint64_t qtr_hash(const void *s)
{
	return XXH64(s, 64 - sizeof(uint64_t), 0);
}

static int grow_streams(struct trace_index *x, uint32_t stream)
{
	if (stream >= x->cap) {
		uint32_t cap = MAX(stream + 1, MIN(x->cap * 2, QTR_MAX_STREAMS));
		struct index_stream *n = realloc(x->streams, cap * sizeof(*n));

		if (!n)
			return -ENOMEM;
		memset(n + x->cap, 0, (cap - x->cap) * sizeof(*n));
		x->streams = n;
		x->cap = cap;
	}
	if (stream >= x->nr_streams)
		x->nr_streams = stream + 1;
	return 0;
}

static int grow_offsets(struct index_stream *s)
{
	uint64_t cap = s->cap ? s->cap * 2 : 4;
	uint64_t *n;

	if (s->sum.nr_blocks < s->cap)
		return 0;
	n = realloc(s->offsets, cap * sizeof(*n));
	if (!n)
		return -ENOMEM;
	s->offsets = n;
	s->cap = cap;
	return 0;
}

int trace_index_add(struct trace_index *x, const struct qtr_block *b, uint64_t offset)
{
	struct index_stream *s;
	int rc;

	if (b->stream >= QTR_MAX_STREAMS)
		return -EFBIG;
	rc = grow_streams(x, b->stream);
	if (rc)
		return rc;
	s = &x->streams[b->stream];
	rc = grow_offsets(s);
	if (rc)
		return rc;
	s->offsets[s->sum.nr_blocks++] = offset;
	s->sum.stream = b->stream;
	s->sum.words += b->words;
	s->sum.refs += b->refs;
	s->sum.insns += b->insns;
	s->sum.bytes += b->bytes;
	if (!s->sum.first_ticket)
		s->sum.first_ticket = b->first_ticket;
	if (b->last_ticket)
		s->sum.last_ticket = b->last_ticket;
	x->nr_blocks++;
	x->words += b->words;
	x->refs += b->refs;
	x->insns += b->insns;
	x->bytes += b->bytes;
	return 0;
}

static uint32_t count_present(const struct trace_index *x)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->nr_streams; i++)
		n += x->streams[i].sum.nr_blocks != 0;
	return n;
}

int trace_index_store(const struct trace_index *x, void **ret_data, size_t *ret_bytes)
{
	struct qtr_index mark = {
		.magic = QTR_INDEX_MAGIC,
		.nr_streams = count_present(x),
		.nr_blocks = x->nr_blocks,
		.words = x->words,
		.refs = x->refs,
		.insns = x->insns,
	};
	size_t bytes = sizeof(mark) + mark.nr_streams * sizeof(struct qtr_stream) + x->nr_blocks * sizeof(uint64_t);
	char *data = malloc(bytes), *p = data;

	if (!data)
		return -ENOMEM;
	mark.hash = qtr_hash(&mark);
	memcpy(p, &mark, sizeof(mark));
	p += sizeof(mark);
	for (uint32_t i = 0; i < x->nr_streams; i++) {
		if (!x->streams[i].sum.nr_blocks)
			continue;
		memcpy(p, &x->streams[i].sum, sizeof(struct qtr_stream));
		p += sizeof(struct qtr_stream);
	}
	for (uint32_t i = 0; i < x->nr_streams; i++) {
		const struct index_stream *s = &x->streams[i];

		if (!s->sum.nr_blocks)
			continue;
		memcpy(p, s->offsets, s->sum.nr_blocks * sizeof(uint64_t));
		p += s->sum.nr_blocks * sizeof(uint64_t);
	}
	*ret_data = data;
	*ret_bytes = bytes;
	return 0;
}

/* Take over one stream's table entry and offsets. */
static int load_stream(struct trace_index *x, const struct qtr_stream *e, const char *offsets, uint64_t data_start,
		       uint64_t data_end)
{
	struct index_stream *s;
	uint64_t last = 0;
	int rc;

	if (e->stream >= QTR_MAX_STREAMS || (x->nr_streams && e->stream < x->nr_streams) || !e->nr_blocks)
		return -EBADMSG;
	rc = grow_streams(x, e->stream);
	if (rc)
		return rc;
	s = &x->streams[e->stream];
	s->offsets = malloc(e->nr_blocks * sizeof(uint64_t));
	if (!s->offsets)
		return -ENOMEM;
	memcpy(s->offsets, offsets, e->nr_blocks * sizeof(uint64_t));
	s->sum = *e;
	s->cap = e->nr_blocks;
	for (uint64_t i = 0; i < e->nr_blocks; i++) {
		uint64_t o = s->offsets[i];

		if (o < data_start || o <= last || data_end - sizeof(struct qtr_block) < o)
			return -EBADMSG;
		last = o;
	}
	x->nr_blocks += e->nr_blocks;
	x->words += e->words;
	x->refs += e->refs;
	x->insns += e->insns;
	x->bytes += e->bytes;
	return 0;
}

int trace_index_load(struct trace_index *x, const void *data, size_t bytes, const struct qtr_trailer *t,
		     uint64_t data_start, uint64_t data_end)
{
	const char *table = (const char *)data + sizeof(struct qtr_index), *offsets;
	struct qtr_index mark;
	uint64_t left;
	int rc = 0;

	if (bytes < sizeof(mark) || data_end < data_start + sizeof(struct qtr_block) * (t->nr_blocks != 0))
		return -EBADMSG;
	memcpy(&mark, data, sizeof(mark));
	if (mark.magic != QTR_INDEX_MAGIC || mark.hash != qtr_hash(&mark) || mark.nr_streams != t->nr_streams ||
	    mark.nr_blocks != t->nr_blocks || XXH64(data, bytes, 0) != t->index_hash)
		return -EBADMSG;
	/* nr_streams is 32 bits and nr_blocks is held against what is left, so neither product overflows. */
	left = bytes - sizeof(mark);
	if (left / sizeof(struct qtr_stream) < mark.nr_streams)
		return -EBADMSG;
	left -= mark.nr_streams * sizeof(struct qtr_stream);
	if (left % sizeof(uint64_t) || left / sizeof(uint64_t) != mark.nr_blocks)
		return -EBADMSG;
	offsets = table + mark.nr_streams * sizeof(struct qtr_stream);
	for (uint32_t i = 0; !rc && i < mark.nr_streams; i++) {
		struct qtr_stream e;

		memcpy(&e, table + i * sizeof(e), sizeof(e));
		if (e.nr_blocks > mark.nr_blocks - x->nr_blocks)
			rc = -EBADMSG;
		else
			rc = load_stream(x, &e, offsets + x->nr_blocks * sizeof(uint64_t), data_start, data_end);
	}
	if (!rc && (x->nr_blocks != t->nr_blocks || x->refs != t->refs || x->insns != t->insns))
		rc = -EBADMSG;
	if (rc)
		trace_index_done(x);
	return rc;
}

void trace_index_done(struct trace_index *x)
{
	for (uint32_t i = 0; i < x->nr_streams; i++)
		free(x->streams[i].offsets);
	free(x->streams);
	*x = (struct trace_index){ 0 };
}
