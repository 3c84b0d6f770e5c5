/* What is seen of the engine: areas, pages, sums, counters. Looks at the tables without a charge where the engine has a way to. */
#include "script/engine_int.h"

#include "machine/run.h"
#include "mm/ledger.h"
#include "mm/lru.h"
#include "mm/smaps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INCORE_PAGES (1ULL << 18) /* asked for at once */

/* ---- areas ---- */

static const struct {
	uint64_t vm;
	enum script_vmflag flag;
} vmflags[] = {
	{ VM_READ, SVF_RD }, { VM_WRITE, SVF_WR }, { VM_EXEC, SVF_EX }, { VM_SHARED, SVF_SH }, { VM_MAYREAD, SVF_MR }, { VM_MAYWRITE, SVF_MW },
	{ VM_MAYEXEC, SVF_ME }, { VM_GROWSDOWN, SVF_GD }, { VM_LOCKED, SVF_LO }, { VM_LOCKONFAULT, SVF_LF }, { VM_SEQ_READ, SVF_SR },
	{ VM_RAND_READ, SVF_RR }, { VM_DONTCOPY, SVF_DC }, { VM_DONTEXPAND, SVF_DE }, { VM_ACCOUNT, SVF_AC }, { VM_NORESERVE, SVF_NR },
	{ VM_WIPEONFORK, SVF_WF }, { VM_DONTDUMP, SVF_DD }, { VM_HUGEPAGE, SVF_HG }, { VM_NOHUGEPAGE, SVF_NH },
};

struct look {
	struct engine *x;
	struct cpu *c;
	struct mm *mm;
	unsigned what;
	struct script_obs *ret;
	int rc;
};

/* The stack that every process begins with is not the script's. */
static bool is_ours(const struct mm *mm, const struct vma *v)
{
	return !(v->end == mm->stack_top && (v->flags & VM_STACK));
}

static uint32_t file_number(const struct engine *x, const struct vma *v)
{
	return v->file && v->file->id - 1 < x->nr_files ? (uint32_t)(v->file->id - 1) : SCRIPT_NONE;
}

static int look_pages(struct look *l, const struct vma *v, struct script_area *a)
{
	uint64_t nr = (v->end - v->start) >> PAGE_SHIFT;
	const struct machine *m = l->x->m;
	uint8_t *vec = malloc(nr);

	if (!vec)
		return -ENOMEM;
	(void)mm_mincore(l->c, l->mm, v->start, v->end - v->start, vec);
	for (uint64_t i = 0; i < nr; i++) {
		struct mm_page_info p;
		const struct frame *f, *head;

		a->page[i] = vec[i] & 1 ? SPAGE_INCORE : 0;
		mm_page_info(l->mm, v->start + (i << PAGE_SHIFT), &p);
		if (!p.present)
			continue;
		f = frame_of(m, p.pfn);
		head = frame_head(m, (struct frame *)(uintptr_t)f);
		a->page[i] |= SPAGE_PRESENT | (p.huge ? SPAGE_HUGE : 0);
		if (p.zero_page) {
			a->page[i] |= p.huge ? SPAGE_FILE : 0; /* as pagemap has it: not an anonymous page */
		} else {
			/* pagemap's bit 56 of every page under a huge entry is that of its first page, whatever has become of the others. */
			int maps = (p.huge ? head : f)->mapcount + 1 + (head->flags & FRAME_HEAD ? head->entire_mapcount + 1 : 0);

			a->page[i] |= (uint8_t)((p.anon ? 0 : SPAGE_FILE) | (maps == 1 ? SPAGE_EXCL : 0));
			if (a->node)
				a->node[i] = (int8_t)frame_nid(f);
		}
		if (a->value) {
			a->page[i] |= SPAGE_VALUE;
			a->value[i] = p.zero_page ? 0 : engine_frame_value(m, p.pfn);
		}
	}
	free(vec);
	return 0;
}

