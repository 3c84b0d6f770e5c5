/* The host machine's software TLB: what hits, what it may hold, what a flush takes away, and the requests of other threads. */
#include "host_testing.h"

#include "machine/host/host_int.h"

#include <errno.h>
#include <string.h>

#define MIB (1ULL << 20)

struct tlb_world {
	struct host_world w;
	struct cpu *c;
	struct host_cpu *h;
	struct mm *mm;
};

static void open_world(struct tlb_world *t, uint32_t thp)
{
	struct knobs k;

	knobs_default(&k);
	k.thp_enabled = thp;
	world_open(&t->w, &(struct host_options){ .memory = 256 * MIB, .nr_cpus = 4 }, &k);
	t->c = t->w.c;
	t->h = host_cpu(t->c);
	assert_int_equal(mm_create(t->c, t->w.q, &t->mm), 0);
	mm_activate(t->c, t->mm);
}

static void close_world(struct tlb_world *t)
{
	mm_activate(t->c, NULL);
	mm_put(t->c, t->mm);
	world_close(&t->w);
}

static uint64_t load(struct tlb_world *t, vaddr_t va)
{
	uint64_t v = 0;

	assert_int_equal(host_load(t->c, va, 8, &v), 0);
	return v;
}

static void store(struct tlb_world *t, vaddr_t va, uint64_t v)
{
	assert_int_equal(host_store(t->c, va, 8, v), 0);
}

static uint64_t misses(const struct tlb_world *t)
{
	return t->h->stats.tlb_misses;
}

static void hits(void **state)
{
	struct tlb_world t;

	(void)state;
	for (unsigned thp = 0; thp < 2; thp++) {
		open_world(&t, thp ? THP_ALWAYS : THP_NEVER);
		uint64_t page = thp ? PMD_SIZE : PAGE_SIZE, entries = thp ? TLB_2M_ENTRIES / 8 : TLB_4K_ENTRIES;
		vaddr_t va = map_some(t.c, t.mm, entries * page);

		for (uint64_t i = 0; i < entries; i++)
			store(&t, va + i * page + 8 * (i % 500), i);
		uint64_t before = misses(&t);

		/* All of them are there, for loads and stores at any place of the page. */
		for (uint64_t i = 0; i < entries; i++) {
			assert_int_equal(load(&t, va + i * page + 8 * (i % 500)), i);
			store(&t, va + (i + 1) * page - 8, ~i);
			assert_int_equal(load(&t, va + (i + 1) * page - 8), ~i);
		}
		assert_int_equal(misses(&t), before);
		close_world(&t);
	}
}

/* Accessed is set by the first load, dirty by the first store, even where the translation was there already. */
static void accessed_and_dirty(void **state)
{
	struct tlb_world t;
	struct mm_page_info i;

	(void)state;
	for (unsigned thp = 0; thp < 2; thp++) {
		open_world(&t, thp ? THP_ALWAYS : THP_NEVER);
		vaddr_t va = map_some(t.c, t.mm, 2 * PMD_SIZE);

		store(&t, va, 1);
		/* MADV_FREE takes both bits and flushes. */
		assert_int_equal(mm_madvise(t.c, t.mm, va, PMD_SIZE, UAPI_MADV_FREE), 0);
		mm_page_info(t.mm, va, &i);
		assert_false(i.dirty || i.accessed);
		assert_int_equal(load(&t, va), 1);
		mm_page_info(t.mm, va, &i);
		assert_true(i.accessed && !i.dirty);
		uint64_t before = misses(&t);

		store(&t, va, 2);
		assert_int_equal(misses(&t), before + 1);
		mm_page_info(t.mm, va, &i);
		assert_true(i.accessed && i.dirty);
		store(&t, va, 3);
		assert_int_equal(misses(&t), before + 1);
		close_world(&t);
	}
}

