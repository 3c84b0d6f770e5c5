/*
 * will-it-scale's loops: each counts its operations, and the rate is taken between the end of warming up and the end of time, by the clock
 * of each task.
 *
 * Instructions around the calls were counted by callgrind in the published programs, built by gcc 12 as their Makefile says (-O2);
 * malloc and free are glibc 2.36's for a block that it maps.
 */
#include "workload/work_int.h"

#define INSNS_TOUCH 5U
#define INSNS_MMAP 28U
#define INSNS_MALLOC 267U
#define INSNS_FREE 64U
#define INSNS_FLUSH 17U
#define INSNS_BRK 17U /* ours, of a loop that does what is published: 35 for two calls */
#define PAGES_AT_ONCE 16U

/* n operations are done. false: it's enough. */
static bool counted(struct work_task *k, uint64_t n)
{
	const struct work *w = k->w;
	uint64_t now = work_now(k);

	k->ops += n;
	if (!k->warm_ns && now - k->go_ns >= w->warmup_ns) {
		k->warm_ns = now;
		k->warm_ops = k->ops;
	}
	if (w->o->ops && k->ops >= w->o->ops)
		return false;
	if (w->limit_ns && now - k->go_ns >= w->warmup_ns + w->limit_ns)
		return false;
	return work_point(k);
}

static void begin(struct work_task *k)
{
	k->warm_ns = k->w->warmup_ns ? 0 : k->go_ns;
}

/* A task that ended before it was warm counts from the go. */
static bool finish(struct work_task *k, bool ok)
{
	uint64_t from = k->warm_ns ? k->warm_ns : k->go_ns;

	k->done_ns = work_now(k);
	k->value_ns = k->done_ns - from;
	k->value = k->value_ns ? (uint64_t)((unsigned __int128)(k->ops - k->warm_ops) * 1000000000ULL / k->value_ns) : 0;
	return ok;
}

static bool failed_call(struct work_task *k, int64_t r)
{
	return r < 0 && !work_failed(k, (int)r);
}

static uint64_t page_value(const struct work_task *k, uint64_t round, uint64_t page)
{
	return ((uint64_t)k->nr + 1) << 48 | (round & 0xffff) << 32 | (page + 1);
}

/* Store to pages [from, from + n) of a map. */
static bool touch(struct work_task *k, vaddr_t base, uint64_t from, uint64_t n, uint64_t round)
{
	if (!k->w->o->check)
		return work_run(k, base + from * PAGE_SIZE, PAGE_SIZE, n, 1, true, INSNS_TOUCH);
	for (uint64_t i = from; i < from + n; i++)
		if (!work_store(k, base + i * PAGE_SIZE, page_value(k, round, i), INSNS_TOUCH))
			return false;
	return true;
}

/* One byte a page of the whole map. *ret_more: there is time for another round. */
static bool fault_round(struct work_task *k, vaddr_t base, uint64_t round, bool *ret_more)
{
	uint64_t pages = k->w->task_bytes / PAGE_SIZE, at = 0, n;
	bool ok = true;

	for (*ret_more = true; at < pages && *ret_more; at += n) {
		n = MIN(pages - at, PAGES_AT_ONCE);
		if (k->w->o->ops)
			n = MIN(n, k->w->o->ops - k->ops);
		ok = touch(k, base, at, n, round);
		if (!ok)
			return false;
		*ret_more = counted(k, n);
	}
	for (uint64_t i = 0; i < at && ok && k->w->o->check; i++)
		ok = work_verify(k, base + i * PAGE_SIZE, page_value(k, round, i), false);
	return ok;
}

bool wis_page_fault(struct work_task *k)
{
	const struct workload_kind *kind = k->w->kind;
	unsigned flags = kind->shared ? UAPI_MAP_SHARED : UAPI_MAP_PRIVATE;
	struct mfile *f = NULL;
	bool more = true, ok = true;
	int64_t r;

	begin(k);
	if (kind->file && failed_call(k, work_file_create(k, k->w->task_bytes, &f)))
		return finish(k, false);
	for (uint64_t round = 0; ok && more; round++) {
		r = work_mmap(k, k->w->task_bytes, flags, f);
		ok = !failed_call(k, r);
		if (ok) {
			ok = fault_round(k, (vaddr_t)r, round, &more);
			work_account(k->w);
			r = work_munmap(k, (vaddr_t)r, k->w->task_bytes);
			ok = !failed_call(k, r) && ok;
		}
	}
	finish(k, ok);
	if (f)
		work_file_put(k, f);
	return ok;
}

