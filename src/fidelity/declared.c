/*
 * The one table of declared differences: what Linux, or this version or configuration of it, does otherwise than the engine, and why. A
 * difference that no entry knows is an error of the engine until somebody shows that it is not.
 */
#include "fidelity/compare.h"

#include "base/compiler.h"
#include "base/types.h"
#include "mm/uapi.h"
#include "script/kernel.h"

#include <errno.h>
#include <string.h>

#define WATCHED_PAGES 4
#define HPAGE_BYTES (2LL << 20)

struct entry {
	struct fidelity_declared d;
	unsigned since, until; /* of kernels: major * 1000 + minor; until: the first without; 0: no bound */
	bool (*is)(const struct fidelity_case *a, const struct fidelity_diff *d);
};

static bool is_plain_file(const struct fidelity_case *a, const struct script_area *v)
{
	return v && v->file < 64 && (a->plain_files >> v->file & 1);
}

/* MADV_FREE marks what is on the LRU lists, and new pages get there in batches a CPU: when depends on what else the CPU does. */
static bool lazyfree_batch(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_FREE) && d->kind == FID_SMAPS && d->key == SMAP_LAZYFREE && d->kernel < d->engine;
}

/*
 * File systems with large folios read a mapping that asked for huge pages in folios as large as they fit; what is in one is mapped with it. From the
 * first such area on: what is cached, what of it is mapped, and with how many faults. Since 6.16 ext4 has them also where it reads ahead of a sequence,
 * and where several pages are written at once: then what is used, written or marked for reading ahead is all of a folio.
 */
static bool file_folios(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	bool pages = d->kind == FID_PAGES && is_plain_file(a, a->ea) && !(d->key & (SPAGE_SWAP | SPAGE_HUGE));

	if (a->ops_seen & FIDELITY_SEEN_HUGE_FILE)
		return pages || d->kind == FID_FAULTS || d->kind == FID_COUNT;
	return (a->ops_seen & FIDELITY_SEEN_FOLIOS) && (pages || d->kind == FID_FAULTS || (d->kind == FID_SMAPS && is_plain_file(a, a->ea)));
}

/*
 * DAMON samples pages: it clears the accessed bits of all that map one and marks the page as young, which smaps then shows as Referenced wherever the
 * page, or the huge page that it is a part of, is mapped. A few pages at a time.
 */
static bool watched_memory(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	int64_t more = d->kernel - d->engine, most = WATCHED_PAGES * (a->ops_seen & FIDELITY_SEEN_HUGE ? HPAGE_BYTES : (int64_t)PAGE_SIZE);

	return a->kernel->watched && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED && more >= -most && more <= most;
}

static bool is_counter(const struct fidelity_diff *d, const char *name)
{
	return d->kind == FID_VMSTAT && !strcmp(script_kernel_counters[d->key], name);
}

static bool zero_page_kept(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	(void)a;
	return is_counter(d, "thp_zero_page_alloc") && d->kernel < d->engine;
}

static bool promise_kept(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_VMFLAGS && d->key == 1U << SVF_AC && (d->kernel & 1 << SVF_AC) && a->ea && !(a->ea->prot & 2);
}

/* Two areas on Linux, the promise in one of them, that are one here. */
static bool promise_apart(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	const struct script_area *k = a->ka, *next = a->knext, *e = a->ea;

	return d->kind == FID_AREAS && k && next && e && !(e->prot & 2) && k->prot == e->prot && next->prot == e->prot && k->start == e->start &&
	       k->end < e->end && next->start == k->end && ((k->vmflags ^ next->vmflags) & 1U << SVF_AC);
}

static bool none_not_summed(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_SMAPS && a->ea && !a->ea->prot && a->ea->smap[SMAP_ANONHUGEPAGES] && d->kernel < d->engine;
}

static bool no_lf(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	(void)a;
	return d->kind == FID_VMFLAGS && d->key == 1U << SVF_LF && (d->engine & 1 << SVF_LF);
}

static bool no_nh(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	if (d->kind == FID_AREAS && a->call->op == SOP_MMAP && (a->call->flags & UAPI_MAP_STACK))
		return d->kernel < d->engine;
	return d->kind == FID_VMFLAGS && d->key == 1U << SVF_NH && (d->engine & 1 << SVF_NH);
}

