/*
 * Recorded addresses to addresses here: an ordered array of disjoint ranges. Programs have tens to a few thousand areas,
 * change them rarely and look them up often, so a sorted array with binary search is enough.
 */
#include "workload/replay_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first range that ends above addr. */
static size_t reloc_index(const struct reloc *m, uint64_t addr)
{
	size_t lo = 0, hi = m->nr;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->r[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int reloc_insert(struct reloc *m, size_t at, struct reloc_range r)
{
	if (m->nr == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 64;
		struct reloc_range *n = realloc(m->r, cap * sizeof(*n));

		if (!n)
			return -ENOMEM;
		m->r = n;
		m->cap = cap;
	}
	memmove(m->r + at + 1, m->r + at, (m->nr - at) * sizeof(r));
	m->r[at] = r;
	m->nr++;
	return 0;
}

static void reloc_erase(struct reloc *m, size_t at)
{
	m->nr--;
	memmove(m->r + at, m->r + at + 1, (m->nr - at) * sizeof(m->r[0]));
}

int reloc_remove(struct reloc *m, uint64_t start, uint64_t len)
{
	uint64_t end = start + len;
	size_t i = reloc_index(m, start);

	m->gen++;
	while (i < m->nr && m->r[i].start < end) {
		struct reloc_range old = m->r[i];

		if (old.start < start && old.end > end) { /* a hole in the middle */
			m->r[i].end = start;
			return reloc_insert(m, i + 1, (struct reloc_range){ end, old.end, old.delta });
		}
		if (old.start < start) {
			m->r[i].end = start;
			i++;
		} else if (old.end > end) {
			m->r[i].start = end;
			i++;
		} else {
			reloc_erase(m, i);
		}
	}
	return 0;
}

int reloc_set(struct reloc *m, uint64_t start, uint64_t len, uint64_t here)
{
	uint64_t end = start + len, delta = here - start;
	size_t i;

	if (!len || end < start)
		return -EINVAL;
	int e = reloc_remove(m, start, len);

	if (e)
		return e;
	i = reloc_index(m, start);
	if (i > 0 && m->r[i - 1].end == start && m->r[i - 1].delta == delta) { /* continues the one below */
		m->r[i - 1].end = end;
		if (i < m->nr && m->r[i].start == end && m->r[i].delta == delta) {
			m->r[i - 1].end = m->r[i].end;
			reloc_erase(m, i);
		}
		return 0;
	}
	if (i < m->nr && m->r[i].start == end && m->r[i].delta == delta) {
		m->r[i].start = start;
		return 0;
	}
	return reloc_insert(m, i, (struct reloc_range){ start, end, delta });
}

const struct reloc_range *reloc_find(const struct reloc *m, uint64_t addr)
{
	size_t i = reloc_index(m, addr);

	return i < m->nr && m->r[i].start <= addr ? &m->r[i] : NULL;
}

bool reloc_next_piece(const struct reloc *m, uint64_t *addr, uint64_t end, uint64_t *ret_here, uint64_t *ret_len)
{
	size_t i = reloc_index(m, *addr);

	if (*addr >= end || i >= m->nr || m->r[i].start >= end)
		return false;
	uint64_t from = MAX(m->r[i].start, *addr), to = MIN(m->r[i].end, end);

	*ret_here = from + m->r[i].delta;
	*ret_len = to - from;
	*addr = to;
	return true;
}

int reloc_copy(struct reloc *to, const struct reloc *from)
{
	struct reloc_range *n = malloc((from->nr + 1) * sizeof(*n));

	if (!n)
		return -ENOMEM;
	if (from->nr)
		memcpy(n, from->r, from->nr * sizeof(*n));
	*to = (struct reloc){ .r = n, .nr = from->nr, .cap = from->nr + 1, .gen = from->gen + 1 };
	return 0;
}

void reloc_done(struct reloc *m)
{
	free(m->r);
	*m = (struct reloc){ 0 };
}
