/* Trace files: the grammar of words, the codec, round trips, and every kind of damage. */
#include "testing.h"
#include "trace_testing.h"

#include "trace/codec.h"
#include "trace/file_format.h"
#include "trace/index.h"
#include "trace/info.h"
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

static char path[512], cut_path[512];

/* ---- words ---- */

static void check_accepts_and_counts(void **state)
{
	(void)state;
	const uint64_t w[] = {
		word_control(W_THREAD, 7, 0),
		11,
		1,
		1,
		~0ULL,
		0,
		0,
		0,
		word_ref(0x1000, 3, 0, 5),
		word_ref(0x2000, 6, 1, 7),
		word_control(W_INSNS, 0, 100000),
		word_control(W_NAME, 1, 3),
		0x636261,
		word_control(W_EXIT, 2, 0),
		12,
		0,
	};
	struct trace_block_info info = { 0 };
	const char *what;

	assert_int_equal(trace_check_words(w, ARRAY_SIZE(w), ARRAY_SIZE(w), &info, &what), ARRAY_SIZE(w));
	assert_int_equal(info.refs, 2);
	assert_int_equal(info.insns, 100012);
	assert_int_equal(info.first_ticket, 11);
	assert_int_equal(info.last_ticket, 12);
	assert_true(info.ends);
	/* A limit inside a payload stops before its control word. */
	assert_int_equal(trace_check_words(w, ARRAY_SIZE(w), 7, NULL, &what), 0);
	assert_int_equal(trace_check_words(w, ARRAY_SIZE(w), 8, NULL, &what), 8);
	assert_int_equal(trace_check_words(w, ARRAY_SIZE(w), 14, NULL, &what), 13);
}

