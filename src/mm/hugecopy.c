/*
 * Clearing and copying a huge page sub-page by sub-page, in an order that keeps what the program touches next in the
 * cache. Only the order differs between the policies: bytes, counters and page tables are the same. No locks; the
 * pages are the caller's.
 */
#include "base/assert.h"
#include "mm/hugecopy.h"
#include "mm/system.h"

#define NEIGHBOURHOOD 2U /* pages on each side of the target */

struct walk {
	struct cpu *c;
	vaddr_t base;
	hugecopy_fn fn;
	void *arg;
};

static int step(const struct walk *w, unsigned i)
{
	return w->fn(w->c, i, w->base + (uint64_t)i * PAGE_SIZE, w->arg);
}

static int ascend(const struct walk *w, unsigned from, unsigned to)
{
	int err = 0;

	for (unsigned i = from; i < to && !err; i++)
		err = step(w, i);
	return err;
}

/*
 * Converge on target n. The side that reaches farther from it goes first, from its far end, until what is left is a
 * window with n right of its middle; then left end, right end, alternating, and the last right end is n.
 */
static int converge(const struct walk *w, unsigned nr, unsigned n)
{
	unsigned left, half; /* the window is [left, left + 2 * half) */
	int err = 0;

	if (2 * n <= nr) {
		left = 0;
		half = n;
		for (unsigned i = nr; i > 2 * n && !err; i--)
			err = step(w, i - 1);
	} else {
		left = 2 * n - nr;
		half = nr - n;
		err = ascend(w, 0, left);
	}
	for (unsigned i = 0; i < half && !err; i++) {
		err = step(w, left + i);
		if (!err)
			err = step(w, left + 2 * half - 1 - i);
	}
	return err;
}

static int neighbourhood(const struct walk *w, unsigned nr, unsigned n)
{
	unsigned from = n > NEIGHBOURHOOD ? n - NEIGHBOURHOOD : 0, to = MIN(n + NEIGHBOURHOOD + 1, nr);
	int err = ascend(w, to, nr);

	if (!err)
		err = ascend(w, 0, from);
	return err ? err : ascend(w, from, to);
}

int hugecopy_process(struct cpu *c, enum huge_order_policy policy, vaddr_t hint, unsigned nr_pages, hugecopy_fn fn,
		     void *arg)
{
	/*
	 * The base is aligned here, not by the caller: each sub-page's address depends on it, whatever the hint and
	 * the path.
	 */
	struct walk w = { .c = c, .base = ALIGN_DOWN(hint, nr_pages * PAGE_SIZE), .fn = fn, .arg = arg };
	unsigned n = (unsigned)((hint - w.base) >> PAGE_SHIFT);

	ASSERT(nr_pages && !(nr_pages & (nr_pages - 1)));
	if (policy == HUGE_ORDER_LINEAR || nr_pages > 1U << MAX_ORDER)
		return ascend(&w, 0, nr_pages);
	if (policy == HUGE_ORDER_TARGET_LAST)
		return converge(&w, nr_pages, n);
	return neighbourhood(&w, nr_pages, n);
}

struct pages {
	pfn_t dst, src;
};

/* Finding out whose turn it is and calling is our work; the machine prices the bytes and counts the pages. */
static enum machine_path turn(struct cpu *c, enum machine_path bytes)
{
	enum machine_path outer = machine_work(c, PATH_HUGECOPY, 1);

	machine_path(c, bytes);
	return outer;
}

static int clear_one(struct cpu *c, unsigned index, vaddr_t va, void *arg)
{
	const struct pages *p = arg;
	enum machine_path outer = turn(c, PATH_CLEAR_PAGE);
	int err = machine_clear_page(c, pfn_add(p->dst, index));

	(void)va; /* matters where caches are indexed by virtual address */
	if (!err)
		vmstat_inc(c, VM_quire_pages_cleared);
	machine_path(c, outer);
	return err;
}

static int copy_one(struct cpu *c, unsigned index, vaddr_t va, void *arg)
{
	const struct pages *p = arg;
	enum machine_path outer = turn(c, PATH_COPY_PAGE);
	int err = machine_copy_page(c, pfn_add(p->dst, index), pfn_add(p->src, index));

	(void)va;
	if (!err)
		vmstat_inc(c, VM_quire_pages_copied);
	machine_path(c, outer);
	return err;
}

/* Pages of 2 MiB that went through whole are timed. */
static int timed(struct cpu *c, enum huge_order_policy policy, vaddr_t hint, unsigned nr_pages, hugecopy_fn fn, struct pages *p,
		 enum bulk_kind kind)
{
	uint64_t since = machine_now_ns(c);
	int err = hugecopy_process(c, policy, hint, nr_pages, fn, p);

	phase_end(c, kind == BULK_COPY_2M ? PHASE_COPY : PHASE_CLEAR, since);
	if (!err && nr_pages == HPAGE_PMD_NR)
		quire_time_add(c, kind, machine_now_ns(c) - since);
	return err;
}

int hugecopy_clear(struct cpu *c, struct frame *head, unsigned nr_pages, vaddr_t hint)
{
	struct pages p = { .dst = frame_pfn(c->m, head) };

	return timed(c, (enum huge_order_policy)c->q->knobs.huge_clear_order, hint, nr_pages, clear_one, &p, BULK_CLEAR_2M);
}

int hugecopy_copy(struct cpu *c, struct frame *dst, struct frame *src, unsigned nr_pages, vaddr_t hint)
{
	struct pages p = { .dst = frame_pfn(c->m, dst), .src = frame_pfn(c->m, src) };

	return timed(c, (enum huge_order_policy)c->q->knobs.huge_copy_order, hint, nr_pages, copy_one, &p, BULK_COPY_2M);
}
