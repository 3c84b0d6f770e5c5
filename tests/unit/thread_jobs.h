/*
 * Jobs of tests that race threads on the host machine. The test defines struct job with t, w, mm, r, id and why before it includes this.
 * QUIRE_SEED repeats a run.
 */
#ifndef QUIRE_TESTS_THREAD_JOBS_H
#define QUIRE_TESTS_THREAD_JOBS_H

#include "base/rng.h"
#include "host_testing.h"
#include "mm/tlb.h"

#include <stdlib.h>

/* The first thing found wrong, to be reported when the threads have ended. */
#define WRONG(j, ...)                                                                              \
	do {                                                                                        \
		if (!(j)->why[0])                                                                   \
			snprintf((j)->why, sizeof((j)->why), __VA_ARGS__);                          \
	} while (0)

static inline uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : otherwise;
}

/* Start a job; it has a user's reference on mm (or none, for a kernel task). */
static inline void start(struct host_world *w, struct job *j, unsigned id, struct mm *mm, void (*fn)(struct cpu *, struct task *))
{
	j->w = w;
	j->id = id;
	j->mm = mm;
	j->t = (struct task){ .fn = fn, .arg = j, .mm = mm, .name = "job" };
	rng_init(&j->r, env_number("QUIRE_SEED", 1) * 1000 + id, "job");
	if (mm)
		mm_get(mm);
	assert_int_equal(w->m->ops->task_start(w->c, &j->t), 0);
}

/* A task is done with its address space. */
static inline void leave(struct cpu *c, struct job *j)
{
	c->current->mm = NULL;
	mm_activate(c, NULL);
	mm_put(c, j->mm);
}

#endif
