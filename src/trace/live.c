/*
 * The live store: one producer (the recorder's drain) and N cursors (engines in their own threads).
 *
 * Invariants, all under `lock`
 *  L1 A block is on its stream's list from its arrival until every cursor has put it back or closed; b->left counts
 *     those that haven't.
 *  L2 pos[stream] of a cursor is the first block that it has not been given; NULL: none yet, the next to arrive.
 *  L3 The producer waits only while memory is over the limit, every cursor has been opened, at least one is still open
 *     and none of the open ones waits. Then each works on something and will put it back, wait, or close, which wakes the
 *     producer; so it never waits for ever. A block that arrives over the limit without waiting goes to the file.
 * A spilled block is written before it is listed and read outside the lock by each cursor on its own (the text never
 * changes).
 */
#define _GNU_SOURCE /* mkostemp, fallocate */
#include "trace/live.h"

#include "base/compiler.h"
#include "trace/check.h"
#include "trace/codec.h"
#include "trace/file_format.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct live_block {
	struct live_block *next;
	unsigned left; /* cursors that have not passed it */
	size_t nr;
	uint64_t *words; /* NULL: spilled */
	uint64_t offset; /* in the spill file */
	size_t bytes;
};

struct live_stream {
	struct live_block *first, *last;
	bool seen;
};

struct trace_cursor {
	struct live_block **pos; /* by stream */
	uint32_t nr;
	bool waiting;
	struct trace_decoder *dec;
	void *payload;
	size_t payload_cap;
	struct trace_cursor *link;
};

struct live_store {
	struct trace_source s; /* must be first */
	struct trace_sink sink;
	pthread_mutex_t lock;
	pthread_cond_t more; /* for cursors: a block arrived, or the end */
	pthread_cond_t less; /* for the producer: memory was freed, or a cursor waits or closed */
	unsigned nr_cursors, opened, closed, waiting;
	struct trace_cursor *cursors; /* open ones */
	struct live_stream *streams;
	uint32_t nr_streams, cap_streams;
	uint64_t memory, limit;
	bool ended;
	/* producer only */
	struct trace_encoder *enc;
	int spill_fd;
	uint64_t spill_end;
};

static struct live_store *store_of(struct trace_source *s)
{
	return (struct live_store *)(void *)s;
}

/* ---- producer ---- */

/* In TMPDIR, or, where that is no place for it, on disk before /tmp, which may be memory. */
static int spill_open(void)
{
	const char *const dirs[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
	char path[4096];
	int fd, e = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (!dirs[i] || !*dirs[i])
			continue;
		snprintf(path, sizeof(path), "%s/quire-live-XXXXXX", dirs[i]);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0) {
			unlink(path);
			return fd;
		}
		e = -errno;
	}
	return e;
}

