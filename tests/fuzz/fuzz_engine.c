/*
 * Any sequence of the engine's calls on a small machine of two CPUs: several address spaces, private and shared memory, files, pools of
 * huge pages, locks, pins, forks that copy tables or share them, and calls inside the engine that fail. What was stored is remembered by
 * address space and page and has to be there; at the end the engine must be valid and every frame back.
 *
 * The first bytes choose the settings and how often what fails; each step takes an opcode and its arguments. All but hints and heaps lies
 * in a window of 10 MiB, so that calls meet.
 */
#include "fuzz.h"

#include "base/compiler.h"
#include "machine/inject.h"
#include "machine/null.h"
#include "mm/gup.h"
#include "mm/lru.h"
#include "mm/slab.h"
#include "mm/system.h"
#include "mm/uapi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BASE (1ULL << 30)
#define PAGES 2560U
#define SPACES 4
#define CPUS 2
#define PINS 4
#define PIN_PAGES 520
#define FILES 3 /* an ordinary one, a memory-backed one, and one of no length at first */
#define MAX_STEPS 200
#define MAX_LOOKS 1 /* at everything, which takes longest; one more comes at the end */

/* What a page holds: nothing that is known, zeroes as it is new, or a value. */
enum { UNKNOWN, ZERO, FIRST_VALUE };

struct world {
	struct fuzz_bytes b;
	struct machine *m;
	struct quire *q;
	struct inject *in;
	struct cpu *c;
	struct mm *mm[SPACES];
	uint32_t *shadow[SPACES]; /* [PAGES] */
	unsigned cur;
	struct mfile *file[FILES];
	pfn_t pin[PINS][PIN_PAGES];
	uint64_t nr_pin[PINS];
	uint32_t next_value;
	unsigned looks;
};

static void check_rc(int64_t rc)
{
	fuzz_check(rc > -4096, "%lld is no errno", (long long)rc);
}

/* ---- arguments ---- */

static uint64_t pages(struct world *w)
{
	static const uint16_t some[] = { 1, 1, 2, 3, 16, 100, 511, 512, 513, 1024, 1536, 2048 };
	unsigned k = fuzz_u8(&w->b);

	return k >= 240 ? fuzz_u64(&w->b, 2) % PAGES : some[k % ARRAY_SIZE(some)];
}

static vaddr_t place(struct world *w)
{
	unsigned k = fuzz_u8(&w->b);

	if (k >= 252)
		return fuzz_u64(&w->b, 8);
	return BASE + (vaddr_t)(k % 5) * PMD_SIZE + (k & 128 ? (vaddr_t)(fuzz_u8(&w->b) * 2U) << PAGE_SHIFT : 0);
}

/* ---- what is remembered ---- */

/* The part of [va, va + n pages) that lies in the window. */
static bool window(vaddr_t va, uint64_t n, unsigned *first, unsigned *nr)
{
	vaddr_t end = va + (n << PAGE_SHIFT), stop = BASE + ((vaddr_t)PAGES << PAGE_SHIFT);

	if (end <= BASE || va >= stop || end < va)
		return false;
	va = MAX(va, BASE);
	*first = (unsigned)((va - BASE) >> PAGE_SHIFT);
	*nr = (unsigned)((MIN(end, stop) - va) >> PAGE_SHIFT);
	return true;
}

static void set_all(struct world *w, vaddr_t va, uint64_t n, uint32_t value)
{
	unsigned first, nr;

	if (window(va, n, &first, &nr))
		for (unsigned i = 0; i < nr; i++)
			w->shadow[w->cur][first + i] = value;
}

static uint32_t *remembered(struct world *w, vaddr_t va)
{
	unsigned first, nr;

	return window(va, 1, &first, &nr) ? &w->shadow[w->cur][first] : NULL;
}

static const struct vma *area_at(struct world *w, vaddr_t va)
{
	const struct vma *v = vma_find(w->c, w->mm[w->cur], va);

	return v && v->start <= va ? v : NULL;
}