static void rights(void **state)
{
	struct tlb_world t;

	(void)state;
	open_world(&t, THP_NEVER);
	vaddr_t va = map_some(t.c, t.mm, 4 * PAGE_SIZE);

	for (unsigned i = 0; i < 4; i++)
		store(&t, va + i * PAGE_SIZE, i + 1);
	assert_int_equal(mm_mprotect(t.c, t.mm, va + PAGE_SIZE, PAGE_SIZE, UAPI_PROT_READ), 0);
	assert_int_equal(host_store(t.c, va + PAGE_SIZE, 8, 9), -EFAULT);
	assert_int_equal(load(&t, va + PAGE_SIZE), 2);
	assert_int_equal(mm_mprotect(t.c, t.mm, va + PAGE_SIZE, PAGE_SIZE, 0), 0);
	assert_int_equal(host_load(t.c, va + PAGE_SIZE, 8, &(uint64_t){ 0 }), -EFAULT);
	assert_int_equal(t.w.m->ops->access(t.c, va, 8, ACCESS_USER | ACCESS_EXEC), -EFAULT);
	assert_int_equal(mm_mprotect(t.c, t.mm, va + PAGE_SIZE, PAGE_SIZE, HOST_RW | UAPI_PROT_EXEC), 0);
	assert_int_equal(t.w.m->ops->access(t.c, va + PAGE_SIZE, 8, ACCESS_USER | ACCESS_EXEC), 0);
	assert_int_equal(load(&t, va + PAGE_SIZE), 2);
	assert_int_equal(mm_munmap(t.c, t.mm, va + 2 * PAGE_SIZE, PAGE_SIZE), 0);
	assert_int_equal(host_load(t.c, va + 2 * PAGE_SIZE, 8, &(uint64_t){ 0 }), -EFAULT);
	assert_int_equal(load(&t, va + 3 * PAGE_SIZE), 4);
	close_world(&t);
}

/* Two pages of one slot evict each other, and neither is ever mistaken for the other. */
static void conflicts(void **state)
{
	struct tlb_world t;

	(void)state;
	open_world(&t, THP_NEVER);
	uint64_t apart = TLB_4K_ENTRIES * PAGE_SIZE;
	vaddr_t va = map_some(t.c, t.mm, 8 * apart);

	for (unsigned i = 0; i < 8; i++)
		store(&t, va + i * apart, i);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(load(&t, va + i * apart), i);
	close_world(&t);
}

/* Full flushes are epochs; when their number runs over, an entry of the same epoch long ago must not come back. */
static void epochs(void **state)
{
	struct tlb_world t;

	(void)state;
	open_world(&t, THP_NEVER);
	vaddr_t va = map_some(t.c, t.mm, 2 * PAGE_SIZE);

	store(&t, va, 1);
	for (unsigned i = 1; i <= TLB_EPOCHS; i++) {
		uint64_t before;

		host_tlb_flush_all(t.h);
		before = misses(&t);
		if (i < TLB_EPOCHS) {
			assert_int_equal(load(&t, va + PAGE_SIZE), 0);
			assert_int_equal(misses(&t), before + (i == 1 ? 2 : 1));
		} else {
			(void)load(&t, va);
			assert_int_equal(misses(&t), before + 1);
		}
	}
	close_world(&t);
}

static bool has_entry(const struct tlb_world *t, vaddr_t va)
{
	uint64_t tag = t->h->tlb4k[(va >> PAGE_SHIFT) % TLB_4K_ENTRIES].tag;

	return (tag & PAGE_MASK) == va && (tag & ~PAGE_MASK & ~TLB_WRITE) == t->h->key;
}

