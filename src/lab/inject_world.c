/*
 * One run of a script on a machine of its own: its steps as calls of the engine, and what must be true after each.
 *
 * What was stored is remembered by address space and address, follows fork and mremap, and is looked for in the frames without
 * an access of its own, which would bring lost pages back as zeroes.
 */
#include "base/compiler.h"
#include "lab/inject_check.h"
#include "machine/null.h"
#include "mm/fault.h"
#include "mm/gup.h"
#include "mm/lru.h"
#include "mm/system.h"
#include "mm/uapi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_BYTES (128ULL << 20)
#define MAX_MMS 4
#define MAX_PINS 1024
#define MAX_STORED 16384
#define FILE_PAGES 64

struct stored {
	unsigned mm;
	vaddr_t va;
	uint64_t value;
};

struct iworld {
	const struct inject_script *script;
	struct machine *m;
	struct quire *q;
	struct cpu *c;
	struct inject *in;
	struct mm *mms[MAX_MMS];
	unsigned nr_mms, current;
	struct mfile *file, *shm;
	pfn_t pins[MAX_PINS];
	uint64_t nr_pins, free_at_boot, next_value;
	struct stored *stored;
	size_t nr_stored;
	char *err;
	size_t errlen;
};

static const char *const op_names[] = {
	[OP_END] = "end", [OP_MMAP] = "mmap", [OP_MMAP_FILE] = "mmap of a file", [OP_MMAP_SHM] = "mmap of shared memory",
	[OP_STORE] = "store", [OP_LOAD] = "load", [OP_MUNMAP] = "munmap", [OP_MPROTECT] = "mprotect", [OP_MREMAP] = "mremap",
	[OP_MADVISE] = "madvise", [OP_MLOCK] = "mlock", [OP_MUNLOCK] = "munlock", [OP_MLOCKALL] = "mlockall",
	[OP_MUNLOCKALL] = "munlockall", [OP_PIN] = "pin", [OP_UNPIN] = "unpin", [OP_EXEC] = "exec", [OP_BRK] = "brk",
	[OP_FORK] = "fork", [OP_SWITCH] = "switch", [OP_EXIT] = "exit", [OP_READ] = "read", [OP_WRITE] = "write",
	[OP_POOL] = "nr_hugepages",
};

/* ---- what was stored ---- */

static const struct vma *area_at(const struct iworld *w, unsigned mm, vaddr_t va)
{
	const struct vma *v = vma_find(w->c, w->mms[mm], va);

	return v && v->start <= va ? v : NULL;
}

static void forget(struct iworld *w, unsigned mm, vaddr_t a, uint64_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->nr_stored; i++)
		if (w->stored[i].mm != mm || w->stored[i].va - a >= n)
			w->stored[kept++] = w->stored[i];
	w->nr_stored = kept;
}

static void remember(struct iworld *w, vaddr_t va, uint64_t value)
{
	const struct vma *v = area_at(w, w->current, va);

	/* What several share changes without this address space's doing. */
	if (v && (v->flags & VM_SHARED))
		return;
	forget(w, w->current, va, PAGE_SIZE);
	if (w->nr_stored < MAX_STORED)
		w->stored[w->nr_stored++] = (struct stored){ w->current, va, value };
}

static void stored_moved(struct iworld *w, vaddr_t from, uint64_t n, vaddr_t to)
{
	forget(w, w->current, to, n);
	for (size_t i = 0; i < w->nr_stored; i++)
		if (w->stored[i].mm == w->current && w->stored[i].va - from < n)
			w->stored[i].va += to - from;
}

static void stored_forked(struct iworld *w, unsigned child)
{
	size_t nr = w->nr_stored;

	for (size_t i = 0; i < nr && w->nr_stored < MAX_STORED; i++) {
		const struct vma *v = area_at(w, child, w->stored[i].va);

		if (w->stored[i].mm != w->current || !v || (v->flags & VM_WIPEONFORK))
			continue;
		w->stored[w->nr_stored] = w->stored[i];
		w->stored[w->nr_stored++].mm = child;
	}
}