static void look_area(void *arg, const struct vma *v, const struct mm_smaps *s)
{
	struct look *l = arg;
	struct script_area *a;

	if (l->rc || !is_ours(l->mm, v))
		return;
	a = script_obs_add(l->ret, v->start, v->end, l->what);
	if (!a) {
		l->rc = -ENOMEM;
		return;
	}
	a->prot = (uint8_t)((v->flags & VM_READ ? 1 : 0) | (v->flags & VM_WRITE ? 2 : 0) | (v->flags & VM_EXEC ? 4 : 0));
	a->shared = (v->flags & VM_SHARED) != 0;
	a->file = file_number(l->x, v);
	a->off = a->file == SCRIPT_NONE ? 0 : v->pgoff << PAGE_SHIFT;
	a->folios = v->file && v->file->ra_folios;
	for (size_t i = 0; i < ARRAY_SIZE(vmflags); i++)
		if (v->flags & vmflags[i].vm)
			a->vmflags |= 1U << vmflags[i].flag;
	if (l->what & SOBS_SMAPS)
		memcpy(a->smap, s->bytes, sizeof(a->smap));
	if (a->page)
		l->rc = look_pages(l, v, a);
}

_Static_assert((int)NR_SMAPS_LINES == (int)NR_SCRIPT_SMAPS, "the same lines in the same order");

static int look_vmstat(struct engine *x, struct script_obs *ret)
{
	ret->vmstat = calloc(NR_VM_COUNTERS, sizeof(*ret->vmstat));
	if (!ret->vmstat)
		return -ENOMEM;
	for (unsigned i = 0; i < NR_VM_COUNTERS; i++) {
		int64_t now = vmstat_read(x->q, (enum vm_counter)i), delta = now - x->seen[i];

		x->seen[i] = now;
		if (i == VM_quire_thp_freed || i == VM_quire_thp_freed_unwritten) /* only known where contents are tags */
			continue;
		if (delta)
			ret->vmstat[ret->nr_vmstat++] = (struct script_counter_delta){ .name = vm_counter_names[i], .delta = delta };
	}
	return 0;
}

/* On Linux contents are read as a debugger reads them, which leaves its traces: after all else has been seen. */
static void read_contents(struct look *l)
{
	for (size_t i = 0; i < l->ret->nr_areas; i++) {
		const struct script_area *a = &l->ret->area[i];

		for (uint64_t at = 0; a->page && at < (a->end - a->start) >> PAGE_SHIFT; at++)
			if (a->page[at] & SPAGE_VALUE)
				mm_look(l->c, l->mm, a->start + (at << PAGE_SHIFT));
	}
}

static uint64_t pages_of(const struct mm *mm)
{
	uint64_t nr = 0;

	for (const struct vma *v = vma_first(mm); v; v = vma_next(v))
		nr += is_ours(mm, v) ? (v->end - v->start) >> PAGE_SHIFT : 0;
	return nr;
}

int engine_observe(struct script_exec *sx, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen)
{
	struct engine *x = engine_of(sx);
	struct look l = { .x = x, .c = x->m->cpus[x->procs[proc].cpu], .mm = x->procs[proc].mm, .what = what, .ret = ret };

	lru_add_drain_all(l.c); /* as the kernel's side has its CPUs do before it looks */
	script_obs_clear(ret);
	ret->proc = proc;
	if (l.mm && (what & (SOBS_PAGES | SOBS_CONTENTS)) && pages_of(l.mm) > SCRIPT_OBS_MAX_PAGES)
		l.what &= ~(unsigned)(SOBS_PAGES | SOBS_CONTENTS | SOBS_NODES);
	ret->what = l.what;
	if (what & SOBS_VMSTAT)
		l.rc = look_vmstat(x, ret);
	if (!l.rc && l.mm && (what & (SOBS_AREAS | SOBS_SMAPS | SOBS_PAGES | SOBS_CONTENTS)))
		mm_smaps_each(l.mm, look_area, &l);
	if (!l.rc && (l.what & SOBS_CONTENTS))
		read_contents(&l);
	if (l.rc) {
		script_obs_clear(ret);
		snprintf(err, errlen, "out of memory");
	}
	return l.rc;
}

/* ---- counters ---- */

