/*
 * hugetlb_validate and the entries of pools of huge pages, memory_validate, and what a TLB may hold (tlb_check.c): one damage
 * after another, each named for what it is.
 */
#include "damage.h"

#include "hugetlb_testing.h"
#include "mm/tlb_check.h"

static void pools(void **state)
{
	struct world *w = pool_world(128 * MIB, 8, 0);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va = map_ok(w, mm, 4 * HUGE, LOG_2M), plain = map_ok(w, mm, 2 * HUGE, UAPI_MAP_NORESERVE);
	struct hstate *h = &w->q->hugetlb.h[HUGETLB_2M];
	struct hugetlb_node *n = &h->node[0];
	struct frame *f = list_first_entry(&n->free, struct frame, lru), *used;

	(void)state;
	store(w, va, 1);
	store(w, plain, 2);
	used = below(w, *entry_of(w, mm, va, PMD_SHIFT));
	f = list_first_entry(&n->free, struct frame, lru);
	check_2m(w, 8, 6, 3, 0);
#define BAD(lvalue, bad, what) DAMAGE(w, hugetlb_validate(w->q), lvalue, bad, "hugetlb: " what)
	BAD(f->flags, f->flags & ~FRAME_HUGETLB_FREE, "a page on a free list is not free (HP1)");
	BAD(f->flags, f->flags & ~FRAME_HUGETLB, "a page on a free list is not free (HP1)");
	BAD(f->flags, f->flags | FRAME_ANON, "a page on a free list is not free (HP1)");
	BAD(f->flags, f->flags & ~FRAME_HEAD, "a page on a free list is not free (HP1)");
	BAD(f->flags, f->flags ^ 1ULL << FRAME_ORDER_SHIFT, "a page on a free list is not free (HP1)");
	BAD(f->refcount, 1, "a page on a free list is not free (HP1)");
	BAD(f->entire_mapcount, 0, "a page on a free list is not free (HP1)");
	BAD(n->nr_free, 5, "free pages (HP1)");
	BAD(n->nr_free, 7, "free pages (HP1)");
	BAD(n->nr, 9, "pages in use (HP1)");
	BAD(used->flags, used->flags & ~FRAME_HUGETLB, "pages in use (HP1)");
	BAD(n->surplus, 9, "surplus (HP5)");
	BAD(h->surplus, 1, "sums over nodes (HP1)");
	BAD(h->nr, 9, "sums over nodes (HP1)");
	BAD(h->nr_free, 5, "sums over nodes (HP1)");
	BAD(h->resv, 7, "promised pages that are not there (HP2)");
	BAD(h->resv, 4, "promises (HP3)");
	BAD(h->resv, 2, "promises (HP3)");
	BAD(area_of(w, mm, va)->flags, area_of(w, mm, va)->flags & ~VM_HUGETLB_RESV, "promises (HP3)");
	DAMAGE(w, quire_validate(w->q), h->resv, 4, "hugetlb: promises (HP3)");
#undef BAD
#define BAD(lvalue, bad, what) DAMAGE(w, mm_validate(mm), lvalue, bad, "hugetlb entry: " what)
	pte_t *e = entry_of(w, mm, va, PMD_SHIFT), *empty = entry_of(w, mm, va + HUGE, PMD_SHIFT);
	struct hugetlb_rmap *rec = list_first_entry(&used->lru, struct hugetlb_rmap, link);

	BAD(*empty, PAGES(77), "neither a page nor a marker");
	BAD(*entry_of(w, mm, plain + HUGE, PMD_SHIFT), HUGETLB_USED, "neither a page nor a marker"); /* no page was promised there */
	BAD(used->flags, used->flags | FRAME_HUGETLB_FREE, "maps no page in use");
	BAD(used->flags, used->flags & ~FRAME_ANON, "maps no page in use");
	BAD(used->refcount, 0, "maps no page in use");
	BAD(*e, *e + HUGE, "maps no page in use"); /* of no page of the pool, or a free one */
	BAD(used->entire_mapcount, 1, "records of the page");
	BAD(rec->va, va + HUGE, "records of the page");
	BAD(rec->mm, NULL, "records of the page");
	DAMAGE(w, mm_validate(mm), *e, *e ^ PTE_NX, "entry: NX");
	DAMAGE(w, mm_validate(mm), mm->hugetlb_pages, 0, "hugetlb_pages");
	child = fork_ok(w, mm);
	BAD(*e, *e | PTE_SOFT_EXCLUSIVE, "owned alone but shared");
#undef BAD
	mm_end(w, child);
	mm_end(w, mm);
	pool_end(w);
}

