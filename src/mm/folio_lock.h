/*
 * Locks of folios, and waiting for writeback (folio_lock.c): one bit in the head's flags, and queues shared by folios for those who wait,
 * who sleep. First come, first served: a lock that is waited for is handed over, never free in between.
 *
 * Rank FOLIO: taken inside of mmap_lock, outside of everything else; not while a spinlock is held. Whoever holds one takes others by
 * folio_trylock only. A locked folio may be unlocked by another task than the one that locked it (the end of a transfer).
 * All take the head. Waiting needs a task: outside of tasks (boot, shutdown), or where nobody else can run (the null machine), a
 * folio that would have to be waited for is a bug of ours.
 */
#ifndef QUIRE_MM_FOLIO_LOCK_H
#define QUIRE_MM_FOLIO_LOCK_H

#include "mm/frame.h"

#define FOLIO_WAIT_QUEUES 64

/* Rank FOLIO_WAIT: inside of page-table locks. */
struct folio_waitq {
	struct mlock lock;
	struct list_head waiters; /* of any folio that hashes here, first come first */
} __attribute__((aligned(64)));

void folio_waitq_init(struct quire *q);

void folio_lock(struct cpu *c, struct frame *f);
/* May be made to fail (INJECT_TRYLOCK). */
ATTR_MUST_CHECK bool folio_trylock(struct cpu *c, struct frame *f);
void folio_unlock(struct cpu *c, struct frame *f);

static inline bool folio_locked(const struct frame *f)
{
	return (frame_flags(f) & FRAME_LOCKED) != 0;
}

/* Until the folio has been unlocked once. The caller has a reference, or is sure in another way that it is not freed; one more is held. */
void folio_wait_locked(struct cpu *c, struct frame *f);
/*
 * What a migration entry's fault does: it was read in `table`, whose lock is held, and names folio f, which is locked as long as the entry
 * is there. Lets go of the table's lock and waits until f has been unlocked, without a reference, which would make the
 * migration fail: f may be gone on return.
 */
void folio_wait_entry(struct cpu *c, struct frame *f, struct frame *table);

/* On its way to a device, and done. The folio is locked at the start, and need not be at the end. */
void folio_start_writeback(struct cpu *c, struct frame *f);
void folio_end_writeback(struct cpu *c, struct frame *f);
void folio_wait_writeback(struct cpu *c, struct frame *f);

static inline bool folio_writeback(const struct frame *f)
{
	return (frame_flags(f) & FRAME_WRITEBACK) != 0;
}

#endif
