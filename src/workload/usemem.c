/*
 * usemem's loop over memory: each word in order, or so many words at random; stores of the word's own index, or loads.
 *
 * A sequential walk goes block by block. A block is what the first access's fault brought in, 4 KiB or 2 MiB, so that the accesses right
 * after a fault can be timed; where none faulted, or pages are small and reading the clock for each would be felt, it ends at the
 * next 2 MiB boundary.
 *
 * Instructions an iteration were counted by callgrind in the published program itself (as of May 2018, when the huge-page copy was
 * measured with it), built by gcc 12 as its Makefile says (-O), with glibc 2.36's lrand48_r. So was what it counts as bytes, and that
 * its clock starts after the parent's set-up of memory, before the forks.
 */
#include "workload/work_int.h"

#define INSNS_STORE 28U
#define INSNS_LOAD 27U
#define INSNS_VERIFY 7U   /* what the look at the old content adds, from the second pass on */
#define INSNS_RANDOM 62U  /* what drawing the word adds */
#define INSNS_THINK 50U   /* of one turn of the waiting loop, which reads the clock */
#define RANDOM_AT_ONCE 64U
#define NEAR_BYTES 65536U /* "right after the fault": less than any private second-level cache holds */

struct walk {
	struct work_task *k;
	vaddr_t base;
	uint64_t thought_ns;
	bool again;  /* not the first pass: a writer looks before it stores */
	bool paged;  /* something is to be done on entering each page */
	bool timed, timed_4k;
	bool write;
	unsigned insns;
};

/* What a page's first word holds in the end. Threads that share an area store the same. */
static uint64_t page_value(const struct walk *s, vaddr_t va)
{
	uint64_t who = s->k->w->kind->prealloc && s->k->w->w->threads ? 1 : s->k->nr + 1;

	return who << 40 | (((va - s->base) >> PAGE_SHIFT) + 1);
}

static bool think(struct walk *s, vaddr_t va)
{
	struct work_task *k = s->k;
	uint64_t from = work_now(k), now;

	if (!k->w->o->think_ns)
		return true;
	do {
		if (!work_run(k, va, 8, 1, 8, false, INSNS_THINK))
			return false;
		now = work_now(k);
	} while (now - from < k->w->o->think_ns);
	s->thought_ns += now - from;
	return true;
}

/* The first access to a page in a walk. */
static bool enter_page(struct walk *s, vaddr_t va)
{
	struct work_task *k = s->k;
	vaddr_t page = va & PAGE_MASK;

	if (s->write && s->again) {
		if (k->w->o->check ? !work_verify(k, page, page_value(s, page), false) : !work_run(k, va, 8, 1, 8, false, INSNS_VERIFY))
			return false;
	}
	if (s->write && k->w->o->check)
		return work_store(k, page, page_value(s, page), s->insns);
	return work_run(k, va, 8, 1, 8, s->write, s->insns);
}

/* n further accesses from va on, within one page where the walk is paged. */
static bool further(struct walk *s, vaddr_t va, uint64_t n)
{
	uint64_t step = s->k->w->step;

	if (s->write && s->again && !work_run(s->k, va, step, n, 8, false, INSNS_VERIFY))
		return false;
	return work_run(s->k, va, step, n, 8, s->write, s->insns);
}

/* How many accesses from va on begin before the next multiple of size. */
static uint64_t until(const struct walk *s, vaddr_t va, uint64_t size, uint64_t most)
{
	uint64_t step = s->k->w->step;

	return MIN((ALIGN_UP(va + 1, size) - va + step - 1) / step, most);
}

/* Accesses [from, n) of a block at va: all but its first, or what begins with a page. */
static bool rest_of_block(struct walk *s, vaddr_t va, uint64_t from, uint64_t n)
{
	uint64_t step = s->k->w->step, i = from, k;

	if (!s->paged)
		return further(s, va + from * step, n - from);
	if (from == 1) {
		k = until(s, va, PAGE_SIZE, n);
		if (!further(s, va + step, k - 1))
			return false;
		i = k;
	}
	for (; i < n; i += k) {
		vaddr_t at = va + i * step;

		k = until(s, at, PAGE_SIZE, n - i);
		if (!enter_page(s, at) || !think(s, at) || !further(s, at + step, k - 1))
			return false;
	}
	return true;
}

