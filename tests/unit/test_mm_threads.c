/*
 * The engine's own races, on the host machine: what two threads can do to the same tables, frames, address spaces and files.
 * test_host_stress has threads with areas of their own; here they get in each other's way on purpose. Meant for
 * ThreadSanitizer as well. QUIRE_SEED and QUIRE_STRESS_OPS repeat or lengthen a run.
 */
#include "host_testing.h"

#include "base/rng.h"
#include "mm/tlb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ULL << 20)
#define WIN 0x200000000000ULL

enum { THREADS = 3, OPS = 400, SHARED_PAGES = 2048, FILE_PAGES = 96 };

struct job {
	struct task t;
	struct host_world *w;
	struct mm *mm;
	struct mfile *file, *mem;
	struct rng r;
	unsigned id;
	uint64_t want[FILE_PAGES]; /* own copies: first words */
	struct job *child;
	char why[160];
};

#include "thread_jobs.h"

static uint64_t ops(void)
{
	return env_number("QUIRE_STRESS_OPS", OPS);
}

static void open_with(struct host_world *w, uint64_t memory, void (*set)(struct knobs *k))
{
	struct knobs k;

	knobs_default(&k);
	if (set)
		set(&k);
	world_open(w, &(struct host_options){ .memory = memory, .nr_cpus = THREADS + 3 }, &k);
}

static void run(struct host_world *w, struct job *j, unsigned nr)
{
	char err[200] = "";

	if (host_run(w->m, err, sizeof(err)))
		fail_msg("%s", err);
	for (unsigned i = 0; i < nr; i++)
		if (j[i].why[0])
			fail_msg("QUIRE_SEED=%lu job %u: %s", (unsigned long)env_number("QUIRE_SEED", 1), i, j[i].why);
	world_valid(w);
}

static struct mm *new_mm(struct host_world *w)
{
	struct mm *mm;

	assert_int_equal(mm_create(w->c, w->q, &mm), 0);
	return mm;
}

/* All counters that only what is mapped holds up are down. */
static void close_empty(struct host_world *w)
{
	static const enum vm_counter gone[] = { VM_nr_anon_pages, VM_nr_anon_transparent_hugepages, VM_nr_mapped, VM_nr_mlock,
						VM_nr_page_table_pages };
	int64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		assert_int_equal(vmstat_read(w->q, gone[i]), 0);
	for (unsigned k = VM_quire_fault_anon_4k; k <= VM_quire_fault_oom; k++)
		sum += k == VM_quire_fault_sigsegv ? 0 : vmstat_read(w->q, (enum vm_counter)k);
	assert_int_equal(sum, vmstat_read(w->q, VM_pgfault));
	assert_int_equal(vmstat_read(w->q, VM_unevictable_pgs_mlocked), vmstat_read(w->q, VM_unevictable_pgs_munlocked));
	world_close(w);
}

static void thp_never(struct knobs *k)
{
	k->thp_enabled = THP_NEVER;
}

static void huge_copies(struct knobs *k)
{
	k->huge_cow = HUGE_COW_COPY;
}

/* ---- blocks of 2 MiB next to each other: tables come and go beside those that others use ---- */

static void neighbour(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint64_t v;

	for (uint64_t i = 0; i < ops() && !j->why[0]; i++) {
		vaddr_t at = WIN + (rng_below(&j->r, 40) * THREADS + j->id) * 2 * MIB;
		uint64_t len = 1 + rng_below(&j->r, 512), skip = rng_below(&j->r, 512 - len + 1), page = rng_below(&j->r, len);

		at += skip * PAGE_SIZE;
		if (mm_mmap(c, j->mm, at, len * PAGE_SIZE, HOST_RW, HOST_ANON | UAPI_MAP_FIXED, NULL, 0) != (int64_t)at)
			WRONG(j, "mmap");
		if (host_load(c, at + page * PAGE_SIZE, 8, &v) || v)
			WRONG(j, "new memory is not zero at %#lx: %#lx", (unsigned long)at, (unsigned long)v);
		if (host_store(c, at + page * PAGE_SIZE, 8, at + i) || host_load(c, at + page * PAGE_SIZE, 8, &v) || v != at + i)
			WRONG(j, "lost a word at %#lx", (unsigned long)at);
		if (mm_munmap(c, j->mm, at, len * PAGE_SIZE))
			WRONG(j, "munmap");
		if (host_load(c, at + page * PAGE_SIZE, 8, &v) != -EFAULT)
			WRONG(j, "unmapped memory is still there at %#lx", (unsigned long)at);
	}
	leave(c, j);
}

