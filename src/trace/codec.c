/*
 * Codec 'planes'. Encoding of a word w after the word p:
 *   1. the low 47 bits (a reference's address) become the zigzag difference to p's, modulo 2^47; the high 17 bits stay;
 *   2. the word is rotated left by one, so that the control bit sits at the bottom, the difference in bytes 0 to 5, the
 *      instruction count from byte 6 on, and store and size in byte 7;
 *   3. byte k of all words forms plane k (words padded with zeros to a multiple of 16).
 * Control words and payloads go through the same steps: it is a bijection on any 64-bit values, so decoding needs no
 * parsing.
 *
 * Payload: eight u32, one a plane: mode in bits 31..30, value in bits 29..0; then the planes' data in order.
 *   mode 0: all bytes are `value`, no data
 *   mode 1: raw, `value` bytes (the plane's length)
 *   mode 2: a zstd frame of `value` bytes
 *
 * Decoding 16 words is 8 loads, 24 byte interleaves and 8 stores by vectors, then a running sum: measured in
 * bench_trace.
 */
#include "trace/codec.h"

#include "base/compiler.h"
#include "trace/file_format.h"
#include "trace/word.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define NR_PLANES 8
#define GROUP 16 /* words handled at once */
#define ADDR_BITS 47
#define MODE_CONSTANT 0U
#define MODE_RAW 1U
#define MODE_ZSTD 2U
#define MODE_SHIFT 30
#define VALUE_MASK ((1U << MODE_SHIFT) - 1)
#define PLANE_MAX QTR_MAX_BLOCK_WORDS
#define DESC_BYTES (NR_PLANES * sizeof(uint32_t))
/*
 * zstd's parameters, tried on sorting and on SQLite: level -1 takes a fifth less time than 1 both ways, for a sixth
 * more bytes; matches of at least 7 bytes (not 6) make it smaller and faster still, since in planes short matches
 * cost more than literals.
 */
#define LEVEL (-1)
#define MIN_MATCH 7
#define HASH_LOG 13

typedef uint8_t vec8 __attribute__((vector_size(16)));
typedef uint16_t vec16 __attribute__((vector_size(16)));
typedef uint32_t vec32 __attribute__((vector_size(16)));

struct trace_encoder {
	ZSTD_CCtx *zstd;
	uint8_t planes[NR_PLANES * PLANE_MAX];
	uint8_t out[DESC_BYTES + NR_PLANES * PLANE_MAX + ZSTD_COMPRESSBOUND(PLANE_MAX)];
};

struct trace_decoder {
	ZSTD_DCtx *zstd;
	uint8_t planes[NR_PLANES * PLANE_MAX];
};

size_t trace_encoded_max(size_t nr)
{
	return DESC_BYTES + NR_PLANES * ALIGN_UP(nr, GROUP);
}

int trace_encoder_create(struct trace_encoder **ret)
{
	struct trace_encoder *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->zstd = ZSTD_createCCtx();
	if (!e->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_minMatch, MIN_MATCH)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_hashLog, HASH_LOG))) {
		trace_encoder_free(e);
		return -ENOMEM;
	}
	*ret = e;
	return 0;
}

void trace_encoder_free(struct trace_encoder *e)
{
	if (!e)
		return;
	ZSTD_freeCCtx(e->zstd);
	free(e);
}

int trace_decoder_create(struct trace_decoder **ret)
{
	struct trace_decoder *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->zstd = ZSTD_createDCtx();
	if (!d->zstd) {
		free(d);
		return -ENOMEM;
	}
	*ret = d;
	return 0;
}

void trace_decoder_free(struct trace_decoder *d)
{
	if (!d)
		return;
	ZSTD_freeDCtx(d->zstd);
	free(d);
}