struct seen {
	int64_t faults, huge;
};

/* Faults of the CPU so far: it runs nobody else inside a block. */
static struct seen look(const struct work_task *k)
{
	const int64_t *v = k->c->pc->vmstat.v;

	return (struct seen){ v[VM_pgfault], v[VM_quire_fault_anon_2m] + v[VM_quire_fault_zero_2m] + v[VM_quire_fault_cow_2m] +
						     v[VM_quire_fault_hugetlb_2m] + v[VM_quire_fault_hugetlb_cow_2m] + v[VM_quire_fault_hugetlb_reuse] +
						     v[VM_quire_fault_reuse_2m] };
}

static bool walk_block(struct walk *s, vaddr_t va, uint64_t most, uint64_t *ret_n)
{
	struct work_task *k = s->k;
	struct seen before = { 0 }, now = { 0 };
	struct workload_phase *phase = NULL;
	uint64_t from = 0, first = 0, near_ns = 0, i = 1;

	if (s->timed) {
		before = look(k);
		from = work_now(k);
	}
	if (!enter_page(s, va))
		return false;
	if (s->timed) {
		first = work_now(k);
		now = look(k);
		if (now.faults != before.faults)
			phase = now.huge != before.huge ? &k->phase_2m : s->timed_4k ? &k->phase_4k : NULL;
	}
	*ret_n = until(s, va, phase == &k->phase_4k ? PAGE_SIZE : PMD_SIZE, most);
	s->thought_ns = 0;
	if (!think(s, va))
		return false;
	if (phase == &k->phase_2m) {
		i = until(s, va, NEAR_BYTES, *ret_n);
		if (!rest_of_block(s, va, 1, i))
			return false;
		near_ns = work_now(k) - first - s->thought_ns;
	}
	if (i < *ret_n && !rest_of_block(s, va, i, *ret_n))
		return false;
	if (phase && look(k).faults == now.faults) {
		phase->count++;
		phase->fault_ns += first - from;
		phase->near_ns += near_ns;
		phase->pass_ns += work_now(k) - first - s->thought_ns;
	}
	return true;
}

static bool expired(const struct work_task *k)
{
	const struct work *w = k->w;

	return (w->o->ops && k->ops >= w->o->ops) || (w->limit_ns && work_now(k) - k->go_ns >= w->limit_ns);
}

static struct work_mark mark(const struct work_task *k)
{
	const struct workload_phase *a = &k->phase_4k, *b = &k->phase_2m;

	return (struct work_mark){ work_now(k), k->ops, a->count + b->count, a->fault_ns + b->fault_ns, a->pass_ns + b->pass_ns };
}

/* Between two blocks of a staggered walk: keep where this task is while all are at work. */
static void look_steady(struct work_task *k)
{
	const struct work *w = k->w;

	if (!w->o->stagger_ns || __atomic_load_n(&w->some_done, __ATOMIC_RELAXED) || work_now(k) < w->go_ns + w->o->stagger_ns)
		return;
	k->to = mark(k);
	if (!k->from.ns)
		k->from = k->to;
}

static bool walk_sequential(struct walk *s, uint64_t n)
{
	struct work_task *k = s->k;
	uint64_t did;

	for (uint64_t i = 0; i < n && !expired(k); i += did) {
		uint64_t most = k->w->o->ops ? MIN(n - i, k->w->o->ops - k->ops) : n - i;

		if (!walk_block(s, s->base + i * k->w->step, most, &did))
			return false;
		k->ops += did;
		look_steady(k);
		if (!work_point(k))
			return false;
	}
	return true;
}