static void neighbours(void **state)
{
	static struct job j[THREADS];
	struct host_world w;
	struct mm *mm;

	memset(j, 0, sizeof(j));
	open_with(&w, 256 * MIB, *state);
	mm = new_mm(&w);
	for (unsigned i = 0; i < THREADS; i++)
		start(&w, &j[i], i, mm, neighbour);
	run(&w, j, THREADS);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	mm_put(w.c, mm);
	close_empty(&w);
}

/* ---- the same pages: a page's word is 0 or says which page it is, whatever happens ---- */

static uint64_t word_of(uint64_t page)
{
	return page * 0x10001 + 1;
}

static void look(struct cpu *c, struct job *j, uint64_t page)
{
	uint64_t v = 0;
	int rc = host_load(c, WIN + page * PAGE_SIZE, 8, &v);

	if (rc || (v && v != word_of(page)))
		WRONG(j, "page %lu: %d, %#lx", (unsigned long)page, rc, (unsigned long)v);
}

static void put(struct cpu *c, struct job *j, uint64_t page, bool may_fail)
{
	int rc = host_store(c, WIN + page * PAGE_SIZE, 8, word_of(page));

	if (rc && !(may_fail && rc == -EFAULT))
		WRONG(j, "store to page %lu: %d", (unsigned long)page, rc);
}

/* In a copy of the address space, whose parent the others go on to change. */
static void in_child(struct cpu *c, struct job *j)
{
	struct mm *child, *parent = c->current->mm;

	if (mm_fork(c, parent, &child)) {
		WRONG(j, "fork");
		return;
	}
	c->current->mm = child;
	mm_activate(c, child);
	(void)mm_mprotect(c, child, WIN, SHARED_PAGES * PAGE_SIZE, HOST_RW);
	(void)mm_mlock(c, child, WIN + rng_below(&j->r, SHARED_PAGES) * PAGE_SIZE, 64 * PAGE_SIZE, false);
	for (unsigned i = 0; i < 30; i++) {
		look(c, j, rng_below(&j->r, SHARED_PAGES));
		put(c, j, rng_below(&j->r, SHARED_PAGES), false);
	}
	c->current->mm = parent;
	mm_activate(c, parent);
	mm_put(c, child);
}

static void same_page(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;

	for (uint64_t i = 0; i < ops() * 4 && !j->why[0]; i++) {
		uint64_t page = rng_below(&j->r, SHARED_PAGES), n = MIN(1 + rng_below(&j->r, 600), SHARED_PAGES - page);
		vaddr_t at = WIN + page * PAGE_SIZE;

		switch (rng_below(&j->r, 24)) {
		case 0:
			(void)mm_madvise(c, j->mm, at, n * PAGE_SIZE, UAPI_MADV_DONTNEED); /* -EINVAL where locked */
			break;
		case 1:
			(void)mm_madvise(c, j->mm, at, n * PAGE_SIZE, UAPI_MADV_FREE);
			break;
		case 2:
			(void)mm_mlock(c, j->mm, at, n * PAGE_SIZE, false);
			break;
		case 3:
			(void)mm_munlock(c, j->mm, WIN, SHARED_PAGES * PAGE_SIZE);
			break;
		case 4:
			(void)mm_mprotect(c, j->mm, at, n * PAGE_SIZE, UAPI_PROT_READ);
			break;
		case 5:
			(void)mm_mprotect(c, j->mm, WIN, SHARED_PAGES * PAGE_SIZE, HOST_RW);
			break;
		case 6:
			if (!rng_below(&j->r, 4))
				in_child(c, j);
			break;
		case 7:
			(void)mm_madvise(c, j->mm, at, n * PAGE_SIZE, UAPI_MADV_DONTNEED_LOCKED);
			break;
		default:
			look(c, j, page);
			put(c, j, page, true);
		}
	}
	leave(c, j);
}

