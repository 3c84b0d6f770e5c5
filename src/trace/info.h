/* What a trace file says of itself, and whether it is whole: for `quire trace info`. */
#ifndef QUIRE_TRACE_INFO_H
#define QUIRE_TRACE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/word.h"

struct trace_info_stream {
	uint32_t stream;
	uint64_t blocks, words, refs, insns, first_ticket, last_ticket, bytes;
};

struct trace_info {
	uint32_t version;
	char *command, *recorder; /* NULL: not said */
	uint64_t start_unix_ns, file_bytes;
	uint64_t blocks, words, refs, insns, bytes; /* bytes: compressed payloads */
	bool indexed, damaged;
	char error[256]; /* where and how it is damaged */
	uint32_t nr_streams;
	struct trace_info_stream *streams;
	/* with `deep` only */
	bool deep;
	uint64_t loads, stores, words_by_type[NR_WORD_TYPES];
};

/* deep: read and verify every block. 0, or negative errno with err; a damaged file is no error here. */
int trace_info_read(const char *path, bool deep, struct trace_info *ret, char *err, size_t errlen);
void trace_info_done(struct trace_info *i);

#endif
