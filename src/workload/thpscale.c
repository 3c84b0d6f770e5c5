/*
 * mmtests' thpscale: how long faults take when huge pages are wanted and memory is in pieces.
 *
 * Each thread fills its share, unmaps one half of every 2 MiB of it, maps a part of a file that fills some of the holes, and then, all
 * at once, faults a second area block by block: what is timed is a store to the start of a block, a look whether a huge page came
 * (mincore of the page 64 pages on), and storing to all of it. So a base sample holds 512 faults, a huge one a single fault.
 * Instructions around accesses are those of a loop over lines; memset is a string store a line.
 */
#include "workload/work_int.h"

#include <string.h>

#define HOLE (PMD_SIZE / 2) /* unmapped of every 2 MiB */
#define PROBE_PAGES 64U
#define INSNS_LINE 2U
#define INSNS_PAGE 6U
#define AT_ONCE (256 * PAGE_SIZE) /* between two looks at other tasks */

static bool failed_call(struct work_task *k, int64_t r)
{
	return r < 0 && !work_failed(k, (int)r);
}

static bool fill(struct work_task *k, vaddr_t va, uint64_t len)
{
	for (vaddr_t at = va; at < va + len; at += AT_ONCE)
		if (!work_run(k, at, CACHE_LINE, MIN(AT_ONCE, va + len - at) / CACHE_LINE, 8, true, INSNS_LINE) || !work_point(k))
			return false;
	return true;
}

/* A checkered area: what is left of each 2 MiB is its second half. */
static bool fragment(struct work_task *k, vaddr_t *ret)
{
	uint64_t len = k->w->task_bytes, since = work_now(k);
	int64_t r = work_mmap(k, len, UAPI_MAP_PRIVATE | UAPI_MAP_NORESERVE, NULL);

	if (failed_call(k, r) || !fill(k, (vaddr_t)r, len))
		return false;
	*ret = (vaddr_t)r;
	k->thp.anoninit_ns = work_now(k) - since;
	for (vaddr_t va = ALIGN_UP(*ret, PMD_SIZE); va + HOLE <= *ret + len; va += PMD_SIZE)
		if (failed_call(k, work_munmap(k, va, HOLE)) || !work_point(k))
			return false;
	return true;
}

static bool read_file(struct work_task *k)
{
	uint64_t len = k->w->task_bytes / 4, since = work_now(k);
	int64_t r = work_mmap_at(k, len, UAPI_PROT_READ, UAPI_MAP_SHARED, k->w->file, k->w->task_bytes * k->nr);

	if (failed_call(k, r))
		return false;
	for (vaddr_t at = (vaddr_t)r; at < (vaddr_t)r + len; at += AT_ONCE)
		if (!work_run(k, at, PAGE_SIZE, MIN(AT_ONCE, (vaddr_t)r + len - at) / PAGE_SIZE, 1, false, INSNS_PAGE) || !work_point(k))
			return false;
	k->thp.fileinit_ns = work_now(k) - since;
	return true;
}

/* Is it on the node of the CPU that asked for it? */
static void count_locality(struct work_task *k, vaddr_t va)
{
	struct mm_page_info i;

	mm_page_info(k->mm, va, &i);
	k->thp.local += i.present && frame_nid(frame_head(k->w->m, frame_of(k->w->m, i.pfn))) == k->c->nid;
}

static bool fault_block(struct work_task *k, vaddr_t va)
{
	uint64_t since = work_now(k), ns;
	uint8_t there = 0;
	bool huge;

	if (k->w->o->check ? !work_store(k, va, va, INSNS_PAGE) : !work_run(k, va, 1, 1, 1, true, INSNS_PAGE))
		return false;
	if (failed_call(k, work_mincore(k, va + PROBE_PAGES * PAGE_SIZE, PAGE_SIZE, &there)))
		return false;
	/* The first word of each page is left to the check. */
	if (!work_run(k, va + CACHE_LINE, CACHE_LINE, PMD_SIZE / CACHE_LINE - 1, 8, true, INSNS_LINE))
		return false;
	ns = work_now(k) - since;
	huge = there & 1;
	k->thp.n[huge]++;
	k->thp.ns[huge] += ns;
	k->thp.max_ns[huge] = MAX(k->thp.max_ns[huge], ns);
	k->ops++;
	count_locality(k, va);
	return true;
}

