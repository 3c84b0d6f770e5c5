/*
 * The null machine: counts, an MMU without a TLB, locks that catch misuse. Locks and tasks are in null_sched.c.
 *
 * Invariants
 *  N1 Only one CPU executes at any time, so nothing here is atomic.
 *  N2 Charges are booked under the path of the last machine_work on that CPU.
 *  N3 An access is completed only over entries that allow it at all levels; accessed and dirty bits are then set.
 */
#include "machine/null_int.h"

#include "machine/arena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A fault hook that says 'retry' this often without the entry appearing is a bug of ours. */
#define MAX_RETRIES 64

static struct null_path_count *path_count(struct cpu *c)
{
	return &null_of(c)->counts.path[null_cpu(c)->path];
}

static void null_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind)
{
	ASSERT_DEBUG(pa + len <= c->m->max_pfn << PAGE_SHIFT);
	if (len)
		path_count(c)->lines[kind] += ((pa + len - 1) >> CACHE_LINE_SHIFT) - (pa >> CACHE_LINE_SHIFT) + 1;
}

static enum machine_path null_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	enum machine_path before = null_cpu(c)->path;

	ASSERT_DEBUG(path < NR_MACHINE_PATHS);
	null_cpu(c)->path = path;
	if (units) {
		path_count(c)->calls++;
		path_count(c)->units += units;
	}
	return before;
}

static void null_enter(struct cpu *c, enum machine_entry e)
{
	null_of(c)->counts.enters[e]++;
}

static void null_leave(struct cpu *c, enum machine_entry e)
{
	null_of(c)->counts.leaves[e]++;
}

static int null_clear_page(struct cpu *c, pfn_t p)
{
	ASSERT(p.v < c->m->max_pfn);
	path_count(c)->clears++;
	c->m->tags[p.v] = 0;
	return 0;
}

static int null_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	ASSERT(dst.v < c->m->max_pfn && src.v < c->m->max_pfn);
	path_count(c)->copies++;
	c->m->tags[dst.v] = c->m->tags[src.v];
	return 0;
}

/* Rights that an access needs beyond PRESENT, as bits that must be set in every entry on the way. */
static uint64_t needed_bits(unsigned flags)
{
	return PTE_PRESENT | (flags & ACCESS_WRITE ? PTE_WRITE : 0) | (flags & ACCESS_USER ? PTE_USER : 0);
}

/* One walk, as the hardware does it. 0 and the 4 KiB frame, or the error code for the fault hook (bit 31 set). */
static uint32_t walk(struct cpu *c, vaddr_t va, unsigned flags, pfn_t *ret_pfn)
{
	static const uint8_t shifts[] = { PGDIR_SHIFT, PUD_SHIFT, PMD_SHIFT, PAGE_SHIFT };
	const uint32_t fail = 1U << 31 | (flags & (ACCESS_WRITE | ACCESS_USER | ACCESS_EXEC));
	uint64_t need = needed_bits(flags), *way[4];
	pfn_t table = null_cpu(c)->root;

	if (!table.v || va >> 47)
		return fail;
	for (unsigned level = 0; level < 4; level++) {
		uint64_t *e = (uint64_t *)machine_ptr(c->m, pfn_to_paddr(table)) + ((va >> shifts[level]) & 511);
		bool leaf = shifts[level] == PAGE_SHIFT || (*e & PTE_HUGE);

		null_of(c)->counts.walk_steps++;
		if (!(*e & PTE_PRESENT))
			return fail;
		if ((*e & need) != need || ((flags & ACCESS_EXEC) && (*e & PTE_NX)))
			return fail | ACCESS_PRESENT;
		way[level] = e;
		table = paddr_to_pfn(*e & PTE_ADDR_MASK);
		ASSERT(table.v < c->m->max_pfn);
		if (!leaf)
			continue;
		for (unsigned i = 0; i <= level; i++)
			*way[i] |= PTE_ACCESSED;
		if (flags & ACCESS_WRITE)
			*e |= PTE_DIRTY;
		*ret_pfn = pfn_add(table, (va & ((1ULL << shifts[level]) - 1)) >> PAGE_SHIFT);
		return 0;
	}
	return fail;
}

/* Make va accessible, with faults as needed, and say which frame it is. */
static int translate(struct cpu *c, vaddr_t va, unsigned flags, pfn_t *ret_pfn)
{
	struct null_counts *n = &null_of(c)->counts;

	for (unsigned try = 0; try < MAX_RETRIES; try++) {
		uint32_t code = walk(c, va, flags, ret_pfn);
		enum machine_path before;
		int err;

		if (!code)
			return 0;
		if (!c->m->hooks.fault)
			return -EFAULT;
		n->faults++;
		null_enter(c, ENTRY_EXCEPTION);
		null_leave(c, ENTRY_EXCEPTION);
		c->fault_start_ps = c->now_ps;
		before = null_cpu(c)->path;
		err = c->m->hooks.fault(c, va, code & ~(1U << 31));
		null_cpu(c)->path = before;
		if (err) {
			n->failed_faults++;
			return err;
		}
	}
	/* The hook said 'retry' again and again but never made the entry. */
	quire_bug(__FILE__, __LINE__, "fault hook makes progress");
}