static void moved(struct world *w, vaddr_t from, uint64_t old_nr, vaddr_t to, uint64_t new_nr, bool keeps)
{
	static uint32_t was[PAGES];
	uint32_t *now = w->shadow[w->cur];
	vaddr_t stop = BASE + ((vaddr_t)PAGES << PAGE_SHIFT);

	memcpy(was, now, sizeof(was));
	if (to != from || keeps || new_nr < old_nr)
		set_all(w, from, old_nr, UNKNOWN);
	if (to != from)
		set_all(w, to, new_nr, UNKNOWN);
	for (uint64_t i = 0; i < MIN(old_nr, new_nr); i++) {
		vaddr_t a = from + (i << PAGE_SHIFT), b = to + (i << PAGE_SHIFT);

		if (a >= BASE && a < stop && b >= BASE && b < stop)
			now[(b - BASE) >> PAGE_SHIFT] = was[(a - BASE) >> PAGE_SHIFT];
	}
}

static void forked(struct world *w, unsigned child)
{
	unsigned first, nr;

	memset(w->shadow[child], 0, PAGES * sizeof(uint32_t));
	for (const struct vma *v = vma_first(w->mm[child]); v; v = vma_next(v)) {
		if ((v->flags & VM_SHARED) || !window(v->start, (v->end - v->start) >> PAGE_SHIFT, &first, &nr))
			continue;
		for (unsigned i = first; i < first + nr; i++)
			w->shadow[child][i] = v->flags & VM_WIPEONFORK ? ZERO : w->shadow[w->cur][i];
	}
}

/* A pool that is empty takes a page from those who share it, for the one who promised it to himself and writes. */
static bool taken_back(struct world *w, unsigned s, vaddr_t va)
{
	const struct vma *v = vma_find(w->c, w->mm[s], va);

	return v && v->start <= va && (v->flags & VM_HUGETLB) && !(v->flags & VM_SHARED);
}

/* All of it, without an access of its own. */
static void look(struct world *w)
{
	for (unsigned s = 0; s < SPACES; s++)
		for (unsigned i = 0; w->mm[s] && i < PAGES; i++) {
			vaddr_t va = BASE + ((vaddr_t)i << PAGE_SHIFT);
			uint32_t want = w->shadow[s][i];
			struct mm_page_info p;

			if (want == UNKNOWN)
				continue;
			mm_page_info(w->mm[s], va, &p);
			if (!p.present && taken_back(w, s, va))
				continue;
			fuzz_check(p.present || want == ZERO, "space %u: %#llx is gone, not %u", s, (unsigned long long)va, want);
			fuzz_check(!p.present || p.tag == (want == ZERO ? 0 : want), "space %u: %#llx is %llu, not %u", s,
				   (unsigned long long)va, (unsigned long long)p.tag, want);
		}
	fuzz_check(!quire_validate(w->q), "%s", w->q->err);
}

/* ---- steps ---- */

static void do_mmap(struct world *w)
{
	static const unsigned extra[] = { 0, 0, UAPI_MAP_POPULATE, UAPI_MAP_LOCKED, UAPI_MAP_NORESERVE, UAPI_MAP_HUGETLB,
					  UAPI_MAP_HUGETLB | UAPI_MAP_POPULATE, UAPI_MAP_GROWSDOWN };
	unsigned how = fuzz_u8(&w->b), more = fuzz_u8(&w->b);
	vaddr_t va = place(w);
	uint64_t n = pages(w), off = 0;
	unsigned flags = (how & 3) == 3 ? UAPI_MAP_SHARED : UAPI_MAP_PRIVATE, prot = how & 4 ? more >> 5 : 3;
	struct mfile *f = how & 8 ? w->file[more % FILES] : NULL;

	flags |= extra[how >> 5] | (how & 16 ? 0 : UAPI_MAP_FIXED);
	if (f)
		off = (uint64_t)fuzz_u8(&w->b) << PAGE_SHIFT;
	else
		flags |= UAPI_MAP_ANONYMOUS;
	int64_t r = mm_mmap(w->c, w->mm[w->cur], va, n << PAGE_SHIFT, prot, flags, f, off);

	check_rc(r);
	if (r < 0)
		return;
	if (flags & UAPI_MAP_HUGETLB)
		n = ALIGN_UP(n, HPAGE_PMD_NR);
	set_all(w, (vaddr_t)r, n, f || (flags & UAPI_MAP_SHARED) ? UNKNOWN : ZERO);
}