int engine_mark(struct script_exec *sx, char *err, size_t errlen)
{
	struct engine *x = engine_of(sx);

	(void)err, (void)errlen;
	for (unsigned i = 0; i < NR_VM_COUNTERS; i++)
		x->mark[i] = vmstat_read(x->q, (enum vm_counter)i);
	x->mark_ns = machine_now_ns(machine_boot_cpu(x->m));
	return 0;
}

int64_t engine_phys(const struct engine *x)
{
	const struct quire *q = x->q;
	int64_t frames = 0;

	for (unsigned n = 0; n < x->m->nr_nodes; n++)
		for (unsigned z = 0; z < NR_ZONES; z++) {
			frames += (int64_t)(q->nodes[n].zones[z].managed - q->nodes[n].zones[z].free_pages);
			for (unsigned i = 0; i < x->m->nr_cpus; i++)
				frames -= q->percpu[i]->pcp[n * NR_ZONES + z].total;
		}
	frames -= vmstat_read(q, VM_nr_page_table_pages) + vmstat_read(q, VM_nr_slab_pages) + vmstat_read(q, VM_nr_kernel_misc_pages);
	frames -= q->huge_zero ? (int64_t)HPAGE_PMD_NR : 0;
	return frames * (int64_t)PAGE_SIZE - x->phys_at_begin;
}

int64_t engine_incore(struct cpu *c, struct mm *mm, uint64_t addr, uint64_t len, uint64_t *ret_count)
{
	uint64_t pages = (len >> PAGE_SHIFT) + !IS_ALIGNED(len, PAGE_SIZE), n;
	uint8_t *vec = malloc(MIN(pages, INCORE_PAGES) + 1);
	int64_t rc = vec ? 0 : -EAGAIN; /* as Linux says it */

	/* Everything that is wrong with the range itself is found before the first page. */
	if (!rc && (!len || len > TASK_SIZE || addr > TASK_SIZE - len))
		rc = mm_mincore(c, mm, addr, len, vec);
	for (*ret_count = 0; !rc && pages; pages -= n, addr += n << PAGE_SHIFT) {
		n = MIN(pages, INCORE_PAGES);
		rc = mm_mincore(c, mm, addr, n << PAGE_SHIFT, vec);
		for (uint64_t i = 0; i < n && !rc; i++)
			*ret_count += vec[i] & 1;
	}
	free(vec);
	return rc;
}

static int wrong_args(const char *usage, char *err, size_t errlen)
{
	snprintf(err, errlen, "is used as %s", usage);
	return -EINVAL;
}

static bool starts(const char *name, const char *with, const char **ret_rest)
{
	size_t n = strlen(with);

	*ret_rest = name + n;
	return !strncmp(name, with, n);
}

static int vmstat_counter(const struct engine *x, const char *name, bool since, int64_t *ret, char *err, size_t errlen)
{
	for (unsigned i = 0; i < NR_VM_COUNTERS; i++)
		if (!strcmp(name, vm_counter_names[i])) {
			*ret = vmstat_read(x->q, (enum vm_counter)i) - (since ? x->mark[i] : 0);
			return 0;
		}
	snprintf(err, errlen, "vmstat.NAME has the names of /proc/vmstat that the engine counts, and quire_...");
	return -ENOENT;
}

/* Faults by kind since the mark. */
static int fault_counter(const struct engine *x, const char *name, int64_t *ret, char *err, size_t errlen)
{
	static const struct {
		const char *name;
		enum vm_counter c[2];
	} kinds[] = {
		{ "base", { VM_quire_fault_anon_4k, NR_VM_COUNTERS } }, { "huge", { VM_quire_fault_anon_2m, NR_VM_COUNTERS } },
		{ "zero", { VM_quire_fault_zero_4k, VM_quire_fault_zero_2m } }, { "cow", { VM_quire_fault_cow_4k, VM_quire_fault_cow_2m } },
		{ "reuse", { VM_quire_fault_reuse_4k, VM_quire_fault_reuse_2m } }, { "file", { VM_quire_fault_file, NR_VM_COUNTERS } },
		{ "all", { VM_pgfault, NR_VM_COUNTERS } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(name, kinds[i].name))
			continue;
		*ret = 0;
		for (unsigned j = 0; j < 2 && kinds[i].c[j] != NR_VM_COUNTERS; j++)
			*ret += vmstat_read(x->q, kinds[i].c[j]) - x->mark[kinds[i].c[j]];
		return 0;
	}
	snprintf(err, errlen, "faults.NAME is one of base, huge, zero, cow, reuse, file, all");
	return -ENOENT;
}