static void check_refuses(void **state)
{
	(void)state;
	const uint64_t bad[][3] = {
		{ 7ULL << 60 }, /* a reference of 128 bytes */
		{ word_control(W_INSNS, 0, WORD_INSNS_LONG + 1) }, /* that would keep whoever replays it for days */
		{ word_control(NR_WORD_TYPES, 0, 0) }, /* unknown type */
		{ word_control(127, 0, 0) },
		{ word_control(W_SYSRET, 1, 0), 0 }, /* payload too short for the type */
		{ word_control(W_LOST, 2, 0), 0, 0 }, /* ... too long */
		{ word_control(W_BUFFER, 2, 0), 0 }, /* ... cut off: see lengths below */
		{ word_control(W_NAME, 1, 9), 0, 0 }, /* a name that needs two */
		{ word_control(W_NAME, 255, 255 * 8 + 1) },
	};
	const size_t len[] = { 1, 1, 1, 1, 2, 3, 2, 3, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		for (size_t before = 0; before < 20; before++) { /* at every place in the vector loop */
			uint64_t w[32];
			const char *what = NULL;

			for (size_t k = 0; k < before; k++)
				w[k] = word_ref(k * 8, 6, 1, 4095);
			memcpy(w + before, bad[i], len[i] * sizeof(*w));
			assert_int_equal(trace_check_words(w, before + len[i], 32, NULL, &what), -EBADMSG);
			assert_non_null(what);
		}
}

/* ---- codec ---- */

static void codec_any_words_any_length(void **state)
{
	(void)state;
	struct trace_encoder *e;
	struct trace_decoder *d;
	struct rng r;

	rng_init(&r, 1, "codec");
	assert_int_equal(trace_encoder_create(&e), 0);
	assert_int_equal(trace_decoder_create(&d), 0);
	for (size_t nr = 1; nr <= 70000; nr = nr < 70 ? nr + 1 : nr * 3 + 1) {
		size_t n = nr > QTR_MAX_BLOCK_WORDS ? QTR_MAX_BLOCK_WORDS : nr, bytes;
		uint64_t *in = malloc(n * 8), *out = malloc((n + 1) * 8);
		const void *data;

		for (size_t i = 0; i < n; i++)
			in[i] = nr % 3 == 0   ? rng_next(&r)
				: nr % 3 == 1 ? word_ref(i * 8, 3, 0, 4)
					      : rng_below(&r, 1 << 20);
		out[n] = 0x1234;
		assert_int_equal(trace_encode(e, in, n, &data, &bytes), 0);
		assert_true(bytes <= trace_encoded_max(n));
		assert_int_equal(trace_decode(d, data, bytes, out, n), 0);
		assert_memory_equal(in, out, n * 8);
		assert_int_equal(out[n], 0x1234);
		/* Another length than the right one is noticed, unless every plane is constant. */
		assert_int_equal(trace_decode(d, data, bytes - 1, out, n), -EBADMSG);
		assert_int_equal(trace_decode(d, data, 31, out, n), -EBADMSG);
		free(in);
		free(out);
	}
	trace_encoder_free(e);
	trace_decoder_free(d);
}

static void codec_survives_garbage(void **state)
{
	(void)state;
	struct trace_encoder *e;
	struct trace_decoder *d;
	struct rng r;
	uint64_t in[1000], *out = malloc(1000 * 8);
	uint8_t copy[9000];
	const void *data;
	size_t bytes;

	rng_init(&r, 2, "garbage");
	assert_int_equal(trace_encoder_create(&e), 0);
	assert_int_equal(trace_decoder_create(&d), 0);
	for (size_t i = 0; i < 1000; i++)
		in[i] = word_ref(0x5000 + rng_below(&r, 50) * 64, 3, rng_below(&r, 2) != 0, rng_below(&r, 9));
	assert_int_equal(trace_encode(e, in, 1000, &data, &bytes), 0);
	assert_true(bytes < sizeof(copy) && bytes < 4000);
	for (int i = 0; i < 20000;
	     i++) { /* several wrong bytes: decoded or refused, never beyond the buffers (sanitizers watch) */
		memcpy(copy, data, bytes);
		for (int k = 0; k < 4; k++)
			copy[rng_below(&r, i % 2 ? bytes : 40)] = (uint8_t)rng_next(&r);
		int rc = trace_decode(d, copy, bytes, out, 1000);

		assert_true(rc == 0 || rc == -EBADMSG);
	}
	free(out);
	trace_encoder_free(e);
	trace_decoder_free(d);
}

/* ---- files ---- */

#define STREAMS 3

/* A file of three streams with `nr` words each in pieces of all sizes; v[] holds what went in. */
static void make_file(const char *to, size_t nr, struct words v[STREAMS])
{
	const struct trace_meta meta = { .command = "sort -S 200M\nbig.txt",
					 .recorder = "test 1",
					 .start_unix_ns = 12345 };
	struct trace_writer *w;
	char err[256] = "";
	size_t at[STREAMS] = { 0 };
	struct rng r;

	rng_init(&r, 3, "file");
	for (int i = 0; i < STREAMS; i++)
		random_words(&v[i], &r, nr);
	assert_int_equal(trace_writer_create(to, &meta, &w, err, sizeof(err)), 0);
	for (int left = STREAMS; left;) {
		int i = (int)rng_below(&r, STREAMS);
		const char *what;
		int64_t n;

		if (at[i] == v[i].nr)
			continue;
		n = trace_check_words(v[i].w + at[i], v[i].nr - at[i], 300 + rng_below(&r, 1000) * rng_below(&r, 100),
				      NULL, &what);
		assert_true(n > 0);
		assert_int_equal(trace_writer_block(w, (uint32_t)i, v[i].w + at[i], (size_t)n), 0);
		at[i] += (size_t)n;
		left -= at[i] == v[i].nr;
	}
	assert_int_equal(trace_writer_close(w, err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

static void free_words(struct words v[STREAMS])
{
	for (int i = 0; i < STREAMS; i++)
		free(v[i].w);
}

static void round_trip(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	struct trace_source *s;
	struct trace_cursor *cur;
	char err[256];
	uint64_t refs = 0;

	make_file(path, 200000, v);
	assert_int_equal(trace_file_open(path, &s, err, sizeof(err)), 0);
	assert_false(s->damaged);
	for (int i = 0; i < STREAMS; i++) {
		struct trace_block_info info = { 0 };
		const char *what;

		trace_check_words(v[i].w, v[i].nr, v[i].nr, &info, &what);
		refs += info.refs;
	}
	assert_int_equal(s->total_refs, refs);
	assert_int_equal(s->ops->cursor_open(s, &cur), 0);
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct words got = { 0 };

		assert_true(s->ops->has_stream(s, cur, i));
		assert_int_equal(read_stream(s, cur, i, &got), 0);
		assert_int_equal(got.nr, v[i].nr);
		assert_memory_equal(got.w, v[i].w, got.nr * 8);
		free(got.w);
	}
	struct trace_block b;

	assert_false(s->ops->has_stream(s, cur, STREAMS));
	assert_int_equal(s->ops->next(s, cur, STREAMS, &b), 0);
	assert_int_equal(s->ops->next(s, cur, 0, &b), 0);
	s->ops->cursor_close(s, cur);
	s->ops->close(s);
	free_words(v);
	unlink(path);
}

static void cursors_are_independent(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 }, got[2] = { 0 };
	struct trace_source *s;
	struct trace_cursor *cur[2];
	char err[256];
	struct rng r;
	int live = 2;

	make_file(path, 150000, v);
	assert_int_equal(trace_file_open(path, &s, err, sizeof(err)), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(s->ops->cursor_open(s, &cur[i]), 0);
	rng_init(&r, 4, "turns");
	while (live) { /* either may be ahead; each holds its block while the other reads */
		struct trace_block b[2] = { 0 };
		int rc[2];

		live = 0;
		for (int i = 0; i < 2; i++) {
			rc[i] = rng_below(&r, 3) ? s->ops->next(s, cur[i], 1, &b[i]) : 2;
			assert_true(rc[i] >= 0);
			live |= rc[i];
		}
		for (int i = 0; i < 2; i++)
			if (rc[i] == 1) {
				words_add(&got[i], b[i].words, b[i].nr);
				s->ops->put(s, cur[i], &b[i]);
			}
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(got[i].nr, v[1].nr);
		assert_memory_equal(got[i].w, v[1].w, got[i].nr * 8);
		free(got[i].w);
		s->ops->cursor_close(s, cur[i]);
	}
	s->ops->close(s);
	free_words(v);
	unlink(path);
}

static uint8_t *slurp(const char *from, size_t *ret_n)
{
	struct stat st;
	FILE *f = fopen(from, "r");

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	uint8_t *data = malloc((size_t)st.st_size);

	*ret_n = fread(data, 1, (size_t)st.st_size, f);
	fclose(f);
	return data;
}

static void spit(const char *to, const uint8_t *data, size_t n)
{
	FILE *f = fopen(to, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	fclose(f);
}

/*
 * Read a damaged file: what it delivers must be a beginning of what went in. Returns whether any damage was reported,
 * by opening or afterwards; *ret_words: how many words were delivered.
 */
static bool read_damaged(const char *from, const struct words v[STREAMS], size_t *ret_words)
{
	struct trace_source *s;
	struct trace_cursor *cur;
	char err[256] = "";
	bool damaged = false;

	*ret_words = 0;
	if (trace_file_open(from, &s, err, sizeof(err))) {
		assert_non_null(strstr(err, from));
		assert_null(strchr(err, '\n'));
		return true;
	}
	assert_int_equal(s->ops->cursor_open(s, &cur), 0);
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct words got = { 0 };

		if (s->ops->has_stream(s, cur, i)) {
			int rc = read_stream(s, cur, i, &got);

			assert_true(rc == 0 || rc == -EBADMSG);
			damaged |= rc != 0;
			assert_true(got.nr <= v[i].nr);
			if (got.nr)
				assert_memory_equal(got.w, v[i].w, got.nr * 8);
		}
		*ret_words += got.nr;
		free(got.w);
	}
	if (damaged)
		assert_true(s->damaged);
	if (s->damaged) {
		assert_non_null(strstr(s->error, "byte "));
		assert_null(strchr(s->error, '\n'));
	}
	damaged = s->damaged;
	s->ops->cursor_close(s, cur);
	s->ops->close(s);
	return damaged;
}

static void cut_at_every_byte(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	size_t n, words, before = 0, all;
	uint8_t *data;

	make_file(path, 300, v);
	data = slurp(path, &n);
	assert_false(read_damaged(path, v, &all));
	for (size_t cut = 0; cut < n; cut++) {
		spit(cut_path, data, cut);
		assert_true(read_damaged(cut_path, v, &words));
		assert_true(words >= before); /* a later cut never loses more */
		before = words;
	}
	assert_int_equal(before, all); /* cut in the trailer: nothing is lost */
	free(data);
	free_words(v);
	unlink(path);
	unlink(cut_path);
}

static void every_bit_flipped(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	size_t n, words;
	uint8_t *data;

	make_file(path, 60, v);
	data = slurp(path, &n);
	for (size_t bit = 0; bit < n * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		spit(cut_path, data, n);
		assert_true(read_damaged(cut_path, v, &words)); /* none goes unnoticed */
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(data);
	free_words(v);
	unlink(path);
	unlink(cut_path);
}

static void damage_keeps_what_is_before(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	size_t n, whole, words;
	uint8_t *data;

	make_file(path, 100000, v);
	data = slurp(path, &n);
	assert_false(read_damaged(path, v, &whole));
	/* In the middle, with the index in place: only one stream ends early. */
	data[n / 2] ^= 4;
	spit(cut_path, data, n);
	assert_true(read_damaged(cut_path, v, &words));
	assert_true(words > whole / 3 && words < whole);
	/* And without the index: what lies before is there. */
	spit(cut_path, data, n - 70);
	assert_true(read_damaged(cut_path, v, &words));
	assert_true(words > whole / 3 && words < whole);
	free(data);
	free_words(v);
	unlink(path);
	unlink(cut_path);
}

static void future_version_and_other_files(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	struct trace_source *s;
	char err[256];
	size_t n;
	uint8_t *data;

	make_file(path, 300, v);
	data = slurp(path, &n);
	data[8] = 2;
	spit(cut_path, data, n);
	assert_int_equal(trace_file_open(cut_path, &s, err, sizeof(err)), -EPROTONOSUPPORT);
	assert_non_null(strstr(err, "version 2"));
	spit(cut_path, (const uint8_t *)"#!/bin/sh\n", 10);
	assert_int_equal(trace_file_open(cut_path, &s, err, sizeof(err)), -EBADMSG);
	spit(cut_path, data, 0);
	assert_int_equal(trace_file_open(cut_path, &s, err, sizeof(err)), -EBADMSG);
	assert_non_null(strstr(err, "empty"));
	assert_int_equal(trace_file_open("/nonexistent/x.qtr", &s, err, sizeof(err)), -ENOENT);
	assert_int_equal(trace_file_open("/tmp", &s, err, sizeof(err)), -EISDIR);
	assert_int_equal(trace_file_open("/dev/null", &s, err, sizeof(err)), -EINVAL);
	free(data);
	free_words(v);
	unlink(path);
	unlink(cut_path);
}

/* A header that lies about sizes, hashes made good: refused, and nothing big is allocated for it. */
static void lying_headers(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	size_t n, words;
	uint8_t *data;
	struct qtr_header h;

	make_file(path, 300, v);
	data = slurp(path, &n);
	memcpy(&h, data, sizeof(h));
	size_t at = sizeof(h) + h.meta_bytes;

	for (int k = 0; k < 6; k++) {
		struct qtr_block b, saved;

		memcpy(&b, data + at, sizeof(b));
		saved = b;
		switch (k) {
		case 0:
			b.words = ~0U;
			break;
		case 1:
			b.words = QTR_MAX_BLOCK_WORDS;
			break;
		case 2:
			b.bytes = ~0U;
			break;
		case 3:
			b.stream = ~0U;
			break;
		case 4:
			b.codec = 9;
			break;
		case 5:
			b.words = 0;
			break;
		}
		b.hash = qtr_hash(&b);
		memcpy(data + at, &b, sizeof(b));
		spit(cut_path, data, n);
		assert_true(read_damaged(cut_path, v, &words));
		spit(cut_path, data, n - 1); /* the same with the index to be rebuilt */
		assert_true(read_damaged(cut_path, v, &words));
		memcpy(data + at, &saved, sizeof(saved));
	}
	free(data);
	free_words(v);
	unlink(path);
	unlink(cut_path);
}

/* An index that lies, hashes made good: not used, but rebuilt from the blocks. */
static void lying_index(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	struct qtr_trailer t;
	struct qtr_index mark;
	size_t n, words, whole;
	uint8_t *data;

	make_file(path, 100000, v);
	data = slurp(path, &n);
	assert_false(read_damaged(path, v, &whole));
	memcpy(&t, data + n - sizeof(t), sizeof(t));
	memcpy(&mark, data + t.index_offset, sizeof(mark));
	size_t table = t.index_offset + sizeof(mark), offsets = table + mark.nr_streams * sizeof(struct qtr_stream);

	for (int k = 0; k < 4; k++) {
		uint8_t saved[sizeof(struct qtr_stream)];
		size_t at = k < 2 ? offsets : table;

		memcpy(saved, data + at, sizeof(saved));
		switch (k) {
		case 0: /* the same block twice */
			memcpy(data + at + 8, data + at, 8);
			break;
		case 1: /* beyond the blocks */
			memset(data + at, 0xff, 8);
			break;
		case 2: /* another number of blocks */
			data[at + 8]++;
			break;
		case 3: /* a stream beyond the limit */
			memset(data + at, 0xff, 4);
			break;
		}
		t.index_hash = XXH64(data + t.index_offset, t.index_bytes, 0);
		t.hash = qtr_hash(&t);
		memcpy(data + n - sizeof(t), &t, sizeof(t));
		spit(cut_path, data, n);
		assert_true(read_damaged(cut_path, v, &words));
		assert_int_equal(words, whole);
		memcpy(data + at, saved, sizeof(saved));
	}
	free(data);
	free_words(v);
	unlink(path);
	unlink(cut_path);
}

static void writer_errors(void **state)
{
	(void)state;
	struct trace_writer *w;
	char err[256];
	const uint64_t bad = word_control(99, 0, 0);

	assert_int_equal(trace_writer_create("/nonexistent/x.qtr", NULL, &w, err, sizeof(err)), -ENOENT);
	assert_int_equal(trace_writer_create("/dev/null", NULL, &w, err, sizeof(err)), -EINVAL);
	assert_int_equal(trace_writer_create("/tmp", NULL, &w, err, sizeof(err)), -EISDIR);
	assert_int_equal(trace_writer_create(path, NULL, &w, err, sizeof(err)), 0);
	assert_int_equal(trace_writer_block(w, 0, &bad, 1), -EINVAL);
	trace_writer_abort(w);
	assert_int_equal(access(path, F_OK), -1);
}

static uint64_t room_left;

static int fake_room(const char *p, uint64_t *ret_free, uint64_t *ret_total)
{
	(void)p;
	*ret_free = room_left;
	*ret_total = 100ULL << 30;
	return 0;
}

static void disk_gets_full(void **state)
{
	(void)state;
	struct words v = { 0 }, got = { 0 };
	struct trace_writer *w;
	struct trace_source *s;
	struct trace_cursor *cur;
	char err[256];
	struct rng r;
	int rc = 0;
	size_t pieces = 0;

	rng_init(&r, 5, "full");
	random_words(&v, &r, 40000);
	room_left = 1ULL << 40;
	assert_int_equal(trace_writer_create(path, NULL, &w, err, sizeof(err)), 0);
	trace_writer_set_room(w, fake_room);
	while (!rc && pieces < 1000) {
		if (trace_writer_bytes(w) > 1 << 20)
			room_left = 10 << 20;
		rc = trace_writer_block(w, 0, v.w, v.nr);
		pieces += !rc;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(trace_writer_block(w, 1, v.w, v.nr), -ENOSPC);
	assert_int_equal(trace_writer_close(w, err, sizeof(err)), -ENOSPC);
	assert_non_null(strstr(err, path));
	/* What was accepted is all there, with an index. */
	assert_int_equal(trace_file_open(path, &s, err, sizeof(err)), 0);
	assert_false(s->damaged);
	assert_int_equal(s->ops->cursor_open(s, &cur), 0);
	assert_int_equal(read_stream(s, cur, 0, &got), 0);
	assert_int_equal(got.nr, v.nr * pieces);
	s->ops->cursor_close(s, cur);
	s->ops->close(s);
	free(v.w);
	free(got.w);
	unlink(path);
}

static void info_tells(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	struct trace_info i;
	char err[256];

	make_file(path, 50000, v);
	assert_int_equal(trace_info_read(path, true, &i, err, sizeof(err)), 0);
	assert_string_equal(i.command, "sort -S 200M big.txt");
	assert_string_equal(i.recorder, "test 1");
	assert_int_equal(i.start_unix_ns, 12345);
	assert_int_equal(i.nr_streams, STREAMS);
	assert_int_equal(i.words, v[0].nr + v[1].nr + v[2].nr);
	assert_int_equal(i.loads + i.stores, i.refs);
	assert_true(i.indexed && !i.damaged);
	trace_info_done(&i);
	free_words(v);
	unlink(path);
}

/* ---- generated ---- */

static void synthetic_is_whole_and_repeats(void **state)
{
	(void)state;
	static const char *const kinds[] = { "stream", "random" };
	char err[256];

	for (int k = 0; k < 2; k++) {
		struct words got[2] = { 0 };
		struct trace_block_info info = { 0 };
		struct trace_source *s;
		const char *what;
		uint64_t base = 0;

		assert_int_equal(trace_synthetic_open(kinds[k], 1 << 20, 300000, 7, &s, err, sizeof(err)), 0);
		for (int i = 0; i < 2; i++) {
			struct trace_cursor *cur;

			assert_int_equal(s->ops->cursor_open(s, &cur), 0);
			assert_int_equal(read_stream(s, cur, 0, &got[i]), 0);
			assert_false(s->ops->has_stream(s, cur, 1));
			s->ops->cursor_close(s, cur);
		}
		assert_int_equal(got[0].nr, got[1].nr);
		assert_memory_equal(got[0].w, got[1].w, got[0].nr * 8);
		assert_int_equal(trace_check_words(got[0].w, got[0].nr, got[0].nr, &info, &what), got[0].nr);
		assert_int_equal(info.refs, 300000 + 256);
		assert_int_equal(info.refs, s->total_refs);
		assert_true(info.ends);
		for (size_t i = 0; i < got[0].nr; i++) { /* every reference lies in the mapping */
			uint64_t w = got[0].w[i];

			if (w & WORD_CONTROL) {
				if (word_type(w) == W_SYSRET)
					base = got[0].w[i + 2];
				i += word_payload(w);
			} else {
				assert_in_range(word_addr(w), base, base + (1 << 20) - 8);
			}
		}
		free(got[0].w);
		free(got[1].w);
		s->ops->close(s);
	}
	struct trace_source *none;

	assert_int_equal(trace_synthetic_open("strem", 1 << 20, 1, 0, &none, err, sizeof(err)), -ENOENT);
	assert_int_equal(trace_synthetic_open("stream", 100, 1, 0, &none, err, sizeof(err)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_accepts_and_counts),
		cmocka_unit_test(check_refuses),
		cmocka_unit_test(codec_any_words_any_length),
		cmocka_unit_test(codec_survives_garbage),
		cmocka_unit_test(round_trip),
		cmocka_unit_test(cursors_are_independent),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(every_bit_flipped),
		cmocka_unit_test(damage_keeps_what_is_before),
		cmocka_unit_test(future_version_and_other_files),
		cmocka_unit_test(lying_headers),
		cmocka_unit_test(lying_index),
		cmocka_unit_test(writer_errors),
		cmocka_unit_test(disk_gets_full),
		cmocka_unit_test(info_tells),
		cmocka_unit_test(synthetic_is_whole_and_repeats),
	};

	temp_path(path, sizeof(path), "a.qtr");
	temp_path(cut_path, sizeof(cut_path), "b.qtr");
	return test_run(tests);
}