static void do_mremap(struct world *w)
{
	unsigned flags = fuzz_u8(&w->b) & 7;
	vaddr_t from = place(w), to = place(w);
	uint64_t old_nr = fuzz_u8(&w->b) % 16 ? pages(w) : 0, new_nr = pages(w);
	int64_t r = mm_mremap(w->c, w->mm[w->cur], from, old_nr << PAGE_SHIFT, new_nr << PAGE_SHIFT, flags, to);

	check_rc(r);
	if (r >= 0) {
		const struct vma *v = area_at(w, (vaddr_t)r);
		bool huge = v && (v->flags & VM_HUGETLB);

		moved(w, from, huge ? ALIGN_UP(old_nr, HPAGE_PMD_NR) : old_nr, (vaddr_t)r, huge ? ALIGN_UP(new_nr, HPAGE_PMD_NR) : new_nr,
		      !old_nr || (flags & UAPI_MREMAP_DONTUNMAP));
	} else {
		set_all(w, from, MAX(old_nr, new_nr), UNKNOWN); /* several areas may have been moved in part */
		if (flags & UAPI_MREMAP_FIXED)
			set_all(w, to, MAX(old_nr, new_nr), UNKNOWN);
	}
}

static void do_madvise(struct world *w)
{
	int advice = (int)(fuzz_u8(&w->b) % 27);
	vaddr_t va = place(w);
	uint64_t n = pages(w);

	check_rc(mm_madvise(w->c, w->mm[w->cur], va, n << PAGE_SHIFT, advice));
	switch (advice) {
	case UAPI_MADV_DONTNEED:
	case UAPI_MADV_DONTNEED_LOCKED:
	case UAPI_MADV_FREE:
	case 9: /* MADV_REMOVE */
		set_all(w, va, n, UNKNOWN);
	}
}

static void do_munmap(struct world *w)
{
	vaddr_t va = place(w);
	uint64_t n = pages(w);
	int64_t r = mm_munmap(w->c, w->mm[w->cur], va, n << PAGE_SHIFT);

	check_rc(r);
	if (!r)
		set_all(w, va, n, UNKNOWN);
}

static void do_store(struct world *w)
{
	vaddr_t va = place(w);
	unsigned n = fuzz_u8(&w->b) % 66;

	for (; n; n--, va += PAGE_SIZE) {
		uint32_t value = w->next_value++, *old = remembered(w, va);
		int rc = w->m->ops->store_value(w->c, va, value);
		const struct vma *v = area_at(w, va);

		fuzz_check(!rc || rc == -EFAULT || rc == -ENOMEM, "a store ends in %d", rc);
		fuzz_check(rc || (v && (v->flags & VM_WRITE)), "a store without the right to");
		if (!rc && old && v)
			*old = v->flags & VM_SHARED ? UNKNOWN : value;
	}
}

static void do_load(struct world *w)
{
	vaddr_t va = place(w);
	unsigned n = fuzz_u8(&w->b) % 66;

	for (; n; n--, va += PAGE_SIZE) {
		const uint32_t *want = remembered(w, va);
		uint64_t got = 0;
		int rc = w->m->ops->load_value(w->c, va, &got);

		fuzz_check(!rc || rc == -EFAULT || rc == -ENOMEM, "a load ends in %d", rc);
		if (!rc && want && *want != UNKNOWN)
			fuzz_check(got == (*want == ZERO ? 0 : *want), "%#llx is %llu, not %u", (unsigned long long)va,
				   (unsigned long long)got, *want);
	}
}

static void do_pin(struct world *w)
{
	unsigned i = fuzz_u8(&w->b), write = i & 128;

	i %= PINS;
	if (w->nr_pin[i]) {
		mm_unpin(w->c, w->pin[i], w->nr_pin[i]);
		w->nr_pin[i] = 0;
		return;
	}
	vaddr_t va = ALIGN_DOWN(place(w), PAGE_SIZE);
	uint64_t n = pages(w) % PIN_PAGES;
	int rc = n ? mm_pin(w->c, w->mm[w->cur], va, n, write, w->pin[i]) : -EINVAL;

	check_rc(rc);
	if (!rc)
		w->nr_pin[i] = n;
}

static void use(struct world *w, unsigned space)
{
	w->cur = space;
	mm_activate(w->c, w->mm[space]);
}