static int null_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags)
{
	vaddr_t last = va + (size ? size - 1 : 0);

	if (last < va)
		return -EFAULT;
	for (vaddr_t page = va & PAGE_MASK; page <= last; page += PAGE_SIZE) {
		pfn_t p;
		int err = translate(c, MAX(page, va), flags, &p);

		if (err)
			return err;
		/* A program's store leaves the page 'not zero'; which value it was is known of scripted stores only. */
		if ((flags & ACCESS_WRITE) && !c->m->tags[p.v])
			c->m->tags[p.v] = NULL_TAG_STORED;
	}
	null_of(c)->counts.accesses++;
	null_of(c)->counts.writes += (flags & ACCESS_WRITE) != 0;
	return 0;
}

static int null_access_run(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags,
			   unsigned insns, uint64_t *ret_done)
{
	int err = 0;
	uint64_t i;

	for (i = 0; i < n && !err; i++)
		err = null_access(c, va + i * stride, size, flags);
	if (err)
		i--;
	null_of(c)->counts.insns += i * insns;
	*ret_done = i;
	return err;
}

static int null_load_value(struct cpu *c, vaddr_t va, uint64_t *ret_value)
{
	pfn_t p;
	int err = translate(c, va, ACCESS_USER, &p);

	if (err)
		return err;
	null_of(c)->counts.accesses++;
	*ret_value = c->m->tags[p.v];
	return 0;
}

static int null_store_value(struct cpu *c, vaddr_t va, uint64_t value)
{
	pfn_t p;
	int err = translate(c, va, ACCESS_USER | ACCESS_WRITE, &p);

	if (err)
		return err;
	null_of(c)->counts.accesses++;
	null_of(c)->counts.writes++;
	c->m->tags[p.v] = value;
	return 0;
}

static void null_load_context(struct cpu *c, pfn_t root, uint32_t ctx)
{
	(void)ctx;
	ASSERT(root.v < c->m->max_pfn);
	null_of(c)->counts.context_loads++;
	null_cpu(c)->root = root;
}

static void null_flush_local(struct cpu *c, const struct tlb_flush *f)
{
	null_of(c)->counts.local_flushes++;
	null_of(c)->counts.full_flushes += f->full;
}

static void null_flush_remote(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote)
{
	unsigned cpu, remote = 0;

	for_each_cpu(cpu, targets, c->m->nr_cpus)
		remote += cpu != c->id;
	null_of(c)->counts.remote_flushes++;
	null_of(c)->counts.full_flushes += f->full;
	null_of(c)->counts.ipis += c->m->broadcast_tlbi ? 0 : remote;
	*ret_remote = remote;
}

static void null_flush_issue(struct cpu *c, const struct tlb_flush *f)
{
	ASSERT(c->m->broadcast_tlbi);
	null_of(c)->counts.issued_flushes++;
	null_of(c)->counts.full_flushes += f->full;
}

static void null_flush_sync(struct cpu *c)
{
	ASSERT(c->m->broadcast_tlbi);
	null_of(c)->counts.flush_syncs++;
}

static int null_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns)
{
	struct null_machine *nm = null_of(c);

	ASSERT(nr && slot < c->m->swap_slots && nr <= c->m->swap_slots - slot);
	for (unsigned i = 0; i < nr; i++) {
		ASSERT(frames[i].v < c->m->max_pfn);
		if (write)
			nm->swap_tags[slot + i] = c->m->tags[frames[i].v];
		else
			c->m->tags[frames[i].v] = nm->swap_tags[slot + i];
	}
	*(write ? &nm->counts.swap_writes : &nm->counts.swap_reads) += nr;
	*ret_done_ns = null_now_ns(c);
	return 0;
}

static const struct machine_ops null_ops = {
	.kind = "null",
	.touch = null_touch,
	.work = null_work,
	.enter = null_enter,
	.leave = null_leave,
	.clear_page = null_clear_page,
	.copy_page = null_copy_page,
	.access = null_access,
	.access_run = null_access_run,
	.load_value = null_load_value,
	.store_value = null_store_value,
	.lock = null_lock,
	.trylock = null_trylock,
	.unlock = null_unlock,
	.read_lock = null_read_lock,
	.read_unlock = null_read_unlock,
	.write_lock = null_write_lock,
	.write_unlock = null_write_unlock,
	.downgrade = null_downgrade,
	.load_context = null_load_context,
	.flush_local = null_flush_local,
	.flush_remote = null_flush_remote,
	.flush_issue = null_flush_issue,
	.flush_sync = null_flush_sync,
	.swap_io = null_swap_io,
	.now_ns = null_now_ns,
	.resched = null_resched,
	.block = null_block,
	.wake = null_wake,
	.sleep_ns = null_sleep_ns,
	.task_start = null_task_start,
	.inject = NULL,
};

