/* Swap on a modelled drive, whose transfers take time: who waits, and what stays until a transfer is done. */
#include "swap_testing.h"

#include "mm/migrate.h"
#include "tiny_machine.h"

struct scene {
	struct world *w;
	struct mm *mm;
	void (*play)(struct cpu *c, struct scene *s);
	const char *wrong;
};

#define EXPECT(s, cond)                                                                            \
	do {                                                                                        \
		if (!(cond) && !(s)->wrong)                                                         \
			(s)->wrong = #cond;                                                         \
	} while (0)

#define READ_NS 80000ULL
#define WRITE_NS 20000ULL

static void play(struct cpu *c, struct task *t)
{
	struct scene *s = t->arg;

	s->play(c, s);
}

/* One task on a model, with pages 0 to 7 written; assertions can't leave a fiber, so what is wrong is reported afterwards. */
static void on_model(void (*fn)(struct cpu *c, struct scene *s))
{
	struct machine_desc d = tiny_desc(1, 1);
	struct scene s = { .play = fn };
	struct task t = { .fn = play, .arg = &s, .name = "scene" };
	struct machine *m = NULL;
	char err[300] = "";

	d.swap.size = 4 * MIB;
	assert_ok(model_create(&d, &(struct model_options){ .seed = 1 }, &m, err, sizeof(err)));
	s.w = world_on(m);
	assert_ok(mm_create(s.w->c, s.w->q, &s.mm));
	map_at(s.w, s.mm, AREA, PAGES(8), RW);
	t.mm = s.mm;
	start(m, &t);
	run_ok(m);
	if (s.wrong)
		fail_msg("not so: %s", s.wrong);
	mm_put(s.w->c, s.mm);
	world_check(s.w);
	swap_shutdown(s.w->q, s.w->c);
	world_leave(s.w);
	model_destroy(m);
}

static struct frame *fill(struct cpu *c, struct scene *s, unsigned page)
{
	EXPECT(s, !c->m->ops->store_value(c, AREA + PAGES(page), 100 + page));
	lru_add_drain_all(c);
	struct frame *f = frame_of(c->m, info(s->mm, AREA + PAGES(page)).pfn);

	frame_get(c, f);
	folio_lock(c, f);
	return f;
}

static void let_go(struct cpu *c, struct frame *f)
{
	folio_unlock(c, f);
	frame_put(c, f);
}

/* Under writeback it can neither be freed, nor split off its slot; waiting takes until the drive is done. */
static void writeback(struct cpu *c, struct scene *s)
{
	struct frame *f = fill(c, s, 0);
	uint64_t before = machine_now_ns(c);

	EXPECT(s, !swap_out_folio(c, f, STEP_WRITE));
	EXPECT(s, folio_under_writeback(c, f));
	EXPECT(s, folio_in_transfer(c, f));
	EXPECT(s, !swap_cache_remove(c, f) && (frame_flags(f) & FRAME_SWAPCACHE));
	if (s->wrong)
		return;
	EXPECT(s, !folio_free_swap(c, f));
	folio_wait_writeback(c, f);
	EXPECT(s, machine_now_ns(c) >= before + WRITE_NS);
	EXPECT(s, !folio_under_writeback(c, f));
	EXPECT(s, swap_cache_remove(c, f));
	EXPECT(s, !(frame_flags(f) & (FRAME_SWAPCACHE | FRAME_WRITEBACK)));
	let_go(c, f);
}

/* Wanted again while it is written: found in the cache at once, and its last mapping going does not free it before the end. */
static void wanted_meanwhile(struct cpu *c, struct scene *s)
{
	struct frame *f = fill(c, s, 1);
	uint64_t v = 0, before;

	EXPECT(s, !swap_out_folio(c, f, STEP_WRITE));
	let_go(c, f);
	before = machine_now_ns(c);
	EXPECT(s, !c->m->ops->load_value(c, AREA + PAGES(1), &v) && v == 101);
	EXPECT(s, machine_now_ns(c) < before + WRITE_NS);
	EXPECT(s, vmstat_read(c->q, VM_pswpin) == 0);
	EXPECT(s, !mm_munmap(c, s->mm, AREA + PAGES(1), PAGE_SIZE));
	EXPECT(s, vmstat_read(c->q, VM_nr_swapcached) == 1); /* reclaim's, when it looks next */
}

