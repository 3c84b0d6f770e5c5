/* Words and files for the tests of traces: random well-formed words, temporary paths, reading a whole source. */
#ifndef QUIRE_TESTS_TRACE_TESTING_H
#define QUIRE_TESTS_TRACE_TESTING_H

#include "base/compiler.h"
#include "base/rng.h"
#include "trace/check.h"
#include "trace/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct words {
	uint64_t *w;
	size_t nr, cap;
};

static inline void words_add(struct words *v, const uint64_t *w, size_t n)
{
	if (v->nr + n > v->cap) {
		v->cap = (v->nr + n) * 2;
		v->w = realloc(v->w, v->cap * sizeof(*w));
		assert_non_null(v->w);
	}
	memcpy(v->w + v->nr, w, n * sizeof(*w));
	v->nr += n;
}

/* One random item: mostly references near the last one, some far away, some control words with any payload. */
static inline size_t random_item(struct rng *r, uint64_t *at, uint64_t *out)
{
	uint64_t k = rng_below(r, 100);

	if (k < 90) {
		*at = k < 60 ? *at + 8 : k < 80 ? 0x7ffff0000000 + rng_below(r, 4096) : rng_next(r) & WORD_ADDR_MASK;
		*at &= WORD_ADDR_MASK;
		out[0] = word_ref(*at, (unsigned)rng_below(r, 7), rng_below(r, 2) != 0, rng_below(r, 20));
		return 1;
	}
	unsigned type = (unsigned)rng_below(r, NR_WORD_TYPES);
	int n = trace_word_payload(type);
	uint64_t arg = rng_next(r);

	if (n < 0) {
		arg = rng_below(r, 300);
		n = (int)(arg + 7) / 8;
	}
	out[0] = word_control(type, (unsigned)n, type == W_INSNS ? arg % WORD_INSNS_LONG : arg);
	for (int i = 1; i <= n; i++)
		out[i] = rng_next(r);
	return (size_t)n + 1;
}

static inline void random_words(struct words *v, struct rng *r, size_t nr)
{
	uint64_t at = 0x10000, item[256];

	while (v->nr < nr) {
		size_t n = random_item(r, &at, item);

		if (word_type(item[0]) == W_EXIT && (item[0] & WORD_CONTROL))
			continue;
		words_add(v, item, n);
	}
}

static inline void temp_path(char *buf, size_t len, const char *name)
{
	const char *dir = getenv("TMPDIR");

	snprintf(buf, len, "%s/quire-test-%ld-%s", dir ? dir : "/tmp", (long)getpid(), name);
}

/* Everything that a cursor gives of one stream. Returns the last code of next: 0 at the end, or an error. */
static inline int read_stream(struct trace_source *s, struct trace_cursor *cur, uint32_t stream, struct words *v)
{
	struct trace_block b;
	int rc;

	while ((rc = s->ops->next(s, cur, stream, &b)) > 0) {
		words_add(v, b.words, b.nr);
		s->ops->put(s, cur, &b);
	}
	return rc;
}

#endif
