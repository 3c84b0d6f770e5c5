/*
 * The reversible transform and compression of a block's words (codec 1, 'planes'): differences of addresses, rotated so
 * that fields fall on bytes, split into eight byte planes, each plane constant, raw or zstd. Built for fast decoding.
 */
#ifndef QUIRE_TRACE_CODEC_H
#define QUIRE_TRACE_CODEC_H

#include <stddef.h>
#include <stdint.h>

struct trace_encoder;
struct trace_decoder;

int trace_encoder_create(struct trace_encoder **ret);
void trace_encoder_free(struct trace_encoder *e);
/* nr: 1 to QTR_MAX_BLOCK_WORDS. *ret_data stays valid until the next call. 0 or -EINVAL. */
int trace_encode(struct trace_encoder *e, const uint64_t *words, size_t nr, const void **ret_data, size_t *ret_bytes);

int trace_decoder_create(struct trace_decoder **ret);
void trace_decoder_free(struct trace_decoder *d);
/* 0, or -EBADMSG when data is not the encoding of nr words. Never writes beyond words[nr - 1]. */
int trace_decode(struct trace_decoder *d, const void *data, size_t bytes, uint64_t *words, size_t nr);

/* The longest encoding of nr words. */
size_t trace_encoded_max(size_t nr);

#endif
