/* Lists of ranges of memory: see memblock.h. */
#include "mm/memblock.h"

#include "base/errno.h"
#include "mm/alloc_int.h"

#include <string.h>

/* The first range that ends behind p. */
static unsigned first_behind(const struct memblock_list *l, uint64_t p)
{
	unsigned lo = 0, hi = l->nr;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (l->r[mid].end > p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void insert_at(struct memblock_list *l, unsigned i, uint64_t start, uint64_t end, int nid)
{
	memmove(&l->r[i + 1], &l->r[i], (l->nr - i) * sizeof(*l->r));
	l->r[i] = (struct memblock_region){ .start = start, .end = end, .nid = nid };
	l->nr++;
}

static void merge_all(struct memblock_list *l)
{
	unsigned to = 0;

	for (unsigned i = 1; i < l->nr; i++) {
		if (l->r[to].end == l->r[i].start && l->r[to].nid == l->r[i].nid)
			l->r[to].end = l->r[i].end;
		else
			l->r[++to] = l->r[i];
	}
	if (l->nr)
		l->nr = to + 1;
}

/* Twice over the gaps in [start, end): counting, then filling them. Merging afterwards can only shorten the list. */
int memblock_add(struct memblock_list *l, uint64_t start, uint64_t end, int nid)
{
	unsigned gaps = 0;

	if (start >= end)
		return -EINVAL;
	for (int fill = 0; fill < 2; fill++) {
		uint64_t at = start;

		for (unsigned i = first_behind(l, start); at < end; i++) {
			uint64_t stop = i < l->nr ? MIN(l->r[i].start, end) : end;

			if (stop > at) {
				gaps += !fill;
				if (fill)
					insert_at(l, i++, at, stop, nid);
			}
			if (i >= l->nr)
				break;
			at = l->r[i].end;
		}
		if (gaps > l->max - l->nr && !fill)
			return -ENOMEM;
	}
	merge_all(l);
	return 0;
}

int memblock_remove(struct memblock_list *l, uint64_t start, uint64_t end)
{
	unsigned i = first_behind(l, start);

	if (start >= end)
		return -EINVAL;
	if (i < l->nr && l->r[i].start < start && l->r[i].end > end) {
		if (l->nr == l->max)
			return -ENOMEM;
		insert_at(l, i + 1, end, l->r[i].end, l->r[i].nid);
		l->r[i].end = start;
		return 0;
	}
	while (i < l->nr && l->r[i].start < end) {
		struct memblock_region *r = &l->r[i];

		if (r->start < start) {
			r->end = start;
			i++;
		} else if (r->end > end) {
			r->start = end;
			i++;
		} else {
			memmove(r, r + 1, (l->nr - i - 1) * sizeof(*r));
			l->nr--;
		}
	}
	return 0;
}

const struct memblock_region *memblock_find(const struct memblock_list *l, uint64_t p)
{
	unsigned i = first_behind(l, p);

	return i < l->nr && l->r[i].start <= p ? &l->r[i] : NULL;
}

int memblock_validate(const struct memblock_list *l, bool nodes)
{
	for (unsigned i = 0; i < l->nr; i++) {
		const struct memblock_region *r = &l->r[i], *prev = i ? r - 1 : NULL;

		if (r->start >= r->end || (prev && prev->end > r->start))
			return -EINVAL;
		if (prev && prev->end == r->start && prev->nid == r->nid)
			return -EINVAL;
		if (nodes && prev && prev->nid != r->nid &&
		    (prev->end - 1) / MAX_ORDER_FRAMES == r->start / MAX_ORDER_FRAMES)
			return -EINVAL;
	}
	return l->nr <= l->max ? 0 : -EINVAL;
}

bool memblock_next_free(const struct memblock *mb, struct memblock_iter *it, int nid, uint64_t lo, uint64_t hi, uint64_t *ret_start,
			uint64_t *ret_end)
{
	const struct memblock_list *m = &mb->memory, *rs = &mb->reserved;

	if (!it->m && !it->r) {
		it->m = first_behind(m, lo);
		it->r = first_behind(rs, lo);
	}
	for (; it->m < m->nr && m->r[it->m].start < hi; it->m++) {
		const struct memblock_region *r = &m->r[it->m];
		uint64_t at = MAX(r->start, lo), end = MIN(r->end, hi);

		if (nid != NID_NONE && r->nid != nid)
			continue;
		while (at < end) {
			while (it->r < rs->nr && rs->r[it->r].end <= at)
				it->r++;
			if (it->r == rs->nr || rs->r[it->r].start >= end) {
				*ret_start = at;
				*ret_end = end;
				it->m++;
				return true;
			}
			if (rs->r[it->r].start > at) { /* the part before it; the rest of this memory at the next call */
				*ret_start = at;
				*ret_end = rs->r[it->r].start;
				return true;
			}
			at = rs->r[it->r].end;
		}
	}
	return false;
}

enum zone_type memblock_zone(const struct memblock *mb, int nid, uint64_t p)
{
	if (p < mb->dma32_end)
		return ZONE_DMA32;
	return mb->movable_start && mb->movable_start[nid] && p >= mb->movable_start[nid] ? ZONE_MOVABLE : ZONE_NORMAL;
}

void memblock_zone_span(const struct memblock *mb, int nid, enum zone_type t, uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t movable = mb->movable_start && mb->movable_start[nid] ? MAX(mb->movable_start[nid], mb->dma32_end) : MEMBLOCK_NONE;
	uint64_t lo = t == ZONE_DMA32 ? 0 : t == ZONE_NORMAL ? mb->dma32_end : movable;
	uint64_t hi = t == ZONE_DMA32 ? mb->dma32_end : t == ZONE_NORMAL ? movable : MEMBLOCK_NONE;

	*ret_start = *ret_end = 0;
	for (unsigned i = 0; i < mb->memory.nr; i++) {
		const struct memblock_region *r = &mb->memory.r[i];
		uint64_t s = MAX(r->start, lo), e = MIN(r->end, hi);

		if (r->nid != nid || s >= e)
			continue;
		if (!*ret_end)
			*ret_start = s;
		*ret_end = e;
	}
}
