/*
 * The slab allocator: zeroed objects of their own, per-CPU magazines, exact accounting, no object lost or given twice.
 */
#include "booted.h"

#include "base/rng.h"
#include "mm/kthread.h"
#include "mm/radix.h"
#include "mm/vma_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void test_sizes(void **state)
{
	static const size_t want[NR_SLABS] = { sizeof(struct mm), sizeof(struct vma_object), sizeof(struct mfile),
					       sizeof(struct radix_node), sizeof(struct hugetlb_rmap), sizeof(struct kthread),
					       sizeof(struct anon_vma), sizeof(struct anon_vma_chain) };
	struct booted b;

	(void)state;
	boot_small(&b, 128);
	for (unsigned id = 0; id < NR_SLABS; id++) {
		const struct slab_cache *s = &b.q->slab[id];

		assert_int_equal(s->size, ALIGN_UP(want[id], 8));
		assert_true(s->per_slab >= 8 || s->order == 3);
		assert_true((uint64_t)s->per_slab * s->size <= PAGE_SIZE << s->order);
	}
	shut_down(&b);
}

static bool all_zero(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const char *)p)[i])
			return false;
	return true;
}

/* Objects are zero when handed out, whatever was left in them, and have modelled addresses in frames of the slab. */
static void test_zeroed(void **state)
{
	struct booted b;

	(void)state;
	boot_small(&b, 128);
	for (unsigned round = 0; round < 3; round++) {
		void *o[200];

		for (unsigned i = 0; i < 200; i++) {
			o[i] = slab_alloc(b.c, SLAB_VMA);
			assert_true(all_zero(o[i], sizeof(struct vma)));
			memset(o[i], 0xaa, sizeof(struct vma));
			assert_true(machine_pa(b.m, o[i]) < b.m->max_pfn << PAGE_SHIFT);
			assert_true(frame_head(b.m, frame_of(b.m, paddr_to_pfn(machine_pa(b.m, o[i]))))->flags &
				    FRAME_SLAB);
		}
		check_valid(&b);
		for (unsigned i = 0; i < 200; i++)
			slab_free(b.c, SLAB_VMA, o[i]);
		check_valid(&b);
	}
	shut_down(&b);
}

#define SLOTS 4000

/* Random allocations and frees on three CPUs; each object carries its own pattern, which nobody else may change. */
/* What an object holds stays but for its first word, and its frame stays a slab, until everything is drained. */
static void test_typesafe(void **state)
{
	uint64_t *o[512];
	struct booted b;
	int64_t pages;

	(void)state;
	boot_small(&b, 128);
	for (unsigned i = 0; i < 512; i++) {
		o[i] = slab_alloc(b.c, SLAB_ANON_VMA);
		assert_true(all_zero((const uint8_t *)(o[i] + 1), sizeof(struct anon_vma) - sizeof(*o[i])));
		memset(o[i], 0xaa, sizeof(struct anon_vma));
	}
	pages = counter(&b, VM_nr_slab_pages);
	for (unsigned i = 0; i < 512; i++)
		slab_free(b.c, SLAB_ANON_VMA, o[i]);
	assert_int_equal(counter(&b, VM_nr_slab_pages), pages);
	for (unsigned i = 0; i < 512; i++)
		for (unsigned k = 1; k < sizeof(struct anon_vma) / sizeof(*o[i]); k++)
			assert_int_equal(o[i][k], 0xaaaaaaaaaaaaaaaaULL);
	drain_all(&b);
	assert_int_equal(counter(&b, VM_nr_slab_pages), 0);
	check_valid(&b);
	shut_down(&b);
}

static void test_random(void **state)
{
	struct {
		void *o;
		enum slab_id id;
		uint8_t mark;
	} *held = calloc(SLOTS, sizeof(*held));
	struct booted b;
	struct rng r;
	uint64_t all;
	unsigned nr = 0;

	(void)state;
	boot_with(&b, &(struct null_options){ .nr_cpus = 3, .node_bytes = 128 << 20 }, NULL);
	all = memory_free_pages(b.q, NID_NONE);
	rng_init(&r, 7, "slab");
	for (unsigned i = 0; i < 60000; i++) {
		struct cpu *c = b.m->cpus[rng_below(&r, 3)];
		bool grow = rng_below(&r, 100) < ((i / 10000) % 2 ? 25 : 75);

		if (grow && nr < SLOTS) {
			held[nr].id = (enum slab_id)rng_below(&r, NR_SLABS);
			held[nr].mark = (uint8_t)(1 + rng_below(&r, 255));
			held[nr].o = slab_alloc(c, held[nr].id);
			assert_non_null(held[nr].o);
			assert_true(b.q->slab[held[nr].id].typesafe || all_zero(held[nr].o, b.q->slab[held[nr].id].size));
			memset(held[nr].o, held[nr].mark, b.q->slab[held[nr].id].size);
			nr++;
		} else if (nr) {
			unsigned j = (unsigned)rng_below(&r, nr);
			const uint8_t *p = held[j].o;

			for (unsigned k = 0; k < b.q->slab[held[j].id].size; k++)
				assert_int_equal(p[k], held[j].mark);
			slab_free(c, held[j].id, held[j].o);
			held[j] = held[--nr];
		}
		if (i % 3000 == 0)
			check_valid(&b);
	}
	assert_true(counter(&b, VM_nr_slab_pages) > 0);
	while (nr) {
		nr--;
		slab_free(b.m->cpus[nr % 3], held[nr].id, held[nr].o);
	}
	drain_all(&b);
	check_valid(&b);
	for (unsigned id = 0; id < NR_SLABS; id++)
		assert_int_equal(b.q->slab[id].nr_objects, 0);
	assert_int_equal(counter(&b, VM_nr_slab_pages), 0);
	assert_int_equal(memory_free_pages(b.q, NID_NONE), all);
	shut_down(&b);
	free(held);
}