/* ---- steps ---- */

static int64_t do_stores(struct iworld *w, const struct inject_step *s)
{
	for (vaddr_t va = s->a; va < s->a + s->n; va += PAGE_SIZE) {
		uint64_t value = ++w->next_value;
		int rc = w->m->ops->store_value(w->c, va, value);

		if (rc)
			return rc;
		remember(w, va, value);
	}
	return 0;
}

static int64_t do_loads(struct iworld *w, const struct inject_step *s)
{
	uint64_t value;
	int rc = 0;

	for (vaddr_t va = s->a; va < s->a + s->n && !rc; va += PAGE_SIZE)
		rc = w->m->ops->load_value(w->c, va, &value);
	return rc;
}

static int64_t do_mmap(struct iworld *w, const struct inject_step *s)
{
	struct mfile *f = s->op == OP_MMAP_FILE ? w->file : s->op == OP_MMAP_SHM ? w->shm : NULL;
	unsigned flags = s->flags | UAPI_MAP_FIXED | (f ? 0 : UAPI_MAP_ANONYMOUS);
	int64_t r;

	if (!(flags & UAPI_MAP_TYPE))
		flags |= UAPI_MAP_PRIVATE;
	r = mm_mmap(w->c, w->mms[w->current], s->a, s->n, (unsigned)s->b, flags, f, 0);
	if (r >= 0)
		forget(w, w->current, s->a, s->n);
	return r;
}

static int64_t do_mremap(struct iworld *w, const struct inject_step *s)
{
	int64_t r = mm_mremap(w->c, w->mms[w->current], s->a, s->n, s->b, s->flags, s->to);

	if (r >= 0) {
		forget(w, w->current, s->a + s->b, s->n > s->b ? s->n - s->b : 0);
		if ((vaddr_t)r != s->a)
			stored_moved(w, s->a, s->n, (vaddr_t)r);
	}
	return r;
}

static int64_t do_madvise(struct iworld *w, const struct inject_step *s)
{
	int64_t r = mm_madvise(w->c, w->mms[w->current], s->a, s->n, (int)s->b);

	if (r >= 0 && (s->b == UAPI_MADV_DONTNEED || s->b == UAPI_MADV_FREE))
		forget(w, w->current, s->a, s->n);
	return r;
}

static int64_t do_munmap(struct iworld *w, const struct inject_step *s)
{
	int64_t r = mm_munmap(w->c, w->mms[w->current], s->a, s->n);

	if (r >= 0)
		forget(w, w->current, s->a, s->n);
	return r;
}

static int64_t do_fork(struct iworld *w)
{
	int64_t r = mm_fork(w->c, w->mms[w->current], &w->mms[w->nr_mms]);

	if (r >= 0)
		stored_forked(w, w->nr_mms++);
	return r;
}

static int64_t do_exit(struct iworld *w, const struct inject_step *s)
{
	mm_put(w->c, w->mms[s->a]);
	w->mms[s->a] = NULL;
	forget(w, (unsigned)s->a, 0, ~0ULL);
	return 0;
}

static int64_t do_pin(struct iworld *w, const struct inject_step *s)
{
	uint64_t n = s->n >> PAGE_SHIFT;
	int rc = mm_pin(w->c, w->mms[w->current], s->a, n, s->b != 0, w->pins + w->nr_pins);

	w->nr_pins += rc ? 0 : n;
	return rc;
}

static int64_t do_unpin(struct iworld *w)
{
	mm_unpin(w->c, w->pins, w->nr_pins);
	w->nr_pins = 0;
	return 0;
}

/* The break that holds afterwards says whether it worked. */
static int64_t do_brk(struct iworld *w, const struct inject_step *s)
{
	if (mm_brk(w->c, w->mms[w->current], s->a) != (int64_t)s->a)
		return -ENOMEM;
	forget(w, w->current, s->a, 1ULL << 30);
	return 0;
}

