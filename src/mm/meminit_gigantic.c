/*
 * Descriptors of a gigantic page at boot: the head, and tails that know it. Where the page's descriptors will share one frame (a page's tails
 * are all alike), only those in that frame are written, and the rest is skipped; if sharing fails later, they have to be written after all.
 */
#include "mm/meminit.h"

static void init_tails(struct meminit_worker *w, int nid, unsigned zone, uint64_t head, uint64_t from, uint64_t to)
{
	uint64_t flags = meminit_place(zone, nid) | FRAME_TAIL;

	for (uint64_t i = from; i < to; i++) {
		struct frame *f = meminit_desc(w, head + i);

		meminit_one_words(f, flags);
		f->tail.head_pfn = head;
		f->tail.pad = 0;
		f->refcount = 0;
	}
	meminit_charge(w, nid, PATH_MEMINIT_WORDS, head + from, to - from);
	__atomic_add_fetch(&w->mi->node[nid].initialised, to - from, __ATOMIC_RELAXED);
}

void meminit_gigantic(struct meminit_worker *w, int nid, unsigned zone, uint64_t head, unsigned order, bool shared)
{
	struct frame *f = meminit_desc(w, head);

	meminit_one_words(f, meminit_place(zone, nid) | FRAME_HEAD | ((uint64_t)order << FRAME_ORDER_SHIFT));
	f->entire_mapcount = -1;
	meminit_charge(w, nid, PATH_MEMINIT_WORDS, head, 1);
	__atomic_add_fetch(&w->mi->node[nid].initialised, 1, __ATOMIC_RELAXED);
	init_tails(w, nid, zone, head, 1, shared ? MEMINIT_KEPT : 1ULL << order);
}

void meminit_gigantic_rest(struct meminit_worker *w, int nid, unsigned zone, uint64_t head, unsigned order)
{
	init_tails(w, nid, zone, head, MEMINIT_KEPT, 1ULL << order);
}
