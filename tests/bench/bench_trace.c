/*
 * How fast trace blocks are encoded and decoded, in millions of words a second on this computer, for a streaming and
 * a random trace and, with an argument, for a trace file. Prints; asserts nothing.
 */
#include "base/compiler.h"
#include "trace/codec.h"
#include "trace/check.h"
#include "trace/file_format.h"
#include "trace/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORDS (16U << 20)
#define ROUNDS 3

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what else runs here does not count */
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

struct bench {
	struct trace_encoder *enc;
	struct trace_decoder *dec;
	uint64_t words, bytes, enc_ns, dec_ns, check_ns;
};

static int bench_block(struct bench *b, const uint64_t *words, size_t nr, uint64_t *out)
{
	const char *what;
	const void *data;
	size_t bytes;
	uint64_t best_dec = ~0ULL, best_check = ~0ULL, t = now_ns();

	if (trace_encode(b->enc, words, nr, &data, &bytes))
		return -1;
	b->enc_ns += now_ns() - t;
	for (int i = 0; i < ROUNDS; i++) {
		t = now_ns();
		if (trace_decode(b->dec, data, bytes, out, nr))
			return -1;
		best_dec = MIN(best_dec, now_ns() - t);
		t = now_ns();
		if (trace_check_words(out, nr, nr, NULL, &what) != (int64_t)nr)
			return -1;
		best_check = MIN(best_check, now_ns() - t);
	}
	b->dec_ns += best_dec;
	b->check_ns += best_check;
	b->words += nr;
	b->bytes += bytes;
	return memcmp(words, out, nr * sizeof(*words));
}

static int bench_source(const char *name, struct trace_source *s)
{
	struct bench b = { 0 };
	struct trace_cursor *cur;
	struct trace_block blk;
	uint64_t *out = malloc(QTR_MAX_BLOCK_WORDS * sizeof(*out));
	int rc = !out || trace_encoder_create(&b.enc) || trace_decoder_create(&b.dec) || s->ops->cursor_open(s, &cur);

	if (rc)
		return 1;
	for (uint32_t i = 0; !rc && b.words < MAX_WORDS && s->ops->has_stream(s, cur, i); i++)
		while (!rc && b.words < MAX_WORDS && s->ops->next(s, cur, i, &blk) > 0) {
			rc = bench_block(&b, blk.words, blk.nr, out);
			s->ops->put(s, cur, &blk);
		}
	if (!rc && b.words)
		printf("%-20s %6.3f bytes/word   encode %5.0f   decode %5.0f   check %6.0f   decode and check %5.0f M "
		       "words/s\n",
		       name, (double)b.bytes / (double)b.words, (double)b.words * 1e3 / (double)b.enc_ns,
		       (double)b.words * 1e3 / (double)b.dec_ns, (double)b.words * 1e3 / (double)b.check_ns,
		       (double)b.words * 1e3 / (double)(b.dec_ns + b.check_ns));
	s->ops->cursor_close(s, cur);
	s->ops->close(s);
	trace_encoder_free(b.enc);
	trace_decoder_free(b.dec);
	free(out);
	return rc;
}

int main(int argc, char **argv)
{
	struct trace_source *s;
	char err[256];
	int rc = 0;

	for (int k = 0; k < 2; k++) {
		const char *kind = k ? "random" : "stream";

		if (trace_synthetic_open(kind, 1ULL << 30, 12000000, 1, &s, err, sizeof(err)) || bench_source(kind, s))
			rc = 1;
	}
	for (int i = 1; i < argc; i++) {
		if (trace_file_open(argv[i], &s, err, sizeof(err))) {
			fprintf(stderr, "%s\n", err);
			return 1;
		}
		rc |= bench_source(argv[i], s);
	}
	return rc;
}
