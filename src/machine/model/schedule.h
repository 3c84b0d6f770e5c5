/*
 * Schedules: the model machine as a checker of interleavings instead of a measurer of time.
 *
 * A machine made with model_options.scheduled has no clock to speak of: nothing is priced, and whenever a CPU comes to a point at which
 * others could see what it does (a lock, a charged line, an access, a flush), a schedule says who goes on. Its TLBs never
 * evict: a translation stays until the engine drops it, so that every flush that is missing is seen.
 *
 * A schedule is a list of choices: CPU `cpu`, at its `at`-th point, gives way to CPU `to`. Where the list says nothing, who runs
 * goes on, and who cannot go on gives way to the next ready CPU by number. The same list and the same tasks give the
 * same run, always.
 */
#ifndef QUIRE_MACHINE_MODEL_SCHEDULE_H
#define QUIRE_MACHINE_MODEL_SCHEDULE_H

#include "base/rng.h"
#include "machine/machine.h"

enum schedule_point {
	POINT_SYNC,   /* a lock is about to be taken or released, a task woken or started */
	POINT_CHARGE, /* a line of kernel data is about to be read or written */
	POINT_ATOMIC, /* the same, by a locked instruction */
	POINT_ACCESS, /* a user access is about to be translated */
	POINT_COPY,   /* half-way through clearing or copying a page */
	POINT_FLUSH,  /* others are about to be told to flush */
	POINT_WAIT,   /* this CPU cannot go on: it spins, waits for acknowledgements, or has nothing to run */
	NR_SCHEDULE_POINTS
};

struct schedule_choice {
	uint32_t at; /* from 1 */
	uint8_t cpu, to;
	uint8_t point; /* enum schedule_point: what it was; not needed to replay */
};

enum schedule_strategy {
	SCHEDULE_LIST,   /* the given choices, nothing else */
	SCHEDULE_RANDOM, /* at each point with a probability drawn once a run, to anybody */
	SCHEDULE_PCT,    /* random priorities; at `depth` random points of the run who runs becomes the least important */
};

/* A point at which somebody else could have gone on: what an exhaustive search goes on from. */
struct schedule_crowd {
	uint32_t at;
	uint8_t cpu;
	uint8_t usual;  /* who goes on if nobody says otherwise */
	uint16_t ready; /* bit by CPU: who could */
};

#define SCHEDULE_MAX_CPUS 16
#define SCHEDULE_MAX_CHOICES 8192
#define SCHEDULE_MAX_DEPTH 16

struct schedule {
	/* in */
	enum schedule_strategy strategy;
	uint64_t seed;
	uint32_t depth;       /* PCT */
	uint64_t length;      /* PCT: points that a run has, about */
	uint64_t max_points;  /* a run with more makes no progress; 0: a million */
	const struct schedule_choice *list; /* LIST */
	uint32_t nr_list;
	/* At each point, before the choice; and before the kernel clears a frame or copies into it. May be NULL. */
	void (*at_point)(void *arg, struct cpu *c, enum schedule_point p);
	void (*page_written)(void *arg, struct cpu *c, pfn_t p);
	void *arg;
	struct schedule_crowd *crowds; /* room for max_crowds of them; NULL: not kept */
	uint32_t max_crowds;
	/* out */
	uint32_t nr_crowds;
	uint64_t points;
	uint64_t crowded;     /* points at which somebody else could have gone on */
	uint32_t nr_taken;
	bool truncated;       /* more choices than there is room for */
	bool no_progress;
	struct schedule_choice taken[SCHEDULE_MAX_CHOICES];
};

/* Before each run; valid until the next call. NULL: nobody gives way unless he must. */
void model_schedule(struct machine *m, struct schedule *s);
/* End the run at once (from one of the two): model_run returns -ECANCELED. The engine's state is then good for nothing. */
void model_schedule_stop(struct machine *m);
/* No translations anywhere, no address space loaded: what a machine that is used again begins with. */
void model_schedule_reset(struct machine *m);

/* What the TLB of a CPU holds. */
struct schedule_held {
	uint32_t ctx;
	uint8_t shift;  /* of the page; for a table, of what its entries map */
	bool table;     /* a page-walk cache's entry: pfn is a page table */
	bool write;
	vaddr_t va;
	pfn_t pfn;
};
/* fn returns non-zero to stop, which is returned. */
int model_schedule_each_held(struct machine *m, unsigned cpu, int (*fn)(void *arg, const struct schedule_held *h), void *arg);

/* How many points c has had in this run: what schedule_choice.at counts. */
uint32_t model_schedule_at(const struct cpu *c);

const char *schedule_point_name(unsigned point);

#endif
