/*
 * Writing a trace file.
 *
 * Words are gathered a stream until a block of QTR_BLOCK_WORDS is full or the stream ends, so that short pieces (a
 * program that calls the system often) compress as well as long ones. What is on disk is always a prefix of whole
 * blocks: a write that failed half-way is cut off again. The first error sticks: nothing is added after it, but
 * closing still completes the file.
 */
#include "trace/writer.h"

#include "base/compiler.h"
#include "trace/check.h"
#include "trace/codec.h"
#include "trace/index.h"
#include "trace/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#define ROOM_INTERVAL (16ULL << 20)
#define ROOM_RESERVE (64ULL << 20)
#define PENDING_FIRST 1024 /* words a new stream's buffer has at first */

struct pending {
	uint64_t *words;
	size_t nr, cap;
	struct trace_block_info info;
};

struct trace_writer {
	struct trace_sink sink;
	int fd;
	int error; /* first failure, sticky */
	bool full; /* ...was ours: little room left. What is pending may still be written. */
	char *path;
	struct new_file file;
	uint64_t pos; /* bytes written, all whole blocks */
	uint64_t next_room; /* look at the disk again when pos is here */
	int (*room)(const char *path, uint64_t *ret_free, uint64_t *ret_total);
	struct trace_encoder *enc;
	struct trace_index index;
	struct pending *pending; /* by stream */
	uint32_t nr_pending;
};

int trace_disk_room(const char *path, uint64_t *ret_free, uint64_t *ret_total)
{
	char *copy = strdup(path);
	struct statvfs v;
	int rc = 0;

	if (!copy)
		return -ENOMEM;
	if (statvfs(path, &v) && statvfs(dirname(copy), &v))
		rc = -errno;
	free(copy);
	if (rc)
		return rc;
	*ret_free = (uint64_t)v.f_bavail * v.f_frsize;
	*ret_total = (uint64_t)v.f_blocks * v.f_frsize;
	return 0;
}

void trace_writer_set_room(struct trace_writer *w,
			   int (*room)(const char *path, uint64_t *ret_free, uint64_t *ret_total))
{
	w->room = room;
}

