/*
 * The steps that the standard workloads are made of. A step never gives way inside; between two, work_point lets other tasks run, looks
 * whether to stop, and reports.
 *
 * Contents (design rule 10): with check, a page's first word is stored and loaded by value; plain accesses to the rest leave it alone.
 */
#include "workload/work_int.h"

#include <stdio.h>
#include <string.h>

#define REPORT_REFS (1U << 18)
#define REPORT_POINTS 1024U /* steps may be few accesses and much else */

bool work_failed(struct work_task *k, int rc)
{
	struct work *w = k->w;

	if (rc == -ENOMEM) {
		__atomic_store_n(&w->oom, true, __ATOMIC_RELAXED);
		return false;
	}
	pthread_mutex_lock(&w->lock);
	if (!w->error) {
		w->error = rc;
		snprintf(w->err, w->errlen, "%s, task %u: an access or a call failed: %s", w->w->name, k->nr, strerror(-rc));
	}
	pthread_mutex_unlock(&w->lock);
	__atomic_store_n(&w->m->stop, true, __ATOMIC_RELAXED);
	return false;
}

static void report(struct work_task *k, uint64_t refs)
{
	struct work *w = k->w;
	uint64_t all = __atomic_add_fetch(&w->refs, refs - k->reported, __ATOMIC_RELAXED);

	k->reported = refs;
	k->points = 0;
	if (w->o->progress)
		w->o->progress(w->o->progress_arg, all);
	work_account(w);
}

bool work_point(struct work_task *k)
{
	struct work *w = k->w;
	uint64_t refs = k->loads + k->stores;

	if (refs - k->reported >= REPORT_REFS || ++k->points >= REPORT_POINTS)
		report(k, refs);
	if (w->o->stop && *w->o->stop) {
		__atomic_store_n(&w->stopping, true, __ATOMIC_RELAXED);
		__atomic_store_n(&w->m->stop, true, __ATOMIC_RELAXED);
	}
	if (k->c->need_resched)
		k->c = machine_resched(k->c);
	return !__atomic_load_n(&w->m->stop, __ATOMIC_RELAXED);
}

bool work_barrier(struct work_task *k)
{
	struct work *w = k->w;
	unsigned here = __atomic_add_fetch(&w->at_barrier, 1, __ATOMIC_ACQ_REL);

	if (here == w->expected)
		for (unsigned i = 0; i < w->nr; i++)
			if (w->t[i].started && i != k->nr)
				k->c->m->ops->wake(k->c, &w->t[i].task);
	while (__atomic_load_n(&w->at_barrier, __ATOMIC_ACQUIRE) < w->expected) {
		if (!work_point(k))
			return false;
		k->c = machine_wait(k->c, UINT64_MAX);
	}
	return work_point(k);
}

/* ---- accesses ---- */

static void count(struct work_task *k, uint64_t n, bool write)
{
	if (write)
		k->stores += n;
	else
		k->loads += n;
}

bool work_run(struct work_task *k, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, bool write, unsigned insns)
{
	uint64_t done = 0;
	int rc;

	if (!n)
		return true;
	rc = k->c->m->ops->access_run(k->c, va, stride, n, size, ACCESS_USER | ACCESS_LOOP | (write ? ACCESS_WRITE : 0), insns, &done);
	count(k, done, write);
	return rc ? work_failed(k, rc) : true;
}

/* The access by value is one instruction; the others are charged apart. */
static void instructions(struct work_task *k, unsigned insns)
{
	if (insns > 1)
		(void)machine_work(k->c, PATH_USER, insns - 1);
}

bool work_store(struct work_task *k, vaddr_t va, uint64_t value, unsigned insns)
{
	int rc;

	instructions(k, insns);
	rc = k->c->m->ops->store_value(k->c, va, value);
	count(k, !rc, true);
	return rc ? work_failed(k, rc) : true;
}

bool work_load(struct work_task *k, vaddr_t va, uint64_t *ret, unsigned insns)
{
	int rc;

	instructions(k, insns);
	rc = k->c->m->ops->load_value(k->c, va, ret);
	count(k, !rc, false);
	return rc ? work_failed(k, rc) : true;
}

bool work_verify(struct work_task *k, vaddr_t va, uint64_t value, bool or_zero)
{
	uint64_t v;

	if (!work_load(k, va, &v, 1))
		return false;
	k->checked++;
	k->wrong += v != value && !(or_zero && !v);
	return true;
}

/* ---- system calls ---- */

static uint64_t enter(struct work_task *k)
{
	uint64_t now = work_now(k);

	machine_enter(k->c, ENTRY_SYSCALL);
	return now;
}

