/*
 * Splitting huge pages that PTEs map, beside threads that run in the same address space: what writing an address range to the kernel's
 * debugfs file split_huge_pages does. The first task splits, the others store to memory of their own until it is done.
 *
 * A round: map and fill --size, take the right to write from the last page of every 2 MiB, which makes their mappings PTEs, and then, timed, split
 * folio after folio. What is counted is the time in folio_split alone.
 */
#include "workload/work_int.h"

#include "mm/folio_lock.h"
#include "mm/follow.h"
#include "mm/split.h"

#define BUSY_PAGES 16U
#define INSNS_LINE 2U

static bool failed_call(struct work_task *k, int64_t r)
{
	return r < 0 && !work_failed(k, (int)r);
}

static bool done_seen(const struct work *w)
{
	return __atomic_load_n(&w->some_done, __ATOMIC_ACQUIRE);
}

/* Keep the address space in use on another CPU. */
static bool busy(struct work_task *k)
{
	int64_t r = work_mmap(k, BUSY_PAGES * PAGE_SIZE, UAPI_MAP_PRIVATE, NULL);
	bool ok = !failed_call(k, r);

	while (ok && !done_seen(k->w))
		ok = work_run(k, (vaddr_t)r, CACHE_LINE, BUSY_PAGES * PAGE_SIZE / CACHE_LINE, 8, true, INSNS_LINE) && work_point(k);
	k->done_ns = work_now(k);
	return ok;
}

/* The folio at va, if it is a huge page. */
static bool split_one(struct work_task *k, vaddr_t va)
{
	struct cpu *c = k->c;
	struct frame *folio = mm_follow_folio(c, k->mm, va, NULL);
	uint64_t since;

	if (!folio)
		return true;
	folio_lock(c, folio);
	if (frame_nr_pages(folio) > 1) {
		since = work_now(k);
		k->split.failed += folio_split(c, folio, NULL, NULL) != 0;
		k->split.ns += work_now(k) - since;
		k->ops++;
	}
	folio_unlock(c, folio);
	frame_put(c, folio);
	return true;
}

static bool enough(const struct work_task *k)
{
	const struct work *w = k->w;

	return (w->o->ops && k->ops >= w->o->ops) || (w->limit_ns && work_now(k) - k->go_ns >= w->limit_ns);
}

static bool split_round(struct work_task *k)
{
	uint64_t len = ALIGN_DOWN(k->w->task_bytes, PMD_SIZE);
	int64_t r = work_mmap(k, len + PMD_SIZE, UAPI_MAP_PRIVATE | UAPI_MAP_NORESERVE, NULL);
	vaddr_t base = ALIGN_UP((vaddr_t)r, PMD_SIZE);
	bool ok = !failed_call(k, r);

	for (vaddr_t va = base; ok && va < base + len; va += PMD_SIZE)
		ok = work_run(k, va, PAGE_SIZE, HPAGE_PMD_NR, 8, true, INSNS_LINE) &&
		     !failed_call(k, work_mprotect(k, va + PMD_SIZE - PAGE_SIZE, PAGE_SIZE, UAPI_PROT_READ)) && work_point(k);
	for (vaddr_t va = base; ok && k->w->o->check && va < base + len; va += PAGE_SIZE)
		ok = ((va + PAGE_SIZE) & (PMD_SIZE - 1)) == 0 || work_store(k, va, va, 1);
	for (vaddr_t va = base; ok && va < base + len && !enough(k); va += PMD_SIZE)
		ok = split_one(k, va) && work_point(k);
	for (vaddr_t va = base; ok && k->w->o->check && va < base + len; va += PAGE_SIZE)
		ok = ((va + PAGE_SIZE) & (PMD_SIZE - 1)) == 0 || work_verify(k, va, va, false);
	if (r >= 0)
		ok = !failed_call(k, work_munmap(k, (vaddr_t)r, len + PMD_SIZE)) && ok;
	return ok;
}

bool split_run(struct work_task *k)
{
	uint64_t before;
	bool ok = true;

	if (k->nr)
		return busy(k);
	k->split.rounds = vmstat_read(k->w->q, VM_nr_tlb_remote_flush);
	/* Until there is nothing to split: without huge pages a round finds none. */
	do
		before = k->ops, ok = split_round(k);
	while (ok && !enough(k) && k->ops > before);
	k->split.rounds = vmstat_read(k->w->q, VM_nr_tlb_remote_flush) - k->split.rounds;
	__atomic_store_n(&k->w->some_done, true, __ATOMIC_RELEASE);
	k->done_ns = work_now(k);
	k->value_ns = k->split.ns;
	k->value = k->split.ns ? (uint64_t)((unsigned __int128)k->ops * 1000000000ULL / k->split.ns) : 0;
	return ok;
}

void split_conclude(struct work *w)
{
	struct workload_result *r = w->res;
	const struct work_split *s = &w->t[0].split;
	uint64_t n = MAX(w->t[0].ops, 1UL);

	r->extra[r->nr_extra++] = (struct workload_extra){ "split_ns", "ns", "of a split, mean", s->ns / n, 0 };
	r->extra[r->nr_extra++] = (struct workload_extra){ "split_failed", "", "splits that somebody's reference prevented", s->failed, 0 };
	r->extra[r->nr_extra++] = (struct workload_extra){ "rounds_per_split", "", "shootdowns a split, those of setting up included",
							    (uint64_t)s->rounds * 100 / n, 2 };
}
