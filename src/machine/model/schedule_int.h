/* What schedule.c (who goes on) and schedule_ops.c (the machine without prices) share. */
#ifndef QUIRE_MACHINE_MODEL_SCHEDULE_INT_H
#define QUIRE_MACHINE_MODEL_SCHEDULE_INT_H

#include "machine/model/schedule.h"

#define SCHEDULE_TLB 256U

struct schedule_cpu {
	uint32_t points;   /* so far in this run */
	int32_t priority;  /* PCT: higher goes first */
	uint32_t list_at;  /* LIST: choices of this CPU up to here are past */
	paddr_t root;      /* 0: no address space */
	uint32_t ctx;
	uint32_t nr_held, oldest;
	struct schedule_held held[SCHEDULE_TLB];
};

struct schedule_state {
	struct schedule *s; /* NULL: nobody gives way unless he must */
	struct rng rng;
	uint32_t per_4096;   /* RANDOM: how likely a switch is */
	uint64_t change[SCHEDULE_MAX_DEPTH]; /* PCT, ascending */
	uint32_t next_change;
	int32_t lowest;
	int next;            /* the CPU that has been chosen; -1: to be chosen */
	unsigned last;       /* the CPU that ran last */
	bool stop;
	struct schedule_cpu cpu[];
};

struct model;

int schedule_init(struct model *md);
void schedule_done(struct model *md);
/* A point: others may go first. */
void schedule_point(struct cpu *c, enum schedule_point p);
/* c can do nothing useful until others have gone on. */
void schedule_give_way(struct cpu *c);
/* Of the ready CPUs (all in the heap), the position of the one that goes on. */
uint32_t schedule_pick(struct model *md);
extern const struct machine_ops schedule_ops;
void schedule_flush(struct cpu *c, const struct tlb_flush *f);

#endif
