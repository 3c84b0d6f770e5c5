/*
 * mm_validate, quire_validate_mappings and vma_validate, one damage after another: an entry, a table's descriptor, a count, a
 * link. Each must be named for what it is; put back, everything must be valid again.
 */
#include "damage.h"

#include "mm/gup.h"
#include "mm/vma.h"

#define HUGE AREA
#define SMALL (AREA + 4 * MIB)
#define LOCKED (AREA + 6 * MIB)
#define FILES (AREA + 8 * MIB)
#define SHMEM (AREA + 10 * MIB)

struct scene {
	struct world *w;
	struct mm *mm;
	struct mfile *file, *shm, *other;
};

static vaddr_t map_file(struct scene *s, vaddr_t va, struct mfile *f, unsigned how)
{
	assert_int_equal(mm_mmap(s->w->c, s->mm, va, PAGES(8), RW, how | UAPI_MAP_FIXED, f, 0), (int64_t)va);
	return va;
}

/*
 * An address space with some of everything, in tables of their own:
 *   a huge page | 16 small ones, 4 written, 1 read | 4 locked | 8 of a file, one read, one shared and written | shared memory
 */
static void scene_up(struct scene *s)
{
	struct world *w = world_new(1, 128 * MIB);

	*s = (struct scene){ .w = w, .mm = mm_new(w) };
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &s->file));
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), true, &s->shm));
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &s->other));
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, s->mm, HUGE, 2 * MIB, RW);
	store(w, HUGE, 1);
	assert_true(info(s->mm, HUGE).huge);
	w->q->knobs.thp_enabled = THP_NEVER;
	map_at(w, s->mm, SMALL, PAGES(16), RW);
	for (unsigned i = 0; i < 4; i++)
		store(w, SMALL + PAGES(i), i);
	(void)load(w, SMALL + PAGES(5));
	map_at(w, s->mm, LOCKED, PAGES(4), RW);
	assert_ok(mm_mlock(w->c, s->mm, LOCKED, PAGES(4), false));
	map_file(s, FILES, s->file, UAPI_MAP_PRIVATE);
	(void)load(w, FILES + PAGES(2));
	map_file(s, SHMEM, s->shm, UAPI_MAP_SHARED);
	store(w, SHMEM + PAGES(1), 5);
	world_check(w);
}

static void scene_down(struct scene *s)
{
	struct world *w = s->w;

	world_check(w);
	mm_end(w, s->mm);
	file_put(w->c, s->file);
	file_put(w->c, s->shm);
	file_put(w->c, s->other);
	world_end(w);
}