struct sum {
	unsigned line;
	uint64_t addr; /* ~0: all areas */
	int64_t bytes;
};

static void sum_area(void *arg, const struct vma *v, const struct mm_smaps *s)
{
	struct sum *sum = arg;

	if (sum->addr == UINT64_MAX || (sum->addr >= v->start && sum->addr < v->end))
		sum->bytes += (int64_t)s->bytes[sum->line];
}

static int smaps_counter(const struct mm *mm, const char *name, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	struct sum sum = { .addr = r->nr ? (uint64_t)r->arg[0] : UINT64_MAX };

	if (r->nr > 1)
		return wrong_args("smaps.LINE or smaps.LINE(ADDR)", err, errlen);
	while (sum.line < NR_SMAPS_LINES && strcmp(name, smaps_line_names[sum.line]))
		sum.line++;
	if (sum.line == NR_SMAPS_LINES) {
		snprintf(err, errlen, "smaps.NAME has the lines of /proc/PID/smaps: Rss, Pss, AnonHugePages, ...");
		return -ENOENT;
	}
	mm_smaps_each(mm, sum_area, &sum);
	*ret = sum.bytes;
	return 0;
}

static void count_leaf(void *arg, vaddr_t va, pte_t e, unsigned shift)
{
	(void)va, (void)e, (void)shift;
	++*(int64_t *)arg;
}

static void no_table(void *arg, struct frame *t, unsigned shift, uint64_t nr_entries, bool deposited)
{
	(void)arg, (void)t, (void)shift, (void)nr_entries, (void)deposited;
}

/* Entries that a reader of smaps has to look at. */
static int smaps_entries(const struct mm *mm, int64_t *ret)
{
	*ret = 0;
	pt_visit(mm, &(struct pt_visitor){ .arg = ret, .leaf = count_leaf, .table = no_table });
	return 0;
}

/* Pages of a range that are present, or mapped by huge entries, or on a node. */
static int pages_counter(const struct engine *x, struct mm *mm, const char *name, const struct script_counter_ref *r, int64_t *ret, char *err,
			 size_t errlen)
{
	bool node = !strcmp(name, "node"), huge = !strcmp(name, "huge");
	uint64_t addr, pages;

	if (!node && !huge && strcmp(name, "present")) {
		snprintf(err, errlen, "pages.NAME is one of present(A, LEN), huge(A, LEN), node(A, LEN, NODE)");
		return -ENOENT;
	}
	if (r->nr != (node ? 3 : 2))
		return wrong_args(node ? "pages.node(A, LEN, NODE)" : "pages.present(A, LEN) or pages.huge(A, LEN)", err, errlen);
	addr = (uint64_t)r->arg[0] & PAGE_MASK;
	pages = ((uint64_t)r->arg[1] + PAGE_SIZE - 1) >> PAGE_SHIFT;
	if (r->arg[1] < 0 || pages > SCRIPT_MAX_ACCESSES)
		return wrong_args("a range of at most 256G", err, errlen);
	for (*ret = 0; pages; pages--, addr += PAGE_SIZE) {
		struct mm_page_info i;

		mm_page_info(mm, addr, &i);
		*ret += i.present && (!huge || i.huge) && (!node || frame_nid(frame_of(x->m, i.pfn)) == r->arg[2]);
	}
	return 0;
}

static int frame_at(const struct engine *x, struct mm *mm, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	struct mm_page_info i;

	(void)x;
	if (r->nr != 1)
		return wrong_args("pages.frame(A)", err, errlen);
	mm_page_info(mm, (uint64_t)r->arg[0] & PAGE_MASK, &i);
	*ret = i.present ? (int64_t)i.pfn.v : -1;
	return 0;
}