/* What test_buddy's damages do not reach. */
static void memory(void **state)
{
	struct world *w = world_new(1, 256 * MIB);
	struct zone *z = &w->q->nodes[0].zones[ZONE_DMA32];
	struct frame *f = page_alloc(w->c, &(struct alloc_req){ .gfp = GFP_KERNEL, .nid = NID_NONE });
	struct frame *huge = page_alloc(w->c, &(struct alloc_req){ .order = HPAGE_PMD_ORDER, .gfp = GFP_TRANSHUGE, .nid = NID_NONE });
	struct frame *one = page_alloc(w->c, &(struct alloc_req){ .gfp = GFP_KERNEL, .nid = NID_NONE });
	struct pcp_list *p = &w->q->percpu[0]->pcp[ZONE_DMA32];
	struct free_area *top = &z->free_area[MAX_ORDER];
	struct frame *block = list_first_entry(&top->list[MIGRATE_MOVABLE], struct frame, lru), *next;

	(void)state;
	assert_true(f && huge && one);
	/* Small blocks freed go to the CPU's list: one of it, and a block of order 0 among the free ones. */
	frame_put(w->c, one);
	assert_true(p->total > 0);
	world_check(w);
#define BAD(lvalue, bad, what) DAMAGE(w, memory_validate(w->q), lvalue, bad, "memory: " what)
	BAD(block->flags, block->flags + (1ULL << FRAME_ORDER_SHIFT), "a free block is misaligned or sticks out (A2)");
	DAMAGE2(w, memory_validate(w->q), block->flags, block->flags - (1ULL << FRAME_ORDER_SHIFT), block[512].flags,
		block->flags - (1ULL << FRAME_ORDER_SHIFT), "memory: two free buddies were not merged (A3)");
	BAD(block->flags, block->flags - (1ULL << FRAME_ORDER_SHIFT), "a frame is in no place");
	BAD(block->flags, block->flags | FRAME_PCP, "a frame is in two places (F1)");
	BAD(block->flags, block->flags | 15ULL << FRAME_MT_SHIFT, "a frame is in two places (F1)");
	BAD(block->refcount, 1, "a free frame has references (F1)");
	BAD(*pageblock_of(z, frame_pfn(w->m, block).v), MIGRATE_UNMOVABLE, "a free block is on the list of another type than its pageblock");
	BAD(block[3].refcount, 1, "a frame inside a free block has state (A1)");
	BAD(f->refcount, 0, "a frame is in no place");
	BAD(f->mapcount, -2, "an allocated block has an impossible count or order");
	BAD(huge->entire_mapcount, -2, "an allocated block has an impossible count or order");
	BAD(huge[9].tail.head_pfn, 1, "a tail does not know its head (F3)");
	BAD(huge[9].flags, huge[9].flags | FRAME_PCP, "a frame is in two places (F1)");
	BAD(huge[9].mapcount, -2, "a frame is in two places (F1)");
	BAD(huge[9].flags, huge[9].flags ^ 1ULL << FRAME_NID_SHIFT, "a tail has the wrong node or zone");
	BAD(f->flags, f->flags ^ 1ULL << FRAME_ZONE_SHIFT, "a frame has the wrong node or zone");
	BAD(one->flags, one->flags | 5ULL << FRAME_ORDER_SHIFT, "a per-CPU list holds a block of another order");
	BAD(top->nr_free, top->nr_free + 1, "free blocks and free lists don't agree");
	BAD(block->lru.prev, &f->lru, "a free list is damaged");
	BAD(p->total, p->total + 1, "a per-CPU list's total is wrong");
	BAD(one->flags, one->flags ^ 1ULL << FRAME_MT_SHIFT, "a per-CPU list is damaged");
	BAD(z->free_pages, z->free_pages - 1, "free_pages differs from the free blocks (A4)");
	BAD(z->managed, z->managed + 1, "frames don't add up to what the zone manages");
	BAD(z->deferred_pfn, z->first_pfn - 1, "the deferred part does not start at a section (B2)");
	DAMAGE(w, quire_validate(w->q), f->refcount, 0, "memory: a frame is in no place");
#undef BAD
	/* Off the CPU's list, though it says that it is on one: of the count and of the marks, each finds it. */
	struct list_head *l = one->lru.prev;

	list_del(&one->lru);
	expect_invalid(w, memory_validate(w->q), "memory: a per-CPU list's count is wrong", __LINE__);
	p->count[frame_mt(one)][0]--;
	p->total--;
	expect_invalid(w, memory_validate(w->q), "memory: frames marked as on a per-CPU list are on none", __LINE__);
	p->count[frame_mt(one)][0]++;
	p->total++;
	list_add(&one->lru, l);
	/* On another list than its flags say. */
	next = list_first_entry(&top->list[MIGRATE_MOVABLE], struct frame, lru);
	list_del(&next->lru);
	list_add(&next->lru, &top->list[MIGRATE_UNMOVABLE]);
	expect_invalid(w, memory_validate(w->q), "memory: a block on the wrong free list (A1)", __LINE__);
	list_del(&next->lru);
	list_add(&next->lru, &top->list[MIGRATE_MOVABLE]);
	frame_put(w->c, f);
	frame_put(w->c, huge);
	world_end(w);
}