static void same_pages(void **state)
{
	static struct job j[THREADS];
	struct host_world w;
	struct mm *mm;

	memset(j, 0, sizeof(j));
	open_with(&w, 512 * MIB, *state);
	mm = new_mm(&w);
	assert_int_equal(mm_mmap(w.c, mm, WIN, SHARED_PAGES * PAGE_SIZE, HOST_RW, HOST_ANON | UAPI_MAP_FIXED, NULL, 0), WIN);
	for (unsigned i = 0; i < THREADS; i++)
		start(&w, &j[i], i, mm, same_page);
	run(&w, j, THREADS);
	assert_true(mm_rss_peak(mm) >= mm_rss(mm, RSS_ANON));
	mm_put(w.c, mm);
	close_empty(&w);
}

/* ---- pages of files under several address spaces ---- */

#define FILE_AT WIN
#define MEM_AT (WIN + 16 * MIB)

static void file_look(struct cpu *c, struct job *j, uint64_t page)
{
	uint64_t v = 0, want = j->want[page] ? j->want[page] : file_tag(j->file, page);
	int rc = host_load(c, FILE_AT + page * PAGE_SIZE, 8, &v);

	if (rc || v != want)
		WRONG(j, "file page %lu: %d, %#lx for %#lx", (unsigned long)page, rc, (unsigned long)v, (unsigned long)want);
	rc = host_load(c, MEM_AT + page * PAGE_SIZE, 8, &v);
	if (rc || (v && v != word_of(page)))
		WRONG(j, "shared page %lu: %d, %#lx", (unsigned long)page, rc, (unsigned long)v);
}

static void file_forget(struct cpu *c, struct job *j, uint64_t page, uint64_t n)
{
	if (mm_madvise(c, j->mm, FILE_AT + page * PAGE_SIZE, n * PAGE_SIZE, UAPI_MADV_DONTNEED_LOCKED))
		WRONG(j, "madvise");
	memset(j->want + page, 0, n * sizeof(j->want[0]));
	(void)mm_madvise(c, j->mm, MEM_AT + page * PAGE_SIZE, n * PAGE_SIZE, UAPI_MADV_DONTNEED);
}

static void file_user(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint8_t vec[FILE_PAGES];

	for (uint64_t i = 0; i < ops() && !j->why[0]; i++) {
		uint64_t page = rng_below(&j->r, FILE_PAGES), n = 1 + rng_below(&j->r, FILE_PAGES - page);

		switch (rng_below(&j->r, 12)) {
		case 0:
			file_forget(c, j, page, n);
			break;
		case 1: /* the first to lock a frame that others map as well */
			(void)mm_mlock(c, j->mm, FILE_AT + page * PAGE_SIZE, n * PAGE_SIZE, false);
			(void)mm_mlock(c, j->mm, MEM_AT + page * PAGE_SIZE, n * PAGE_SIZE, false);
			break;
		case 2:
			(void)mm_munlockall(c, j->mm);
			break;
		case 3:
			(void)mm_mincore(c, j->mm, FILE_AT, FILE_PAGES * PAGE_SIZE, vec);
			break;
		case 4:
			if (file_rw(c, j->file, page * PAGE_SIZE, n * PAGE_SIZE, false))
				WRONG(j, "read");
			break;
		case 5:
			j->want[page] = (uint64_t)(j->id + 1) << 48 | i;
			if (host_store(c, FILE_AT + page * PAGE_SIZE, 8, j->want[page]))
				WRONG(j, "store to the file's copy");
			break;
		case 6:
			if (host_store(c, MEM_AT + page * PAGE_SIZE, 8, word_of(page)))
				WRONG(j, "store to shared memory");
			break;
		default:
			file_look(c, j, page);
		}
	}
	leave(c, j);
}

