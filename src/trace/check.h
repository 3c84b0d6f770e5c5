/* The grammar of trace words: is a run of words whole and well-formed, and what does it hold? */
#ifndef QUIRE_TRACE_CHECK_H
#define QUIRE_TRACE_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* Instructions in one W_INSNS word, at most: no single word keeps whoever replays it for long. */
#define WORD_INSNS_LONG (1ULL << 34)

#include "trace/word.h"

struct trace_block_info {
	uint64_t refs, insns;
	uint64_t first_ticket, last_ticket; /* 0: none */
	int ends; /* the last control word was a W_EXIT */
};

/*
 * Walk at most `limit` of `nr` words without cutting a control word from its payload. Returns how many words were
 * walked and adds what they hold to *info (may be NULL); fewer than MIN(nr, limit) only where the next item would
 * pass the limit.
 * -EBADMSG: the words are not well-formed (or the last item needs more than nr words); *ret_what, static text, says
 * why.
 */
int64_t trace_check_words(const uint64_t *words, size_t nr, size_t limit, struct trace_block_info *info,
			  const char **ret_what);

/* Payload words that a type has, or -1 where it varies (W_NAME) or the type is unknown. */
int trace_word_payload(unsigned type);
const char *trace_word_name(unsigned type);

#endif
