/*
 * The model machine under a schedule: what an access, a charge or a flush does to state, and no prices.
 *
 * The TLB of a CPU is a list: pages, and the tables that page-walk caches would hold (the one with PTEs, and the one with PMDs). Nothing is
 * ever evicted before the list is full. As on x86 an entry with fewer rights than an access needs is dropped and the tables
 * decide; Accessed and Dirty are set in the tables as the hardware does it; flushing by address drops all cached
 * tables of the address space.
 *
 * Clearing and copying take time: others may run between the read and the write. An access that faults again and again ends in -ELOOP.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/model/schedule_int.h"

#include <errno.h>

#define TRIES_MAX 1000
#define TRIES_ALONE 3 /* faults in vain before others must go on: what is waited for is somebody else's */

static struct schedule_cpu *state_of(struct cpu *c)
{
	return &model_of(c)->sched.schedule->cpu[c->id];
}

/* ---- charges ---- */

static void op_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind)
{
	(void)pa, (void)len;
	schedule_point(c, kind == TOUCH_ATOMIC ? POINT_ATOMIC : POINT_CHARGE);
}

static enum machine_path op_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	(void)c, (void)path, (void)units;
	return PATH_USER;
}

static void op_enter(struct cpu *c, enum machine_entry e)
{
	(void)c, (void)e;
}

/* ---- the TLB ---- */

static void drop_at(struct schedule_cpu *sc, uint32_t i)
{
	sc->held[i] = sc->held[--sc->nr_held];
}

static struct schedule_held *find(struct schedule_cpu *sc, vaddr_t va, bool table, unsigned shift)
{
	for (uint32_t i = 0; i < sc->nr_held; i++) {
		struct schedule_held *h = &sc->held[i];

		if (h->ctx == sc->ctx && h->table == table && (!shift || h->shift == shift) && va >> h->shift == h->va >> h->shift)
			return h;
	}
	return NULL;
}

static void add(struct schedule_cpu *sc, struct schedule_held h)
{
	h.ctx = sc->ctx;
	h.va &= ~((1ULL << h.shift) - 1);
	if (sc->nr_held < SCHEDULE_TLB)
		sc->held[sc->nr_held++] = h;
	else
		sc->held[sc->oldest++ % SCHEDULE_TLB] = h;
}

void schedule_flush(struct cpu *c, const struct tlb_flush *f)
{
	struct schedule_cpu *sc = state_of(c);

	for (uint32_t i = 0; i < sc->nr_held;) {
		const struct schedule_held *h = &sc->held[i];
		bool hit = h->va < f->end && h->va + (1ULL << h->shift) > f->start;

		/* A flush by huge strides names one address in each; others in between are not dropped. */
		if (hit && !h->table && h->shift < f->stride_shift)
			hit = ((h->va - f->start) & ((1ULL << f->stride_shift) - 1)) == 0;
		if ((h->ctx == f->ctx && (f->full || h->table || hit)) || (f->full && !f->ctx))
			drop_at(sc, i);
		else
			i++;
	}
}

static void op_flush_local(struct cpu *c, const struct tlb_flush *f)
{
	schedule_point(c, POINT_FLUSH);
	schedule_flush(c, f);
}

static void op_flush_remote(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote)
{
	schedule_point(c, POINT_FLUSH);
	ipi_flush_remote(c, targets, f, ret_remote);
}

static void op_flush_issue(struct cpu *c, const struct tlb_flush *f)
{
	schedule_point(c, POINT_FLUSH);
	ipi_flush_issue(c, f);
}

static void op_flush_sync(struct cpu *c)
{
	schedule_point(c, POINT_FLUSH);
	ipi_flush_sync(c);
}

static void op_load_context(struct cpu *c, pfn_t root, uint32_t ctx)
{
	struct schedule_cpu *sc = state_of(c);

	sc->root = pfn_to_paddr(root);
	sc->ctx = ctx;
}

/* ---- the walker ---- */

static uint64_t *entry_at(struct cpu *c, paddr_t table, vaddr_t va, unsigned shift)
{
	ASSERT(table >> PAGE_SHIFT < c->m->max_pfn);
	return (uint64_t *)(void *)(c->m->direct + table) + ((va >> shift) & 511);
}

static bool enough(uint64_t e, unsigned flags)
{
	return (!(flags & ACCESS_WRITE) || (e & PTE_WRITE)) && (!(flags & ACCESS_USER) || (e & PTE_USER)) &&
	       (!(flags & ACCESS_EXEC) || !(e & PTE_NX));
}

/* 0 and the frame; else -EFAULT. *ret_present: a page is there, without the right. */
static int walk(struct cpu *c, vaddr_t va, unsigned flags, pfn_t *ret, bool *ret_present)
{
	struct schedule_cpu *sc = state_of(c);
	const struct schedule_held *h = find(sc, va, true, PMD_SHIFT);
	unsigned shift = h ? PAGE_SHIFT : PGDIR_SHIFT;
	paddr_t table = h ? pfn_to_paddr(h->pfn) : sc->root;

	*ret_present = false;
	if (!h) {
		h = find(sc, va, true, PUD_SHIFT);
		if (h) {
			shift = PMD_SHIFT;
			table = pfn_to_paddr(h->pfn);
		}
	}
	if (!table)
		return -EFAULT;
	for (;; shift -= 9) {
		uint64_t *at = entry_at(c, table, va, shift), e = *at;

		if (!(e & PTE_PRESENT))
			return -EFAULT;
		if (shift == PAGE_SHIFT || (shift < PGDIR_SHIFT && (e & PTE_HUGE))) {
			if (!enough(e, flags)) {
				*ret_present = true;
				return -EFAULT;
			}
			*at = e | PTE_ACCESSED | (flags & ACCESS_WRITE ? PTE_DIRTY : 0);
			/* Without Dirty in the tables, the entry is not yet good for stores. */
			add(sc, (struct schedule_held){ .shift = (uint8_t)shift, .va = va,
							.write = (*at & PTE_WRITE) && (*at & PTE_DIRTY),
							.pfn = paddr_to_pfn(e & PTE_ADDR_MASK & ~((1ULL << shift) - 1)) });
			*ret = paddr_to_pfn((e & PTE_ADDR_MASK & ~((1ULL << shift) - 1)) | (va & ((1ULL << shift) - 1)));
			return 0;
		}
		*at = e | PTE_ACCESSED;
		table = e & PTE_ADDR_MASK;
		if (shift <= PUD_SHIFT)
			add(sc, (struct schedule_held){ .shift = (uint8_t)shift, .table = true, .va = va, .pfn = paddr_to_pfn(table) });
	}
}