/* Fork into a free place, go to another address space, or end one. */
static void do_space(struct world *w)
{
	unsigned k = fuzz_u8(&w->b), i = k % SPACES;

	if (!w->mm[i]) {
		int rc = mm_fork(w->c, w->mm[w->cur], &w->mm[i]);

		check_rc(rc);
		if (rc)
			w->mm[i] = NULL;
		else
			forked(w, i);
	} else if (i != w->cur && k & 16) {
		for (unsigned c = 0; c < CPUS; c++)
			if (percpu_mm(w->q->percpu[c]) == w->mm[i])
				mm_activate(w->m->cpus[c], NULL);
		mm_put(w->c, w->mm[i]);
		w->mm[i] = NULL;
	} else {
		use(w, i);
	}
}

static void do_cpu(struct world *w)
{
	w->c = w->m->cpus[fuzz_u8(&w->b) % CPUS];
	use(w, w->cur);
}

static void do_file(struct world *w)
{
	struct mfile *f = w->file[fuzz_u8(&w->b) % FILES];
	unsigned how = fuzz_u8(&w->b);
	uint64_t off = (uint64_t)fuzz_u8(&w->b) << (how & 16 ? PAGE_SHIFT : 9), len = pages(w) << (how & 32 ? PAGE_SHIFT : 3);

	if (f->shmem && how & 2)
		return; /* read(2) and write(2) are those of regular files */
	check_rc(file_rw(w->c, f, off, MIN(len, 1ULL << 20), how & 1));
}

static void do_lock(struct world *w)
{
	unsigned how = fuzz_u8(&w->b);
	vaddr_t va = place(w);
	uint64_t n = pages(w) << PAGE_SHIFT;

	switch (how % 8) {
	case 0:
	case 1:
	case 2:
		check_rc(mm_mlock(w->c, w->mm[w->cur], va, n, how & 8));
		break;
	case 3:
	case 4:
		check_rc(mm_munlock(w->c, w->mm[w->cur], va, n));
		break;
	case 5:
		check_rc(mm_mlockall(w->c, w->mm[w->cur], how >> 4));
		break;
	default:
		check_rc(mm_munlockall(w->c, w->mm[w->cur]));
	}
}

static void do_rare(struct world *w)
{
	static uint8_t vec[PAGES];
	unsigned k = fuzz_u8(&w->b);
	struct mm *mm = w->mm[w->cur];
	vaddr_t va;

	switch (k % 8) {
	case 0:
	case 1:
		(void)hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, k >> 4);
		break;
	case 2:
		w->q->hugetlb.h[HUGETLB_2M].overcommit = k >> 5;
		break;
	case 3:
		va = place(w);
		check_rc(mm_mincore(w->c, mm, va, pages(w) << PAGE_SHIFT, vec));
		break;
	case 4:
		check_rc(mm_brk(w->c, mm, (2ULL << 30) + (pages(w) << PAGE_SHIFT)));
		break;
	case 5:
		check_rc(mm_set_thp_disable(w->c, mm, k & 16));
		break;
	case 6:
		va = ALIGN_DOWN(place(w), PAGE_SIZE);
		if (va < BASE + ((vaddr_t)PAGES << PAGE_SHIFT))
			check_rc(mm_populate(w->c, mm, va, va + (pages(w) << PAGE_SHIFT), k & 16));
		break;
	default:
		if (w->looks++ < MAX_LOOKS)
			look(w);
	}
}

static void do_mprotect(struct world *w)
{
	unsigned prot = fuzz_u8(&w->b);
	vaddr_t va = place(w);

	check_rc(mm_mprotect(w->c, w->mm[w->cur], va, pages(w) << PAGE_SHIFT, prot & 7));
}

/* ---- life ---- */

static uint64_t free_frames(struct world *w)
{
	lru_add_drain_all(w->m->cpus[0]);
	for (unsigned i = 0; i < CPUS; i++) {
		slab_drain(w->m->cpus[i]);
		pcp_drain(w->m->cpus[i]);
	}
	return memory_free_pages(w->q, NID_NONE) + (w->q->huge_zero ? HPAGE_PMD_NR : 0);
}

