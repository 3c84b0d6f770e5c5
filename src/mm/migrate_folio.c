/*
 * One folio's migration: unmap, move, undo.
 *
 * Between unmap and move both folios are locked and nothing maps either. Who has found src by other ways (the page cache, a
 * speculative reference) shows in its reference count, and then it stays where it is. An anonymous folio that only mappings knew cannot
 * be found any more; one of a page cache is frozen while its place in the cache goes to dst.
 * The reference count is looked at after the flush of the batch: until then stale translations could still be written through.
 * Locks: src's and dst's, the latter new, so never waited for; the file's inside.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/anon_vma.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/migrate.h"
#include "mm/rmap.h"
#include "mm/swap.h"
#include "mm/unmap.h"

/* What moves along with the contents. */
#define MIGRATE_KEEP                                                                                                    \
	(FRAME_ANON | FRAME_SWAPBACKED | FRAME_DIRTY | FRAME_REFERENCED | FRAME_ACTIVE | FRAME_UNEVICTABLE | FRAME_WORKINGSET | FRAME_LAZYFREE | \
	 FRAME_READAHEAD | FRAME_UNREAD | FRAME_REWRITTEN)

static void put_target(struct cpu *c, struct frame *dst, const struct migrate_target *t)
{
	if (t->put)
		t->put(c, dst, t->arg);
	else
		frame_put(c, dst);
}

/* false: somebody has it, or a device, and we may not wait. */
static bool lock_src(struct cpu *c, struct frame *src, enum migrate_mode mode)
{
	if (!folio_trylock(c, src)) {
		if (mode == MIGRATE_ASYNC)
			return false;
		folio_lock(c, src);
	}
	if (folio_in_transfer(c, src)) {
		if (mode != MIGRATE_SYNC) {
			folio_unlock(c, src);
			return false;
		}
		folio_wait_transfer(c, src);
	}
	return true;
}

/* An anonymous folio's anon_vma must outlive the time without mappings, in which nothing else keeps it. */
ATTR_NOINLINE int migrate_folio_unmap(struct cpu *c, struct frame *src, const struct migrate_target *t, enum migrate_mode mode,
				      struct tlb_batch *batch, struct migration *ret)
{
	enum machine_path prev = machine_work(c, PATH_MIGRATE_UNMAP, 1);
	int rc = 1;

	*ret = (struct migration){ .src = src };
	if (frame_refcount(src) == 1 && !folio_mapped(src))
		goto out; /* freed by its users meanwhile: only the isolation's reference is left */
	rc = -ENOMEM;
	ret->dst = t->get(c, src, t->arg);
	machine_path(c, PATH_MIGRATE_UNMAP);
	if (!ret->dst)
		goto out;
	rc = -EAGAIN;
	if (!lock_src(c, src, mode))
		goto put_dst;
	folio_lock(c, ret->dst); /* nobody else knows it */
	if (frame_flags(src) & FRAME_ANON)
		ret->anon_vma = folio_get_anon_vma(c, src);
	ret->was_mapped = folio_mapped(src);
	if (!ret->was_mapped || try_to_migrate(c, src, 0, batch)) {
		rc = 0;
		goto out;
	}
	(void)remove_migration_ptes(c, src, src, false);
	if (ret->anon_vma)
		anon_vma_put(c, ret->anon_vma);
	folio_unlock(c, src);
	folio_unlock(c, ret->dst);
put_dst:
	put_target(c, ret->dst, t);
	ret->dst = NULL;
out:
	machine_path(c, prev);
	return rc;
}

/* Only what is known refers to src: so nobody who unmapped it still waits for a flush either, and no CPU may reach it. */
static bool unused(struct cpu *c, struct frame *src)
{
	if (frame_refcount(src) != folio_expected_refs(src) + 1)
		return false;
	if (unlikely(c->q->check_unreachable != NULL))
		c->q->check_unreachable(c->q->check_arg, c, src, frame_nr_pages(src));
	return true;
}