static void entries(void **state)
{
	struct scene s;

	(void)state;
	scene_up(&s);
	struct world *w = s.w;
	struct mm *mm = s.mm;
	pte_t *e = entry_of(w, mm, SMALL, PAGE_SHIFT), *zero = entry_of(w, mm, SMALL + PAGES(5), PAGE_SHIFT);
	pte_t *file = entry_of(w, mm, FILES + PAGES(2), PAGE_SHIFT), *pmd = entry_of(w, mm, HUGE, PMD_SHIFT);
	struct frame *page = below(w, *e), *head = below(w, *pmd), *cached = below(w, *file);
	struct frame *locked = below(w, *entry_of(w, mm, LOCKED, PAGE_SHIFT));

#define BAD(lvalue, bad, what) DAMAGE(w, mm_validate(mm), lvalue, bad, "entry: " what)
	BAD(*e, (*e & ~PTE_PRESENT) | PTE_PROTNONE, "present against rights");
	BAD(*e, *e ^ PTE_NX, "NX");
	BAD(*zero, *zero | PTE_WRITE, "writable");
	BAD(*file, *file | PTE_WRITE, "writable");
	BAD(*zero, *zero + PAGE_SIZE, "not the zero page");
	BAD(*zero, *zero | PTE_SOFT_EXCLUSIVE, "zero page in a file area or owned");
	BAD(*file, (*zero & ~PTE_SOFT_EXCLUSIVE), "zero page in a file area or owned");
	BAD(*pmd, *pmd | PTE_SOFT_ZERO | PTE_WRITE, "writable");
	BAD(*pmd, (*pmd | PTE_SOFT_ZERO) & ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE), "not the zero page");
	BAD(page->flags, page->flags & ~FRAME_ANON, "maps a frame that is no user page");
	BAD(page->flags, page->flags | FRAME_FILE, "maps a frame that is no user page");
	BAD(page->refcount, 0, "maps a frame that is no user page");
	BAD(page->mapcount, -1, "maps a frame that isn't counted");
	BAD(head->entire_mapcount, -1, "maps a frame that isn't counted");
	BAD(*pmd, *pmd + PAGE_SIZE, "maps a frame that isn't counted");
	BAD(cached->file, s.other, "a page that the area can't have");
	BAD(cached->index, cached->index + 1, "another page of the file");
	BAD(*file, *file | PTE_SOFT_EXCLUSIVE, "owned alone but shared");
	BAD(page->mapcount, 1, "owned alone but shared");
	BAD(head->entire_mapcount, 1, "owned alone but shared");
	BAD(head->nr_pages_mapped, FOLIO_ENTIRELY_MAPPED + 1, "owned alone but shared");
	BAD(locked->nr_locked, 0, "not counted as locked");
	BAD(page->nr_pins, 1, "a pinned page in a table that isn't marked, or shared");
	/* Where nothing may be: not a page, of no area. */
	BAD(*entry_of(w, mm, SMALL + PAGES(9), PAGE_SHIFT), PAGES(77), "neither a page nor a table");
	BAD(*entry_of(w, mm, HUGE + 2 * MIB, PMD_SHIFT), PAGES(77), "neither a page nor a table");
	BAD(*entry_of(w, mm, HUGE + 1024 * MIB, PUD_SHIFT), *pmd, "neither a page nor a table");
	BAD(*entry_of(w, mm, SMALL + PAGES(16), PAGE_SHIFT), *e, "outside of any area");
	BAD(*entry_of(w, mm, HUGE + 2 * MIB, PMD_SHIFT), *pmd, "outside of any area");
#undef BAD
	scene_down(&s);
}

static void tables(void **state)
{
	struct scene s;

	(void)state;
	scene_up(&s);
	struct world *w = s.w;
	struct mm *mm = s.mm;
	pte_t *pmd = entry_of(w, mm, SMALL, PMD_SHIFT), *pud = entry_of(w, mm, SMALL, PUD_SHIFT);
	struct frame *t = below(w, *pmd), *files = below(w, *entry_of(w, mm, FILES, PMD_SHIFT)), *upper = below(w, *pud);

#define BAD(lvalue, bad, what) DAMAGE(w, mm_validate(mm), lvalue, bad, what)
	BAD(t->flags, t->flags & ~FRAME_TABLE_MIXED, "entry: zero page in a table that isn't marked");
	BAD(files->flags, files->flags & ~FRAME_TABLE_MIXED, "entry: a file's page in a table that isn't marked");
	BAD(*pmd, *pmd & ~PTE_WRITE, "table: writable against its sharers");
	BAD(*pud, *pud & ~PTE_WRITE, "table: writable against its sharers");
	BAD(t->pt_sharers, 2, "table: writable against its sharers");
	BAD(t->flags, t->flags & ~FRAME_TABLE, "table: not a table of this address space");
	BAD(t->pt_mm, NULL, "table: not a table of this address space");
	BAD(t->refcount, 2, "table: not a table of this address space");
	BAD(t->nr_tables, t->nr_tables + 1, "table: entries in use");
	BAD(upper->nr_tables, upper->nr_tables - 1, "table: entries in use");
	BAD(upper->priv, 0, "table: deposited tables against huge entries");
#undef BAD
	scene_down(&s);
}