/* Pages of the ledger: mm/ledger.h. */
static int ledger_counter(const struct engine *x, const char *name, int64_t *ret, char *err, size_t errlen)
{
	struct quire_ledger l;

	quire_ledger(x->q, &l);
	const struct {
		const char *name;
		uint64_t value;
	} lines[] = {
		{ "rss", l.rss }, { "shared", l.shared }, { "unmapped", l.unmapped }, { "cache", l.cache }, { "held", l.held }, { "user", l.user },
		{ "tables", l.tables }, { "charge", l.charge }, { "queued", l.queued }, { "huge", l.huge }, { "unwritten", l.unwritten },
		{ "adds_up", l.adds_up },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!strcmp(name, lines[i].name)) {
			*ret = (int64_t)lines[i].value;
			return 0;
		}
	snprintf(err, errlen, "ledger.NAME is one of rss, shared, unmapped, cache, held, user, tables, charge (pages), queued, huge (huge pages), "
			      "unwritten (their parts), adds_up (0 or 1)");
	return -ENOENT;
}

/* Time that faults have spent, by phase: since the run began. */
static int phase_counter(const struct engine *x, const char *name, int64_t *ret, char *err, size_t errlen)
{
	struct fault_phases p;

	if (!strcmp(name, "all")) {
		*ret = (int64_t)quire_fault_time_ns(x->q);
		return 0;
	}
	for (unsigned i = 0; i < NR_FAULT_PHASES; i++) {
		if (strcmp(name, fault_phase_names[i]))
			continue;
		*ret = 0;
		for (unsigned k = 0; k < NR_FAULT_KINDS; k++) {
			quire_fault_phases(x->q, (enum fault_kind)k, &p);
			*ret += (int64_t)p.sum[i];
		}
		return 0;
	}
	snprintf(err, errlen, "phase_ns.NAME is one of wait, alloc, reclaim, compact, clear, copy, map, all");
	return -ENOENT;
}

/* Flushes that a CPU made others take part in, and took part in for others: since the run began. */
static int flush_counter(const struct engine *x, const char *name, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	bool sent = !strcmp(name, "sent");

	if (!sent && strcmp(name, "received")) {
		snprintf(err, errlen, "flushes.NAME is one of sent(CPU), received(CPU)");
		return -ENOENT;
	}
	if (r->nr != 1 || r->arg[0] < 0 || r->arg[0] >= x->m->nr_cpus)
		return wrong_args("flushes.sent(CPU) or flushes.received(CPU), of a CPU of this machine", err, errlen);
	const struct percpu *pc = x->q->percpu[r->arg[0]];

	*ret = sent ? pc->vmstat.v[VM_nr_tlb_remote_flush] : (int64_t)pc->flushes_received;
	return 0;
}

static int64_t areas(const struct mm *mm)
{
	int64_t n = 0;

	for (const struct vma *v = vma_first(mm); v; v = vma_next(v))
		n += is_ours(mm, v);
	return n;
}

/* What the last call of boot did. */
static int boot_counter(const struct workload_boot *b, const char *name, int64_t *ret, char *err, size_t errlen)
{
	const struct {
		const char *name;
		uint64_t value;
	} lines[] = {
		{ "descriptors", b->descriptors }, { "reserved", b->reserved }, { "early", b->early }, { "grown", b->grown },
		{ "gigantic", b->gigantic }, { "free", b->free }, { "early_ns", b->early_ns }, { "gigantic_ns", b->gigantic_ns },
		{ "ready_ns", b->ready_ns }, { "sum_ns", b->sum_ns }, { "slowest_ns", b->slowest_ns },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!strcmp(name, lines[i].name)) {
			*ret = (int64_t)lines[i].value;
			return 0;
		}
	snprintf(err, errlen, "boot.NAME is one of descriptors, reserved, early, grown, gigantic, free, early_ns, gigantic_ns, ready_ns, sum_ns, "
			      "slowest_ns");
	return -ENOENT;
}