bool wis_mmap(struct work_task *k)
{
	struct mfile *f = NULL;
	bool ok = true;
	int64_t r;

	begin(k);
	if (k->w->kind->file && failed_call(k, work_file_create(k, k->w->task_bytes, &f)))
		return finish(k, false);
	do {
		(void)machine_work(k->c, PATH_USER, INSNS_MMAP);
		r = work_mmap(k, k->w->task_bytes, UAPI_MAP_PRIVATE, f);
		if (r >= 0)
			r = work_munmap(k, (vaddr_t)r, k->w->task_bytes);
		ok = !failed_call(k, r);
	} while (ok && counted(k, 1));
	finish(k, ok);
	if (f)
		work_file_put(k, f);
	return ok;
}

/* To move the end of the heap: what the call returns is the end that holds, so a refusal is found by comparing. */
static bool move_break(struct work_task *k, vaddr_t to)
{
	(void)machine_work(k->c, PATH_USER, INSNS_BRK);
	return work_brk(k, to) == (int64_t)to || work_failed(k, -ENOMEM);
}

/* The threads of a process agree on where it was when they were let go. */
bool wis_brk(struct work_task *k)
{
	vaddr_t end = k->mm->start_brk;
	bool ok = true;

	begin(k);
	do
		ok = move_break(k, end + PAGE_SIZE);
	while (ok && counted(k, 1) && (ok = move_break(k, end)) && counted(k, 1));
	return finish(k, ok);
}

/* A large block is a map of its own, with a header before it: malloc writes its length there, free reads it. */
bool wis_malloc(struct work_task *k)
{
	uint64_t len = k->w->task_bytes + PAGE_SIZE;
	bool ok = true;
	int64_t r;

	begin(k);
	do {
		r = work_mmap(k, len, UAPI_MAP_PRIVATE, NULL);
		ok = !failed_call(k, r);
		if (ok) {
			ok = work_run(k, (vaddr_t)r + 8, 8, 1, 8, true, INSNS_MALLOC) &&
			     work_run(k, (vaddr_t)r + 8, 8, 1, 8, false, INSNS_FREE);
			r = work_munmap(k, (vaddr_t)r, len);
			ok = !failed_call(k, r) && ok;
		}
	} while (ok && counted(k, 1));
	return finish(k, ok);
}

/*
 * For each page: store, drop the page, and find what is below: nothing, the file's content, or, where the map is shared, what was stored.
 */
static bool flush_round(struct work_task *k, vaddr_t base, struct mfile *f, bool *ret_more)
{
	*ret_more = true;
	for (uint64_t i = 0; i < k->w->task_bytes >> PAGE_SHIFT && *ret_more; i++) {
		uint64_t value = page_value(k, 0, i), left = k->w->kind->shared ? value : f ? file_tag(f, i) : 0;
		vaddr_t va = base + i * PAGE_SIZE;

		if (!work_store(k, va, value, INSNS_FLUSH) ||
		    failed_call(k, work_madvise(k, va, PAGE_SIZE, UAPI_MADV_DONTNEED)) || !work_verify(k, va, left, false))
			return false;
		*ret_more = counted(k, 1);
	}
	return true;
}

bool wis_tlb_flush(struct work_task *k)
{
	unsigned flags = k->w->kind->shared ? UAPI_MAP_SHARED : UAPI_MAP_PRIVATE;
	struct mfile *f = NULL;
	bool more = true, ok = true;
	int64_t r;

	begin(k);
	if (k->w->kind->file && failed_call(k, work_file_create(k, k->w->task_bytes, &f)))
		return finish(k, false);
	while (ok && more) {
		r = work_mmap(k, k->w->task_bytes, flags, f);
		ok = !failed_call(k, r);
		if (ok) {
			ok = flush_round(k, (vaddr_t)r, f, &more);
			r = work_munmap(k, (vaddr_t)r, k->w->task_bytes);
			ok = !failed_call(k, r) && ok;
		}
	}
	finish(k, ok);
	if (f)
		work_file_put(k, f);
	return ok;
}
