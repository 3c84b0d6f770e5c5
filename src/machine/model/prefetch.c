/*
 * The stream prefetcher: trained by L1 misses, it follows up to `streams` streams, each inside one physical 4 KiB page, in either direction.
 * From the second step in one direction on it asks for up to `degree` lines an access, at most `distance` ahead.
 *
 * Streams are found by page number in sets of four, so that an access that belongs to none costs one comparison.
 */
#include "machine/model/prefetch.h"

#include "machine/model/model_int.h"

#include <errno.h>
#include <stdlib.h>

#define STREAM_NONE 0xffffffffU
#define STREAM_WAYS 4U
#define PAGE_LINES 64

static ATTR_ALWAYS_INLINE void stream_touch(struct core_stream *s, unsigned way)
{
	uint32_t o = s->order, pos = 0;

	while (((o >> pos) & 0xff) != way)
		pos += 8;
	uint32_t upto = pos == 24 ? ~0U : (1U << (pos + 8)) - 1;

	s->order = (o & ~upto) | ((o << 8) & upto) | way;
}

static void stream_start(struct core_stream *s, uint32_t page, uint8_t at)
{
	unsigned way = s->order >> 24;

	s->pfn[way] = page;
	s->last[way] = at;
	s->run[way] = 0;
	s->order = (s->order << 8) | way;
}

void prefetch_train(struct core_cpu *cc, uint64_t line, uint64_t t)
{
	const struct machine_desc *d = &cc->md->desc;
	struct core_phys *core = cc->phys;
	uint32_t page = (uint32_t)(line / PAGE_LINES);
	struct core_stream *s = &core->streams[(uint64_t)(page * 0x9e3779b1U) * core->nr_stream_sets >> 32];
	int at = (int)(line % PAGE_LINES), dir, next, last;
	uint64_t match = assoc_match32(s->pfn, STREAM_WAYS, page);
	unsigned way;

	if (!match) {
		stream_start(s, page, (uint8_t)at);
		return;
	}
	way = (unsigned)__builtin_ctzll(match);
	stream_touch(s, way);
	if (at == s->last[way])
		return;
	dir = at > s->last[way] ? 1 : -1;
	s->last[way] = (uint8_t)at;
	if (s->run[way] * dir <= 0) {
		s->run[way] = (int8_t)dir;
		s->next[way] = (uint8_t)(at + dir);
		return;
	}
	next = (int8_t)s->next[way];
	if (dir > 0) {
		next = MAX(next, at + 1);
		last = MIN(at + (int)d->prefetch.distance, PAGE_LINES - 1);
		for (unsigned i = 0; i < d->prefetch.degree && next <= last; i++, next++)
			cache_prefetch(cc, line + (uint64_t)(next - at), t);
	} else {
		next = MIN(next, at - 1);
		last = MAX(at - (int)d->prefetch.distance, 0);
		for (unsigned i = 0; i < d->prefetch.degree && next >= last; i++, next--)
			cache_prefetch(cc, line - (uint64_t)(at - next), t);
	}
	s->next[way] = (uint8_t)next;
}

int prefetch_init(struct core_phys *core, const struct machine_desc *d)
{
	if (!d->prefetch.enabled || !d->prefetch.streams || !d->prefetch.degree || !d->prefetch.distance)
		return 0;
	core->nr_stream_sets = MAX(1U, d->prefetch.streams / STREAM_WAYS);
	core->streams = aligned_alloc(64, ALIGN_UP(core->nr_stream_sets * sizeof(*core->streams), 64UL));
	if (!core->streams)
		return -ENOMEM;
	for (uint32_t i = 0; i < core->nr_stream_sets; i++) {
		core->streams[i] = (struct core_stream){ .order = 0x03020100 };
		for (unsigned w = 0; w < STREAM_WAYS; w++)
			core->streams[i].pfn[w] = STREAM_NONE;
	}
	return 0;
}

void prefetch_done(struct core_phys *core)
{
	free(core->streams);
	core->streams = NULL;
}
