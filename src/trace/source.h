/*
 * Where replay gets its words: a trace file, a program that is running now, or a generator. One interface.
 *
 * A recording is a set of streams, one a thread, numbered from 0 in order of their first word. Each stream is a sequence of
 * blocks of words; a block never cuts a control word from its payload. Readers of different streams may be at
 * different places; several cursors (engines) may read one source at the same time from different threads.
 * What a block holds is checked before it is given out: types known, payload complete and of the type's length, so that a consumer
 * needs no further bounds checks (but must not trust values: addresses, lengths and stream numbers can be anything).
 */
#ifndef QUIRE_TRACE_SOURCE_H
#define QUIRE_TRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_block {
	const uint64_t *words;
	size_t nr;
	void *priv;
};

struct trace_source;
struct trace_cursor; /* one reader of the whole source: its place in every stream */

struct trace_source_ops {
	int (*cursor_open)(struct trace_source *s, struct trace_cursor **ret);
	void (*cursor_close)(struct trace_source *s, struct trace_cursor *cur);
	/*
	 * The next block of a stream. 1: *ret_block is valid until put; 0: the stream has ended; -EAGAIN: never (it waits);
	 * negative errno: the source is damaged, text in trace_source_error. Waits for a live program.
	 */
	int (*next)(struct trace_source *s, struct trace_cursor *cur, uint32_t stream, struct trace_block *ret_block);
	void (*put)(struct trace_source *s, struct trace_cursor *cur, struct trace_block *block);
	/* Does the stream exist? Waits, for a live program, until it is known. A stream appears before the parent's W_SYSRET of its clone. */
	bool (*has_stream)(struct trace_source *s, struct trace_cursor *cur, uint32_t stream);
	void (*close)(struct trace_source *s);
};

struct trace_source {
	const struct trace_source_ops *ops;
	const char *name;
	uint64_t total_refs; /* known in advance (file with an index), else 0: for progress and time left */
	bool damaged;        /* the file ends early or has a bad block: what is before it is delivered */
	char error[256];     /* one line about it */
};

/* Open a trace file. 0, or negative errno with one line in err naming the file, the place and what is wrong. */
int trace_file_open(const char *path, struct trace_source **ret, char *err, size_t errlen);

/*
 * A generated recording of a program with one thread that maps `bytes` of anonymous memory, stores once to each page, and then loads
 * n times 8 bytes: "stream" (8-byte stride, over and over) or "random" (uniform). Nothing is materialised: it costs no memory.
 */
int trace_synthetic_open(const char *kind, uint64_t bytes, uint64_t n, uint64_t seed, struct trace_source **ret, char *err,
			 size_t errlen);

#endif
