/* Two results and two observations, field by field. Every difference is judged by the table of declared ones as it is found. */
#include "fidelity/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/types.h"
#include "script/kernel.h"
#include "script/ops.h"

#define REGION (1ULL << 40) /* how far below the top of the mmap region, and above the heap's start, addresses belong to it */

#define BELOW_ARENA (1ULL << 30)

const char *const fidelity_kind_names[NR_FIDELITY_KINDS] = {
	[FID_RESULT] = "result", [FID_SIGNAL] = "signal",   [FID_VALUE] = "value", [FID_COUNT] = "count",	  [FID_AREAS] = "areas",
	[FID_VMFLAGS] = "flags", [FID_SMAPS] = "smaps",	    [FID_PAGES] = "pages", [FID_CONTENTS] = "contents", [FID_FAULTS] = "faults",
	[FID_VMSTAT] = "vmstat", [FID_NODE] = "node",
};

uint64_t fidelity_translate(const struct fidelity_places *k, const struct fidelity_places *e, uint64_t addr)
{
	if (addr + BELOW_ARENA >= k->arena && addr <= k->arena + k->arena_len)
		return addr - k->arena + e->arena;
	if (k->heap && addr >= k->heap && addr - k->heap < REGION)
		return addr - k->heap + e->heap;
	if (addr <= k->top && k->top - addr < REGION)
		return addr - k->top + e->top;
	return addr;
}

/* ---- putting down ---- */

ATTR_PRINTF(3, 4) static void found(struct fidelity_compare *c, struct fidelity_diff *d, const char *fmt, ...)
{
	struct fidelity_diffs *all = c->diffs;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->text, sizeof(d->text), fmt, ap);
	va_end(ap);
	/* What follows from a difference that ends the comparison belongs to it. */
	d->declared = all->nr && all->v[0].declared && all->v[0].declared->ends ? all->v[0].declared : fidelity_judge(&c->about, d);
	if (!d->declared)
		all->nr_undeclared++;
	if (all->nr < FIDELITY_DIFFS)
		all->v[all->nr++] = *d;
	else if (!d->declared && all->nr_undeclared == 1)
		all->v[FIDELITY_DIFFS - 1] = *d;
}

static void result_text(struct fidelity_compare *c, const struct script_call *call, int64_t r, char *buf, size_t len)
{
	const char *name = r < 0 && r > -4096 ? script_errno_name((int)-r) : NULL;

	if (name)
		snprintf(buf, len, "-%s", name);
	else if (r < 0 && r > -4096)
		snprintf(buf, len, "errno %" PRId64, -r);
	else if (call->op == SOP_MMAP || call->op == SOP_MREMAP || call->op == SOP_BRK || call->op == SOP_SBRK)
		script_run_label(c->run, (uint64_t)r, buf, len);
	else
		snprintf(buf, len, "%" PRId64, r);
}

static const char *signal_name(int sig)
{
	return !sig ? "no signal" : sig == 11 ? "SIGSEGV" : sig == 7 ? "SIGBUS" : "a signal";
}

static bool gives_address(const struct script_call *call, int64_t r)
{
	return r >= 0 && (call->op == SOP_MMAP || call->op == SOP_MREMAP || call->op == SOP_BRK || call->op == SOP_SBRK);
}

void fidelity_compare_results(struct fidelity_compare *c, const struct script_call *kcall, const struct script_result *k,
			      const struct script_result *e)
{
	struct fidelity_diff d = { .proc = kcall->proc };
	int64_t kr = gives_address(kcall, k->ret) ? (int64_t)fidelity_translate(&c->k, &c->e, (uint64_t)k->ret) : k->ret;
	char kt[80], et[80];

	if (kr != e->ret && kcall->op != SOP_FORK) {
		d.kind = FID_RESULT;
		d.kernel = kr;
		d.engine = e->ret;
		result_text(c, kcall, kr, kt, sizeof(kt));
		result_text(c, kcall, e->ret, et, sizeof(et));
		found(c, &d, "Linux returned %s, quire %s", kt, et);
	}
	if (k->signal != e->signal) {
		d.kind = FID_SIGNAL;
		d.kernel = k->signal;
		d.engine = e->signal;
		found(c, &d, "%s on Linux, %s on quire", signal_name(k->signal), signal_name(e->signal));
	}
	if (k->value != e->value) {
		d.kind = FID_VALUE;
		d.kernel = k->value;
		d.engine = e->value;
		found(c, &d, "the page holds %#" PRIx64 " on Linux, %#" PRIx64 " on quire", (uint64_t)k->value, (uint64_t)e->value);
	}
	if (k->count != e->count) {
		d.kind = FID_COUNT;
		d.kernel = (int64_t)k->count;
		d.engine = (int64_t)e->count;
		found(c, &d, "%" PRIu64 " pages or accesses on Linux, %" PRIu64 " on quire", k->count, e->count);
	}
}

