/*
 * Reading a trace file: opening, the index or its reconstruction, and cursors.
 *
 * Invariants
 *  R1 Nothing is believed before its hash has been checked, no length before its limit: no file makes the reader crash,
 *     loop or allocate more than the file is long (plus one block).
 *  R2 What comes before the first damage is delivered; from a damaged block on its stream ends with an error.
 *  R3 After opening, the file's description is read-only but for damaged and error, which `lock` guards; each cursor
 *     belongs to one thread and reads with pread, so that any number of them can go their own way.
 */
#include "base/compiler.h"
#include "trace/check.h"
#include "trace/file_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct file_buffer {
	struct word_buffer b;
	struct file_buffer *next; /* while free */
};

struct trace_cursor {
	struct block_reader reader;
	uint64_t *next; /* by stream: its next block */
	uint32_t nr;
	struct file_buffer *free;
};

/* Mark as damaged; the first report stays. Returns -EBADMSG for the caller to pass on. */
ATTR_PRINTF(2, 3) static int damaged(struct trace_file *f, const char *fmt, ...)
{
	char text[sizeof(f->s.error)];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = snprintf(text, sizeof(text), "%.150s: ", f->path);
	if (n > 0 && (size_t)n < sizeof(text))
		vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&f->lock);
	if (!f->s.damaged) {
		f->s.damaged = true;
		memcpy(f->s.error, text, sizeof(text));
	}
	pthread_mutex_unlock(&f->lock);
	return -EBADMSG;
}