/* Words at random, with repetition: their number is that of a sequential walk. */
static bool walk_random(struct walk *s, uint64_t n)
{
	struct work_task *k = s->k;
	uint64_t words = k->w->task_bytes / 8, page = ~0ULL;

	if (k->w->o->ops)
		n = MIN(n, k->w->o->ops - k->ops);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t word = (uint64_t)((unsigned __int128)(rng_next(&k->rng) >> 33) * (words - 1) >> 31);
		vaddr_t va = s->base + word * 8;

		if (i % RANDOM_AT_ONCE == 0 && (expired(k) || !work_point(k)))
			return !k->w->m->stop;
		if (!(s->write && k->w->o->check ? work_store(k, va & PAGE_MASK, page_value(s, va & PAGE_MASK), s->insns) :
						   work_run(k, va, 8, 1, 8, s->write, s->insns)))
			return false;
		k->ops++;
		if (va >> PAGE_SHIFT != page && !think(s, va))
			return false;
		page = va >> PAGE_SHIFT;
	}
	return true;
}

static uint64_t kb_per_s(uint64_t bytes, uint64_t ns)
{
	return ns ? (uint64_t)((unsigned __int128)bytes * 1000000000ULL / 1024 / ns) : 0;
}

/* What the program prints: bytes accessed and an eighth of its memory, over the time since the forks began. */
static void line(struct work_task *k)
{
	struct work *w = k->w;

	__atomic_store_n(&w->some_done, true, __ATOMIC_RELAXED);
	k->done_ns = work_now(k);
	k->bytes = k->ops * 8 + w->task_bytes / 8;
	k->value_ns = k->done_ns - w->fork_ns;
	k->value = kb_per_s(k->bytes, k->value_ns);
	k->value_from_go = kb_per_s(k->bytes, k->done_ns - k->go_ns);
}

/* What the page at va is to hold, which this task has not stored to. */
static uint64_t page_original(const struct walk *s, vaddr_t va)
{
	struct work *w = s->k->w;

	return w->file ? file_tag(w->file, (s->k->nr * w->task_bytes + (va - s->base)) >> PAGE_SHIFT) : 0;
}

/* What this task has stored is there; where it may not have come by, its or nothing. */
static bool verify(struct walk *s, bool whole)
{
	struct work_task *k = s->k;

	for (vaddr_t va = s->base; va < s->base + k->w->task_bytes; va += PAGE_SIZE) {
		if (!work_verify(k, va, s->write ? page_value(s, va) : page_original(s, va), !whole || k->w->kind->random) || !work_point(k))
			return false;
	}
	return true;
}

static bool walk_all(struct walk *s)
{
	const struct work *w = s->k->w;
	uint64_t n = (w->task_bytes / 8 + w->step / 8 - 1) / (w->step / 8);

	for (uint64_t i = 0; i < w->passes && !expired(s->k); i++) {
		s->again = i > 0;
		s->paged = w->o->think_ns || w->o->check || (s->again && s->write);
		if (!(w->kind->random ? walk_random(s, n) : walk_sequential(s, n)))
			return false;
	}
	return true;
}

bool usemem_run(struct work_task *k)
{
	struct work *w = k->w;
	struct walk s = { .k = k, .base = w->area, .write = !w->kind->readonly, .timed_4k = w->model || w->o->phases };
	bool ok;

	s.timed = s.timed_4k || w->q->knobs.thp_enabled != THP_NEVER || w->kind->hugetlb;
	s.insns = (s.write ? INSNS_STORE : INSNS_LOAD) + (w->kind->random ? INSNS_RANDOM : 0);
	if (!w->kind->prealloc) {
		int64_t r = w->file ? work_mmap_at(k, w->task_bytes, UAPI_PROT_READ, UAPI_MAP_SHARED, w->file, k->nr * w->task_bytes) :
				      work_mmap(k, w->task_bytes, work_map_flags(w), NULL);

		if (r < 0)
			return work_failed(k, (int)r);
		s.base = (vaddr_t)r;
	}
	ok = walk_all(&s);
	line(k);
	if (ok && w->o->check)
		ok = verify(&s, !expired(k));
	if (!w->kind->prealloc) {
		uint64_t from = work_now(k);
		int64_t r = work_munmap(k, s.base, w->task_bytes);

		k->free_ns = work_now(k) - from;
		if (r < 0)
			return work_failed(k, (int)r);
	}
	return ok;
}