/* ---- areas ---- */

static void area_text(struct fidelity_compare *c, const struct script_area *a, char *buf, size_t len)
{
	char from[80], to[80], file[64] = "";

	if (!a) {
		snprintf(buf, len, "no area");
		return;
	}
	script_run_label(c->run, a->start, from, sizeof(from));
	script_run_label(c->run, a->end, to, sizeof(to));
	if (a->file != SCRIPT_NONE)
		snprintf(file, sizeof(file), " of file %u at %" PRIu64, a->file, a->off);
	snprintf(buf, len, "%s..%s %c%c%c%c%s", from, to, a->prot & 1 ? 'r' : '-', a->prot & 2 ? 'w' : '-', a->prot & 4 ? 'x' : '-',
		 a->shared ? 's' : 'p', file);
}

/* The kernel's area with the engine's addresses. */
static struct script_area translated(const struct fidelity_compare *c, const struct script_area *a)
{
	struct script_area t = *a;

	t.start = fidelity_translate(&c->k, &c->e, a->start);
	t.end = fidelity_translate(&c->k, &c->e, a->end - 1) + 1;
	return t;
}

static bool same_area(const struct script_area *a, const struct script_area *b)
{
	return a->start == b->start && a->end == b->end && a->prot == b->prot && a->shared == b->shared && a->file == b->file && a->off == b->off;
}

/* The first place at which the lists differ; false: they are equal. */
static bool areas_differ(struct fidelity_compare *c, const struct script_obs *k, const struct script_obs *e)
{
	struct fidelity_diff d = { .kind = FID_AREAS, .proc = k->proc, .kernel = (int64_t)k->nr_areas, .engine = (int64_t)e->nr_areas };
	size_t nr = MAX(k->nr_areas, e->nr_areas);

	for (size_t i = 0; i < nr; i++) {
		const struct script_area *ea = i < e->nr_areas ? &e->area[i] : NULL;
		struct script_area ka = { 0 }, knext = { 0 };
		char kt[256], et[256];

		if (i < k->nr_areas)
			ka = translated(c, &k->area[i]);
		if (ea && i < k->nr_areas && same_area(&ka, ea))
			continue;
		area_text(c, i < k->nr_areas ? &ka : NULL, kt, sizeof(kt));
		area_text(c, ea, et, sizeof(et));
		if (i + 1 < k->nr_areas)
			knext = translated(c, &k->area[i + 1]);
		c->about.ka = i < k->nr_areas ? &ka : NULL;
		c->about.knext = i + 1 < k->nr_areas ? &knext : NULL;
		c->about.ea = ea;
		if (ea)
			d.start = ea->start, d.end = ea->end;
		found(c, &d, "process %u, area %zu: %s on Linux, %s on quire", k->proc, i, kt, et);
		c->about.ka = c->about.knext = c->about.ea = NULL;
		return true;
	}
	return false;
}

/* ---- inside of areas ---- */

static void flags_text(uint32_t flags, char *buf, size_t len)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < NR_SCRIPT_VMFLAGS && n + 4 < len; i++)
		if (flags >> i & 1)
			n += (size_t)snprintf(buf + n, len - n, "%s%s", n ? " " : "", script_vmflag_names[i]);
}