/* The entry of 2 MiB says so; the page behind it does not know. */
static bool huge_dirty_lost(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	if (!(a->ops_seen & FIDELITY_SEEN_HUGE) || d->kind != FID_SMAPS)
		return false;
	if (d->key == SMAP_PSS_DIRTY || d->key == SMAP_PRIVATE_DIRTY || d->key == SMAP_SHARED_DIRTY)
		return d->kernel < d->engine;
	return (d->key == SMAP_PRIVATE_CLEAN || d->key == SMAP_SHARED_CLEAN) && d->kernel > d->engine;
}

/* Of a huge page that an entry of 2 MiB maps: where all of it is one process's, or shared, both say the same. */
static bool double_map(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_PAGES && d->key == SPAGE_EXCL && ((a->kpage | a->epage) & SPAGE_HUGE) && !(a->epage & SPAGE_FILE);
}

/* The lists by generations count uses of a page, and what was used twice still counts as referenced. */
static bool generations(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return a->kernel->generations && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED && d->kernel > d->engine;
}

static bool huge_not_writable(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_HUGE) && d->kind == FID_FAULTS && !d->key && d->kernel == d->engine + 1 && a->call->op != SOP_MPROTECT;
}

/* With a neighbour on either side that it could join, but not both: on Linux the one below ends where the new area begins. */
static bool joins_right(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	uint64_t at = (uint64_t)a->e->ret;

	return d->kind == FID_AREAS && a->call->op == SOP_MMAP && a->e->ret >= 0 && d->kernel == d->engine && a->ka && a->ea && a->ka->end == at &&
	       a->ea->start == a->ka->start && a->ea->end == at + ALIGN_UP(a->call->len, PAGE_SIZE);
}

/* Those that met the page being read, at most all, where anything had to be. */
static bool retried_fault(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return a->plain_files && d->kind == FID_FAULTS && !d->key && d->kernel > d->engine && a->kmajor && d->kernel - d->engine <= d->engine;
}

static bool populate_error(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	(void)d;
	return a->call->op == SOP_MADVISE && (a->call->advice == UAPI_MADV_POPULATE_READ || a->call->advice == UAPI_MADV_POPULATE_WRITE) &&
	       a->e->ret == -ENOMEM && (a->k->ret == -EINVAL || a->k->ret == -ENOMEM);
}

static bool behind_end(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_FAILED_WRITE) && d->kind == FID_PAGES && d->key == SPAGE_INCORE && (d->kernel & SPAGE_INCORE) && a->ea &&
	       a->ea->file != SCRIPT_NONE;
}

/* Of anonymous memory both must say the same; where a file's pages become a huge one it shows in them. */
static bool collapsed_file(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	if (a->call->op != SOP_MADVISE || a->call->advice != UAPI_MADV_COLLAPSE || !(a->ops_seen & FIDELITY_SEEN_SHARED))
		return false;
	return (d->kind == FID_RESULT && d->engine == -EINVAL) ||
	       (d->kind == FID_PAGES && (d->key & SPAGE_HUGE) && (d->kernel & SPAGE_HUGE) && ((a->kpage | a->epage) & SPAGE_FILE));
}

static bool left_locked(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_LEFT_LOCKED) && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED && d->kernel > d->engine;
}

static bool pageout_ages(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_PAGEOUT) && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED && d->kernel < d->engine;
}

static bool locks_own(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->call->op == SOP_MLOCKALL || a->call->op == SOP_MUNLOCKALL) && d->kernel > d->engine &&
	       (is_counter(d, "unevictable_pgs_mlocked") || is_counter(d, "unevictable_pgs_munlocked"));
}

static bool no_gigantic(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return !a->kernel->gigantic && d->kind == FID_RESULT && d->kernel == -EINVAL && a->call->op == SOP_MMAP &&
	       (a->call->flags & UAPI_MAP_HUGETLB) && a->call->flags >> UAPI_MAP_HUGE_SHIFT == 30;
}

