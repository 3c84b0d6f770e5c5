/*
 * The OOM killer: when nothing can be freed any more, one address space is to end, the one with most memory in proportion to what it was
 * said to be worth (oom_score_adj). Its faults fail from then on, so its tasks end at their next user boundary, and it goes with the last of
 * them. Whoever needed the memory waits for that, and tries again.
 *
 * Killing needs tasks that can end: where none run (tests, set-up), the request fails instead. A victim that does not end in time, since
 * its tasks don't fault, or wait for the one that waits for it, is passed over, and the next one is chosen.
 * Differs from Linux: there is no reaper, which would take the victim's memory before it ends, and nothing is printed.
 */
#include "mm/reclaim.h"

#define WAIT_NS 1000000ULL
#define WAITS_MAX 200U

static int64_t badness(const struct mm *mm, uint64_t total)
{
	int64_t points = __atomic_load_n(&mm->swapents, __ATOMIC_RELAXED) + __atomic_load_n(&mm->pgtables_bytes, __ATOMIC_RELAXED) / (int64_t)PAGE_SIZE;

	for (int k = 0; k < NR_RSS; k++)
		points += mm_rss(mm, (enum rss_kind)k);
	return points + (int64_t)mm->oom_score_adj * (int64_t)(total / 1000);
}

static uint64_t total_pages(const struct quire *q)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			n += q->nodes[i].zones[t].managed;
	return n;
}

/* One that is to end already, or the worst. NULL: nobody is left. q->list_lock held. */
static struct mm *select_victim(struct quire *q, bool *ret_old)
{
	uint64_t total = total_pages(q);
	struct mm *mm, *worst = NULL;
	int64_t most = 0;

	*ret_old = false;
	list_for_each_entry(mm, &q->mms, link) {
		if (__atomic_load_n(&mm->oom_skip, __ATOMIC_RELAXED))
			continue;
		if (__atomic_load_n(&mm->oom_victim, __ATOMIC_RELAXED)) {
			*ret_old = true;
			return mm;
		}
		if (mm->oom_score_adj > -1000 && badness(mm, total) > most) {
			most = badness(mm, total);
			worst = mm;
		}
	}
	return worst;
}

bool out_of_memory(struct cpu *c, const struct alloc_context *ac)
{
	struct quire *q = c->q;
	struct task *t = c->current;
	bool old, own = false;
	struct mm *mm;

	(void)ac;
	if (!t || !t->mm)
		return false;
	/* Somebody else is at it, most likely; and mmap_lock may be held, inside of which this lock is not to be waited for. */
	if (!machine_trylock(c, &q->list_lock)) {
		c->m->ops->sleep_ns(c, WAIT_NS);
		return true;
	}
	mm = select_victim(q, &old);
	if (mm && !old) {
		__atomic_store_n(&mm->oom_victim, true, __ATOMIC_RELAXED);
		__atomic_store_n(&q->oom_waits, 0, __ATOMIC_RELAXED);
		vmstat_inc(c, VM_oom_kill);
	} else if (mm && mm != t->mm && __atomic_add_fetch(&q->oom_waits, 1, __ATOMIC_RELAXED) > WAITS_MAX) {
		__atomic_store_n(&q->oom_waits, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&mm->oom_skip, true, __ATOMIC_RELAXED);
	}
	own = mm == t->mm;
	machine_unlock(c, &q->list_lock);
	if (own)
		t->pf |= PF_OOM_VICTIM; /* the rest of the reserves, and then an end */
	else if (mm)
		c->m->ops->sleep_ns(c, WAIT_NS);
	return mm != NULL;
}