static void compare_flags(struct fidelity_compare *c, struct fidelity_diff *d, const struct script_area *k, const struct script_area *e,
			  const char *where)
{
	char kt[80], et[80];

	if (!k->vmflags || !e->vmflags || k->vmflags == e->vmflags)
		return;
	d->kind = FID_VMFLAGS;
	d->key = k->vmflags ^ e->vmflags;
	d->kernel = k->vmflags;
	d->engine = e->vmflags;
	flags_text(k->vmflags & d->key, kt, sizeof(kt));
	flags_text(e->vmflags & d->key, et, sizeof(et));
	found(c, d, "process %u, area %s: only Linux has the flags (%s), only quire (%s)", d->proc, where, kt, et);
}

static void compare_smaps(struct fidelity_compare *c, struct fidelity_diff *d, const struct script_area *k, const struct script_area *e,
			  const char *where)
{
	d->kind = FID_SMAPS;
	for (uint32_t i = 0; i < NR_SCRIPT_SMAPS; i++) {
		if (k->smap[i] >> 10 == e->smap[i] >> 10) /* Linux tells whole kB */
			continue;
		d->key = i;
		d->kernel = (int64_t)k->smap[i];
		d->engine = (int64_t)e->smap[i];
		found(c, d, "process %u, area %s: %s is %" PRIu64 " on Linux, %" PRIu64 " on quire", d->proc, where, script_smap_names[i],
		      k->smap[i], e->smap[i]);
	}
}

static void page_text(uint8_t bits, char *buf, size_t len)
{
	static const struct {
		uint8_t bit;
		const char *word;
	} words[] = { { SPAGE_PRESENT, "present" }, { SPAGE_SWAP, "swapped" }, { SPAGE_FILE, "file" }, { SPAGE_EXCL, "exclusive" },
		      { SPAGE_HUGE, "huge" }, { SPAGE_INCORE, "in core" } };
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (bits & words[i].bit)
			n += (size_t)snprintf(buf + n, len - n, "%s%s", n ? ", " : "", words[i].word);
	if (!n)
		snprintf(buf, len, "nothing");
}

/* The first page that differs in a way that is not declared, or the first that differs at all. */
static void compare_pages(struct fidelity_compare *c, struct fidelity_diff *d, const struct script_area *k, const struct script_area *e,
			  uint8_t mask)
{
	uint64_t pages = (e->end - e->start) >> PAGE_SHIFT, shown = 0;
	size_t undeclared = c->diffs->nr_undeclared;
	char at[80], kt[100], et[100];

	for (uint64_t i = 0; i < pages && c->diffs->nr_undeclared == undeclared && shown < 4096; i++) {
		uint8_t kb = k->page[i], eb = e->page[i];

		c->about.kpage = kb;
		c->about.epage = eb;
		script_run_label(c->run, e->start + (i << PAGE_SHIFT), at, sizeof(at));
		if ((kb ^ eb) & mask) {
			d->kind = FID_PAGES;
			d->key = (kb ^ eb) & mask;
			d->kernel = kb & mask;
			d->engine = eb & mask;
			page_text(kb & mask, kt, sizeof(kt));
			page_text(eb & mask, et, sizeof(et));
			found(c, d, "process %u, page %s: %s on Linux, %s on quire", d->proc, at, kt, et);
			shown++;
		}
		if (k->node && e->node && k->node[i] >= 0 && e->node[i] >= 0 && k->node[i] != e->node[i]) {
			d->kind = FID_NODE;
			d->key = 0;
			d->kernel = k->node[i];
			d->engine = e->node[i];
			found(c, d, "process %u, page %s is on node %d on Linux, %d on quire", d->proc, at, k->node[i], e->node[i]);
			shown++;
		}
		if (k->value && e->value && (kb & eb & SPAGE_VALUE) && k->value[i] != e->value[i]) {
			d->kind = FID_CONTENTS;
			d->key = 0;
			d->kernel = (int64_t)k->value[i];
			d->engine = (int64_t)e->value[i];
			found(c, d, "process %u, page %s holds %#" PRIx64 " on Linux, %#" PRIx64 " on quire", d->proc, at, k->value[i], e->value[i]);
			shown++;
		}
	}
}

