/*
 * The daemon and its list.
 *
 * The list knows address spaces without holding them: who ends takes himself off it (khugepaged_exit), and moves the cursor on. While
 * the daemon is at work on one it has a hold on the struct (mm.holds), which is all that then remains of it: after taking mmap_lock it
 * sees that there are no users, and leaves.
 * A range that was collapsed has cost mmap_lock: the pass goes on at the next range with the area looked up anew.
 */
#include "mm/khugepaged.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/kthread.h"
#include "mm/lru.h"
#include "mm/text.h"
#include "mm/vma_int.h"

#define NS_PER_MS 1000000ULL

static bool enabled(const struct quire *q)
{
	return q->knobs.thp_enabled != THP_NEVER;
}

static bool has_work(struct cpu *c, struct khugepaged *kh)
{
	bool some;

	machine_lock(c, &kh->lock);
	some = !list_empty(&kh->mms);
	machine_unlock(c, &kh->lock);
	return some && enabled(c->q);
}

/* ---- the list ---- */

static void enter(struct cpu *c, struct mm *mm)
{
	struct khugepaged *kh = &c->q->khugepaged;

	if (__atomic_exchange_n(&mm->khugepaged_on, true, __ATOMIC_RELAXED))
		return;
	machine_lock(c, &kh->lock);
	list_add_tail(&mm->khugepaged_link, &kh->mms);
	machine_unlock(c, &kh->lock);
	kthread_wake(c, kh->kt);
}

void khugepaged_enter_vma(struct cpu *c, const struct vma *v)
{
	if (!__atomic_load_n(&v->mm->khugepaged_on, __ATOMIC_RELAXED) && collapse_allowed(v->mm, v, true))
		enter(c, v->mm);
}

void khugepaged_fork(struct cpu *c, struct mm *child, const struct mm *parent)
{
	if (__atomic_load_n(&parent->khugepaged_on, __ATOMIC_RELAXED))
		enter(c, child);
}

/* The cursor leaves mm. Under the lock. */
static void advance(struct khugepaged *kh, const struct mm *mm)
{
	kh->address = 0;
	if (mm->khugepaged_link.next == &kh->mms) {
		kh->at = NULL;
		kh->full_scans++;
	} else {
		kh->at = list_entry(mm->khugepaged_link.next, struct mm, khugepaged_link);
	}
}

void khugepaged_exit(struct cpu *c, struct mm *mm)
{
	struct khugepaged *kh = &c->q->khugepaged;

	if (!__atomic_load_n(&mm->khugepaged_on, __ATOMIC_RELAXED))
		return;
	machine_lock(c, &kh->lock);
	if (kh->at == mm)
		advance(kh, mm);
	list_del(&mm->khugepaged_link);
	machine_unlock(c, &kh->lock);
}

/* ---- a pass ---- */

struct pass {
	struct cpu *c;
	struct khugepaged *kh;
	struct mm *mm;
	vaddr_t address;
	uint64_t left;   /* pages yet to be looked at */
	bool no_memory;
};

static void spend(struct pass *p, uint64_t pages)
{
	p->left -= MIN(p->left, pages);
}

/* One range; false: mmap_lock was given up. */
static bool scan_range(struct pass *p, struct vma *v)
{
	struct cpu *c = p->c;
	bool locked = true;
	enum scan_result res = collapse_range(c, p->mm, v, p->address, true, &locked);

	__atomic_add_fetch(&p->kh->results[res], 1, __ATOMIC_RELAXED);
	if (res == SCAN_succeeded)
		__atomic_add_fetch(&p->kh->pages_collapsed, 1, __ATOMIC_RELAXED);
	p->no_memory = res == SCAN_alloc_huge_page_fail;
	p->address += PMD_SIZE;
	spend(p, HPAGE_PMD_NR);
	return locked;
}

/* As far as the pass goes in this address space, or until mmap_lock has been given up. true: there is no more of it. */
ATTR_NOINLINE static bool scan_mm(struct pass *p)
{
	struct cpu *c = p->c;
	enum machine_path prev = machine_work(c, PATH_KHUGEPAGED, 1);
	struct vma *v = NULL;
	bool locked = true;

	spend(p, 1);
	machine_read_lock(c, &p->mm->mmap_lock);
	if (__atomic_load_n(&p->mm->users, __ATOMIC_ACQUIRE))
		v = vma_find(c, p->mm, p->address);
	while (v && p->left && locked) {
		vaddr_t first = ALIGN_UP(v->start, PMD_SIZE), last = ALIGN_DOWN(v->end, PMD_SIZE);

		p->address = MAX(p->address, first);
		if (p->address < last && collapse_allowed(p->mm, v, true)) {
			locked = scan_range(p, v);
			machine_path(c, PATH_KHUGEPAGED);
			continue;
		}
		spend(p, 1);
		(void)machine_work(c, PATH_KHUGEPAGED, 1);
		v = vma_next_charged(c, v);
	}
	if (locked)
		machine_read_unlock(c, &p->mm->mmap_lock);
	machine_path(c, prev);
	return locked && !v;
}

