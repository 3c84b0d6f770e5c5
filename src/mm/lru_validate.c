/*
 * The check of the lists of reclaim (lru.h: L1 to L3): every list is walked, then every frame, and what was found is compared with what is
 * kept. At rest only. What it marks, the folios in batches, it unmarks.
 */
#include "base/errno.h"
#include "mm/lru_int.h"
#include "mm/text.h"


static int invalid(struct quire *q, const char *what, uint64_t at, uint64_t is, uint64_t should)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "lists of reclaim: ");
	text_str(&t, what);
	text_field(&t, "at", at);
	text_field(&t, "is", is);
	text_field(&t, "should", should);
	return -EINVAL;
}

void lru_tally_refs(struct quire *q, int32_t sign)
{
	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		for (unsigned k = 0; k < NR_LRU_BATCHES; k++)
			for (unsigned s = 0; s < LRU_BATCH_SIZE; s++)
				if (q->percpu[i]->lru[k].folio[s])
					q->percpu[i]->lru[k].folio[s]->refcount += sign;
}

/* Mark, or unmark, what is in batches; on_list: how many of them are still on lists. */
static int mark_batches(struct quire *q, bool mark, uint64_t *ret_on_list)
{
	int rc = 0;

	for (unsigned i = 0; i < q->m->nr_cpus; i++) {
		for (unsigned k = 0; k < NR_LRU_BATCHES; k++) {
			for (unsigned s = 0; s < LRU_BATCH_SIZE; s++) {
				struct frame *f = q->percpu[i]->lru[k].folio[s];

				if (!f)
					continue;
				if (mark && (f->flags & (FRAME_LRU | FRAME_ISOLATED | FRAME_BATCHED)) && !rc)
					rc = invalid(q, "a folio in a batch is also elsewhere (L1)", frame_pfn(q->m, f).v, f->flags, 0);
				f->flags = mark ? f->flags | FRAME_BATCHED : f->flags & ~FRAME_BATCHED;
				*ret_on_list += k != LRU_BATCH_ADD;
			}
		}
	}
	return rc;
}

struct found {
	uint64_t folios;                /* on lists */
	uint64_t pages[NR_LRU_LISTS];   /* of all lruvecs */
	uint64_t isolated[NR_LRU_TYPES];
};

static int check_list(struct quire *q, const struct lruvec *lv, enum lru_list l, struct found *n)
{
	const struct list_head *head = &lv->list[l], *prev = head;
	uint64_t pages = 0, zone[NR_LRU_ZONES] = { 0 };

	for (const struct list_head *at = head->next; at != head; prev = at, at = at->next) {
		const struct frame *f = list_entry(at, const struct frame, lru);
		uint64_t p = frame_pfn(q->m, f).v;

		if (p >= q->m->max_pfn || at->prev != prev || pages > lv->size[l])
			return invalid(q, "a list is damaged (L1)", p, l, pages);
		if (f->flags & (FRAME_TAIL | FRAME_BUDDY | FRAME_PCP | FRAME_TABLE | FRAME_SLAB | FRAME_HUGETLB | FRAME_ISOLATED) ||
		    !(f->flags & (FRAME_LRU | FRAME_BATCHED)) || frame_refcount(f) < 1)
			return invalid(q, "a frame that can't be on a list (L1)", p, f->flags, l);
		if (folio_lru_list(f) != l || folio_lruvec(q, f) != lv)
			return invalid(q, "a folio on another list than its own (L2)", p, l, folio_lru_list(f));
		pages += frame_nr_pages(f);
		zone[frame_zone(f)] += frame_nr_pages(f);
		n->folios++;
	}
	if (pages != lv->size[l])
		return invalid(q, "a list's size (L3)", l, lv->size[l], pages);
	for (unsigned z = 0; z < NR_LRU_ZONES; z++)
		if (zone[z] != lv->zone_size[z][l])
			return invalid(q, "a list's size by zone (L3)", l, lv->zone_size[z][l], zone[z]);
	n->pages[l] += pages;
	return 0;
}

static int check_zone(struct quire *q, const struct zone *z, struct found *n, uint64_t *ret_lru)
{
	for (uint64_t p = z->first_pfn; z->managed && p < MIN(z->deferred_pfn, z->end_pfn); p++) {
		const struct frame *f = frame_of(q->m, pfn(p));
		uint64_t where = f->flags & (FRAME_LRU | FRAME_ISOLATED | FRAME_BATCHED);

		if (f->flags & FRAME_TAIL)
			continue;
		*ret_lru += (f->flags & FRAME_LRU) != 0;
		if (f->flags & FRAME_ISOLATED)
			n->isolated[folio_is_file_lru(f)] += frame_nr_pages(f);
		if (!(f->flags & (FRAME_ANON | FRAME_FILE | FRAME_SWAPCACHE)) || (f->flags & FRAME_HUGETLB))
			continue;
		if (!where || (where & (where - 1)))
			return invalid(q, "a user page is not in one place: a list, a batch, isolated (L1)", p, f->flags, 1);
	}
	return 0;
}

static int check_all(struct quire *q, uint64_t batched)
{
	struct found n = { 0 };
	uint64_t flagged = 0, isolated[NR_LRU_TYPES] = { 0 };

	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		const struct node *node = &q->nodes[i];

		for (unsigned l = 0; l < NR_LRU_LISTS; l++)
			if (check_list(q, &node->lruvec, (enum lru_list)l, &n))
				return -EINVAL;
		for (unsigned t = 0; t < NR_ZONES; t++)
			if (check_zone(q, &node->zones[t], &n, &flagged))
				return -EINVAL;
		for (unsigned t = 0; t < NR_LRU_TYPES; t++)
			isolated[t] += node->lruvec.isolated[t];
	}
	if (n.folios != flagged + batched)
		return invalid(q, "folios on lists against those that say so (L1)", 0, n.folios, flagged + batched);
	for (unsigned l = 0; l < NR_LRU_LISTS; l++) {
		uint64_t is = (uint64_t)vmstat_read(q, lru_gauge((enum lru_list)l));

		if (is != n.pages[l])
			return invalid(q, vm_counter_names[lru_gauge((enum lru_list)l)], l, is, n.pages[l]);
	}
	for (unsigned t = 0; t < NR_LRU_TYPES; t++) {
		uint64_t is = (uint64_t)vmstat_read(q, t ? VM_nr_isolated_file : VM_nr_isolated_anon);

		if (is != n.isolated[t] || isolated[t] != n.isolated[t])
			return invalid(q, t ? "nr_isolated_file (L3)" : "nr_isolated_anon (L3)", isolated[t], is, n.isolated[t]);
	}
	return 0;
}

int lru_validate(struct quire *q)
{
	uint64_t batched = 0, again = 0;
	int rc = mark_batches(q, true, &batched);

	if (!rc)
		rc = check_all(q, batched);
	(void)mark_batches(q, false, &again);
	return rc;
}