static void set_up(struct world *w)
{
	const struct null_options o = { .nr_cpus = CPUS, .node_bytes = 128ULL << 20 };
	unsigned how = fuzz_u8(&w->b);
	char err[300] = "";

	fuzz_check(!null_create(&o, &w->m, err, sizeof(err)), "%s", err);
	fuzz_check(!quire_boot(w->m, NULL, &w->q, err, sizeof(err)), "%s", err);
	w->c = w->m->cpus[0];
	w->q->knobs.thp_enabled = how & 1 ? THP_ALWAYS : THP_MADVISE;
	w->q->knobs.huge_cow = how & 2 ? HUGE_COW_COPY : HUGE_COW_SPLIT;
	w->q->knobs.fork_tables = how & 4 ? FORK_TABLES_SHARED : FORK_TABLES_COPIED;
	w->q->knobs.huge_zero_cow = how & 8 ? HUGE_ZERO_COW_HUGE : HUGE_ZERO_COW_SPLIT;
	w->q->knobs.thp_use_zero_page = !(how & 16);
	w->q->knobs.mremap_several = !(how & 32);
	w->q->knobs.overcommit_memory = how >> 6 == 3 ? 2 : 0;
}

static void set_up_failures(struct world *w)
{
	unsigned kind = fuzz_u8(&w->b), often = fuzz_u8(&w->b);

	fuzz_check(!inject_attach(w->m, fuzz_u8(&w->b), &w->in), "not attached");
	if (often >= 128) /* half of all inputs go without */
		return;
	if (kind & 128)
		inject_fail_point(w->in, 1 + (uint64_t)often * 4);
	else
		fuzz_check(!inject_set(w->in, (enum inject_site)(kind % NR_INJECT_SITES), INJECT_RANDOM, 1 + often * 3U), "not set");
}

static void run(struct world *w)
{
	static void (*const steps[])(struct world *w) = { do_mmap, do_mmap, do_store, do_store, do_load, do_munmap, do_mprotect, do_mremap,
							  do_madvise, do_lock, do_pin, do_space, do_space, do_cpu, do_file, do_rare };

	for (unsigned i = 0; i < MAX_STEPS && w->b.left; i++) {
		steps[fuzz_u8(&w->b) % ARRAY_SIZE(steps)](w);
		for (unsigned c = 0; c < CPUS; c++)
			fuzz_check(!null_locks_held(w->m->cpus[c]), "a lock is still held");
	}
	look(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	uint64_t before, after;

	if (size > 1024)
		return 0;
	w = (struct world){ .b = { data, size }, .next_value = FIRST_VALUE };
	set_up(&w);
	for (unsigned i = 0; i < SPACES; i++)
		fuzz_check((w.shadow[i] = calloc(PAGES, sizeof(uint32_t))) != NULL, "out of memory");
	before = free_frames(&w);
	for (unsigned i = 0; i < FILES; i++)
		fuzz_check(!file_create(w.c, w.q, 0, i == 2 ? 0 : 128 * PAGE_SIZE, i == 1, &w.file[i]), "no file");
	fuzz_check(!mm_create(w.c, w.q, &w.mm[0]), "no address space");
	fuzz_check(!mm_setup_exec(w.c, w.mm[0], 2ULL << 30, TASK_SIZE - PAGE_SIZE, 132 << 10), "no stack");
	use(&w, 0);
	set_up_failures(&w);
	run(&w);
	inject_detach(w.in);
	for (unsigned i = 0; i < PINS; i++)
		if (w.nr_pin[i])
			mm_unpin(w.c, w.pin[i], w.nr_pin[i]);
	for (unsigned i = 0; i < CPUS; i++)
		mm_activate(w.m->cpus[i], NULL);
	for (unsigned i = 0; i < SPACES; i++) {
		if (w.mm[i])
			mm_put(w.c, w.mm[i]);
		free(w.shadow[i]);
	}
	for (unsigned i = 0; i < FILES; i++)
		file_put(w.c, w.file[i]);
	(void)hugetlb_set_pool(w.c, HUGETLB_2M, NID_NONE, 0);
	fuzz_check(!quire_validate(w.q), "%s", w.q->err);
	after = free_frames(&w);
	fuzz_check(after == before, "%lld frames are missing", (long long)(before - after));
	fuzz_check(!quire_shutdown(w.q), "something is left over");
	null_destroy(w.m);
	return 0;
}