static inline uint64_t fold(uint64_t w, uint64_t *prev)
{
	uint64_t lo = w & WORD_ADDR_MASK;
	int64_t d = (int64_t)((lo - *prev) << (64 - ADDR_BITS)) >> (64 - ADDR_BITS);
	uint64_t z = (((uint64_t)d << 1) ^ (uint64_t)(d >> 63)) & WORD_ADDR_MASK;
	uint64_t x = (w & ~WORD_ADDR_MASK) | z;

	*prev = lo;
	return (x << 1) | (x >> 63);
}

static inline uint64_t unfold(uint64_t e, uint64_t *prev)
{
	uint64_t z = (e >> 1) & WORD_ADDR_MASK;

	*prev += (z >> 1) ^ (0 - (z & 1));
	return ((e >> 1) & ~WORD_ADDR_MASK) | (e << 63) | (*prev & WORD_ADDR_MASK);
}

#define INTERLEAVE8_LO(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE8_HI(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define INTERLEAVE16_LO(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE16_HI(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define INTERLEAVE32_LO(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE32_HI(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

/*
 * 16 folded words become 16 bytes of each plane. A byte's place has seven bits, word (4) and byte in the word (3).
 * Interleaving the first half of all 128 bytes with the second moves the top bit to the bottom; after four rounds the
 * word's bits are at the bottom.
 */
static inline void scatter_group(const uint64_t *words, uint8_t *planes, size_t len, size_t i)
{
	vec8 v[NR_PLANES], t[NR_PLANES];

	memcpy(v, words, sizeof(v));
	for (unsigned round = 0; round < 2; round++) { /* two at a time, from v to t and back */
		for (unsigned k = 0; k < 4; k++) {
			t[2 * k] = INTERLEAVE8_LO(v[k], v[k + 4]);
			t[2 * k + 1] = INTERLEAVE8_HI(v[k], v[k + 4]);
		}
		for (unsigned k = 0; k < 4; k++) {
			v[2 * k] = INTERLEAVE8_LO(t[k], t[k + 4]);
			v[2 * k + 1] = INTERLEAVE8_HI(t[k], t[k + 4]);
		}
	}
	for (unsigned b = 0; b < NR_PLANES; b++)
		memcpy(planes + b * len + i, &v[b], GROUP);
}

/* Words to planes of `len` bytes each. */
static void split_planes(const uint64_t *words, size_t nr, uint8_t *planes, size_t len)
{
	uint64_t prev = 0, t[GROUP];

	for (size_t i = 0; i < len; i += GROUP) {
		for (size_t k = 0; k < GROUP; k++)
			t[k] = i + k < nr ? fold(words[i + k], &prev) : 0;
		scatter_group(t, planes, len, i);
	}
}

int trace_encode(struct trace_encoder *e, const uint64_t *words, size_t nr, const void **ret_data, size_t *ret_bytes)
{
	size_t len = ALIGN_UP(nr, GROUP), out = DESC_BYTES;
	uint32_t desc[NR_PLANES];

	if (!nr || nr > QTR_MAX_BLOCK_WORDS)
		return -EINVAL;
	split_planes(words, nr, e->planes, len);
	for (unsigned b = 0; b < NR_PLANES; b++) {
		const uint8_t *p = e->planes + b * len;
		size_t n;

		if (!memcmp(p, p + 1, len - 1)) {
			desc[b] = (MODE_CONSTANT << MODE_SHIFT) | p[0];
			continue;
		}
		n = ZSTD_compress2(e->zstd, e->out + out, sizeof(e->out) - out, p, len);
		if (ZSTD_isError(n) || n >= len - len / 16) { /* not worth decoding */
			memcpy(e->out + out, p, len);
			desc[b] = (MODE_RAW << MODE_SHIFT) | (uint32_t)len;
			out += len;
		} else {
			desc[b] = (MODE_ZSTD << MODE_SHIFT) | (uint32_t)n;
			out += n;
		}
	}
	memcpy(e->out, desc, DESC_BYTES);
	*ret_data = e->out;
	*ret_bytes = out;
	return 0;
}

