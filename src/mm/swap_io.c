/*
 * Transfers between folios of the swap cache and the device: swap.h W3.
 *
 * A transfer is begun with the folio locked, and noted in the word of its first slot before the flag that tells of it. The flag is taken
 * away by whoever has the lock next and begins something else, so nobody ever takes away another transfer's.
 */
#include "base/assert.h"
#include "mm/folio_lock.h"
#include "mm/swap.h"

#define SWAP_IN_TRANSFER (FRAME_WRITEBACK | FRAME_READING)

static uint64_t *done_word(const struct cpu *c, const struct frame *folio)
{
	return &c->q->swap.done_ns[folio_swap_slot(folio)];
}

static bool busy(struct cpu *c, const struct frame *folio, uint64_t flags)
{
	uint64_t now = frame_flags(folio);

	frame_touch(c, folio, TOUCH_READ);
	return (now & FRAME_SWAPCACHE) && (now & flags) && __atomic_load_n(done_word(c, folio), __ATOMIC_ACQUIRE) > machine_now_ns(c);
}

bool folio_under_writeback(struct cpu *c, const struct frame *folio)
{
	return busy(c, folio, FRAME_WRITEBACK);
}

bool folio_in_transfer(struct cpu *c, const struct frame *folio)
{
	return busy(c, folio, SWAP_IN_TRANSFER);
}

static void wait_until_done(struct cpu *c, const struct frame *folio, uint64_t flags)
{
	uint64_t since = phase_begin(c);

	while (busy(c, folio, flags) && !c->m->stop) {
		uint64_t now = machine_now_ns(c), done = __atomic_load_n(done_word(c, folio), __ATOMIC_ACQUIRE);

		if (done > now)
			c->m->ops->sleep_ns(c, done - now);
	}
	phase_end(c, PHASE_WAIT, since);
}

void folio_wait_transfer(struct cpu *c, const struct frame *folio)
{
	wait_until_done(c, folio, SWAP_IN_TRANSFER);
}

void folio_wait_read(struct cpu *c, const struct frame *folio)
{
	wait_until_done(c, folio, FRAME_READING);
}

static void note(const struct cpu *c, const struct frame *folio, uint64_t done_ns)
{
	__atomic_store_n(done_word(c, folio), done_ns, __ATOMIC_RELEASE);
}

ATTR_NOINLINE int swap_writeout(struct cpu *c, struct frame *folio, uint64_t *ret_done_ns)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_OUT, 1);
	unsigned nr = (unsigned)frame_nr_pages(folio);
	pfn_t frames[SWAP_CLUSTER_SLOTS];

	ASSERT(folio_locked(folio) && (frame_flags(folio) & FRAME_SWAPCACHE) && nr <= SWAP_CLUSTER_SLOTS);
	ASSERT(!folio_in_transfer(c, folio));
	for (unsigned i = 0; i < nr; i++)
		frames[i] = pfn_add(frame_pfn(c->m, folio), i);
	frame_touch(c, folio, TOUCH_ATOMIC);
	frame_clear(folio, FRAME_DIRTY | SWAP_IN_TRANSFER); /* who dirties it from now on is not lost */
	int rc = machine_swap_io(c, folio_swap_slot(folio), frames, nr, true, ret_done_ns);

	if (rc) {
		frame_set(folio, FRAME_DIRTY);
	} else {
		note(c, folio, *ret_done_ns);
		folio_start_writeback(c, folio);
		vmstat_add(c, VM_pswpout, nr);
		vmstat_add(c, VM_thp_swpout, nr == SWAP_CLUSTER_SLOTS);
	}
	machine_path(c, prev);
	return rc;
}

/* Slots that follow each other. */
static void read_run(struct cpu *c, struct frame *const *folios, unsigned nr)
{
	pfn_t frames[SWAP_CLUSTER_SLOTS];
	uint64_t done_ns = 0;

	for (unsigned i = 0; i < nr; i++) {
		ASSERT(folio_locked(folios[i]) && (frame_flags(folios[i]) & (FRAME_SWAPCACHE | FRAME_HEAD)) == FRAME_SWAPCACHE);
		frames[i] = frame_pfn(c->m, folios[i]);
	}
	int rc = machine_swap_io(c, folio_swap_slot(folios[0]), frames, nr, false, &done_ns);

	for (unsigned i = 0; i < nr; i++) {
		if (!rc)
			note(c, folios[i], done_ns);
		frame_set(folios[i], rc ? FRAME_IO_ERROR : FRAME_READING);
	}
	if (!rc)
		vmstat_add(c, VM_pswpin, nr);
}

ATTR_NOINLINE void swap_read(struct cpu *c, struct frame *const *folios, unsigned nr)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_IN, 1);

	for (unsigned i = 0, n; i < nr; i += n) {
		for (n = 1; i + n < nr && n < SWAP_CLUSTER_SLOTS; n++)
			if (folio_swap_slot(folios[i + n]) != folio_swap_slot(folios[i]) + n)
				break;
		read_run(c, folios + i, n);
	}
	machine_path(c, prev);
}