static void files(void **state)
{
	static struct job j[THREADS];
	struct mfile *file, *mem;
	struct host_world w;
	struct mm *mm;

	(void)state;
	memset(j, 0, sizeof(j));
	open_with(&w, 256 * MIB, NULL);
	assert_int_equal(file_create(w.c, w.q, 0, FILE_PAGES * PAGE_SIZE, false, &file), 0);
	assert_int_equal(file_create(w.c, w.q, 0, FILE_PAGES * PAGE_SIZE, true, &mem), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		mm = new_mm(&w);
		assert_int_equal(mm_mmap(w.c, mm, FILE_AT, FILE_PAGES * PAGE_SIZE, HOST_RW, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, file, 0),
				 FILE_AT);
		assert_int_equal(mm_mmap(w.c, mm, MEM_AT, FILE_PAGES * PAGE_SIZE, HOST_RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, mem, 0),
				 MEM_AT);
		j[i].file = file;
		j[i].mem = mem;
		start(&w, &j[i], i, mm, file_user);
		mm_put(w.c, mm);
	}
	run(&w, j, THREADS);
	file_put(w.c, file);
	file_put(w.c, mem);
	close_empty(&w);
}

/* ---- lives: address spaces end on other CPUs than those that left them lazily loaded ---- */

enum { LIVES = 60 };

static void live(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	struct mm *child;
	uint64_t v;

	for (unsigned i = 0; i < 20; i++) {
		if (host_store(c, WIN + rng_below(&j->r, 512) * PAGE_SIZE, 8, j->id + 1))
			WRONG(j, "store");
		if (host_load(c, WIN, 8, &v) || v > LIVES)
			WRONG(j, "load");
	}
	/* Tables go while CPUs that left this address space lazily may still have it. */
	if (mm_munmap(c, j->mm, WIN + 256 * PAGE_SIZE, 4 * MIB))
		WRONG(j, "munmap");
	if (j->child && !mm_fork(c, j->mm, &child)) {
		j->child->t.mm = j->child->mm = child;
		if (c->m->ops->task_start(c, &j->child->t)) {
			WRONG(j, "start");
			mm_put(c, child);
		}
	}
	leave(c, j);
}

/* A child whose parent's memory was cut: it has what the parent had. */
static void live_on(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;

	for (unsigned i = 0; i < 20; i++)
		if (host_store(c, WIN + rng_below(&j->r, 256) * PAGE_SIZE, 8, j->id + 1))
			WRONG(j, "store");
	leave(c, j);
}

/* No address space: what its CPU had stays loaded, lazily. */
static void kernel_job(struct cpu *c, struct task *t)
{
	(void)t;
	c->m->ops->sleep_ns(c, 20000);
}

static void lives(void **state)
{
	static struct job j[LIVES], child[LIVES], idle[LIVES];
	struct host_world w;

	memset(j, 0, sizeof(j));
	memset(child, 0, sizeof(child));
	memset(idle, 0, sizeof(idle));
	open_with(&w, 256 * MIB, *state);
	for (unsigned i = 0; i < LIVES; i++) {
		struct mm *mm = new_mm(&w);

		assert_int_equal(mm_mmap(w.c, mm, WIN, 6 * MIB, HOST_RW, HOST_ANON | UAPI_MAP_FIXED, NULL, 0), WIN);
		j[i].child = &child[i];
		child[i].w = &w;
		child[i].id = i;
		child[i].t = (struct task){ .fn = live_on, .arg = &child[i], .name = "child" };
		rng_init(&child[i].r, i, "child");
		start(&w, &j[i], i, mm, live);
		mm_put(w.c, mm);
		start(&w, &idle[i], i, NULL, kernel_job);
	}
	run(&w, j, LIVES);
	run(&w, child, LIVES);
	close_empty(&w);
}

