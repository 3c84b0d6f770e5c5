/*
 * The one table of declared differences: what Linux, or this version or configuration of it, does otherwise than the engine, and why. A
 * difference that no entry knows is an error of the engine until somebody shows that it is not.
 */
#include "fidelity/compare.h"

#include "base/compiler.h"
#include "base/types.h"

struct entry {
	struct fidelity_declared d;
	unsigned since, until; /* of kernels: major * 1000 + minor; until: the first without; 0: no bound */
	bool (*is)(const struct fidelity_case *a, const struct fidelity_diff *d);
};

static bool is_populating(enum script_op op)
{
	return op == SOP_MMAP || op == SOP_MADVISE || op == SOP_MLOCK || op == SOP_MLOCK2 || op == SOP_MREMAP || op == SOP_MPROTECT;
}

/* A page whose contents were looked at counts as referenced on Linux's side. */
static bool looked_at(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return a->contents_read && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED;
}

/* MADV_FREE marks what is on the LRU lists, and new pages get there in batches a CPU: when depends on what else the CPU does. */
static bool lazyfree_batch(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_FREE) && d->kind == FID_SMAPS && d->key == SMAP_LAZYFREE && d->kernel < d->engine;
}

/* What the kernel itself touches for a program is 'referenced' by a flag of the page. The engine has no lists of reclaim yet, and no such flag. */
static bool page_flag(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & (FIDELITY_SEEN_POPULATE | FIDELITY_SEEN_FILE)) && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED;
}

/* Seen now and then on a busy computer after a huge mapping was split; which path sets the mark is not established. */
static bool huge_flag(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_HUGE) && (a->ops_seen & FIDELITY_SEEN_FORK) && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED &&
	       d->kernel > d->engine;
}

/* Only those faults of a process are counted as major during which the lock was kept. */
static bool major_in_call(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_FAULTS && d->key == 1 && d->kernel < d->engine && is_populating(a->call->op);
}

/* pgfault has it, the process's own count has not. */
static bool failed_in_call(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_FAULTS && d->key == 0 && d->kernel == d->engine - 1 && is_populating(a->call->op);
}

/* File systems with large folios give a mapping that asked for huge pages folios as large as they fit; what is in one is mapped with it. */
static bool file_folios(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_HUGE) && (a->ops_seen & FIDELITY_SEEN_PLAIN_FILE) &&
	       (d->kind == FID_FAULTS || d->kind == FID_COUNT || (d->kind == FID_PAGES && a->ea && a->ea->file != SCRIPT_NONE &&
		!(d->key & (SPAGE_SWAP | SPAGE_HUGE))));
}

/* MADV_DONTNEED came over all that a table maps, and left it empty: a huge page may come where quire has a table. */
static bool empty_tables(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_DONTNEED_2M) && (a->ops_seen & FIDELITY_SEEN_HUGE) &&
	       ((d->kind == FID_FAULTS && !d->key && d->kernel < d->engine) || (d->kind == FID_PAGES && (a->kpage & ~a->epage & SPAGE_HUGE)));
}

/* Of a page in a huge mapping, pagemap's 'exclusively mapped' is that of the huge page's first part. */
static bool huge_exclusive(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_PAGES && d->key == SPAGE_EXCL && (a->kpage & a->epage & SPAGE_HUGE);
}

static bool locks_own(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return d->kind == FID_FAULTS && a->call->op == SOP_MLOCKALL;
}

static const struct entry table[] = {
	{ { "mlockall-own-memory", "locking all memory brings in what the process has beside the script's (its code, its stack): faults of that are no difference", false },
	  0, 0, locks_own },
	{ { "pagemap-huge-exclusive", "pagemap's bit 56 of every page of a huge mapping is that of its first page, whatever has become of the others", false },
	  0, 0, huge_exclusive },
	{ { "failed-faults-in-calls", "a fault that fails inside a call (behind the end of a file) counts in pgfault, but not in the process's own count, which is what can be read alone", false },
	  0, 0, failed_in_call },
	{ { "file-folios", "after MADV_HUGEPAGE Linux reads a file in folios of up to 2 MiB where the file system has them, and maps a folio at once; the engine's page cache has pages", true },
	  6001, 0, file_folios },
	{ { "empty-tables", "since 6.14 MADV_DONTNEED frees a page table that it has emptied, so that a huge page may come there; the engine keeps it until the area goes", true },
	  6014, 0, empty_tables },
	{ { "page-referenced", "Linux marks pages that it brought in for a call, or whose mapping of a file went, as referenced; the engine has no such mark before it has reclaim", false },
	  0, 0, page_flag },
	{ { "huge-referenced", "at times Linux has a huge page that a fork shares marked as referenced as a whole (cause not established); the engine has no such mark before it has reclaim", false },
	  0, 0, huge_flag },
	{ { "major-faults-in-calls", "a call's major fault for which the address space's lock was dropped is not in the process's own count of them", false },
	  0, 0, major_in_call },
	{ { "lazyfree-batches", "MADV_FREE frees lazily only pages that have left the CPU's batch of new pages, which depends on what else it does", false },
	  0, 0, lazyfree_batch },
	{ { "looking-references", "reading a page's contents, which the comparison itself does, counts as a reference in Linux", false },
	  0, 0, looked_at },
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
