/* What the files of one run share: schedules_run.c (set-up, checks) and schedules_ops.c (what tasks do). */
#ifndef QUIRE_LAB_SCHEDULES_INT_H
#define QUIRE_LAB_SCHEDULES_INT_H

#include "lab/schedules.h"
#include "lab/schedules_oracle.h"
#include "mm/system.h"
#include "mm/tlb_batch.h"

#define AREA_BASE 0x100000000000ULL
#define AREA_STEP (1ULL << 30)
#define TAG_JUNK 0xdeadbeefdeadbeefULL /* what frames hold that nobody has cleared */

struct running {
	struct schedules_world *w;
	const struct schedules_task *t;
	struct task task;
	struct cpumask cpus;
	const struct schedules_op *op;
	unsigned space;    /* of the announced range */
	vaddr_t start, end; /* start == end: none */
	pfn_t pinned;
	unsigned pin_page, pin_area; /* what is pinned */
	bool has_pin, switching;
	struct tlb_batch batch; /* what `defer` put off; flushed at the task's end */
	bool everywhere; /* the announced range is so in all spaces: what is done to a folio is done to whoever maps it */
};

struct space {
	struct mm *mm; /* with a reference of ours; NULL: not yet, or no longer */
	uint32_t ctx;
	bool made;
	struct oracle_page *page; /* [pages of all areas] */
};

struct explained {
	const struct schedules_task *t;
	const struct schedules_op *op;
	bool exact;
};

struct schedules_world {
	const struct schedules_program *p;
	struct knobs knobs;
	struct machine *m;
	struct quire *q;
	struct oracle o;
	struct space space[SCHEDULES_MAX_SPACES];
	struct running task[SCHEDULES_MAX_TASKS + 1]; /* the last: the setup */
	uint32_t nr_pages, first_page[SCHEDULES_MAX_AREAS];
	uint64_t grain; /* what an access may change besides its page: 2 MiB with huge pages */
	unsigned looking;      /* `pending` in progress */
	uint64_t put_off_gen, flushed_gen; /* generations: of the last flush that `defer` put off, and of the last that `pending` made */
	bool failed;
	char *why;
	const struct schedule *s;
	struct explained *explained;
};

/* The run ends here, for this reason; the first one counts. */
ATTR_PRINTF(2, 3) void schedules_fail(struct schedules_world *w, const char *fmt, ...);
/* Do all TLBs agree with the tables, outside of what is announced? */
void schedules_look_exactly(struct schedules_world *w);

static inline vaddr_t schedules_va(unsigned area, uint64_t page)
{
	return AREA_BASE + area * AREA_STEP + page * PAGE_SIZE;
}

static inline struct oracle_page *schedules_page(struct schedules_world *w, unsigned space, unsigned area, uint64_t page)
{
	return &w->space[space].page[w->first_page[area] + page];
}

/* Those on folios: splitting, moving, shrinking (schedules_folio.c). */
void schedules_split(struct cpu *c, struct mm *mm, vaddr_t va);
void schedules_migrate(struct cpu *c, struct mm *mm, vaddr_t va, uint64_t nr);
void schedules_shrink(struct cpu *c);
/* Put a flush off, and find one that others have put off; what is lost between the two is a failure. */
void schedules_defer(struct running *r, struct cpu *c, struct mm *mm, vaddr_t va);
void schedules_pending(struct running *r, struct cpu *c, struct mm *mm);
void schedules_undefer(struct running *r, struct cpu *c);

/* One operation, by the task on c; returns the CPU that it goes on on. */
struct cpu *schedules_do(struct running *r, struct cpu *c, struct mm *mm, const struct schedules_op *op);
void schedules_start_task(struct schedules_world *w, struct cpu *c, unsigned i);

#endif