/* ---- a stack that grows under everybody ---- */

enum { STACK_PAGES = 512 };

static void climb(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint64_t v;

	for (uint64_t page = 1; page <= STACK_PAGES && !j->why[0]; page++) {
		vaddr_t va = TASK_SIZE - page * PAGE_SIZE + j->id * 8;

		if (host_store(c, va, 8, page) || host_load(c, va, 8, &v) || v != page)
			WRONG(j, "stack page %lu", (unsigned long)page);
	}
	leave(c, j);
}

static void stack(void **state)
{
	static struct job j[THREADS];
	struct host_world w;
	struct mm *mm;

	(void)state;
	memset(j, 0, sizeof(j));
	open_with(&w, 256 * MIB, thp_never);
	mm = new_mm(&w);
	assert_int_equal(mm_setup_exec(w.c, mm, 16 * MIB, TASK_SIZE, 4 * PAGE_SIZE), 0);
	for (unsigned i = 0; i < THREADS; i++)
		start(&w, &j[i], i, mm, climb);
	run(&w, j, THREADS);
	assert_int_equal(mm->stack_vm, STACK_PAGES);
	assert_int_equal(mm_rss(mm, RSS_ANON), STACK_PAGES);
	mm_put(w.c, mm);
	close_empty(&w);
}

/* ---- all want more than there is ---- */

static void glutton(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	vaddr_t at = WIN + j->id * 512 * MIB;

	for (unsigned round = 0; round < 3 && !j->why[0]; round++) {
		uint64_t page = 0;
		int rc = 0;

		if (mm_mmap(c, j->mm, at, 256 * MIB, HOST_RW, HOST_ANON | UAPI_MAP_FIXED, NULL, 0) != (int64_t)at)
			WRONG(j, "mmap");
		for (; !rc && page < 256 * MIB / PAGE_SIZE; page += 1 + rng_below(&j->r, 8))
			rc = host_store(c, at + page * PAGE_SIZE, 8, page);
		if (rc && rc != -ENOMEM)
			WRONG(j, "page %lu: %d", (unsigned long)page, rc);
		if (mm_munmap(c, j->mm, at, 256 * MIB))
			WRONG(j, "munmap");
	}
	leave(c, j);
}

static void no_memory(void **state)
{
	static struct job j[THREADS];
	struct host_world w;
	struct mm *mm;

	memset(j, 0, sizeof(j));
	open_with(&w, 128 * MIB, *state);
	w.q->knobs.overcommit_memory = 1;
	mm = new_mm(&w);
	for (unsigned i = 0; i < THREADS; i++)
		start(&w, &j[i], i, mm, glutton);
	run(&w, j, THREADS);
	assert_true(vmstat_read(w.q, VM_quire_fault_oom) > 0);
	mm_put(w.c, mm);
	close_empty(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "neighbours", neighbours, NULL, NULL, NULL },
		{ "neighbours_4k", neighbours, NULL, NULL, (void *)thp_never },
		{ "same_pages", same_pages, NULL, NULL, NULL },
		{ "same_pages_4k", same_pages, NULL, NULL, (void *)thp_never },
		{ "same_pages_huge_copies", same_pages, NULL, NULL, (void *)huge_copies },
		cmocka_unit_test(files),
		{ "lives", lives, NULL, NULL, NULL },
		{ "lives_4k", lives, NULL, NULL, (void *)thp_never },
		cmocka_unit_test(stack),
		{ "no_memory", no_memory, NULL, NULL, NULL },
		{ "no_memory_4k", no_memory, NULL, NULL, (void *)thp_never },
	};

	return test_run(tests);
}