static int64_t do_step(struct iworld *w, const struct inject_step *s)
{
	struct mm *mm = w->mms[w->current];

	switch (s->op) {
	case OP_END:
		return 0;
	case OP_MMAP:
	case OP_MMAP_FILE:
	case OP_MMAP_SHM:
		return do_mmap(w, s);
	case OP_STORE:
		return do_stores(w, s);
	case OP_LOAD:
		return do_loads(w, s);
	case OP_MUNMAP:
		return do_munmap(w, s);
	case OP_MPROTECT:
		return mm_mprotect(w->c, mm, s->a, s->n, (unsigned)s->b);
	case OP_MREMAP:
		return do_mremap(w, s);
	case OP_MADVISE:
		return do_madvise(w, s);
	case OP_MLOCK:
		return mm_mlock(w->c, mm, s->a, s->n, s->b != 0);
	case OP_MUNLOCK:
		return mm_munlock(w->c, mm, s->a, s->n);
	case OP_MLOCKALL:
		return mm_mlockall(w->c, mm, (unsigned)s->b);
	case OP_MUNLOCKALL:
		return mm_munlockall(w->c, mm);
	case OP_PIN:
		return do_pin(w, s);
	case OP_UNPIN:
		return do_unpin(w);
	case OP_EXEC:
		return mm_setup_exec(w->c, mm, s->b, s->a, s->n);
	case OP_BRK:
		return do_brk(w, s);
	case OP_FORK:
		return do_fork(w);
	case OP_SWITCH:
		w->current = (unsigned)s->a;
		mm_activate(w->c, w->mms[s->a]);
		return 0;
	case OP_EXIT:
		return do_exit(w, s);
	case OP_POOL:
		return hugetlb_set_pool(w->c, (enum hugetlb_size)s->b, NID_NONE, s->n) == s->n ? 0 : -ENOMEM;
	case OP_READ:
	case OP_WRITE:
		return file_rw(w->c, w->file, s->a, s->n, s->op == OP_WRITE);
	}
	return -ENOSYS;
}

/* ---- what must be true ---- */

/* Errnos that a step may give when a call inside of it failed. */
static bool documented(enum inject_op op, enum inject_site kind, int64_t r)
{
	bool contents = kind == INJECT_COPY || kind == INJECT_IO; /* a page that cannot be had, with memory or without */

	switch (op) {
	case OP_STORE:
	case OP_LOAD:
	case OP_PIN:
		return contents ? r == -EFAULT : r == -ENOMEM;
	case OP_MADVISE:
		return r == -ENOMEM || r == -EAGAIN || (contents && r == -EFAULT);
	case OP_MLOCK:
		return contents ? r == -ENOMEM : r == -ENOMEM || r == -EAGAIN;
	case OP_FORK:
		return kind == INJECT_COPY ? r == -EHWPOISON : r == -ENOMEM;
	case OP_READ:
	case OP_WRITE:
		return kind == INJECT_IO ? r == -EIO : r == -ENOMEM;
	case OP_MMAP:
	case OP_MMAP_FILE:
	case OP_MMAP_SHM:
	case OP_MUNMAP:
	case OP_MPROTECT:
	case OP_MREMAP:
	case OP_BRK:
	case OP_EXEC:
	case OP_MUNLOCK:
	case OP_POOL:
		return !contents && r == -ENOMEM;
	default:
		return false;
	}
}

static bool all_or_nothing(const struct inject_step *s)
{
	switch (s->op) {
	case OP_MMAP:
	case OP_MMAP_FILE:
	case OP_MMAP_SHM:
	case OP_MUNMAP:
	case OP_PIN:
	case OP_EXEC:
	case OP_BRK:
	case OP_FORK:
		return true;
	case OP_MREMAP: /* MREMAP_FIXED takes away what is in the way first, and shrinking comes before moving */
		return !(s->flags & UAPI_MREMAP_FIXED);
	default:
		return false;
	}
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x9e3779b97f4a7c15ULL + (h >> 29);
}