static void expect_held(const char *found, const char *what, int line)
{
	if (!what ? found != NULL : !found || strcmp(found, what))
		fail_msg("line %d: '%s' instead of '%s'", line, found ? found : "-", what ? what : "-");
}

#define ALIVE(h, what) expect_held(tlb_held_alive(w->q, 0, &(h)), what, __LINE__)
#define GRANTED(h, what) expect_held(tlb_held_granted(w->q, 0, &(h)), what, __LINE__)
#define FREED "a frame that has been freed"
#define FREED_TABLE "a page table that has been freed"

/* A translation of each kind: fine as it is, then with everything that can be wrong with it. */
static void held(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *other = NULL;
	struct percpu *pc = w->q->percpu[0];

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA + HUGE, 2 * HUGE, RW);
	store(w, AREA, 1);
	store(w, AREA + HUGE, 1);
	(void)load(w, AREA + 2 * HUGE);
	(void)load(w, AREA + PAGES(1));
	assert_ok(mm_create(w->c, w->q, &other));
	pte_t *e = entry_of(w, mm, AREA, PAGE_SHIFT), *pmd = entry_of(w, mm, AREA, PMD_SHIFT);
	struct frame *page = below(w, *e), *t = below(w, *pmd), *head = below(w, *entry_of(w, mm, AREA + HUGE, PMD_SHIFT));
	struct tlb_held h = { .ctx = mm->ctx, .shift = PAGE_SHIFT, .write = true, .va = AREA, .pfn = pte_pfn(*e) };
	struct tlb_held table = { .ctx = mm->ctx, .shift = PMD_SHIFT, .table = true, .va = AREA, .pfn = pte_pfn(*pmd) };
	struct tlb_held huge = { .ctx = mm->ctx, .shift = PMD_SHIFT, .write = true, .va = AREA + HUGE, .pfn = frame_pfn(w->m, head) };
	struct tlb_held part = { .ctx = mm->ctx, .shift = PAGE_SHIFT, .va = AREA + HUGE + PAGES(3), .pfn = pfn_add(huge.pfn, 3) };
	struct tlb_held zero = { .ctx = mm->ctx, .shift = PAGE_SHIFT, .va = AREA + PAGES(1), .pfn = w->q->zero_pfn };
	struct tlb_held zero2 = { .ctx = mm->ctx, .shift = PMD_SHIFT, .va = AREA + 2 * HUGE, .pfn = frame_pfn(w->m, w->q->huge_zero) };
	struct tlb_held *const all[] = { &h, &table, &huge, &part, &zero, &zero2 };

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		ALIVE(*all[i], NULL);
		GRANTED(*all[i], NULL);
	}
	assert_null(tlb_loaded_alive(w->q, 0));
	/* Owned by nobody. */
	page->refcount = 0;
	ALIVE(h, FREED);
	page->refcount = 1;
	page->flags &= ~FRAME_ANON;
	ALIVE(h, FREED);
	page->flags |= FRAME_ANON;
	t->flags &= ~FRAME_TABLE;
	ALIVE(table, FREED_TABLE);
	GRANTED(table, FREED_TABLE);
	t->flags |= FRAME_TABLE;
	t->pt_mm = other;
	ALIVE(table, FREED_TABLE);
	t->pt_sharers = 2;
	ALIVE(table, NULL);
	t->pt_sharers = 0;
	t->pt_mm = mm;
	/* Not what the tables say. */
	pte_t was = *e;

	*e = 0;
	GRANTED(h, "a page that is no longer mapped");
	*e = was + PAGE_SIZE;
	GRANTED(h, "another frame than the one that is mapped");
	*e = was & ~PTE_WRITE;
	GRANTED(h, "the right to write, which has been taken away");
	h.write = false;
	GRANTED(h, NULL);
	h.write = true;
	*e = was;
	*pmd &= ~PTE_WRITE; /* a shared table does not give it either */
	GRANTED(h, "the right to write, which has been taken away");
	*pmd |= PTE_WRITE;
	part.pfn.v++;
	GRANTED(part, "another frame than the one that is mapped");
	/* A huge translation of what now are small pages: the first of them that is another is found. */
	huge.va = AREA;
	huge.pfn = h.pfn;
	GRANTED(huge, "another frame than the one that is mapped");
	/* Of an address space that isn't loaded: only what it would find again without a flush. */
	store(w, AREA, 2);
	mm_activate(w->c, other);
	*e = 0;
	ALIVE(h, NULL);
	GRANTED(h, "a page that is no longer mapped");
	mm->tlb_gen++;
	GRANTED(h, NULL);
	mm->tlb_gen--;
	h.ctx = 77;
	GRANTED(h, NULL);
	*e = was;
	/* Lazily: tables must be there, pages need not. */
	mm_activate(w->c, mm);
	pc->loaded |= LOADED_LAZY;
	h.ctx = mm->ctx;
	page->refcount = 0;
	ALIVE(h, NULL);
	page->refcount = 1;
	t->flags &= ~FRAME_TABLE;
	ALIVE(table, FREED_TABLE);
	t->flags |= FRAME_TABLE;
	/* Loaded, but no more. */
	struct list_head *l = mm->link.prev;

	list_del(&mm->link);
	expect_held(tlb_loaded_alive(w->q, 0), "an address space that has ended", __LINE__);
	list_add(&mm->link, l);
	pc->loaded &= ~LOADED_LAZY;
	mm_activate(w->c, NULL);
	world_check(w);
	mm_end(w, other);
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pools), cmocka_unit_test(memory), cmocka_unit_test(held) };

	return test_run(tests);
}