static int spill(struct live_store *l, struct live_block *b, const uint64_t *words)
{
	const void *data;
	size_t done = 0;
	int rc = 0;

	if (l->spill_fd < 0) {
		l->spill_fd = spill_open();
		if (l->spill_fd < 0)
			return l->spill_fd;
	}
	if (!l->enc)
		rc = trace_encoder_create(&l->enc);
	if (!rc)
		rc = trace_encode(l->enc, words, b->nr, &data, &b->bytes);
	if (rc)
		return rc;
	while (done < b->bytes) {
		ssize_t n =
			pwrite(l->spill_fd, (const char *)data + done, b->bytes - done, (off_t)(l->spill_end + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			done += (size_t)n;
	}
	b->offset = l->spill_end;
	l->spill_end += b->bytes;
	return 0;
}

/* lock held */
static int add_stream(struct live_store *l, uint32_t stream)
{
	if (stream >= QTR_MAX_STREAMS)
		return -EFBIG;
	if (stream >= l->cap_streams) {
		uint32_t cap = MAX(stream + 1, MIN(l->cap_streams * 2, QTR_MAX_STREAMS));
		struct live_stream *n = realloc(l->streams, cap * sizeof(*n));

		if (!n)
			return -ENOMEM;
		memset(n + l->cap_streams, 0, (cap - l->cap_streams) * sizeof(*n));
		l->streams = n;
		l->cap_streams = cap;
	}
	l->nr_streams = MAX(l->nr_streams, stream + 1);
	l->streams[stream].seen = true;
	return 0;
}

/* lock held: make pos[stream] exist. */
static int cursor_stream(struct trace_cursor *cur, uint32_t stream)
{
	struct live_block **n;
	uint32_t cap;

	if (stream < cur->nr)
		return 0;
	cap = MAX(stream + 1, MIN(cur->nr * 2, QTR_MAX_STREAMS));
	n = realloc(cur->pos, cap * sizeof(struct live_block *));
	if (!n)
		return -ENOMEM;
	memset(n + cur->nr, 0, (cap - cur->nr) * sizeof(struct live_block *));
	cur->pos = n;
	cur->nr = cap;
	return 0;
}

/* lock held. Rule L3. Returns whether the block may stay in memory. */
static bool wait_for_room(struct live_store *l, uint64_t bytes)
{
	while (l->memory + bytes > l->limit && l->opened == l->nr_cursors && l->closed < l->nr_cursors && !l->waiting)
		pthread_cond_wait(&l->less, &l->lock);
	return l->memory + bytes <= l->limit;
}

/* lock held */
static int list_block(struct live_store *l, uint32_t stream, struct live_block *b)
{
	struct live_stream *st = &l->streams[stream];

	for (struct trace_cursor *cur = l->cursors; cur; cur = cur->link) {
		int rc = cursor_stream(cur, stream);

		if (rc)
			return rc;
	}
	for (struct trace_cursor *cur = l->cursors; cur; cur = cur->link)
		if (!cur->pos[stream])
			cur->pos[stream] = b;
	b->left = l->nr_cursors - l->closed;
	if (st->last)
		st->last->next = b;
	else
		st->first = b;
	st->last = b;
	if (b->words)
		l->memory += b->nr * sizeof(uint64_t);
	pthread_cond_broadcast(&l->more);
	return 0;
}

static int add_block(struct live_store *l, uint32_t stream, const uint64_t *words, size_t nr)
{
	struct live_block *b;
	bool in_memory;
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = add_stream(l, stream);
	in_memory = !rc && wait_for_room(l, nr * sizeof(*words));
	pthread_mutex_unlock(&l->lock);
	if (rc)
		return rc;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->nr = nr;
	if (in_memory) {
		b->words = malloc(nr * sizeof(*words));
		if (b->words)
			memcpy(b->words, words, nr * sizeof(*words));
		else
			rc = -ENOMEM;
	} else {
		rc = spill(l, b, words);
	}
	pthread_mutex_lock(&l->lock);
	if (!rc && l->closed < l->nr_cursors) {
		rc = list_block(l, stream, b);
		if (!rc)
			b = NULL;
	}
	pthread_mutex_unlock(&l->lock);
	if (b) {
		free(b->words);
		free(b);
	}
	return rc;
}

static int live_sink_block(struct trace_sink *s, uint32_t stream, const uint64_t *words, size_t nr)
{
	struct live_store *l = container_of(s, struct live_store, sink);
	int rc = 0;

	while (!rc && nr) {
		const char *what;
		int64_t n = trace_check_words(words, nr, QTR_BLOCK_WORDS, NULL, &what);

		if (n < 0)
			return -EINVAL;
		rc = add_block(l, stream, words, (size_t)n);
		words += n;
		nr -= (size_t)n;
	}
	return rc;
}

void trace_live_end(struct trace_source *s)
{
	struct live_store *l = store_of(s);

	pthread_mutex_lock(&l->lock);
	l->ended = true;
	pthread_cond_broadcast(&l->more);
	pthread_mutex_unlock(&l->lock);
}

/* ---- cursors ---- */

/* lock held: one cursor is done with a block; free it, and those before it, when it was the last. */
static void release(struct live_store *l, uint32_t stream, struct live_block *b)
{
	struct live_stream *st = &l->streams[stream];

	b->left--;
	while (st->first && !st->first->left) {
		struct live_block *f = st->first;

		st->first = f->next;
		if (!st->first)
			st->last = NULL;
		if (f->words)
			l->memory -= f->nr * sizeof(uint64_t);
		else /* give the disk back where the filesystem can; where not, it comes back at the end */
			(void)!fallocate(l->spill_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)f->offset,
					 (off_t)f->bytes);
		free(f->words);
		free(f);
		pthread_cond_signal(&l->less);
	}
}

/* lock held: wait for a block to arrive or the end. */
static void wait_for_more(struct live_store *l)
{
	l->waiting++;
	pthread_cond_signal(&l->less);
	pthread_cond_wait(&l->more, &l->lock);
	l->waiting--;
}

static int live_cursor_open(struct trace_source *s, struct trace_cursor **ret)
{
	struct live_store *l = store_of(s);
	struct trace_cursor *cur = calloc(1, sizeof(*cur));
	int rc = 0;

	if (!cur)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	if (l->opened == l->nr_cursors)
		rc = -EBUSY;
	else if (l->nr_streams)
		rc = cursor_stream(cur, l->nr_streams - 1);
	if (!rc) {
		for (uint32_t i = 0; i < l->nr_streams; i++)
			cur->pos[i] = l->streams[i].first;
		cur->link = l->cursors;
		l->cursors = cur;
		l->opened++;
		*ret = cur;
	}
	pthread_mutex_unlock(&l->lock);
	if (rc)
		free(cur);
	return rc;
}

static void live_cursor_close(struct trace_source *s, struct trace_cursor *cur)
{
	struct live_store *l = store_of(s);
	struct trace_cursor **link = &l->cursors;

	pthread_mutex_lock(&l->lock);
	while (*link != cur)
		link = &(*link)->link;
	*link = cur->link;
	l->closed++;
	for (uint32_t i = 0; i < cur->nr && i < l->nr_streams; i++)
		for (struct live_block *b = cur->pos[i], *next; b; b = next) {
			next = b->next;
			release(l, i, b);
		}
	pthread_cond_signal(&l->less);
	pthread_mutex_unlock(&l->lock);
	trace_decoder_free(cur->dec);
	free(cur->payload);
	free(cur->pos);
	free(cur);
}

/* Read a spilled block back; the words are the caller's to free. Without the lock: what was listed stays as it is. */
static int fetch(struct live_store *l, struct trace_cursor *cur, const struct live_block *b, uint64_t **ret)
{
	uint64_t *words = malloc(b->nr * sizeof(*words));
	int rc = words ? 0 : -ENOMEM;

	if (!rc && !cur->dec)
		rc = trace_decoder_create(&cur->dec);
	if (!rc && cur->payload_cap < b->bytes) {
		free(cur->payload);
		cur->payload_cap = 0;
		cur->payload = malloc(b->bytes);
		if (cur->payload)
			cur->payload_cap = b->bytes;
		else
			rc = -ENOMEM;
	}
	for (size_t done = 0; !rc && done < b->bytes;) {
		ssize_t n = pread(l->spill_fd, (char *)cur->payload + done, b->bytes - done, (off_t)(b->offset + done));

		if (n < 0 && errno != EINTR)
			rc = -errno;
		else if (!n)
			rc = -EIO;
		else if (n > 0)
			done += (size_t)n;
	}
	if (!rc)
		rc = trace_decode(cur->dec, cur->payload, b->bytes, words, b->nr);
	if (rc)
		free(words);
	else
		*ret = words;
	return rc;
}

/* lock held on entry and exit: the block that the cursor is to get next, or NULL when the stream has ended. */
static struct live_block *await_block(struct live_store *l, struct trace_cursor *cur, uint32_t stream)
{
	for (;;) {
		if (stream < cur->nr && cur->pos[stream])
			return cur->pos[stream];
		if (l->ended)
			return NULL;
		wait_for_more(l);
	}
}

/* What a block given out needs to be put back. */
struct live_loan {
	struct live_block *block;
	uint32_t stream;
	uint64_t *own; /* decoded copy of a spilled block */
};

static int live_next(struct trace_source *s, struct trace_cursor *cur, uint32_t stream, struct trace_block *ret_block)
{
	struct live_store *l = store_of(s);
	struct live_loan *loan = calloc(1, sizeof(*loan));
	struct live_block *b;
	int rc = 0;

	if (!loan)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	b = await_block(l, cur, stream);
	if (b) /* b->next may be set by the producer later; then list_block sees the NULL and sets pos itself */
		cur->pos[stream] = b->next;
	pthread_mutex_unlock(&l->lock);
	if (b && !b->words)
		rc = fetch(l, cur, b, &loan->own);
	if (!b || rc) {
		free(loan);
		if (!b)
			return 0;
		pthread_mutex_lock(&l->lock);
		release(l, stream, b);
		l->s.damaged = true;
		snprintf(l->s.error, sizeof(l->s.error), "temporary file of the live trace: %s", strerror(-rc));
		pthread_mutex_unlock(&l->lock);
		return rc;
	}
	loan->block = b;
	loan->stream = stream;
	*ret_block = (struct trace_block){ .words = b->words ? b->words : loan->own, .nr = b->nr, .priv = loan };
	return 1;
}

static void live_put(struct trace_source *s, struct trace_cursor *cur ATTR_UNUSED, struct trace_block *block)
{
	struct live_store *l = store_of(s);
	struct live_loan *loan = block->priv;

	free(loan->own);
	pthread_mutex_lock(&l->lock);
	release(l, loan->stream, loan->block);
	pthread_mutex_unlock(&l->lock);
	free(loan);
	*block = (struct trace_block){ 0 };
}

static bool live_has_stream(struct trace_source *s, struct trace_cursor *cur ATTR_UNUSED, uint32_t stream)
{
	struct live_store *l = store_of(s);
	bool has;

	pthread_mutex_lock(&l->lock);
	while (!(has = stream < l->nr_streams && l->streams[stream].seen) && !l->ended)
		wait_for_more(l);
	pthread_mutex_unlock(&l->lock);
	return has;
}

static void live_close(struct trace_source *s)
{
	struct live_store *l = store_of(s);

	for (uint32_t i = 0; i < l->nr_streams; i++)
		for (struct live_block *b = l->streams[i].first, *next; b; b = next) {
			next = b->next;
			free(b->words);
			free(b);
		}
	free(l->streams);
	trace_encoder_free(l->enc);
	if (l->spill_fd >= 0)
		close(l->spill_fd);
	pthread_cond_destroy(&l->more);
	pthread_cond_destroy(&l->less);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static const struct trace_source_ops live_ops = {
	.cursor_open = live_cursor_open,
	.cursor_close = live_cursor_close,
	.next = live_next,
	.put = live_put,
	.has_stream = live_has_stream,
	.close = live_close,
};

int trace_live_create(unsigned nr_cursors, uint64_t memory_limit, struct trace_source **ret_source,
		      struct trace_sink **ret_sink, char *err, size_t errlen)
{
	struct live_store *l = calloc(1, sizeof(*l));

	if (!l) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	l->s = (struct trace_source){ .ops = &live_ops, .name = "live" };
	l->sink.block = live_sink_block;
	l->nr_cursors = nr_cursors;
	l->limit = memory_limit;
	l->spill_fd = -1;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->more, NULL);
	pthread_cond_init(&l->less, NULL);
	*ret_source = &l->s;
	*ret_sink = &l->sink;
	return 0;
}
