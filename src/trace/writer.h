/*
 * Writing a trace file (.qtr): header, compressed blocks as they come, and at the end an index and a trailer. A file
 * whose writer died has no index; the reader rebuilds it by scanning. Written to a temporary name and renamed when
 * closed, except that an interrupted recording is closed too, so it leaves a readable file. Not thread-safe.
 */
#ifndef QUIRE_TRACE_WRITER_H
#define QUIRE_TRACE_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct trace_writer;

struct trace_meta {
	const char *command; /* what was recorded, one line */
	const char *recorder; /* name and version of what recorded it */
	uint64_t start_unix_ns;
};

/* A sink of blocks: the file writer is one, the live store another. words: whole control words only. */
struct trace_sink {
	int (*block)(struct trace_sink *s, uint32_t stream, const uint64_t *words, size_t nr); /* 0 or -errno */
};

int trace_writer_create(const char *path, const struct trace_meta *meta, struct trace_writer **ret, char *err,
			size_t errlen);
int trace_writer_block(struct trace_writer *w, uint32_t stream, const uint64_t *words, size_t nr);
struct trace_sink *trace_writer_sink(struct trace_writer *w);
uint64_t trace_writer_bytes(const struct trace_writer *w);
/* Write index and trailer, fsync, rename into place. Frees w in any case. 0 or -errno with err. */
int trace_writer_close(struct trace_writer *w, char *err, size_t errlen);
/* How much room the filesystem of a path has: what is free for this user, and its size. 0 or -errno. */
int trace_disk_room(const char *path, uint64_t *ret_free, uint64_t *ret_total);
/*
 * The writer looks at the room every 16 MiB and refuses further blocks (-ENOSPC, sticky) when less than 64 MiB or 5 %
 * of the disk is left, whichever is less, so that the index still fits. Tests put their own function in place of
 * trace_disk_room.
 */
void trace_writer_set_room(struct trace_writer *w,
			   int (*room)(const char *path, uint64_t *ret_free, uint64_t *ret_total));
/* Throw away what was written. */
void trace_writer_abort(struct trace_writer *w);

#endif
