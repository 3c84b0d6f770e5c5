/* What the readers of trace files share: the open file, and reading one block of it. Private to src/trace. */
#ifndef QUIRE_TRACE_FILE_INT_H
#define QUIRE_TRACE_FILE_INT_H

#include "trace/codec.h"
#include "trace/index.h"
#include "trace/source.h"

#include <pthread.h>

struct trace_file {
	struct trace_source s; /* must be first */
	int fd;
	char *path;
	uint64_t size, data_start, data_end;
	struct qtr_header head;
	char *meta; /* lines of key=value, NUL-terminated */
	struct trace_index index;
	bool indexed; /* the file's own index was used, not rebuilt */
	pthread_mutex_t lock; /* guards s.damaged and s.error once cursors exist */
};

/* One thread's means of reading blocks. */
struct block_reader {
	struct trace_decoder *dec;
	void *payload;
	size_t payload_cap;
};

struct word_buffer {
	uint64_t *words;
	size_t cap;
};

int block_reader_init(struct block_reader *r);
void block_reader_done(struct block_reader *r);
/*
 * Read, verify and decode the block at an offset; *b grows as needed. Returns how many words there are, or negative
 * errno, the source then being marked as damaged.
 */
int64_t trace_file_block(struct trace_file *f, struct block_reader *r, uint64_t offset, uint32_t stream,
			 struct word_buffer *b);

#endif