/* The address space to go on with, held; NULL: none, or the list has been gone through twice in this pass. */
static struct mm *next_mm(struct pass *p, unsigned *starts)
{
	struct khugepaged *kh = p->kh;
	struct mm *mm = NULL;

	machine_lock(p->c, &kh->lock);
	*starts += !kh->at;
	if (!kh->at && *starts < 2 && !list_empty(&kh->mms))
		kh->at = list_first_entry(&kh->mms, struct mm, khugepaged_link);
	mm = kh->at;
	if (mm) {
		__atomic_add_fetch(&mm->holds, 1, __ATOMIC_RELAXED);
		p->address = kh->address;
	}
	machine_unlock(p->c, &kh->lock);
	return mm;
}

static void leave_mm(struct pass *p, bool ended)
{
	struct khugepaged *kh = p->kh;

	machine_lock(p->c, &kh->lock);
	if (kh->at == p->mm && ended)
		advance(kh, p->mm);
	else if (kh->at == p->mm)
		kh->address = p->address;
	machine_unlock(p->c, &kh->lock);
	mm_drop(p->c, p->mm);
}

struct cpu *khugepaged_scan(struct cpu *c, bool *ret_short)
{
	struct pass p = { .c = c, .kh = &c->q->khugepaged, .left = c->q->knobs.khugepaged_pages_to_scan };
	unsigned starts = 0;

	lru_add_drain_all(c);
	while (p.left && !p.no_memory && !kthread_should_stop(c) && enabled(c->q)) {
		p.c = c;
		p.mm = next_mm(&p, &starts);
		if (!p.mm)
			break;
		leave_mm(&p, scan_mm(&p));
		if (c->current && c->current->daemon)
			c = machine_resched(c);
	}
	if (ret_short)
		*ret_short = p.no_memory;
	return c;
}

uint64_t khugepaged_run(struct cpu *c, unsigned rounds)
{
	struct khugepaged *kh = &c->q->khugepaged;
	uint64_t before = kh->pages_collapsed, until = kh->full_scans + rounds;
	bool no_memory = false;

	while (kh->full_scans < until && !no_memory && has_work(c, kh))
		c = khugepaged_scan(c, &no_memory);
	return kh->pages_collapsed - before;
}

/* ---- the daemon ---- */

static void khugepaged(struct cpu *c, void *arg)
{
	struct quire *q = arg;
	struct khugepaged *kh = &q->khugepaged;
	const struct knobs *k = &q->knobs;
	uint64_t next_ns = machine_now_ns(c) + k->khugepaged_scan_sleep_millisecs * NS_PER_MS;
	bool no_memory, tried_again = false;

	while (!kthread_should_stop(c)) {
		uint64_t now = machine_now_ns(c);

		if (!has_work(c, kh)) {
			c = kthread_wait(c, kh->kt, UINT64_MAX);
			continue;
		}
		if (now < next_ns) {
			c = kthread_wait(c, kh->kt, next_ns - now);
			continue;
		}
		c = khugepaged_scan(c, &no_memory);
		/* Without memory once more, later; then as always. */
		tried_again = no_memory && !tried_again;
		next_ns = machine_now_ns(c) +
			  (tried_again ? k->khugepaged_alloc_sleep_millisecs : k->khugepaged_scan_sleep_millisecs) * NS_PER_MS;
	}
}

void khugepaged_boot(struct quire *q)
{
	struct khugepaged *kh = &q->khugepaged;

	mlock_init(&kh->lock, RANK_LRU, machine_pa(q->m, &kh->lock));
	list_init(&kh->mms);
	kthread_add_on_demand(kh->kt, q, "khugepaged", khugepaged, q, NULL);
}

int khugepaged_validate(struct quire *q)
{
	const struct khugepaged *kh = &q->khugepaged;
	struct text t = text_into(q->err, sizeof(q->err));
	bool met = !kh->at;
	const struct mm *mm;
	uint64_t on = 0, listed = 0;

	list_for_each_entry(mm, &q->mms, link) {
		on += mm->khugepaged_on;
		met |= mm == kh->at;
	}
	for (const struct list_head *l = kh->mms.next; l != &kh->mms && listed <= on; l = l->next)
		listed++;
	if (met && on == listed)
		return 0;
	text_str(&t, met ? "khugepaged: list of address spaces" : "khugepaged: goes on at an address space that is gone");
	text_field(&t, "entered", on);
	text_field(&t, "listed", listed);
	return -EINVAL;
}