/* 16 bytes of each plane become 16 words, still folded. */
static inline void gather_group(const uint8_t *planes, size_t len, size_t i, uint64_t *out)
{
	vec8 a[NR_PLANES];
	vec16 c[NR_PLANES];
	vec32 d[NR_PLANES];

	for (unsigned b = 0; b < NR_PLANES; b++)
		memcpy(&a[b], planes + b * len + i, GROUP);
	for (unsigned b = 0; b < 4; b++) { /* pairs of planes: 16-bit units */
		c[2 * b] = (vec16)INTERLEAVE8_LO(a[2 * b], a[2 * b + 1]);
		c[2 * b + 1] = (vec16)INTERLEAVE8_HI(a[2 * b], a[2 * b + 1]);
	}
	for (unsigned k = 0; k < 2; k++) /* quadruples: 32-bit units */
		for (unsigned h = 0; h < 2; h++) {
			d[4 * k + 2 * h] = (vec32)INTERLEAVE16_LO(c[4 * k + h], c[4 * k + 2 + h]);
			d[4 * k + 2 * h + 1] = (vec32)INTERLEAVE16_HI(c[4 * k + h], c[4 * k + 2 + h]);
		}
	for (unsigned j = 0; j < 4; j++) { /* all eight: words */
		vec32 x = INTERLEAVE32_LO(d[j], d[4 + j]), y = INTERLEAVE32_HI(d[j], d[4 + j]);

		memcpy(out + 4 * j, &x, sizeof(x));
		memcpy(out + 4 * j + 2, &y, sizeof(y));
	}
}

static void join_planes(const uint8_t *planes, size_t len, uint64_t *words, size_t nr)
{
	uint64_t prev = 0, t[GROUP];
	size_t i = 0;

	for (; i + GROUP <= nr; i += GROUP) {
		gather_group(planes, len, i, t);
		for (unsigned k = 0; k < GROUP; k++)
			words[i + k] = unfold(t[k], &prev);
	}
	if (i < nr) {
		gather_group(planes, len, i, t);
		for (unsigned k = 0; i + k < nr; k++)
			words[i + k] = unfold(t[k], &prev);
	}
}

/* One plane. Returns the bytes of data that it used, or -EBADMSG. */
static int64_t decode_plane(struct trace_decoder *d, uint32_t desc, const uint8_t *data, size_t left, uint8_t *plane,
			    size_t len)
{
	size_t n = desc & VALUE_MASK;

	switch (desc >> MODE_SHIFT) {
	case MODE_CONSTANT:
		if (n > 0xff)
			return -EBADMSG;
		memset(plane, (int)n, len);
		return 0;
	case MODE_RAW:
		if (n != len || n > left)
			return -EBADMSG;
		memcpy(plane, data, len);
		return (int64_t)n;
	case MODE_ZSTD:
		if (n > left || ZSTD_decompressDCtx(d->zstd, plane, len, data, n) != len)
			return -EBADMSG;
		return (int64_t)n;
	default:
		return -EBADMSG;
	}
}

int trace_decode(struct trace_decoder *d, const void *data, size_t bytes, uint64_t *words, size_t nr)
{
	size_t len = ALIGN_UP(nr, GROUP), pos = DESC_BYTES;
	uint32_t desc[NR_PLANES];

	if (!nr || nr > QTR_MAX_BLOCK_WORDS || bytes < DESC_BYTES)
		return -EBADMSG;
	memcpy(desc, data, DESC_BYTES);
	for (unsigned b = 0; b < NR_PLANES; b++) {
		int64_t n =
			decode_plane(d, desc[b], (const uint8_t *)data + pos, bytes - pos, d->planes + b * len, len);

		if (n < 0)
			return (int)n;
		pos += (size_t)n;
	}
	if (pos != bytes)
		return -EBADMSG;
	join_planes(d->planes, len, words, nr);
	return 0;
}