/* All areas of all address spaces, and what is promised. */
static uint64_t fingerprint(const struct iworld *w)
{
	uint64_t h = w->q->committed_pages;

	for (unsigned i = 0; i < w->nr_mms; i++) {
		const struct mm *mm = w->mms[i];

		if (!mm)
			continue;
		h = mix(mix(mix(h, mm->total_vm), mm->locked_vm), mm->brk);
		for (const struct vma *v = vma_first(mm); v; v = vma_next(v))
			h = mix(mix(mix(mix(h, v->start), v->end), v->flags), v->pgoff);
	}
	return h;
}

static int wrong(struct iworld *w, const struct inject_step *s, const char *what)
{
	char detail[200];

	snprintf(detail, sizeof(detail), "%s", what);
	snprintf(w->err, w->errlen, "%s at 0x%" PRIx64 " (step %zu): %s", op_names[s->op], s->a, (size_t)(s - w->script->steps) + 1,
		 detail);
	return -EPROTO;
}

static int check_state(struct iworld *w, const struct inject_step *s)
{
	char text[120];

	if (quire_validate(w->q))
		return wrong(w, s, w->q->err);
	if (null_locks_held(w->c))
		return wrong(w, s, "a lock is still held");
	for (size_t i = 0; i < w->nr_stored; i++) {
		const struct stored *st = &w->stored[i];
		struct mm_page_info p;

		mm_page_info(w->mms[st->mm], st->va, &p);
		if (p.present && p.tag == st->value)
			continue;
		snprintf(text, sizeof(text), "address space %u: what was stored at 0x%" PRIx64 " is %s", st->mm, st->va,
			 p.present ? "something else" : "gone");
		return wrong(w, s, text);
	}
	return 0;
}

/* A step, again when a call in it was made to fail. */
static int run_step(struct iworld *w, const struct inject_step *s, enum inject_outcome *outcome)
{
	uint64_t before = fingerprint(w);
	struct inject_point p;
	bool failed_before = inject_point_failed(w->in, &p), failed;
	int64_t r = do_step(w, s);
	char text[100];

	failed = inject_point_failed(w->in, &p) && !failed_before;
	if (!failed)
		return r >= 0 ? 0 : wrong(w, s, strerror((int)-r));
	*outcome = r < 0 ? INJECT_REPORTED : INJECT_ABSORBED;
	if (r < 0 && !documented(s->op, p.kind, r)) {
		snprintf(text, sizeof(text), "ends in %s, which is not documented for that", strerror((int)-r));
		return wrong(w, s, text);
	}
	if (r < 0 && all_or_nothing(s) && fingerprint(w) != before)
		return wrong(w, s, "failed, but areas are not what they were");
	if (check_state(w, s))
		return -EPROTO;
	if (r >= 0)
		return 0;
	r = do_step(w, s);
	if (r < 0) {
		snprintf(text, sizeof(text), "repeated without a failure: %s", strerror((int)-r));
		return wrong(w, s, text);
	}
	return 0;
}

/* ---- life ---- */

static uint64_t drained_free(struct iworld *w)
{
	lru_add_drain(w->c);
	slab_drain(w->c);
	pcp_drain(w->c);
	return memory_free_pages(w->q, NID_NONE);
}

