/* The live store: what goes in comes out for every cursor, without deadlock, within the memory limit. */
#include "testing.h"
#include "trace_testing.h"

#include "trace/live.h"

#include <errno.h>
#include <pthread.h>

#define STREAMS 4

struct reader {
	struct trace_source *s;
	pthread_t thread;
	uint64_t seed;
	struct words got[STREAMS];
	uint64_t blocks;
	bool by_stream; /* stream after stream, or at random among those that exist */
	uint64_t stop_after; /* close after so many blocks; 0: read all */
	int error;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	struct trace_cursor *cur;
	bool ended[STREAMS] = { 0 };
	struct rng rng;
	int left = STREAMS;

	rng_init(&rng, r->seed, "reader");
	r->error = r->s->ops->cursor_open(r->s, &cur);
	if (r->error)
		return NULL;
	while (left && !(r->stop_after && r->blocks >= r->stop_after)) {
		uint32_t i = r->by_stream ? (uint32_t)(STREAMS - left) : (uint32_t)rng_below(&rng, STREAMS);
		struct trace_block b;

		if (ended[i])
			continue;
		int rc = r->s->ops->has_stream(r->s, cur, i) ? r->s->ops->next(r->s, cur, i, &b) : 0;

		if (rc < 0) {
			r->error = rc;
			break;
		}
		if (!rc) {
			ended[i] = true;
			left--;
			continue;
		}
		words_add(&r->got[i], b.words, b.nr);
		r->s->ops->put(r->s, cur, &b);
		r->blocks++;
	}
	r->s->ops->cursor_close(r->s, cur);
	return NULL;
}

/* Feed v[] in random pieces. */
static void feed(struct trace_sink *sink, const struct words v[STREAMS])
{
	size_t at[STREAMS] = { 0 };
	struct rng rng;

	rng_init(&rng, 9, "feed");
	for (int left = STREAMS; left;) {
		uint32_t i = (uint32_t)rng_below(&rng, STREAMS);
		const char *what;

		if (at[i] == v[i].nr)
			continue;
		int64_t n =
			trace_check_words(v[i].w + at[i], v[i].nr - at[i], 300 + rng_below(&rng, 5000), NULL, &what);

		assert_int_equal(sink->block(sink, i, v[i].w + at[i], (size_t)n), 0);
		at[i] += (size_t)n;
		left -= at[i] == v[i].nr;
	}
}

static void run(unsigned readers, uint64_t limit, const struct reader *how)
{
	struct words v[STREAMS] = { 0 };
	struct trace_source *s;
	struct trace_sink *sink;
	struct reader r[4] = { 0 };
	char err[256];
	struct rng rng;

	rng_init(&rng, 8, "words");
	for (int i = 0; i < STREAMS; i++)
		random_words(&v[i], &rng, 30000 + 20000 * (size_t)i);
	assert_int_equal(trace_live_create(readers, limit, &s, &sink, err, sizeof(err)), 0);
	for (unsigned i = 0; i < readers; i++) {
		r[i] = how[i];
		r[i].s = s;
		r[i].seed = i;
		assert_int_equal(pthread_create(&r[i].thread, NULL, read_all, &r[i]), 0);
	}
	feed(sink, v);
	trace_live_end(s);
	for (unsigned i = 0; i < readers; i++) {
		pthread_join(r[i].thread, NULL);
		assert_int_equal(r[i].error, 0);
		for (int k = 0; k < STREAMS; k++) {
			if (!r[i].stop_after)
				assert_int_equal(r[i].got[k].nr, v[k].nr);
			assert_true(r[i].got[k].nr <= v[k].nr);
			if (r[i].got[k].nr)
				assert_memory_equal(r[i].got[k].w, v[k].w, r[i].got[k].nr * 8);
			free(r[i].got[k].w);
		}
	}
	assert_false(s->damaged);
	s->ops->close(s);
	for (int i = 0; i < STREAMS; i++)
		free(v[i].w);
}

static void one_cursor(void **state)
{
	(void)state;
	run(1, 1 << 30, (const struct reader[]){ { 0 } });
}

static void four_cursors(void **state)
{
	(void)state;
	run(4, 1 << 30, (const struct reader[]){ { 0 }, { .by_stream = true }, { 0 }, { .by_stream = true } });
}

/* By stream with little memory: the others' blocks have to wait in the file, and nobody waits for ever. */
static void little_memory(void **state)
{
	(void)state;
	run(1, 64 << 10, (const struct reader[]){ { .by_stream = true } });
	run(3, 64 << 10, (const struct reader[]){ { .by_stream = true }, { 0 }, { .by_stream = true } });
	run(2, 0, (const struct reader[]){ { .by_stream = true }, { 0 } });
}

/* The file goes where there is a place for it. */
static void no_temporary_folder(void **state)
{
	const char *old = getenv("TMPDIR");
	char *keep = old ? strdup(old) : NULL;

	(void)state;
	setenv("TMPDIR", "/nowhere/at/all", 1);
	run(1, 0, (const struct reader[]){ { .by_stream = true } });
	if (keep)
		setenv("TMPDIR", keep, 1);
	else
		unsetenv("TMPDIR");
	free(keep);
}

static void cursors_that_leave(void **state)
{
	(void)state;
	run(3, 64 << 10,
	    (const struct reader[]){ { .stop_after = 3 }, { 0 }, { .by_stream = true, .stop_after = 10 } });
	run(2, 64 << 10, (const struct reader[]){ { .stop_after = 1 }, { .stop_after = 2 } });
}

/* All in one thread: written first, then read. The producer must not wait for cursors that are not open yet. */
static void recorded_then_read(void **state)
{
	(void)state;
	struct words v[STREAMS] = { 0 };
	struct trace_source *s;
	struct trace_sink *sink;
	char err[256];
	struct rng rng;

	rng_init(&rng, 8, "words");
	for (int i = 0; i < STREAMS; i++)
		random_words(&v[i], &rng, 20000);
	assert_int_equal(trace_live_create(2, 100 << 10, &s, &sink, err, sizeof(err)), 0);
	feed(sink, v);
	trace_live_end(s);
	for (int k = 0; k < 2; k++) {
		struct reader r = { .s = s, .by_stream = k == 1 };

		read_all(&r);
		assert_int_equal(r.error, 0);
		for (int i = 0; i < STREAMS; i++) {
			assert_int_equal(r.got[i].nr, v[i].nr);
			assert_memory_equal(r.got[i].w, v[i].w, v[i].nr * 8);
			free(r.got[i].w);
		}
	}
	struct trace_cursor *cur;

	assert_int_equal(s->ops->cursor_open(s, &cur), -EBUSY);
	s->ops->close(s);
	for (int i = 0; i < STREAMS; i++)
		free(v[i].w);
}

static void bad_words_are_refused(void **state)
{
	(void)state;
	struct trace_source *s;
	struct trace_sink *sink;
	char err[256];
	const uint64_t bad = word_control(W_SYSRET, 4, 0);

	assert_int_equal(trace_live_create(1, 0, &s, &sink, err, sizeof(err)), 0);
	assert_int_equal(sink->block(sink, 0, &bad, 1), -EINVAL);
	s->ops->close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_cursor),	      cmocka_unit_test(four_cursors),
		cmocka_unit_test(little_memory),      cmocka_unit_test(cursors_that_leave),
		cmocka_unit_test(recorded_then_read), cmocka_unit_test(bad_words_are_refused),
		cmocka_unit_test(no_temporary_folder),
	};

	return test_run(tests);
}