/* 0; 1 at the end of the file before all bytes were there; or -errno. */
static int read_at(const struct trace_file *f, uint64_t offset, void *buf, size_t bytes)
{
	char *p = buf;

	while (bytes) {
		ssize_t n = pread(f->fd, p, bytes, (off_t)offset);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			return 1;
		p += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* NULL when the header at an offset can be believed, else what is wrong with it. */
static const char *block_problem(const struct trace_file *f, const struct qtr_block *h, uint64_t offset)
{
	if (h->magic != QTR_BLOCK_MAGIC)
		return "no block where one should start";
	if (h->hash != qtr_hash(h))
		return "block header: checksum does not match";
	if (h->codec != QTR_CODEC_PLANES)
		return "block of a kind that this version does not know";
	/* Each stream has at least one block, so far more streams than the file has room for cannot be. */
	if (!h->words || h->words > QTR_MAX_BLOCK_WORDS || h->refs > h->words ||
	    h->bytes > trace_encoded_max(h->words) || h->stream >= QTR_MAX_STREAMS ||
	    h->stream > f->size / sizeof(*h) + (1U << 16))
		return "block header: a value beyond its limit";
	if (h->bytes > f->data_end - offset - sizeof(*h))
		return "cut short inside a block";
	return NULL;
}

int block_reader_init(struct block_reader *r)
{
	*r = (struct block_reader){ 0 };
	return trace_decoder_create(&r->dec);
}

void block_reader_done(struct block_reader *r)
{
	trace_decoder_free(r->dec);
	free(r->payload);
}

static int grow(void *pptr, size_t *cap, size_t want, size_t unit)
{
	void *n, *old;

	if (want <= *cap)
		return 0;
	memcpy(&old, pptr, sizeof(old));
	n = realloc(old, want * unit);
	if (!n)
		return -ENOMEM;
	memcpy(pptr, &n, sizeof(n));
	*cap = want;
	return 0;
}

int64_t trace_file_block(struct trace_file *f, struct block_reader *r, uint64_t offset, uint32_t stream,
			 struct word_buffer *b)
{
	const char *what;
	struct qtr_block h;
	int rc = read_at(f, offset, &h, sizeof(h));

	if (rc < 0)
		goto failed;
	what = rc ? "cut short" : block_problem(f, &h, offset);
	if (!what && h.stream != stream)
		what = "block of another stream than the index says";
	if (what)
		return damaged(f, "byte %" PRIu64 ": %s", offset, what);
	rc = grow(&r->payload, &r->payload_cap, h.bytes, 1);
	if (!rc)
		rc = grow(&b->words, &b->cap, h.words, sizeof(*b->words));
	if (!rc)
		rc = read_at(f, offset + sizeof(h), r->payload, h.bytes);
	if (rc < 0)
		goto failed;
	if (rc)
		return damaged(f, "byte %" PRIu64 ": cut short inside a block", offset);
	if (XXH64(r->payload, h.bytes, 0) != h.payload_hash)
		return damaged(f, "byte %" PRIu64 ": block of stream %u: checksum does not match", offset, stream);
	if (trace_decode(r->dec, r->payload, h.bytes, b->words, h.words))
		return damaged(f, "byte %" PRIu64 ": block of stream %u cannot be decoded", offset, stream);
	if (trace_check_words(b->words, h.words, h.words, NULL, &what) != (int64_t)h.words)
		return damaged(f, "byte %" PRIu64 ": block of stream %u holds %s", offset, stream, what);
	return h.words;
failed:
	damaged(f, "byte %" PRIu64 ": %s", offset, strerror(-rc));
	return rc;
}

/* ---- opening ---- */

static int read_header(struct trace_file *f, char *err, size_t errlen)
{
	struct qtr_header *h = &f->head;
	XXH64_state_t *x;
	uint64_t hash = 0;
	int rc = read_at(f, 0, h, sizeof(*h));

	if (rc < 0) {
		snprintf(err, errlen, "%s: %s", f->path, strerror(-rc));
		return rc;
	}
	if (rc || memcmp(h->magic, QTR_MAGIC, sizeof(h->magic))) {
		snprintf(err, errlen, "%s: %s", f->path,
			 !f->size ? "empty file"
			 : rc	  ? "too short to be a trace"
				  : "not a trace file");
		return -EBADMSG;
	}
	if (h->version != QTR_VERSION) {
		snprintf(err, errlen, "%s: format version %u; this quire reads version %u", f->path, h->version,
			 QTR_VERSION);
		return -EPROTONOSUPPORT;
	}
	if (h->header_bytes != sizeof(*h) || h->meta_bytes > QTR_MAX_META) {
		snprintf(err, errlen, "%s: damaged header", f->path);
		return -EBADMSG;
	}
	f->meta = calloc(1, h->meta_bytes + 1);
	x = XXH64_createState();
	rc = f->meta && x ? read_at(f, sizeof(*h), f->meta, h->meta_bytes) : -ENOMEM;
	if (!rc) {
		XXH64_reset(x, 0);
		XXH64_update(x, h, sizeof(*h) - sizeof(h->hash));
		XXH64_update(x, f->meta, h->meta_bytes);
		hash = XXH64_digest(x);
	}
	XXH64_freeState(x);
	if (!rc && hash == h->hash) {
		f->data_start = sizeof(*h) + h->meta_bytes;
		return 0;
	}
	snprintf(err, errlen, "%s: %s", f->path,
		 rc < 0 ? strerror(-rc)
		 : rc	? "cut short in its header"
			: "damaged header");
	return rc < 0 ? rc : -EBADMSG;
}

/* The file's own index. 0; 1: there is none or it cannot be used; or -ENOMEM. */
static int load_index(struct trace_file *f)
{
	struct qtr_trailer t;
	void *data;
	int rc;

	if (f->size < f->data_start + sizeof(t) || read_at(f, f->size - sizeof(t), &t, sizeof(t)))
		return 1;
	if (t.magic != QTR_END_MAGIC || t.hash != qtr_hash(&t) || t.index_offset < f->data_start ||
	    t.index_offset > f->size - sizeof(t) || t.index_bytes != f->size - sizeof(t) - t.index_offset)
		return 1;
	data = malloc(t.index_bytes ? t.index_bytes : 1);
	if (!data)
		return -ENOMEM;
	rc = read_at(f, t.index_offset, data, t.index_bytes);
	if (!rc)
		rc = trace_index_load(&f->index, data, t.index_bytes, &t, f->data_start, t.index_offset);
	free(data);
	if (rc == -ENOMEM)
		return rc;
	if (rc)
		return 1;
	f->data_end = t.index_offset;
	f->indexed = true;
	return 0;
}

/* Walk the blocks from the start; where the walk ends for any reason but the index mark, the file is damaged. */
static int rebuild_index(struct trace_file *f)
{
	uint64_t pos = f->data_start;

	f->data_end = f->size;
	for (;;) {
		const char *what;
		struct qtr_block h;
		int rc = read_at(f, pos, &h, sizeof(h));

		if (rc < 0)
			return rc;
		if (rc && pos == f->size) {
			damaged(f, "byte %" PRIu64 ": cut short between blocks (the recorder was killed?)", pos);
			break;
		}
		if (!rc && h.magic == QTR_INDEX_MAGIC && h.hash == qtr_hash(&h)) {
			damaged(f, "byte %" PRIu64 ": damaged in or after the index; every block is there", pos);
			break;
		}
		what = rc ? "cut short" : block_problem(f, &h, pos);
		if (what) {
			damaged(f, "byte %" PRIu64 ": %s", pos, what);
			break;
		}
		rc = trace_index_add(&f->index, &h, pos);
		if (rc)
			return rc;
		pos += sizeof(h) + h.bytes;
	}
	f->data_end = pos;
	return 0;
}

static void file_free(struct trace_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	trace_index_done(&f->index);
	pthread_mutex_destroy(&f->lock);
	free(f->meta);
	free(f->path);
	free(f);
}

/* ---- cursors ---- */

static int file_cursor_open(struct trace_source *s, struct trace_cursor **ret)
{
	struct trace_file *f = (struct trace_file *)(void *)s;
	struct trace_cursor *cur = calloc(1, sizeof(*cur));
	int rc = -ENOMEM;

	if (!cur)
		return rc;
	cur->nr = f->index.nr_streams;
	cur->next = calloc(cur->nr ? cur->nr : 1, sizeof(*cur->next));
	if (cur->next)
		rc = block_reader_init(&cur->reader);
	if (rc) {
		free(cur->next);
		free(cur);
		return rc;
	}
	*ret = cur;
	return 0;
}

static void file_cursor_close(struct trace_source *s ATTR_UNUSED, struct trace_cursor *cur)
{
	while (cur->free) {
		struct file_buffer *b = cur->free;

		cur->free = b->next;
		free(b->b.words);
		free(b);
	}
	block_reader_done(&cur->reader);
	free(cur->next);
	free(cur);
}

static int file_next(struct trace_source *s, struct trace_cursor *cur, uint32_t stream, struct trace_block *ret_block)
{
	struct trace_file *f = (struct trace_file *)(void *)s;
	const struct index_stream *x;
	struct file_buffer *b = cur->free;
	int64_t n;

	if (stream >= cur->nr)
		return 0;
	x = &f->index.streams[stream];
	if (cur->next[stream] >= x->sum.nr_blocks)
		return 0;
	if (b)
		cur->free = b->next;
	else if (!(b = calloc(1, sizeof(*b))))
		return -ENOMEM;
	n = trace_file_block(f, &cur->reader, x->offsets[cur->next[stream]], stream, &b->b);
	if (n < 0) {
		b->next = cur->free;
		cur->free = b;
		return (int)n;
	}
	cur->next[stream]++;
	*ret_block = (struct trace_block){ .words = b->b.words, .nr = (size_t)n, .priv = b };
	return 1;
}

static void file_put(struct trace_source *s ATTR_UNUSED, struct trace_cursor *cur, struct trace_block *block)
{
	struct file_buffer *b = block->priv;

	b->next = cur->free;
	cur->free = b;
	*block = (struct trace_block){ 0 };
}

static bool file_has_stream(struct trace_source *s, struct trace_cursor *cur, uint32_t stream)
{
	const struct trace_file *f = (const struct trace_file *)(void *)s;

	return stream < cur->nr && f->index.streams[stream].sum.nr_blocks;
}

static void file_close(struct trace_source *s)
{
	file_free((struct trace_file *)(void *)s);
}

static const struct trace_source_ops file_ops = {
	.cursor_open = file_cursor_open,
	.cursor_close = file_cursor_close,
	.next = file_next,
	.put = file_put,
	.has_stream = file_has_stream,
	.close = file_close,
};

static int open_regular(struct trace_file *f, char *err, size_t errlen)
{
	struct stat st;
	int rc = 0;

	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not make us wait */
	if (f->fd < 0 || fstat(f->fd, &st))
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (!rc) {
		f->size = (uint64_t)st.st_size;
		f->data_end = f->size;
		return 0;
	}
	snprintf(err, errlen, "%s: %s", f->path, rc == -EINVAL ? "not a regular file" : strerror(-rc));
	return rc;
}

int trace_file_open(const char *path, struct trace_source **ret, char *err, size_t errlen)
{
	struct trace_file *f = calloc(1, sizeof(*f));
	int rc = -ENOMEM;

	if (f)
		f->path = strdup(path);
	if (!f || !f->path) {
		free(f);
		goto failed;
	}
	f->fd = -1;
	pthread_mutex_init(&f->lock, NULL);
	rc = open_regular(f, err, errlen);
	if (!rc)
		rc = read_header(f, err, errlen);
	if (rc) {
		file_free(f);
		return rc;
	}
	f->s = (struct trace_source){ .ops = &file_ops, .name = f->path };
	rc = load_index(f);
	if (rc > 0)
		rc = rebuild_index(f);
	if (rc) {
		file_free(f);
		goto failed;
	}
	f->s.total_refs = f->index.refs;
	*ret = &f->s;
	return 0;
failed:
	snprintf(err, errlen, "%s: %s", path, strerror(-rc));
	return rc;
}