static void counts(void **state)
{
	static const enum vm_counter gauges[] = { VM_nr_page_table_pages, VM_nr_anon_pages, VM_nr_anon_transparent_hugepages, VM_nr_mapped,
						  VM_nr_mlock };
	struct scene s;

	(void)state;
	scene_up(&s);
	struct world *w = s.w;
	struct mm *mm = s.mm;
	struct frame *page = below(w, *entry_of(w, mm, SMALL, PAGE_SHIFT)), *head = below(w, *entry_of(w, mm, HUGE, PMD_SHIFT));
	struct frame *cached = below(w, *entry_of(w, mm, FILES + PAGES(2), PAGE_SHIFT));

#define BAD(lvalue, what) DAMAGE(w, mm_validate(mm), lvalue, (lvalue) + 1, what)
	BAD(mm->rss_part[0].pages[RSS_ANON], "rss: anonymous");
	BAD(mm->rss_part[3].pages[RSS_FILE], "rss: file");
	BAD(mm->rss_part[7].pages[RSS_SHMEM], "rss: shmem");
	BAD(mm->huge_mapped, "huge_mapped");
	BAD(mm->shared_tables, "shared_tables");
	BAD(mm->hugetlb_pages, "hugetlb_pages");
	BAD(mm->pgtables_bytes, "pgtables_bytes");
#undef BAD
#define BAD(lvalue, what) DAMAGE(w, quire_validate_mappings(w->q), lvalue, (lvalue) + 1, what)
	BAD(page->mapcount, "frame: mapcount without mapping");
	BAD(head[5].mapcount, "frame: mapcount without mapping");
	BAD(head->entire_mapcount, "frame: entire mapcount without mapping");
	BAD(page->nr_locked, "frame: counted as locked without a locked mapping");
	BAD(page->refcount, "frame: reference without holder");
	BAD(head->refcount, "frame: reference without holder");
	BAD(cached->refcount, "frame: reference without holder");
	BAD(cached->nr_pins, "frame: reference without holder");
	BAD(head->nr_pages_mapped, "frame: nr_pages_mapped");
	for (unsigned i = 0; i < ARRAY_SIZE(gauges); i++)
		BAD(w->q->percpu[0]->vmstat.v[gauges[i]], vm_counter_names[gauges[i]]);
#undef BAD
	/* What finds it, quire_validate passes on. */
	DAMAGE(w, quire_validate(w->q), mm->huge_mapped, 9, "huge_mapped");
	DAMAGE(w, quire_validate(w->q), cached->refcount, 9, "frame: reference without holder");
	scene_down(&s);
}

/* Tables that a parent and a child have together. */
static void shared_tables(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child = NULL;

	(void)state;
	w->q->knobs.fork_tables = FORK_TABLES_SHARED;
	map_at(w, mm, SMALL, PAGES(16), RW);
	for (unsigned i = 0; i < 4; i++)
		store(w, SMALL + PAGES(i), i);
	assert_ok(mm_fork(w->c, mm, &child));
	pte_t *pmd = entry_of(w, mm, SMALL, PMD_SHIFT);
	struct frame *t = below(w, *pmd), *page = below(w, *entry_of(w, mm, SMALL, PAGE_SHIFT));
	struct vma *v = area_of(w, mm, SMALL);

	assert_int_equal(t->pt_sharers, 2);
	world_check(w);
#define BAD(lvalue, bad, what) DAMAGE(w, mm_validate(mm), lvalue, bad, what)
	BAD(t->pt_mm, mm, "table: shared, but somebody's own");
	BAD(t->pt_rss[RSS_ANON], 3, "table: shared, and maps otherwise than counted");
	BAD(t->pt_rss[RSS_SHMEM], 1, "table: shared, and maps otherwise than counted");
	BAD(*pmd, *pmd | PTE_WRITE, "table: writable against its sharers");
	BAD(mm->shared_tables, 0, "shared_tables");
	DAMAGE2(w, mm_validate(mm), page->nr_pins, 1, t->flags, t->flags | FRAME_TABLE_PINNED, "entry: a pinned page in a table that isn't marked, or shared");
	DAMAGE(w, quire_validate_mappings(w->q), t->pt_sharers, 3, "table: sharers");
#undef BAD
	v->flags |= VM_LOCKED;
	mm->locked_vm = 16;
	page->nr_locked++;
	expect_invalid(w, mm_validate(mm), "entry: in a shared table against the area", __LINE__);
	page->nr_locked--;
	mm->locked_vm = 0;
	v->flags &= ~VM_LOCKED;
	world_check(w);
	mm_end(w, child);
	mm_end(w, mm);
	world_end(w);
}