/* Names without arguments. */
static bool plain_counter(const struct engine *x, const struct mm *mm, const char *name, int64_t *ret)
{
	int64_t anon = mm_rss(mm, RSS_ANON), file = mm_rss(mm, RSS_FILE), shmem = mm_rss(mm, RSS_SHMEM);
	const struct {
		const char *name;
		int64_t value;
	} plain[] = {
		{ "rss", (anon + file + shmem) * (int64_t)PAGE_SIZE }, { "rss.anon", anon * (int64_t)PAGE_SIZE },
		{ "rss.file", file * (int64_t)PAGE_SIZE }, { "rss.shmem", shmem * (int64_t)PAGE_SIZE },
		{ "rss.peak", mm_rss_peak(mm) * (int64_t)PAGE_SIZE }, { "page_tables", mm->pgtables_bytes },
		{ "locked", (int64_t)(mm->locked_vm << PAGE_SHIFT) }, { "cpus", x->m->nr_cpus }, { "nodes", x->m->nr_nodes },
	};

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (!strcmp(name, plain[i].name)) {
			*ret = plain[i].value;
			return true;
		}
	if (!strcmp(name, "phys"))
		*ret = engine_phys(x);
	else if (!strcmp(name, "areas"))
		*ret = areas(mm);
	else if (!strcmp(name, "time_ns"))
		*ret = (int64_t)(machine_now_ns(machine_boot_cpu(x->m)) - x->mark_ns);
	else
		return false;
	return true;
}

int engine_counter(struct script_exec *sx, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	struct engine *x = engine_of(sx);
	struct mm *mm = x->procs[r->proc].mm;
	uint64_t count = 0;
	const char *rest;

	if (!mm) {
		snprintf(err, errlen, "the process has ended");
		return -EINVAL;
	}
	if (!r->nr && plain_counter(x, mm, r->name, ret))
		return 0;
	if (!r->nr && starts(r->name, "vmstat.", &rest))
		return vmstat_counter(x, rest, true, ret, err, errlen);
	if (!r->nr && starts(r->name, "vmstat_now.", &rest))
		return vmstat_counter(x, rest, false, ret, err, errlen);
	if (!r->nr && starts(r->name, "faults.", &rest))
		return fault_counter(x, rest, ret, err, errlen);
	if (!r->nr && starts(r->name, "ledger.", &rest))
		return ledger_counter(x, rest, ret, err, errlen);
	if (!r->nr && starts(r->name, "boot.", &rest))
		return boot_counter(&x->boot, rest, ret, err, errlen);
	if (!r->nr && starts(r->name, "phase_ns.", &rest))
		return phase_counter(x, rest, ret, err, errlen);
	if (starts(r->name, "flushes.", &rest))
		return flush_counter(x, rest, r, ret, err, errlen);
	if (!strcmp(r->name, "pages.frame"))
		return frame_at(x, mm, r, ret, err, errlen);
	if (starts(r->name, "zone.", &rest))
		return engine_zone_counter(x, rest, r, ret, err, errlen);
	if (!strcmp(r->name, "smaps.entries"))
		return smaps_entries(mm, ret);
	if (starts(r->name, "smaps.", &rest))
		return smaps_counter(mm, rest, r, ret, err, errlen);
	if (starts(r->name, "pages.", &rest))
		return pages_counter(x, mm, rest, r, ret, err, errlen);
	if (!strcmp(r->name, "mincore")) {
		if (r->nr != 2)
			return wrong_args("mincore(A, LEN)", err, errlen);
		*ret = engine_incore(x->m->cpus[x->procs[r->proc].cpu], mm, (uint64_t)r->arg[0], (uint64_t)r->arg[1], &count);
		if (!*ret)
			*ret = (int64_t)count;
		return 0;
	}
	snprintf(err, errlen, "the engine has rss, rss.anon, rss.file, rss.shmem, rss.peak, phys, areas, page_tables, locked, cpus, nodes, "
			      "time_ns, vmstat.NAME, vmstat_now.NAME, faults.NAME, ledger.NAME, boot.NAME, phase_ns.NAME, flushes.NAME(CPU), smaps.LINE, "
			      "pages.NAME(...), zone.NAME.WHAT, mincore(A, LEN)");
	return -ENOENT;
}