static int write_all(int fd, const void *data, size_t bytes)
{
	const char *p = data;

	while (bytes) {
		ssize_t n = write(fd, p, bytes);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Append or leave no trace of having tried. */
static int append(struct trace_writer *w, const void *a, size_t na, const void *b, size_t nb)
{
	int rc = write_all(w->fd, a, na);

	if (!rc)
		rc = write_all(w->fd, b, nb);
	if (rc) {
		if (ftruncate(w->fd, (off_t)w->pos) || lseek(w->fd, (off_t)w->pos, SEEK_SET) < 0)
			return rc; /* a torn block at the end: readers notice it */
		return rc;
	}
	w->pos += na + nb;
	return 0;
}

static int check_room(struct trace_writer *w)
{
	uint64_t avail, total;

	if (w->pos < w->next_room)
		return 0;
	w->next_room = w->pos + ROOM_INTERVAL;
	if (w->room(w->path, &avail, &total))
		return 0; /* not known: the write itself will tell */
	return avail < MIN(ROOM_RESERVE, total / 20) ? -ENOSPC : 0;
}

static int flush(struct trace_writer *w, uint32_t stream)
{
	struct pending *p = &w->pending[stream];
	struct qtr_block h = { .magic = QTR_BLOCK_MAGIC, .stream = stream, .codec = QTR_CODEC_PLANES };
	const void *data;
	size_t bytes;
	int rc;

	if (!p->nr)
		return 0;
	rc = trace_encode(w->enc, p->words, p->nr, &data, &bytes);
	if (rc)
		return rc;
	h.words = (uint32_t)p->nr;
	h.bytes = (uint32_t)bytes;
	h.refs = (uint32_t)p->info.refs;
	h.insns = p->info.insns;
	h.first_ticket = p->info.first_ticket;
	h.last_ticket = p->info.last_ticket;
	h.payload_hash = XXH64(data, bytes, 0);
	h.hash = qtr_hash(&h);
	rc = trace_index_add(&w->index, &h, w->pos);
	if (!rc)
		rc = append(w, &h, sizeof(h), data, bytes);
	p->nr = 0;
	p->info = (struct trace_block_info){ 0 };
	return rc;
}

static int room_for(struct trace_writer *w, uint32_t stream, size_t nr)
{
	struct pending *p;

	if (stream >= QTR_MAX_STREAMS)
		return -EFBIG;
	if (stream >= w->nr_pending) {
		uint32_t n = MAX(stream + 1, MIN(w->nr_pending * 2, QTR_MAX_STREAMS));

		p = realloc(w->pending, n * sizeof(*p));
		if (!p)
			return -ENOMEM;
		memset(p + w->nr_pending, 0, (n - w->nr_pending) * sizeof(*p));
		w->pending = p;
		w->nr_pending = n;
	}
	p = &w->pending[stream];
	nr = MIN(p->nr + nr, QTR_BLOCK_WORDS);
	if (nr > p->cap) {
		size_t cap = MAX(p->cap, PENDING_FIRST);
		uint64_t *words;

		while (cap < nr)
			cap *= 2;
		words = realloc(p->words, cap * sizeof(*words));
		if (!words)
			return -ENOMEM;
		p->words = words;
		p->cap = cap;
	}
	return 0;
}

static int add_words(struct trace_writer *w, uint32_t stream, const uint64_t *words, size_t nr)
{
	int rc = room_for(w, stream, nr);

	while (!rc && nr) {
		struct pending *p = &w->pending[stream];
		const char *what;
		int64_t n = trace_check_words(words, nr, QTR_BLOCK_WORDS - p->nr, &p->info, &what);

		if (n < 0)
			return -EINVAL;
		memcpy(p->words + p->nr, words, (size_t)n * sizeof(*words));
		p->nr += (size_t)n;
		words += n;
		nr -= (size_t)n;
		if (nr || p->nr == QTR_BLOCK_WORDS || p->info.ends) {
			bool ends = p->info.ends && !nr;

			rc = flush(w, stream);
			if (ends) { /* no more will come: a forking program has many short streams */
				free(p->words);
				*p = (struct pending){ 0 };
			} else if (!rc) {
				rc = room_for(w, stream, nr);
			}
		}
	}
	return rc;
}

int trace_writer_block(struct trace_writer *w, uint32_t stream, const uint64_t *words, size_t nr)
{
	if (!w->error) {
		w->error = check_room(w);
		w->full = w->error != 0;
	}
	if (!w->error)
		w->error = add_words(w, stream, words, nr);
	return w->error;
}

static int sink_block(struct trace_sink *s, uint32_t stream, const uint64_t *words, size_t nr)
{
	return trace_writer_block(container_of(s, struct trace_writer, sink), stream, words, nr);
}

struct trace_sink *trace_writer_sink(struct trace_writer *w)
{
	return &w->sink;
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->pos;
}

static void writer_free(struct trace_writer *w)
{
	for (uint32_t i = 0; i < w->nr_pending; i++)
		free(w->pending[i].words);
	free(w->pending);
	trace_index_done(&w->index);
	trace_encoder_free(w->enc);
	free(w->path);
	new_file_drop(&w->file);
	free(w);
}

/* One line "key=value"; line ends inside the value become spaces. */
static void meta_line(char *buf, size_t size, const char *key, const char *value)
{
	size_t at = strlen(buf);

	if (!value)
		return;
	snprintf(buf + at, size - at, "%s=%.*s\n", key, (int)(size / 2 - 64), value);
	for (char *p = buf + at; *p; p++)
		if ((*p == '\n' && p[1]) || *p == '\r')
			*p = ' ';
}

static int write_header(struct trace_writer *w, const struct trace_meta *meta)
{
	struct qtr_header h = { .version = QTR_VERSION, .header_bytes = sizeof(h) };
	char *text = calloc(1, QTR_MAX_META);
	XXH64_state_t *x = XXH64_createState();
	int rc = -ENOMEM;

	if (text && x) {
		memcpy(h.magic, QTR_MAGIC, sizeof(h.magic));
		if (meta) {
			meta_line(text, QTR_MAX_META, "command", meta->command);
			meta_line(text, QTR_MAX_META, "recorder", meta->recorder);
			h.start_unix_ns = meta->start_unix_ns;
		}
		h.meta_bytes = (uint32_t)strlen(text);
		XXH64_reset(x, 0);
		XXH64_update(x, &h, sizeof(h) - sizeof(h.hash));
		XXH64_update(x, text, h.meta_bytes);
		h.hash = XXH64_digest(x);
		rc = append(w, &h, sizeof(h), text, h.meta_bytes);
	}
	XXH64_freeState(x);
	free(text);
	return rc;
}

/* A path that exists must be a regular file: renaming over a device or a pipe would replace it. */
static int check_target(const char *path, char *err, size_t errlen)
{
	struct stat st;

	if (stat(path, &st)) {
		if (errno == ENOENT)
			return 0;
		snprintf(err, errlen, "%s: %s", path, strerror(errno));
		return -errno;
	}
	if (S_ISREG(st.st_mode))
		return 0;
	snprintf(err, errlen, "%s: not a regular file", path);
	return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
}

int trace_writer_create(const char *path, const struct trace_meta *meta, struct trace_writer **ret, char *err,
			size_t errlen)
{
	struct trace_writer *w;
	int rc = check_target(path, err, errlen);

	if (rc)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		goto no_memory;
	w->fd = -1;
	w->sink.block = sink_block;
	w->room = trace_disk_room;
	w->path = strdup(path);
	if (!w->path || trace_encoder_create(&w->enc)) {
		writer_free(w);
		goto no_memory;
	}
	rc = new_file_open(&w->file, path);
	w->fd = w->file.fd;
	if (!rc)
		rc = write_header(w, meta);
	if (rc) {
		snprintf(err, errlen, "%s: %s", w->path, strerror(-rc));
		writer_free(w);
		return rc;
	}
	*ret = w;
	return 0;
no_memory:
	snprintf(err, errlen, "%s: out of memory", path);
	return -ENOMEM;
}

static int write_index(struct trace_writer *w)
{
	struct qtr_trailer t = {
		.magic = QTR_END_MAGIC,
		.index_offset = w->pos,
		.nr_blocks = w->index.nr_blocks,
		.refs = w->index.refs,
		.insns = w->index.insns,
	};
	void *data;
	size_t bytes;
	int rc = trace_index_store(&w->index, &data, &bytes);

	if (rc)
		return rc;
	t.nr_streams = ((const struct qtr_index *)data)->nr_streams;
	t.index_bytes = bytes;
	t.index_hash = XXH64(data, bytes, 0);
	t.hash = qtr_hash(&t);
	rc = append(w, data, bytes, &t, sizeof(t));
	free(data);
	return rc;
}

int trace_writer_close(struct trace_writer *w, char *err, size_t errlen)
{
	const char *what = NULL;
	int rc = w->full ? 0 : w->error;

	for (uint32_t i = 0; !rc && i < w->nr_pending; i++)
		rc = flush(w, i);
	rc = rc ? rc : w->error;
	if (rc)
		what = "not everything was written";
	if (write_index(w)) {
		rc = rc ? rc : -ENOSPC;
		what = what ? what : "no room for the index (readable without it)";
	}
	int placed = fsync(w->fd) && errno != EINVAL && errno != EROFS ? -errno : new_file_keep(&w->file, w->path);

	if (placed) {
		rc = placed;
		what = "cannot be completed";
	}
	if (rc)
		snprintf(err, errlen, "%s: %s: %s", w->path, what, strerror(-rc));
	writer_free(w);
	return rc;
}

void trace_writer_abort(struct trace_writer *w)
{
	writer_free(w);
}