static int set_up(struct iworld *w)
{
	const struct null_options o = { .node_bytes = w->script->node_bytes ? w->script->node_bytes : NODE_BYTES };
	int rc = null_create(&o, &w->m, w->err, w->errlen);

	if (rc)
		return rc;
	rc = quire_boot(w->m, NULL, &w->q, w->err, w->errlen);
	if (rc)
		return rc;
	w->c = w->m->cpus[0];
	w->q->knobs.thp_enabled = w->script->huge ? THP_ALWAYS : THP_NEVER;
	w->q->knobs.huge_cow = w->script->huge_cow_copy ? HUGE_COW_COPY : HUGE_COW_SPLIT;
	w->q->knobs.fork_tables = w->script->shared_tables ? FORK_TABLES_SHARED : FORK_TABLES_COPIED;
	w->q->hugetlb.h[HUGETLB_2M].overcommit = w->script->overcommit_2m;
	w->free_at_boot = drained_free(w);
	w->stored = calloc(MAX_STORED, sizeof(*w->stored));
	if (!w->stored)
		return -ENOMEM;
	rc = file_create(w->c, w->q, 0, FILE_PAGES * PAGE_SIZE, false, &w->file);
	if (!rc)
		rc = file_create(w->c, w->q, 0, FILE_PAGES * PAGE_SIZE, true, &w->shm);
	if (!rc)
		rc = mm_create(w->c, w->q, &w->mms[0]);
	if (!rc) {
		w->nr_mms = 1;
		mm_activate(w->c, w->mms[0]);
	}
	return rc;
}

/* Everything goes, and has to have come back. */
static int tear_down(struct iworld *w, bool check)
{
	uint64_t now;
	int rc = 0;

	if (w->nr_pins)
		do_unpin(w);
	mm_activate(w->c, NULL);
	for (unsigned i = 0; i < w->nr_mms; i++)
		if (w->mms[i])
			mm_put(w->c, w->mms[i]);
	if (w->file)
		file_put(w->c, w->file);
	if (w->shm)
		file_put(w->c, w->shm);
	(void)hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 0);
	(void)hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 0);
	if (check && quire_validate(w->q)) {
		snprintf(w->err, w->errlen, "at the end: %s", w->q->err);
		return -EPROTO;
	}
	now = drained_free(w) + (w->q->huge_zero ? HPAGE_PMD_NR : 0);
	if (check && now != w->free_at_boot) {
		snprintf(w->err, w->errlen, "at the end: %" PRId64 " frames are missing", (int64_t)(w->free_at_boot - now));
		return -EPROTO;
	}
	rc = quire_shutdown(w->q);
	if (check && rc) {
		snprintf(w->err, w->errlen, "at the end: something is left over");
		return -EPROTO;
	}
	return 0;
}

static int run_steps(struct iworld *w, enum inject_outcome *outcome)
{
	enum inject_outcome o = INJECT_NOT_MET;
	int rc = 0;

	for (const struct inject_step *s = w->script->steps; !rc && s->op != OP_END; s++)
		rc = run_step(w, s, &o);
	if (!rc)
		rc = check_state(w, w->script->steps);
	*outcome = o;
	return rc;
}

#define LOG_MAX (1U << 20)

int inject_run_script(const struct inject_script *s, uint64_t n, enum inject_outcome *ret, struct inject_point **ret_log,
		      uint64_t *ret_points, char *err, size_t errlen)
{
	struct iworld w = { .script = s, .err = err, .errlen = errlen };
	struct inject_point *log = ret_log ? calloc(LOG_MAX, sizeof(*log)) : NULL;
	int rc = ret_log && !log ? -ENOMEM : set_up(&w), rc2;

	if (!rc)
		rc = inject_attach(w.m, 1, &w.in);
	if (!rc) {
		inject_log(w.in, log, LOG_MAX);
		inject_fail_point(w.in, n);
		rc = run_steps(&w, ret);
		if (ret_points)
			*ret_points = MIN(inject_points(w.in), (uint64_t)LOG_MAX);
		inject_detach(w.in);
	}
	if (w.q) {
		rc2 = tear_down(&w, !rc);
		rc = rc ? rc : rc2;
	}
	if (w.m)
		null_destroy(w.m);
	free(w.stored);
	if (rc && rc != -EPROTO && !err[0])
		snprintf(err, errlen, "%s", strerror(-rc));
	if (ret_log && !rc)
		*ret_log = log;
	else
		free(log);
	return rc;
}
