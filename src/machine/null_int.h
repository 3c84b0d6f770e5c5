/* What the two files of the null machine share: null.c (counts, MMU) and null_sched.c (locks, time, tasks). */
#ifndef QUIRE_MACHINE_NULL_INT_H
#define QUIRE_MACHINE_NULL_INT_H

#include "base/assert.h"
#include "machine/null.h"

#define NULL_MAX_HELD 32
/* The content tag of a page that a plain store has written to: 'not zero' is all that is known. */
#define NULL_TAG_STORED (~0ULL)

struct null_cpu {
	struct cpu c; /* must be first */
	enum machine_path path;
	pfn_t root;
	struct {
		const void *lock;
		uint16_t rank;
	} held[NULL_MAX_HELD];
	unsigned nr_held;
	unsigned base; /* locks below are of tasks that are blocked underneath */
};

struct null_machine {
	struct machine m; /* must be first */
	struct null_cpu *cpu;
	struct null_counts counts;
	struct list_head runnable; /* tasks, in order of creation or wake-up */
	struct list_head daemons;  /* the same, for after them */
	uint64_t *swap_tags;       /* [m.swap_slots] */
	uint64_t next_seq;
	const char *stuck; /* name of the first task that blocked with nobody to wake it */
};

static inline struct null_machine *null_of(const struct cpu *c)
{
	return (struct null_machine *)(void *)c->m;
}

static inline struct null_cpu *null_cpu(struct cpu *c)
{
	return (struct null_cpu *)(void *)c;
}

void null_lock(struct cpu *c, struct mlock *l);
bool null_trylock(struct cpu *c, struct mlock *l);
void null_unlock(struct cpu *c, struct mlock *l);
void null_read_lock(struct cpu *c, struct mrwlock *l);
void null_read_unlock(struct cpu *c, struct mrwlock *l);
void null_write_lock(struct cpu *c, struct mrwlock *l);
void null_write_unlock(struct cpu *c, struct mrwlock *l);
void null_downgrade(struct cpu *c, struct mrwlock *l);
uint64_t null_now_ns(struct cpu *c);
struct cpu *null_resched(struct cpu *c);
void null_block(struct cpu *c);
void null_wake(struct cpu *c, struct task *t);
void null_sleep_ns(struct cpu *c, uint64_t ns);
int null_task_start(struct cpu *c, struct task *t);

#endif
