/*
 * The one table of declared differences: what Linux, or this version or configuration of it, does otherwise than the engine, and why. A
 * difference that no entry knows is an error of the engine until somebody shows that it is not.
 */
#include "fidelity/compare.h"

#include "base/compiler.h"
#include "base/types.h"

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
 * first such area on: what is cached, what of it is mapped, and with how many faults.
 */
static bool file_folios(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	return (a->ops_seen & FIDELITY_SEEN_HUGE_FILE) &&
	       (d->kind == FID_FAULTS || d->kind == FID_COUNT ||
		(d->kind == FID_PAGES && is_plain_file(a, a->ea) && !(d->key & (SPAGE_SWAP | SPAGE_HUGE))));
}

/*
 * DAMON samples pages: it clears the accessed bits of all that map one and marks the page as young, which smaps then shows as Referenced wherever the
 * page, or the huge page that it is a part of, is mapped. A few pages at a time.
 */
static bool watched_memory(const struct fidelity_case *a, const struct fidelity_diff *d)
{
	int64_t more = d->kernel - d->engine, most = WATCHED_PAGES * (a->ops_seen & FIDELITY_SEEN_HUGE ? HPAGE_BYTES : (int64_t)PAGE_SIZE);

	return a->kernel->watched && d->kind == FID_SMAPS && d->key == SMAP_REFERENCED && more > 0 && more <= most;
}

static const struct entry table[] = {
	{ { "file-folios", "after MADV_HUGEPAGE Linux reads a file in folios of up to 2 MiB where the file system has them, and maps a folio at once; the engine's page cache has pages", true },
	  6001, 0, file_folios },
	{ { "watched-memory", "DAMON watches this computer's memory: a page that it samples counts as referenced in every process that maps it, used or not", false },
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