static int copy_folio(struct cpu *c, struct frame *dst, const struct frame *src)
{
	enum machine_path prev = machine_work(c, PATH_COPY_PAGE, 0);
	uint64_t n = frame_nr_pages(src), done = 0;
	int rc = 0;

	while (done < n && !rc) {
		(void)machine_work(c, PATH_COPY_PAGE, 1);
		rc = machine_copy_page(c, frame_pfn(c->m, dst + done), frame_pfn(c->m, src + done));
		done += !rc;
	}
	vmstat_add(c, VM_quire_pages_copied, (int64_t)done);
	machine_path(c, prev);
	return rc;
}

/* What dst is from now on. Mapcounts and references follow with its mappings. */
static void take_over(struct cpu *c, struct frame *dst, struct frame *src)
{
	frame_touch(c, src, TOUCH_READ);
	frame_touch(c, dst, TOUCH_WRITE);
	dst->mapping = src->mapping;
	dst->index = src->index;
	frame_set(dst, frame_flags(src) & (MIGRATE_KEEP | FRAME_FILE));
}

/* src is known to nobody any more: no page of anything. */
static void forget_src(struct cpu *c, struct frame *src)
{
	folio_forget_isolated(c, src);
	frame_clear(src, MIGRATE_KEEP & ~FRAME_ANON);
}

static int move_anon(struct cpu *c, struct migration *g)
{
	if (!unused(c, g->src))
		return -EAGAIN;
	int rc = copy_folio(c, g->dst, g->src);

	if (rc)
		return rc;
	take_over(c, g->dst, g->src);
	forget_src(c, g->src);
	return 0;
}

/* A page of a file: copied first, then its place in the cache changes hands while nobody can take a reference. */
static int move_file(struct cpu *c, struct migration *g)
{
	int rc;

	if (!unused(c, g->src))
		return -EAGAIN;
	rc = copy_folio(c, g->dst, g->src);
	if (rc)
		return rc;
	take_over(c, g->dst, g->src);
	rc = file_replace(c, g->src, g->dst);
	if (rc)
		frame_clear(g->dst, MIGRATE_KEEP | FRAME_FILE);
	return rc;
}

/* A folio of the swap cache, likewise. */
static int move_swapped(struct cpu *c, struct migration *g)
{
	int rc = unused(c, g->src) ? copy_folio(c, g->dst, g->src) : -EAGAIN;

	if (rc)
		return rc;
	take_over(c, g->dst, g->src);
	rc = swap_cache_replace(c, g->src, g->dst);
	if (rc)
		frame_clear(g->dst, MIGRATE_KEEP);
	else
		forget_src(c, g->src);
	return rc;
}

ATTR_NOINLINE int migrate_folio_move(struct cpu *c, struct migration *g)
{
	enum machine_path prev = machine_work(c, PATH_MIGRATE_MOVE, 1);
	uint64_t flags = frame_flags(g->src);
	int rc = flags & FRAME_FILE ? move_file(c, g) : flags & FRAME_SWAPCACHE ? move_swapped(c, g) : move_anon(c, g);

	machine_path(c, PATH_MIGRATE_MOVE);
	if (!rc) {
		if (g->was_mapped)
			(void)remove_migration_ptes(c, g->src, g->dst, false);
		if (flags & FRAME_PARTIALLY_MAPPED) /* moved whole, so there is as much to be had by a split as before */
			rmap_partially_mapped(c, g->dst);
		folio_unlock(c, g->dst);
		folio_unlock(c, g->src);
		if (g->anon_vma)
			anon_vma_put(c, g->anon_vma);
		folio_add_lru(c, g->dst);
		frame_put(c, g->dst); /* the one that it came with */
	}
	machine_path(c, prev);
	return rc;
}

void migrate_folio_undo(struct cpu *c, struct migration *g, const struct migrate_target *t)
{
	if (g->was_mapped)
		(void)remove_migration_ptes(c, g->src, g->src, false);
	if (g->anon_vma)
		anon_vma_put(c, g->anon_vma);
	folio_unlock(c, g->src);
	folio_unlock(c, g->dst);
	put_target(c, g->dst, t);
}