/* A free object of a CPU is the next one it gets, without any lock. */
static void test_magazine(void **state)
{
	const struct null_counts *n;
	struct booted b;
	void *o;

	(void)state;
	boot_small(&b, 128);
	n = null_counts(b.m);
	o = slab_alloc(b.c, SLAB_MM);
	null_counts_reset(b.m);
	slab_free(b.c, SLAB_MM, o);
	assert_ptr_equal(slab_alloc(b.c, SLAB_MM), o);
	assert_int_equal(n->locks, 0);
	assert_int_equal(n->path[PATH_SLAB_ALLOC].units, 1);
	assert_int_equal(n->path[PATH_SLAB_FREE].units, 1);
	/* Zeroing it is writing all of its lines. */
	assert_true(n->path[PATH_SLAB_ALLOC].lines[TOUCH_WRITE] >= sizeof(struct mm) / CACHE_LINE);
	slab_free(b.c, SLAB_MM, o);
	shut_down(&b);
}

static void test_failures(void **state)
{
	struct booted b;
	struct inject *in;
	void **o = calloc(300000, sizeof(*o));
	unsigned nr = 0;

	(void)state;
	boot_small(&b, 128);
	assert_int_equal(inject_attach(b.m, 1, &in), 0);
	inject_set(in, INJECT_SLAB_ALLOC, INJECT_NTH, 2);
	o[0] = slab_alloc(b.c, SLAB_FILE);
	assert_non_null(o[0]);
	assert_null(slab_alloc(b.c, SLAB_FILE));
	slab_free(b.c, SLAB_FILE, o[0]);
	/* No frame for a new slab. */
	inject_set(in, INJECT_SLAB_ALLOC, INJECT_NEVER, 1);
	inject_set(in, INJECT_FRAME_ALLOC, INJECT_EVERY, 1);
	assert_null(slab_alloc(b.c, SLAB_RADIX));
	check_valid(&b);
	inject_set(in, INJECT_FRAME_ALLOC, INJECT_NEVER, 1);
	/* All of memory. */
	while ((o[nr] = slab_alloc(b.c, SLAB_RADIX)))
		nr++;
	assert_true(nr > 100000);
	check_valid(&b);
	while (nr)
		slab_free(b.c, SLAB_RADIX, o[--nr]);
	inject_detach(in);
	shut_down(&b);
	free(o);
}

static void test_validate_finds_damage(void **state)
{
	struct booted b;
	struct slab_cache *s;
	struct frame *f;
	void *o;

	(void)state;
	boot_small(&b, 128);
	o = slab_alloc(b.c, SLAB_VMA);
	s = &b.q->slab[SLAB_VMA];
	f = frame_head(b.m, frame_of(b.m, paddr_to_pfn(machine_pa(b.m, o))));
#define DAMAGE(lvalue, bad)                                                                                            \
	do {                                                                                                           \
		__typeof__(lvalue) good = (lvalue);                                                                    \
		(lvalue) = (bad);                                                                                      \
		assert_int_equal(slab_validate(b.q), -EINVAL);                                                         \
		assert_true(strlen(b.q->err) > 0);                                                                     \
		(lvalue) = good;                                                                                       \
		check_valid(&b);                                                                                       \
	} while (0)
	DAMAGE(s->nr_objects, s->nr_objects + 1);
	DAMAGE(s->nr_slabs, 5);
	DAMAGE(f->priv, f->priv + 1);
	DAMAGE(f->slab, s + 1);
	DAMAGE(f->flags, f->flags & ~FRAME_SLAB);
	DAMAGE(f->slab_free, (char *)f->slab_free + 8);
	DAMAGE(f->slab_free, NULL);
	DAMAGE(*(void **)f->slab_free, f->slab_free); /* a ring: the same object twice */
	DAMAGE(b.c->pc->magazine[SLAB_VMA].count, 99);
	DAMAGE(b.c->pc->vmstat.v[VM_nr_slab_pages], 1000);
#undef DAMAGE
	slab_free(b.c, SLAB_VMA, o);
	shut_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	 cmocka_unit_test(test_zeroed),
		cmocka_unit_test(test_typesafe),
		cmocka_unit_test(test_random),	 cmocka_unit_test(test_magazine),
		cmocka_unit_test(test_failures), cmocka_unit_test(test_validate_finds_damage),
	};

	return test_run(tests);
}