static const struct entry table[] = {
	{ { "no-gigantic-pages", "this computer's CPUs have no pages of 1 GiB, which the engine's always have", false },
	  0, 0, no_gigantic },
	{ { "huge-zero-page-kept", "Linux keeps its huge page of zeroes from one process to the next while there is memory; the engine is a new one in each script", false },
	  0, 0, zero_page_kept },
	{ { "promise-kept", "Linux 6.1 keeps the promise of memory (ac) of an untouched area that mprotect makes read-only; 6.12 and the engine give it back", false },
	  0, 6012, promise_kept },
	{ { "promise-apart", "Linux 6.1: a read-only area that still has its promise does not merge with one that never had any", true },
	  0, 6012, promise_apart },
	{ { "unreadable-huge-not-summed", "smaps of Linux 6.1 leaves out what an entry of 2 MiB maps without rights", false },
	  0, 6012, none_not_summed },
	{ { "no-lock-on-fault-flag", "smaps of Linux 6.1 does not show that an area is locked as it is touched (lf)", false },
	  0, 6012, no_lf },
	{ { "stack-areas-huge", "before 6.7 MAP_STACK did not keep huge pages away (nh), so such an area may merge with others", true },
	  0, 6007, no_nh },
	{ { "double-mapped", "in Linux 6.1 and 6.12 pagemap's bit 56 of a part of a huge page goes by counts of its own, or by those of the first part", false },
	  0, 6018, double_map },
	{ { "generations", "where lru_gen is on Linux keeps a page that was used twice marked as referenced; the engine has the lists without generations", false },
	  6001, 0, generations },
	{ { "huge-not-writable", "before 6.2 mprotect never made an entry of 2 MiB writable at once: the next write takes a fault", false },
	  0, 6002, huge_not_writable },
	{ { "huge-dirty-lost", "mprotect of Linux 6.12 forgets that an entry of 2 MiB is dirty (6.1 and 6.18 do not), and smaps goes by it", false },
	  6006, 6018, huge_dirty_lost },
	{ { "new-area-joins-right", "a new area between two that it could join, but not both, joins the upper one in Linux 6.1, the lower one in 6.12 and the engine", true },
	  0, 6012, joins_right },
	{ { "retried-faults", "a fault that waits for a file without the lock is made again, which /proc/vmstat of Linux 6.1 counts again", false },
	  0, 6012, retried_fault },
	{ { "populate-errors", "where MADV_POPULATE_* meets no area Linux 6.1 may answer EINVAL, or go on to the next area first; 6.12 and the engine stop with ENOMEM", true },
	  0, 6012, populate_error },
	{ { "locks-own-memory", "locking and unlocking all memory is counted for the process's own (its code, its stack) too", false },
	  0, 0, locks_own },
	{ { "pageout-ages", "MADV_PAGEOUT of Linux 6.1 takes the accessed bits of pages that it cannot write out; 6.12 and the engine give them back as used", false },
	  0, 6012, pageout_ages },
	{ { "left-locked", "MREMAP_DONTUNMAP in a locked area takes the area's lock and leaves its pages' in Linux, where they stay as they were marked; the engine unlocks them", false },
	  0, 0, left_locked },
	{ { "collapsed-file", "MADV_COLLAPSE makes huge pages of shared memory and files; the engine's page cache has base pages and refuses", true },
	  6001, 0, collapsed_file },
	{ { "page-behind-end", "write(2) at the end of a file, from memory that is not there, leaves a page behind the end, which mincore sees; the engine has none there", true },
	  6016, 0, behind_end },
	{ { "file-folios", "after MADV_HUGEPAGE, and since 6.16 (ext4) where it reads ahead of a sequence or several pages are written, Linux has a file in folios of several pages, used, marked and mapped at once; the engine's page cache has pages", true },
	  6001, 0, file_folios },
	{ { "watched-memory", "DAMON watches this computer's memory: a page that it samples gains or loses its mark of use in every process that maps it", false },
	  0, 0, watched_memory },
	{ { "lazyfree-batches", "MADV_FREE frees lazily only pages that have left the CPU's batch of new pages, and before 6.1 nothing empties all batches at once for a look", false },
	  0, 6001, lazyfree_batch },
};

const struct fidelity_declared *fidelity_judge(const struct fidelity_case *about, const struct fidelity_diff *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct entry *t = &table[i];

		if (t->since && about->kernel->version < t->since)
			continue;
		if (t->until && about->kernel->version >= t->until)
			continue;
		if (t->is(about, d))
			return &t->d;
	}
	return NULL;
}

size_t fidelity_declared_index(const struct fidelity_declared *d)
{
	return (size_t)((const struct entry *)(const void *)d - table);
}

const struct fidelity_declared *fidelity_declared_at(size_t i)
{
	return i < ARRAY_SIZE(table) ? &table[i].d : NULL;
}
