/*
 * The reverse map against everything at once, on the host machine: folios are asked who maps them while their mappings come, go and
 * move, and their anon_vmas with them. Meant for ThreadSanitizer as well. QUIRE_SEED and QUIRE_STRESS_OPS repeat or lengthen a
 * run.
 */
#include "host_testing.h"

#include "base/rng.h"
#include "mm/anon_vma.h"
#include "mm/pagetable.h"
#include "mm/rmap_walk.h"
#include "mm/tlb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ULL << 20)
#define WIN 0x200000000000ULL

enum { THREADS = 3, OPS = 400, SHARED_PAGES = 1024 };

struct job {
	struct task t;
	struct host_world *w;
	struct mm *mm;
	struct rng r;
	unsigned id;
	char why[160];
};

#include "thread_jobs.h"

static uint64_t ops(void)
{
	return env_number("QUIRE_STRESS_OPS", OPS);
}

static bool walk_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct job *j = arg;
	struct pvmw w = pvmw_begin(c, folio, v, va, 0);

	while (pvmw_next(&w)) {
		if (w.va < v->start || w.va >= v->end || !pte_present(pte_peek(pvmw_ref(&w))))
			WRONG(j, "an entry at %#lx that is not what was looked for", (unsigned long)w.va);
		if (!rng_below(&j->r, 20))
			pvmw_restart(&w);
	}
	return true;
}

/* A folio that the address space maps now, with a reference. NULL: none there. */
static struct frame *some_folio(struct cpu *c, struct job *j)
{
	vaddr_t va = WIN + rng_below(&j->r, SHARED_PAGES) * PAGE_SIZE;
	struct mm_page_info i = { .present = false };
	struct frame *f = NULL;

	machine_read_lock(c, &j->mm->mmap_lock);
	struct vma *v = vma_find(c, j->mm, va);

	if (v && v->start <= va)
		mm_page_info(j->mm, va, &i);
	if (i.present && !i.zero_page) {
		f = frame_head(c->m, frame_of(c->m, i.pfn));
		f = frame_tryget(c, f) ? f : NULL;
	}
	machine_read_unlock(c, &j->mm->mmap_lock);
	return f;
}

static void walker(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	struct rmap_walk how = { .arg = j, .one = walk_one };

	for (uint64_t i = 0; i < ops() * 8 && !j->why[0]; i++) {
		struct frame *f = some_folio(c, j);
		struct anon_vma *av;
		uint64_t vm_flags;

		if (!f)
			continue;
		for (unsigned k = 0; k < 3; k++) {
			(void)folio_referenced(c, f, &vm_flags);
			rmap_walk(c, f, &how);
			av = folio_get_anon_vma(c, f);
			if (av)
				anon_vma_put(c, av);
		}
		frame_put(c, f);
	}
	leave(c, j);
}

/* In a copy of the address space: its own pages, and what it shares, while the parent goes on. */
static void in_moved_child(struct cpu *c, struct job *j)
{
	struct mm *child, *parent = c->current->mm;

	if (mm_fork(c, parent, &child)) {
		WRONG(j, "fork");
		return;
	}
	c->current->mm = child;
	mm_activate(c, child);
	for (unsigned i = 0; i < 30; i++)
		(void)host_store(c, WIN + rng_below(&j->r, SHARED_PAGES) * PAGE_SIZE, 8, i);
	c->current->mm = parent;
	mm_activate(c, parent);
	mm_put(c, child);
}

static void moved(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;

	for (uint64_t i = 0; i < ops() * 2 && !j->why[0]; i++) {
		uint64_t page = rng_below(&j->r, SHARED_PAGES), n = MIN(1 + rng_below(&j->r, 100), SHARED_PAGES - page);
		uint64_t to = rng_below(&j->r, SHARED_PAGES - n + 1);
		vaddr_t at = WIN + page * PAGE_SIZE;

		switch (rng_below(&j->r, 12)) {
		case 0:
			(void)mm_munmap(c, j->mm, at, n * PAGE_SIZE);
			break;
		case 1:
		case 2:
			(void)mm_mmap(c, j->mm, at, n * PAGE_SIZE, HOST_RW, HOST_ANON | UAPI_MAP_FIXED, NULL, 0);
			break;
		case 3:
			(void)mm_mprotect(c, j->mm, at, n * PAGE_SIZE, rng_below(&j->r, 2) ? HOST_RW : UAPI_PROT_READ);
			break;
		case 4:
			(void)mm_mremap(c, j->mm, at, n * PAGE_SIZE, n * PAGE_SIZE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
					WIN + to * PAGE_SIZE);
			break;
		case 5:
			if (!rng_below(&j->r, 4))
				in_moved_child(c, j);
			break;
		default:
			for (uint64_t k = 0; k < MIN(n, 8U); k++)
				(void)host_store(c, at + k * PAGE_SIZE, 8, i);
		}
	}
	leave(c, j);
}

static void walked(void **state)
{
	static struct job j[THREADS];
	struct host_world w;
	struct knobs k;
	char err[200] = "";
	struct mm *mm;

	knobs_default(&k);
	k.thp_enabled = *state ? THP_NEVER : THP_ALWAYS;
	world_open(&w, &(struct host_options){ .memory = 512 * MIB, .nr_cpus = THREADS + 1 }, &k);
	assert_int_equal(mm_create(w.c, w.q, &mm), 0);
	memset(j, 0, sizeof(j));
	assert_true(mm_mmap(w.c, mm, WIN, SHARED_PAGES * PAGE_SIZE, HOST_RW, HOST_ANON | UAPI_MAP_FIXED, NULL, 0) > 0);
	for (unsigned i = 0; i < THREADS; i++)
		start(&w, &j[i], i, mm, i ? moved : walker);
	if (host_run(w.m, err, sizeof(err)))
		fail_msg("%s", err);
	for (unsigned i = 0; i < THREADS; i++)
		if (j[i].why[0])
			fail_msg("QUIRE_SEED=%lu job %u: %s", (unsigned long)env_number("QUIRE_SEED", 1), i, j[i].why);
	world_valid(&w);
	mm_put(w.c, mm);
	assert_int_equal(vmstat_read(w.q, VM_nr_anon_pages), 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "walked", walked, NULL, NULL, NULL },
		{ "walked_4k", walked, NULL, NULL, (void *)"4k" },
	};

	return test_run(tests);
}
