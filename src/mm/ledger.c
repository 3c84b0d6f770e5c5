/* The ledger: one walk over all frames that were ever used, as in memory_validate.c. No locks: no task runs. */
#include "mm/ledger.h"

#include "mm/alloc_int.h"
#include "mm/rmap.h"

#include <string.h>

static void huge_folio(const struct quire *q, const struct frame *head, struct quire_ledger *l)
{
	uint64_t maps, mapped = 0, entire = (uint64_t)frame_entire_mapcount(head), n = frame_nr_pages(head);

	for (uint64_t i = 0; i < n; i++) {
		maps = entire + (uint64_t)frame_mapcount(head + i);
		mapped += maps != 0;
		l->shared += maps ? maps - 1 : 0;
		l->unwritten += entire && frame_looks_zero(q->m, pfn_add(frame_pfn(q->m, head), i));
	}
	l->huge += entire != 0;
	*(mapped ? &l->unmapped : &l->held) += n - mapped;
	l->queued += mapped && mapped < n;
}

static void base_page(const struct frame *f, struct quire_ledger *l)
{
	uint64_t maps = (uint64_t)frame_mapcount(f);

	if (maps)
		l->shared += maps - 1;
	else
		*(frame_flags(f) & (FRAME_FILE | FRAME_SWAPCACHE) ? &l->cache : &l->held) += 1;
}

/* A table that several share is counted by each as if it were its own (fork_shared.c, H3). */
static void shared_table(const struct frame *t, struct quire_ledger *l)
{
	uint32_t sharers = t->pt_sharers;

	for (unsigned i = 0; sharers > 1 && i < NR_RSS; i++)
		l->shared += (uint64_t)t->pt_rss[i] * (sharers - 1);
}

static void owned(const struct quire *q, const struct frame *f, uint64_t n, struct quire_ledger *l)
{
	uint64_t flags = frame_flags(f);

	if (flags & FRAME_TABLE) {
		l->tables += n;
		shared_table(f, l);
	} else if (flags & FRAME_SLAB) {
		l->slab += n;
	} else if (flags & FRAME_HUGETLB) {
		l->pools += n;
	} else if (flags & FRAME_HUGE_ZERO) {
		l->zero += n;
	} else if (!(flags & (FRAME_ANON | FRAME_FILE | FRAME_SWAPCACHE))) {
		l->misc += n;
	} else if (flags & FRAME_HEAD) {
		huge_folio(q, f, l);
	} else {
		base_page(f, l);
	}
}

static uint64_t on_cpu_lists(const struct quire *q, unsigned zone)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		n += q->percpu[i]->pcp[zone].total;
	return n;
}

void quire_ledger(const struct quire *q, struct quire_ledger *ret)
{
	const struct mm *mm;

	memset(ret, 0, sizeof(*ret));
	for (unsigned n = 0; n < q->m->nr_nodes; n++)
		for (unsigned i = 0; i < NR_ZONES; i++) {
			const struct zone *z = &q->nodes[n].zones[i];

			for (uint64_t p = z->first_pfn; p < z->deferred_pfn;) {
				const struct frame *f = q->m->memmap + p;
				uint64_t pages = 1ULL << frame_order(f);

				if (!(frame_flags(f) & (FRAME_BUDDY | FRAME_PCP)))
					owned(q, f, pages, ret);
				p += pages;
			}
			ret->user += z->managed - z->free_pages - on_cpu_lists(q, n * NR_ZONES + i);
		}
	list_for_each_entry(mm, &q->mms, link)
		for (unsigned k = 0; k < NR_RSS; k++)
			ret->rss += (uint64_t)mm_rss(mm, (enum rss_kind)k);
	ret->user -= ret->tables + ret->slab + ret->misc + ret->zero + ret->pools;
	ret->charge = ret->user + ret->tables;
	ret->adds_up = ret->rss - ret->shared + ret->unmapped + ret->cache + ret->held == ret->user;
}
