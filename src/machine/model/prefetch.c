/*
 * The stream prefetcher: trained by L1 misses, it follows up to `streams` streams, each inside one physical 4 KiB page, in either direction.
 * From the second step in one direction on it asks for up to `degree` lines an access, at most `distance` ahead.
 *
 * Streams are found by page number in sets of four, so that an access that belongs to none costs one comparison.
 */
#include "machine/model/prefetch.h"

#include <errno.h>
#include <stdlib.h>

#define STREAM_NONE 0xffffffffU

static ATTR_ALWAYS_INLINE void stream_touch(struct core_stream *s, unsigned way)
{
	uint32_t o = s->order, pos = 0;

	while (((o >> pos) & 0xff) != way)
		pos += 8;
	uint32_t upto = pos == 24 ? ~0U : (1U << (pos + 8)) - 1;

	s->order = (o & ~upto) | ((o << 8) & upto) | way;
}

bool prefetch_follow(const struct core_cpu *cc, struct core_stream *s, unsigned way, uint64_t line,
		     struct prefetch_wish *ret)
{
	const struct machine_desc *d = &cc->md->desc;
	int at = (int)(line % PREFETCH_PAGE_LINES), dir, next, left;

	stream_touch(s, way);
	if (at == s->last[way])
		return false;
	dir = at > s->last[way] ? 1 : -1;
	s->last[way] = (uint8_t)at;
	if (s->run[way] * dir <= 0) {
		s->run[way] = (int8_t)dir;
		s->next[way] = (uint8_t)(at + dir);
		return false;
	}
	next = (int8_t)s->next[way];
	if (dir > 0) {
		next = MAX(next, at + 1);
		left = MIN(at + (int)d->prefetch.distance, PREFETCH_PAGE_LINES - 1) - next + 1;
	} else {
		next = MIN(next, at - 1);
		left = next - MAX(at - (int)d->prefetch.distance, 0) + 1;
	}
	ret->line = line + (uint64_t)(int64_t)(next - at);
	ret->step = dir;
	ret->nr = left > 0 ? MIN((unsigned)left, d->prefetch.degree) : 0;
	s->next[way] = (uint8_t)(next + dir * (int)ret->nr);
	return ret->nr;
}

int prefetch_init(struct core_phys *core, const struct machine_desc *d)
{
	if (!d->prefetch.enabled || !d->prefetch.streams || !d->prefetch.degree || !d->prefetch.distance)
		return 0;
	core->nr_stream_sets = MAX(1U, d->prefetch.streams / PREFETCH_STREAM_WAYS);
	core->streams = aligned_alloc(64, ALIGN_UP(core->nr_stream_sets * sizeof(*core->streams), 64UL));
	if (!core->streams)
		return -ENOMEM;
	for (uint32_t i = 0; i < core->nr_stream_sets; i++) {
		core->streams[i] = (struct core_stream){ .order = 0x03020100 };
		for (unsigned w = 0; w < PREFETCH_STREAM_WAYS; w++)
			core->streams[i].pfn[w] = STREAM_NONE;
	}
	return 0;
}

void prefetch_done(struct core_phys *core)
{
	free(core->streams);
	core->streams = NULL;
}
