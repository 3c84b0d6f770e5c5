/* The stream prefetcher of a core (prefetch.c). */
#ifndef QUIRE_MACHINE_MODEL_PREFETCH_H
#define QUIRE_MACHINE_MODEL_PREFETCH_H

#include "machine/model/model_int.h"

#define PREFETCH_STREAM_WAYS 4U
#define PREFETCH_PAGE_LINES 64

/* Lines to bring in: nr of them from `line` on. */
struct prefetch_wish {
	uint64_t line;
	int step; /* 1 or -1 */
	unsigned nr;
};

/* The line's stream is the `way`th of the set. False: nothing is wanted. */
bool prefetch_follow(const struct core_cpu *cc, struct core_stream *s, unsigned way, uint64_t line,
		     struct prefetch_wish *ret);
int prefetch_init(struct core_phys *core, const struct machine_desc *d);
void prefetch_done(struct core_phys *core);

/* A demand access to `line` missed L1: which lines should follow? False: none. */
static ATTR_ALWAYS_INLINE bool prefetch_train(const struct core_cpu *cc, uint64_t line, struct prefetch_wish *ret)
{
	const struct core_phys *core = cc->phys;
	uint32_t page = (uint32_t)(line / PREFETCH_PAGE_LINES);
	struct core_stream *s = &core->streams[(uint64_t)(page * 0x9e3779b1U) * core->nr_stream_sets >> 32];
	uint64_t match = assoc_match32(s->pfn, PREFETCH_STREAM_WAYS, page);
	unsigned way;

	if (match)
		return prefetch_follow(cc, s, (unsigned)__builtin_ctzll(match), line, ret);
	way = s->order >> 24;
	s->pfn[way] = page;
	s->last[way] = (uint8_t)(line % PREFETCH_PAGE_LINES);
	s->run[way] = 0;
	s->order = (s->order << 8) | way;
	return false;
}

#endif