/* Nodes one after another from frame 0; CPUs shared out over the first nr_nodes of them. */
static void lay_out(struct machine *m, unsigned near, uint64_t node_frames)
{
	for (unsigned i = 0; i < m->nr_nodes; i++) {
		struct machine_node *n = &m->nodes[i];

		n->start_pfn = i * node_frames;
		n->end_pfn = n->start_pfn + node_frames;
		if (i < near) {
			n->first_cpu = i * m->nr_cpus / near;
			n->nr_cpus = (i + 1) * m->nr_cpus / near - n->first_cpu;
		}
		for (unsigned j = 0; j < m->nr_nodes; j++)
			m->distance[i][j] = i == j ? 10 : i < near && j < near ? 21 : 40;
	}
}

static int make_cpus(struct null_machine *nm)
{
	struct machine *m = &nm->m;

	m->cpus = calloc(m->nr_cpus, sizeof(*m->cpus));
	nm->cpu = calloc(m->nr_cpus, sizeof(*nm->cpu));
	if (!m->cpus || !nm->cpu)
		return -ENOMEM;
	for (unsigned i = 0; i < m->nr_cpus; i++) {
		struct null_cpu *nc = &nm->cpu[i];

		nc->c.m = m;
		nc->c.id = i;
		nc->c.run_until_ps = ~0ULL;
		for (unsigned node = 0; node < m->nr_nodes; node++)
			if (i - m->nodes[node].first_cpu < m->nodes[node].nr_cpus)
				nc->c.nid = (int32_t)node;
		m->cpus[i] = &nc->c;
	}
	return 0;
}

int null_create(const struct null_options *o, struct machine **ret, char *err, size_t errlen)
{
	unsigned cpus = o->nr_cpus ? o->nr_cpus : 1, near = o->nr_nodes ? o->nr_nodes : 1;
	uint64_t bytes = o->node_bytes ? o->node_bytes : 1ULL << 30;
	struct null_machine *nm;
	int res;

	if (cpus > QUIRE_MAX_CPUS || near > cpus || o->nr_far_nodes > MACHINE_MAX_NODES - 1 ||
	    near + o->nr_far_nodes > MACHINE_MAX_NODES || bytes % (SECTION_FRAMES << PAGE_SHIFT)) {
		snprintf(err, errlen, "null machine: at most %d CPUs and %d nodes, a CPU for each near node, memory in 128 MiB",
			 QUIRE_MAX_CPUS, MACHINE_MAX_NODES);
		return -EINVAL;
	}
	nm = calloc(1, sizeof(*nm));
	if (!nm) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	nm->m.ops = &null_ops;
	nm->m.name = "null";
	nm->m.nr_cpus = cpus;
	nm->m.nr_nodes = near + o->nr_far_nodes;
	nm->m.seed = o->seed;
	list_init(&nm->runnable);
	list_init(&nm->daemons);
	lay_out(&nm->m, near, bytes >> PAGE_SHIFT);
	res = machine_arena_create(&nm->m, nm->m.nr_nodes * (bytes >> PAGE_SHIFT), true, err, errlen);
	if (!res && (res = make_cpus(nm)))
		snprintf(err, errlen, "out of memory");
	nm->m.swap_slots = o->swap_bytes >> PAGE_SHIFT;
	nm->swap_tags = nm->m.swap_slots ? calloc(nm->m.swap_slots, sizeof(*nm->swap_tags)) : NULL;
	if (!res && nm->m.swap_slots && !nm->swap_tags) {
		snprintf(err, errlen, "out of memory");
		res = -ENOMEM;
	}
	if (res) {
		null_destroy(&nm->m);
		return res;
	}
	*ret = &nm->m;
	return 0;
}

void null_destroy(struct machine *m)
{
	struct null_machine *nm = (struct null_machine *)(void *)m;

	if (!m)
		return;
	machine_arena_destroy(m);
	free(m->cpus);
	free(nm->cpu);
	free(nm->swap_tags);
	free(nm);
}

const struct null_counts *null_counts(const struct machine *m)
{
	return &((const struct null_machine *)(const void *)m)->counts;
}

void null_counts_reset(struct machine *m)
{
	memset(&((struct null_machine *)(void *)m)->counts, 0, sizeof(struct null_counts));
}