/* Right after it, the access itself: nobody comes in between. */
static int translate(struct cpu *c, vaddr_t va, unsigned flags, pfn_t *ret)
{
	struct schedule_cpu *sc = state_of(c);

	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		struct schedule_held *h;
		bool present;
		int r;

		if (tries >= TRIES_ALONE)
			schedule_give_way(c);
		else
			schedule_point(c, POINT_ACCESS);
		h = find(sc, va, false, 0);
		if (h && (!(flags & ACCESS_WRITE) || h->write)) {
			*ret = pfn_add(h->pfn, (va & ((1ULL << h->shift) - 1)) >> PAGE_SHIFT);
			return 0;
		}
		if (h)
			drop_at(sc, (uint32_t)(h - sc->held));
		if (!walk(c, va, flags, ret, &present))
			return 0;
		c->fault_start_ps = c->now_ps;
		r = c->m->hooks.fault ? c->m->hooks.fault(c, va, (flags & (ACCESS_WRITE | ACCESS_USER | ACCESS_EXEC)) |
									 (present ? ACCESS_PRESENT : 0U)) :
					-EFAULT;
		if (r)
			return r;
	}
	return -ELOOP;
}

static int op_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags)
{
	pfn_t p;
	int r = translate(c, va, flags, &p);

	(void)size;
	if (!r && (flags & ACCESS_WRITE) && !c->m->tags[p.v])
		c->m->tags[p.v] = ~0ULL;
	return r;
}

static int op_access_run(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags, unsigned insns,
			 uint64_t *ret_done)
{
	int r = 0;

	(void)insns;
	for (*ret_done = 0; *ret_done < n; ++*ret_done, va += stride) {
		r = op_access(c, va, size, flags & ~(unsigned)ACCESS_LOOP);
		if (r)
			break;
	}
	return r;
}

static int op_load_value(struct cpu *c, vaddr_t va, uint64_t *ret_value)
{
	pfn_t p;
	int r = translate(c, va, ACCESS_USER, &p);

	if (!r)
		*ret_value = c->m->tags[p.v];
	return r;
}

static int op_store_value(struct cpu *c, vaddr_t va, uint64_t value)
{
	pfn_t p;
	int r = translate(c, va, ACCESS_USER | ACCESS_WRITE, &p);

	if (!r)
		c->m->tags[p.v] = value;
	return r;
}

/* ---- pages ---- */

static void note_written(struct cpu *c, pfn_t p)
{
	const struct schedule *s = model_of(c)->sched.schedule->s;

	if (s && s->page_written)
		s->page_written(s->arg, c, p);
}

static int op_clear_page(struct cpu *c, pfn_t p)
{
	note_written(c, p);
	schedule_point(c, POINT_COPY);
	c->m->tags[p.v] = 0;
	return 0;
}

static int op_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	uint64_t tag = c->m->tags[src.v];

	note_written(c, dst);
	schedule_point(c, POINT_COPY);
	c->m->tags[dst.v] = tag;
	return 0;
}

int model_schedule_each_held(struct machine *m, unsigned cpu, int (*fn)(void *arg, const struct schedule_held *h), void *arg)
{
	const struct schedule_cpu *sc = &container_of(m, struct model, m)->sched.schedule->cpu[cpu];
	int r = 0;

	for (uint32_t i = 0; i < sc->nr_held && !r; i++)
		r = fn(arg, &sc->held[i]);
	return r;
}

static uint64_t op_now_ns(struct cpu *c)
{
	return c->now_ps / PS_PER_NS;
}

const struct machine_ops schedule_ops = {
	.kind = "model",
	.touch = op_touch,
	.work = op_work,
	.enter = op_enter,
	.leave = op_enter,
	.clear_page = op_clear_page,
	.copy_page = op_copy_page,
	.access = op_access,
	.access_run = op_access_run,
	.load_value = op_load_value,
	.store_value = op_store_value,
	.lock = sched_lock,
	.trylock = sched_trylock,
	.unlock = sched_unlock,
	.read_lock = sched_read_lock,
	.read_unlock = sched_read_unlock,
	.write_lock = sched_write_lock,
	.write_unlock = sched_write_unlock,
	.downgrade = sched_downgrade,
	.load_context = op_load_context,
	.flush_local = op_flush_local,
	.flush_remote = op_flush_remote,
	.flush_issue = op_flush_issue,
	.flush_sync = op_flush_sync,
	.swap_io = model_swap_io,
	.now_ns = op_now_ns,
	.resched = sched_op_resched,
	.block = sched_op_block,
	.wait = sched_op_wait,
	.wake = sched_op_wake,
	.sleep_ns = sched_op_sleep_ns,
	.task_start = sched_op_task_start,
};