static void compare_area(struct fidelity_compare *c, const struct script_obs *ko, const struct script_obs *eo, size_t i)
{
	const struct script_area *k = &ko->area[i], *e = &eo->area[i];
	struct fidelity_diff d = { .proc = ko->proc, .start = e->start, .end = e->end };
	unsigned what = ko->what & eo->what;
	char where[256];

	c->about.ka = k;
	c->about.ea = e;
	area_text(c, e, where, sizeof(where));
	if (e->file < 64 && (c->about.plain_files >> e->file & 1) && (e->vmflags >> SVF_HG & 1))
		c->about.ops_seen |= FIDELITY_SEEN_HUGE_FILE;
	if (e->folios)
		c->about.ops_seen |= FIDELITY_SEEN_FOLIOS;
	compare_flags(c, &d, k, e, where);
	if ((what & (SOBS_PAGES | SOBS_CONTENTS)) && k->page && e->page)
		compare_pages(c, &d, k, e, (uint8_t)~(SPAGE_VALUE | (c->about.kernel->pagemap_scan ? 0 : SPAGE_HUGE) | (c->programs_only ? SPAGE_EXCL : 0)));
	if ((what & SOBS_SMAPS) && !c->programs_only)
		compare_smaps(c, &d, k, e, where);
}

/* ---- counters ---- */

static int64_t counter(const struct script_obs *o, const char *name)
{
	for (size_t i = 0; i < o->nr_vmstat; i++)
		if (!strcmp(o->vmstat[i].name, name))
			return o->vmstat[i].delta;
	return 0;
}

/* Calls that bring pages in beside their work, and say nothing when they can't. */
static bool faults_in(enum script_op op)
{
	switch (op) {
	case SOP_MMAP:
	case SOP_MLOCK:
	case SOP_MLOCK2:
	case SOP_MLOCKALL:
	case SOP_MREMAP:
	case SOP_MPROTECT:
	case SOP_BRK:
	case SOP_SBRK:
		return true;
	default:
		return false;
	}
}

/*
 * The engine's counters are /proc/vmstat's; what can be read of one process on Linux are its own, and they leave out: a fault that failed; and that a
 * fault inside of a call that populates was major, since it lets go of the lock while it reads, and when it is begun anew the page is there (madvise's
 * MADV_POPULATE_* insist, and keep that in mind).
 */
static void own_counts(const struct fidelity_compare *c, const struct script_obs *e, int64_t ret[2])
{
	ret[0] = counter(e, "pgfault") - counter(e, "quire_fault_sigbus") - counter(e, "quire_fault_oom");
	ret[1] = faults_in(c->about.call->op) ? 0 : counter(e, "pgmajfault");
}

static void compare_counters(struct fidelity_compare *c, const struct script_obs *k, const struct script_obs *e)
{
	struct fidelity_diff d = { .proc = k->proc };
	int64_t own[2];

	own_counts(c, e, own);
	c->about.ka = c->about.ea = NULL;
	c->about.kmajor = counter(k, "pgmajfault");
	/* The first two are known of a process alone, too. */
	for (uint32_t i = 0; (i < 2 || c->owned) && script_kernel_counters[i]; i++) {
		d.kind = i < 2 ? FID_FAULTS : FID_VMSTAT;
		d.key = i;
		d.kernel = counter(k, script_kernel_counters[i]);
		d.engine = i < 2 && !c->owned ? own[i] : counter(e, script_kernel_counters[i]);
		if (d.kernel != d.engine && d.kernel != SCRIPT_COUNTER_UNKNOWN)
			found(c, &d, "process %u: %s rose by %" PRId64 " on Linux, by %" PRId64 " on quire", k->proc, script_kernel_counters[i],
			      d.kernel, d.engine);
	}
}

void fidelity_compare_obs(struct fidelity_compare *c, const struct script_obs *k, const struct script_obs *e)
{
	if ((k->what & e->what & SOBS_VMSTAT) && !c->programs_only && k->proc == c->about.call->proc)
		compare_counters(c, k, e);
	if (areas_differ(c, k, e))
		return;
	for (size_t i = 0; i < e->nr_areas; i++)
		compare_area(c, k, e, i);
}
