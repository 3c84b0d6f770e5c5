/*
 * Which blocks belong to which stream and where they are: built by the writer as it goes, by a reader from the file's
 * index or, where there is none, by walking the blocks. Costs 8 bytes a block, that is 1/32768 of the decoded trace.
 */
#ifndef QUIRE_TRACE_INDEX_H
#define QUIRE_TRACE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "trace/file_format.h"

struct index_stream {
	struct qtr_stream sum; /* .stream is its number; .nr_blocks 0: no such stream */
	uint64_t *offsets; /* [sum.nr_blocks], ascending */
	uint64_t cap;
};

struct trace_index {
	struct index_stream *streams; /* [nr_streams], by number */
	uint32_t nr_streams, cap;
	uint64_t nr_blocks, words, refs, insns, bytes;
};

/* Add a block at an offset. -ENOMEM, or -EFBIG for a stream number beyond the limit. */
int trace_index_add(struct trace_index *x, const struct qtr_block *b, uint64_t offset);
/*
 * The index as it stands in a file: mark, table, offsets (malloc'ed). And the reverse: checks everything against the
 * trailer and the range [data_start, data_end) of the blocks; -EBADMSG when anything is off.
 */
int trace_index_store(const struct trace_index *x, void **ret_data, size_t *ret_bytes);
int trace_index_load(struct trace_index *x, const void *data, size_t bytes, const struct qtr_trailer *t,
		     uint64_t data_start, uint64_t data_end);
void trace_index_done(struct trace_index *x);

/* Hash of a 64-byte structure whose last 8 bytes are the hash. */
uint64_t qtr_hash(const void *s);

#endif