static void leave(struct work_task *k, uint64_t since)
{
	machine_leave(k->c, ENTRY_SYSCALL);
	k->sys_ns += work_now(k) - since;
}

int64_t work_mmap_at(struct work_task *k, uint64_t len, unsigned prot, unsigned flags, struct mfile *file, uint64_t offset)
{
	uint64_t since = enter(k);
	int64_t r = mm_mmap(k->c, k->mm, 0, len, prot, flags | (file ? 0 : UAPI_MAP_ANONYMOUS), file, offset);

	leave(k, since);
	return r;
}

int64_t work_mmap(struct work_task *k, uint64_t len, unsigned flags, struct mfile *file)
{
	return work_mmap_at(k, len, UAPI_PROT_READ | UAPI_PROT_WRITE, flags, file, 0);
}

int64_t work_mincore(struct work_task *k, vaddr_t va, uint64_t len, uint8_t *vec)
{
	uint64_t since = enter(k);
	int64_t r = mm_mincore(k->c, k->mm, va, len, vec);

	leave(k, since);
	return r;
}

int64_t work_mprotect(struct work_task *k, vaddr_t va, uint64_t len, unsigned prot)
{
	uint64_t since = enter(k);
	int64_t r = mm_mprotect(k->c, k->mm, va, len, prot);

	leave(k, since);
	return r;
}

int64_t work_munmap(struct work_task *k, vaddr_t va, uint64_t len)
{
	uint64_t since = enter(k);
	int64_t r = mm_munmap(k->c, k->mm, va, len);

	leave(k, since);
	return r;
}

int64_t work_brk(struct work_task *k, vaddr_t brk)
{
	uint64_t since = enter(k);
	int64_t r = mm_brk(k->c, k->mm, brk);

	leave(k, since);
	return r;
}

int64_t work_madvise(struct work_task *k, vaddr_t va, uint64_t len, int advice)
{
	uint64_t since = enter(k);
	int64_t r = mm_madvise(k->c, k->mm, va, len, advice);

	leave(k, since);
	return r;
}

int work_file_create(struct work_task *k, uint64_t size, struct mfile **ret)
{
	uint64_t since = enter(k);
	int r = file_create(k->c, k->w->q, 0, size, false, ret);

	leave(k, since);
	return r;
}

void work_file_put(struct work_task *k, struct mfile *f)
{
	uint64_t since = enter(k);

	file_put(k->c, f);
	leave(k, since);
}

/* ---- memory ---- */

struct usage {
	uint64_t rss, anon, huge, tables;
};

/* Read while other tasks change the parts: a sum that never was is at least none below 0. */
static uint64_t pages(const struct mm *mm, enum rss_kind kind)
{
	return (uint64_t)MAX(mm_rss(mm, kind), 0);
}

static void add_mm(struct usage *u, const struct mm *mm)
{
	if (!mm)
		return;
	for (int i = 0; i < NR_RSS; i++)
		u->rss += pages(mm, (enum rss_kind)i);
	u->anon += pages(mm, RSS_ANON);
	u->huge += (uint64_t)__atomic_load_n(&mm->huge_mapped, __ATOMIC_RELAXED);
	u->tables += (uint64_t)__atomic_load_n(&mm->pgtables_bytes, __ATOMIC_RELAXED);
}

/* Frames in use. On the model only: elsewhere zones change while they are read. */
static uint64_t frames_used(const struct work *w)
{
	uint64_t used = 0;

	for (unsigned n = 0; n < w->m->nr_nodes; n++)
		for (int z = 0; z < NR_ZONES; z++)
			used += w->q->nodes[n].zones[z].managed - w->q->nodes[n].zones[z].free_pages;
	return used;
}

void work_account(struct work *w)
{
	struct workload_result *r = w->res;
	struct usage u = { 0 };

	if (pthread_mutex_trylock(&w->lock))
		return;
	add_mm(&u, w->parent_mm);
	add_mm(&u, w->group_mm);
	for (unsigned i = 0; i < w->nr && !w->group_mm; i++)
		add_mm(&u, w->t[i].mm);
	if (u.rss * PAGE_SIZE > r->rss_peak_bytes) {
		r->rss_peak_bytes = u.rss * PAGE_SIZE;
		r->anon_peak_bytes = u.anon * PAGE_SIZE;
		r->anon_huge_peak_bytes = u.huge * PMD_SIZE;
	}
	r->pgtables_peak_bytes = MAX(r->pgtables_peak_bytes, u.tables);
	if (w->model)
		r->memory_peak_bytes = MAX(r->memory_peak_bytes, frames_used(w) * PAGE_SIZE);
	pthread_mutex_unlock(&w->lock);
}