/* Three areas: a tree of one root and two leaves. */
static void areas(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *other = NULL;

	(void)state;
	assert_ok(mm_create(w->c, w->q, &other));
	map_at(w, mm, AREA, PAGES(4), RW);
	map_at(w, mm, AREA + PAGES(4), PAGES(4), UAPI_PROT_READ);
	map_at(w, mm, AREA + PAGES(16), PAGES(4), RW);
	struct vma *a = area_of(w, mm, AREA), *b = area_of(w, mm, AREA + PAGES(4)), *c = area_of(w, mm, AREA + PAGES(16));

	assert_ptr_equal(mm->root, b);
	world_check(w);
#define BAD(lvalue, bad, what) DAMAGE(w, vma_validate(mm), lvalue, bad, "areas: " what)
	BAD(a->end, a->start, "V1 bounds");
	BAD(a->start, a->start + 8, "V1 bounds");
	BAD(c->end, TASK_SIZE + PAGE_SIZE, "V1 bounds");
	BAD(b->start, b->start - PAGE_SIZE, "V1 order or overlap");
	BAD(b->mm, other, "area of another address space");
	BAD(c->gap, c->gap + PAGE_SIZE, "V4 gap");
	BAD(b->flags, a->flags, "V2 mergeable neighbours");
	BAD(a->flags, a->flags & ~VM_MAYWRITE, "right without may-right");
	BAD(a->anon_id, 7, "anon_id");
	BAD(a->anon_forked, true, "anon_id");
	BAD(a->parent, c, "V4 parent");
	BAD(mm->root->parent, c, "V4 parent");
	BAD(a->height, 2, "V4 height");
	BAD(b->height, 1, "V4 height");
	BAD(b->subtree_gap, b->subtree_gap - 1, "V4 subtree_gap");
	BAD(mm->map_count, 4, "V3 map_count");
	BAD(mm->total_vm, 11, "V3 total_vm");
	BAD(mm->locked_vm, 4, "V3 locked_vm");
	BAD(mm->data_vm, 0, "V3 data_vm or stack_vm");
	BAD(mm->stack_vm, 1, "V3 data_vm or stack_vm");
	DAMAGE(w, quire_validate(w->q), mm->map_count, 4, "areas: V3 map_count");
	/* In a row: the heights are what they should be, but not balanced. */
	struct vma was[3] = { *a, *b, *c };

	mm->root = a;
	a->parent = NULL, a->right = b, a->height = 3, a->subtree_gap = was[1].subtree_gap;
	b->parent = a, b->left = NULL, b->height = 2, b->subtree_gap = MAX(b->gap, c->subtree_gap);
	expect_invalid(w, vma_validate(mm), "areas: V4 balance", __LINE__);
	mm->root = b;
	*a = was[0], *b = was[1], *c = was[2];
#undef BAD
	world_check(w);
	mm_end(w, other);
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries), cmocka_unit_test(tables), cmocka_unit_test(counts),
		cmocka_unit_test(shared_tables), cmocka_unit_test(areas),
	};

	return test_run(tests);
}