/* A fault that reads waits for the drive; one that finds the page being read waits for the rest. */
static void reading(struct cpu *c, struct scene *s)
{
	uint64_t v = 0, before, first;

	for (unsigned i = 0; i < 8; i++) {
		struct frame *f = fill(c, s, i);

		EXPECT(s, !swap_out_folio(c, f, STEP_DROP));
		let_go(c, f);
	}
	before = machine_now_ns(c);
	EXPECT(s, !mm_madvise(c, s->mm, AREA, PAGES(4), UAPI_MADV_WILLNEED));
	EXPECT(s, machine_now_ns(c) < before + READ_NS); /* it only begins */
	struct frame *f = swap_cache_get(c, info(s->mm, AREA).slot);

	EXPECT(s, f && folio_in_transfer(c, f) && !folio_under_writeback(c, f));
	folio_lock(c, f);
	EXPECT(s, !swap_cache_remove(c, f));
	let_go(c, f);
	EXPECT(s, !c->m->ops->load_value(c, AREA, &v) && v == 100);
	first = machine_now_ns(c);
	EXPECT(s, first >= before + READ_NS && first < before + 2 * READ_NS);
	EXPECT(s, !c->m->ops->load_value(c, AREA + PAGES(3), &v) && v == 103); /* came with it */
	EXPECT(s, machine_now_ns(c) < first + READ_NS / 2);
	before = machine_now_ns(c);
	EXPECT(s, !c->m->ops->load_value(c, AREA + PAGES(6), &v) && v == 106);
	EXPECT(s, machine_now_ns(c) >= before + READ_NS);
}

static struct frame *room_get(struct cpu *c, const struct frame *src, void *arg)
{
	struct alloc_req r = { .order = frame_order(src), .gfp = GFP_HIGHUSER_MOVABLE, .nid = NID_NONE };

	(void)arg;
	return page_alloc(c, &r);
}

/* Migration waits for writeback only where it may. */
static void migrated(struct cpu *c, struct scene *s)
{
	struct migrate_target t = { .get = room_get };
	struct frame *f = fill(c, s, 0);
	struct list_head l;
	uint64_t v = 0;

	list_init(&l);
	EXPECT(s, !migrate_isolate(c, f, &l));
	EXPECT(s, !swap_out_folio(c, f, STEP_WRITE));
	let_go(c, f);
	EXPECT(s, migrate_pages(c, &l, &t, MIGRATE_ASYNC, MR_SYSCALL, NULL) == 1);
	EXPECT(s, !migrate_pages(c, &l, &t, MIGRATE_SYNC, MR_SYSCALL, NULL));
	EXPECT(s, list_empty(&l));
	EXPECT(s, !c->m->ops->load_value(c, AREA, &v) && v == 100);
	EXPECT(s, vmstat_read(c->q, VM_pswpin) == 0);
	EXPECT(s, info(s->mm, AREA).pfn.v != frame_pfn(c->m, f).v);
}

static void test_writeback(void **state)
{
	(void)state;
	on_model(writeback);
}

static void test_wanted_meanwhile(void **state)
{
	(void)state;
	on_model(wanted_meanwhile);
}

static void test_reading(void **state)
{
	(void)state;
	on_model(reading);
}

static void test_migrated(void **state)
{
	(void)state;
	on_model(migrated);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_writeback), cmocka_unit_test(test_wanted_meanwhile),
					    cmocka_unit_test(test_reading), cmocka_unit_test(test_migrated) };

	return test_run(tests);
}