/* A request is applied at the next access, whatever it names and however many came. */
static void requests(void **state)
{
	struct tlb_world t;
	struct cpumask target = { .bits = { 1 } };
	struct cpu *other;
	unsigned remote;

	(void)state;
	open_world(&t, THP_NEVER);
	other = t.w.m->cpus[1];
	vaddr_t va = map_some(t.c, t.mm, 20 * PAGE_SIZE);

	for (unsigned nr = 1; nr <= 20; nr++) {
		for (unsigned i = 0; i < 20; i++)
			store(&t, va + i * PAGE_SIZE, i);
		uint64_t misses_before = misses(&t), requests_before = t.h->stats.requests;

		host_quiesce(t.h);
		for (unsigned i = 0; i < nr; i++) {
			struct tlb_flush f = { .ctx = t.mm->ctx, .stride_shift = PAGE_SHIFT, .start = va + i * PAGE_SIZE,
					       .end = va + (i + 1) * PAGE_SIZE };

			t.w.m->ops->flush_remote(other, &target, &f, &remote);
			assert_int_equal(remote, 0); /* quiescent: nobody to wait for */
		}
		assert_true(has_entry(&t, va));
		assert_int_equal(load(&t, va + 19 * PAGE_SIZE), 19);
		assert_int_equal(t.h->stats.requests, requests_before + nr);
		assert_int_equal(t.h->done, t.h->req);
		for (unsigned i = 0; i < 19; i++)
			assert_int_equal(has_entry(&t, va + i * PAGE_SIZE), i >= nr && nr <= HOST_MAIL);
		assert_true(misses(&t) - misses_before <= 1);
	}
	/* Another address space's request is counted and drops nothing. */
	struct tlb_flush f = { .ctx = t.mm->ctx + 1, .stride_shift = PAGE_SHIFT, .start = va, .end = va + PAGE_SIZE };

	store(&t, va, 1);
	host_quiesce(t.h);
	t.w.m->ops->flush_remote(other, &target, &f, &remote);
	(void)load(&t, va + PAGE_SIZE);
	assert_true(has_entry(&t, va));
	/* All address spaces' does. */
	f = (struct tlb_flush){ .full = true };
	host_quiesce(t.h);
	t.w.m->ops->flush_remote(other, &target, &f, &remote);
	(void)load(&t, va + PAGE_SIZE);
	assert_false(has_entry(&t, va));
	store(&t, va, 1);
	t.w.m->ops->flush_local(t.c, &f);
	assert_false(has_entry(&t, va));
	close_world(&t);
}

/* Quiescent by system calls, faults and waiting; active again with the next access. */
static void quiescence(void **state)
{
	struct tlb_world t;

	(void)state;
	open_world(&t, THP_NEVER);
	vaddr_t va = map_some(t.c, t.mm, 2 * PAGE_SIZE);

	store(&t, va, 1);
	assert_int_equal(t.h->state, HOST_ACTIVE);
	assert_int_equal(t.h->in_access, 0);
	machine_enter(t.c, ENTRY_SYSCALL);
	assert_int_equal(t.h->state, HOST_QUIESCENT);
	machine_leave(t.c, ENTRY_SYSCALL);
	(void)load(&t, va);
	assert_int_equal(t.h->state, HOST_ACTIVE);
	t.w.m->ops->sleep_ns(t.c, 1000);
	assert_int_equal(t.h->state, HOST_QUIESCENT);
	assert_int_equal(host_load(t.c, 4096, 8, &(uint64_t){ 0 }), -EFAULT);
	assert_int_equal(t.h->state, HOST_QUIESCENT);
	assert_int_equal(t.h->in_access, 0);
	close_world(&t);
}

/* What one address space had does not show through in another. */
static void contexts(void **state)
{
	struct tlb_world t;
	struct mm *other;

	(void)state;
	open_world(&t, THP_NEVER);
	vaddr_t va = map_some(t.c, t.mm, PAGE_SIZE);

	store(&t, va, 7);
	assert_int_equal(mm_create(t.c, t.w.q, &other), 0);
	mm_activate(t.c, other);
	assert_int_equal(map_some(t.c, other, PAGE_SIZE), va);
	assert_int_equal(load(&t, va), 0);
	store(&t, va, 8);
	mm_activate(t.c, t.mm);
	assert_int_equal(load(&t, va), 7);
	mm_put(t.c, other);
	close_world(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hits),	     cmocka_unit_test(accessed_and_dirty), cmocka_unit_test(rights),
		cmocka_unit_test(conflicts), cmocka_unit_test(epochs),		   cmocka_unit_test(requests),
		cmocka_unit_test(quiescence), cmocka_unit_test(contexts),
	};

	return test_run(tests);
}
