/*
 * Generated recordings, made block by block as they are read. A complete recording: the thread, its image with the
 * areas that every program has, one mmap call, the references, one exit. The same arguments give the same words, for
 * any number of cursors.
 *
 * Instructions between references are those of the loops as gcc compiles them: load-add, add, compare, branch for the
 * stream; and a xorshift and a mask more for the random one.
 */
#include "base/assert.h"
#include "base/compiler.h"
#include "base/rng.h"
#include "trace/file_format.h"
#include "trace/source.h"
#include "trace/word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE_TOP 0x7ffff0000000ULL /* the area ends below here */
#define MAX_BYTES (1ULL << 46)
#define EXE_BASE 0x555555554000ULL
#define STACK_TOP 0x7ffffffff000ULL
#define STACK_BYTES 0x21000ULL
#define PAGE 4096ULL
#define SYS_MMAP 9
#define STREAM_INSNS 4
#define RANDOM_INSNS 10
#define FILL_INSNS 3

struct synthetic {
	struct trace_source s; /* must be first */
	bool random;
	uint64_t base, bytes, pages, n, seed;
};

struct trace_cursor {
	uint64_t words[QTR_BLOCK_WORDS];
	uint64_t done; /* references given out so far, of pages + n */
	bool started, ended, lent;
	struct rng rng;
};

static size_t put_control(uint64_t *w, enum word_type type, uint64_t arg, const uint64_t *payload, unsigned n)
{
	w[0] = word_control(type, n, arg);
	if (n)
		memcpy(w + 1, payload, n * sizeof(*w));
	return n + 1;
}

static size_t put_name(uint64_t *w, const char *name)
{
	uint64_t text[4] = { 0 };
	size_t len = strlen(name);

	ASSERT(len <= sizeof(text));
	memcpy(text, name, len);
	return put_control(w, W_NAME, len, text, (unsigned)(len + 7) / 8);
}

#define PUT(type, arg, ...)                                                                                            \
	put_control(w + n, type, arg, (const uint64_t[]){ __VA_ARGS__ },                                               \
		    (unsigned)(sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)))

static size_t put_start(const struct synthetic *g, uint64_t *w)
{
	size_t n = 0;

	n += PUT(W_THREAD, 0, 1, 1, 1, ~0ULL, 0, 0, THREAD_FIRST);
	n += PUT(W_EXEC, 0, 2, EXE_BASE + 0x5000, STACK_TOP - 0x1000);
	n += put_name(w + n, g->random ? "random" : "stream");
	n += PUT(W_AREA, AREA_EXE, EXE_BASE, 0x1000, 5, 1, 1, 0, 0x1000); /* read, execute */
	n += PUT(W_AREA, AREA_STACK, STACK_TOP - STACK_BYTES, STACK_BYTES, 3, 0, 0, 0, 0);
	n += PUT(W_SYSCALL, SYS_MMAP, 3, 0, g->bytes, 3, 0x22, ~0ULL, 0, 0); /* read, write; private, anonymous */
	n += PUT(W_SYSRET, SYS_MMAP, 4, g->base, 0, 0);
	return n;
}

/* As many references as fit; g->pages stores to fill, then loads. */
static size_t put_refs(const struct synthetic *g, struct trace_cursor *cur, uint64_t *w, size_t room)
{
	size_t n = 0;

	for (; n < room && cur->done < g->pages; n++, cur->done++)
		w[n] = word_ref(g->base + cur->done * PAGE, 3, 1, FILL_INSNS);
	if (g->random) {
		for (; n < room && cur->done < g->pages + g->n; n++, cur->done++)
			w[n] = word_ref(g->base + rng_below(&cur->rng, g->bytes / 8) * 8, 3, 0, RANDOM_INSNS);
		return n;
	}
	if (n < room && cur->done < g->pages + g->n) {
		uint64_t at = (cur->done - g->pages) % (g->bytes / 8) * 8;
		size_t end = n + (size_t)MIN(room - n, g->pages + g->n - cur->done);

		cur->done += end - n;
		for (; n < end; n++) {
			w[n] = word_ref(g->base + at, 3, 0, STREAM_INSNS);
			at += 8;
			if (at == g->bytes)
				at = 0;
		}
	}
	return n;
}

static int synthetic_cursor_open(struct trace_source *s, struct trace_cursor **ret)
{
	const struct synthetic *g = (const struct synthetic *)(void *)s;
	struct trace_cursor *cur = calloc(1, sizeof(*cur));

	if (!cur)
		return -ENOMEM;
	rng_init(&cur->rng, g->seed, "synthetic");
	*ret = cur;
	return 0;
}

static void synthetic_cursor_close(struct trace_source *s ATTR_UNUSED, struct trace_cursor *cur)
{
	free(cur);
}

static int synthetic_next(struct trace_source *s, struct trace_cursor *cur, uint32_t stream,
			  struct trace_block *ret_block)
{
	const struct synthetic *g = (const struct synthetic *)(void *)s;
	size_t n = 0;

	if (stream || cur->ended)
		return 0;
	ASSERT(!cur->lent);
	if (!cur->started) {
		n = put_start(g, cur->words);
		cur->started = true;
	}
	n += put_refs(g, cur, cur->words + n, QTR_BLOCK_WORDS - 4 - n);
	if (cur->done == g->pages + g->n) {
		uint64_t *w = cur->words;

		n += PUT(W_EXIT, EXIT_PROCESS, 5, 0);
		cur->ended = true;
	}
	cur->lent = true;
	*ret_block = (struct trace_block){ .words = cur->words, .nr = n };
	return 1;
}

static void synthetic_put(struct trace_source *s ATTR_UNUSED, struct trace_cursor *cur, struct trace_block *block)
{
	cur->lent = false;
	*block = (struct trace_block){ 0 };
}

static bool synthetic_has_stream(struct trace_source *s ATTR_UNUSED, struct trace_cursor *cur ATTR_UNUSED,
				 uint32_t stream)
{
	return stream == 0;
}

static void synthetic_close(struct trace_source *s)
{
	free(s);
}

static const struct trace_source_ops synthetic_ops = {
	.cursor_open = synthetic_cursor_open,
	.cursor_close = synthetic_cursor_close,
	.next = synthetic_next,
	.put = synthetic_put,
	.has_stream = synthetic_has_stream,
	.close = synthetic_close,
};

int trace_synthetic_open(const char *kind, uint64_t bytes, uint64_t n, uint64_t seed, struct trace_source **ret,
			 char *err, size_t errlen)
{
	struct synthetic *g;
	bool random = !strcmp(kind, "random");

	if (!random && strcmp(kind, "stream")) {
		snprintf(err, errlen, "%s: no such generated trace; there are stream and random", kind);
		return -ENOENT;
	}
	if (bytes < PAGE || bytes > MAX_BYTES || n > UINT64_MAX / 2) {
		snprintf(err, errlen, "%s: size must be between 4 KiB and 64 TiB", kind);
		return -EINVAL;
	}
	g = calloc(1, sizeof(*g));
	if (!g) {
		snprintf(err, errlen, "%s: out of memory", kind);
		return -ENOMEM;
	}
	g->random = random;
	g->bytes = ALIGN_DOWN(bytes, PAGE);
	g->pages = g->bytes / PAGE;
	g->base = ALIGN_DOWN(BASE_TOP - g->bytes, PAGE);
	g->n = n;
	g->seed = seed;
	g->s = (struct trace_source){
		.ops = &synthetic_ops,
		.name = random ? "random" : "stream",
		.total_refs = g->pages + n,
	};
	*ret = &g->s;
	return 0;
}