bool thpscale_run(struct work_task *k)
{
	uint64_t len = ALIGN_DOWN(k->w->task_bytes / 2, PMD_SIZE), done = 0;
	vaddr_t first = 0, base = 0;
	int64_t second = -1;
	bool ok = fragment(k, &first);

	if (ok) {
		second = work_mmap(k, len + PMD_SIZE, UAPI_MAP_PRIVATE | UAPI_MAP_NORESERVE, NULL);
		ok = !failed_call(k, second);
		base = ALIGN_UP((vaddr_t)second, PMD_SIZE);
	}
	ok = ok && (!k->w->kind->advise || !failed_call(k, work_madvise(k, base, len, UAPI_MADV_HUGEPAGE)));
	ok = ok && read_file(k);
	if (!work_barrier(k) || !ok) /* those who failed have come too */
		return false;
	work_account(k->w);
	for (; ok && done < len && (!k->w->o->ops || k->ops < k->w->o->ops) && work_point(k); done += PMD_SIZE)
		ok = fault_block(k, base + done);
	k->done_ns = work_now(k);
	for (uint64_t at = 0; ok && k->w->o->check && at < done; at += PMD_SIZE)
		ok = work_verify(k, base + at, base + at, false);
	k->value_ns = k->done_ns - k->go_ns;
	k->value = k->thp.ns[0] + k->thp.ns[1];
	k->value = k->ops ? k->value / k->ops : 0;
	return ok;
}

/* ---- the figures ---- */

static void extra(struct workload_result *r, const char *name, const char *unit, uint64_t value, unsigned decimals, const char *help)
{
	if (r->nr_extra < ARRAY_SIZE(r->extra))
		r->extra[r->nr_extra++] = (struct workload_extra){ name, unit, help, value, decimals };
}

static uint64_t mean(uint64_t sum, uint64_t n)
{
	return n ? sum / n : 0;
}

void thpscale_conclude(struct work *w)
{
	struct workload_result *r = w->res;
	struct work_thp s = { .n = { 0 } };
	uint64_t all;

	for (unsigned i = 0; i < w->nr; i++) {
		const struct work_thp *t = &w->t[i].thp;

		for (unsigned h = 0; h < 2; h++) {
			s.n[h] += t->n[h];
			s.ns[h] += t->ns[h];
			s.max_ns[h] = MAX(s.max_ns[h], t->max_ns[h]);
		}
		s.local += t->local;
		s.anoninit_ns = MAX(s.anoninit_ns, t->anoninit_ns);
		s.fileinit_ns = MAX(s.fileinit_ns, t->fileinit_ns);
	}
	all = s.n[0] + s.n[1];
	extra(r, "fault_base_us", "us", mean(s.ns[0], s.n[0]), 3, "mean of a block that got base pages: 512 faults and its stores");
	extra(r, "fault_huge_us", "us", mean(s.ns[1], s.n[1]), 3, "mean of a block that got a huge page: a fault and its stores");
	extra(r, "fault_both_us", "us", mean(s.ns[0] + s.ns[1], all), 3, "mean of all blocks");
	extra(r, "fault_base_max_us", "us", s.max_ns[0], 3, "the longest");
	extra(r, "fault_huge_max_us", "us", s.max_ns[1], 3, "the longest");
	extra(r, "percent_huge", "%", all ? s.n[1] * 10000 / all : 0, 2, "of blocks that got a huge page");
	extra(r, "percent_local", "%", all ? s.local * 10000 / all : 0, 2, "of blocks whose first page is on the node of the CPU");
	extra(r, "anoninit_ms", "ms", s.anoninit_ns / 1000, 3, "filling the first area, the slowest task");
	extra(r, "fileinit_ms", "ms", s.fileinit_ns / 1000, 3, "reading the file, the slowest task");
}
