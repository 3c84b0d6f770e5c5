/*
 * What the files of the model share. The model is two halves behind a narrow seam:
 *   core   what one access costs: caches, TLBs, memory, the instruction window   (core_int.h)
 *   sched  who runs when: fibers, tasks, virtual time, locks, interrupts          (sched_int.h)
 * and a swap device beside them (swap.c).
 */
#ifndef QUIRE_MACHINE_MODEL_MODEL_INT_H
#define QUIRE_MACHINE_MODEL_MODEL_INT_H

#include "machine/model/core_int.h"
#include "machine/model/model.h"
#include "machine/model/sched_int.h"

struct model_cpu {
	struct cpu c; /* must be first */
	struct core_cpu core;
	struct sched_cpu sched;
};

struct swap_device {
	uint64_t *tags;    /* [m.swap_slots]: what the slots hold */
	uint64_t *free_ps; /* [desc.swap.queue_depth]: when each of the requests in service is done */
	uint64_t read_free_ps, write_free_ps; /* when the transfers so far are through */
};

struct model {
	struct machine m; /* must be first */
	struct machine_desc desc;
	struct model_options opt;
	struct core_shared core;
	struct sched_shared sched;
	struct swap_device swap;
	struct model_path_stat path[NR_MACHINE_PATHS];
};

static inline struct model *model_of(const struct cpu *c)
{
	return (struct model *)(void *)c->m;
}

static inline struct model_cpu *model_cpu(struct cpu *c)
{
	return (struct model_cpu *)(void *)c;
}

/* ---- core: called by sched ---- */
int core_init(struct model *md, char *err, size_t errlen);
void core_done(struct model *md);
/* Advance c's clock by ps without instructions (a priced event), booked under `path`. */
void core_charge(struct cpu *c, uint64_t ps, enum machine_path path);
/* Wait for everything outstanding (what a locked instruction, an exception or a context switch does). */
void core_drain(struct cpu *c);
void core_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind);
enum machine_path core_work(struct cpu *c, enum machine_path path, uint64_t units);
void core_enter(struct cpu *c, enum machine_entry e);
void core_leave(struct cpu *c, enum machine_entry e);
int core_clear_page(struct cpu *c, pfn_t p);
int core_copy_page(struct cpu *c, pfn_t dst, pfn_t src);
int core_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags);
int core_access_run(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags, unsigned insns,
		    uint64_t *ret_done);
int core_load_value(struct cpu *c, vaddr_t va, uint64_t *ret_value);
int core_store_value(struct cpu *c, vaddr_t va, uint64_t value);
void core_load_context(struct cpu *c, pfn_t root, uint32_t ctx);
void core_flush_local(struct cpu *c, const struct tlb_flush *f); /* drops and charges */
void core_flush_nocharge(struct cpu *c, const struct tlb_flush *f);
/* For tests and validators: does any TLB of c translate va of ctx? Fills pfn and whether writable. */
bool core_tlb_probe(struct cpu *c, uint32_t ctx, vaddr_t va, pfn_t *ret_pfn, bool *ret_writable, bool *ret_huge);
void core_stats_each(struct model *md, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

/* ---- sched: called by core ---- */
int sched_init(struct model *md, char *err, size_t errlen);
void sched_done(struct model *md);
/*
 * c has run past run_until_ps: let the CPUs that are behind go first, take pending interrupts. Called by core between
 * accesses and charges, never in the middle of one. Cheap when c is alone.
 */
void sched_catch_up(struct cpu *c);
void sched_stats_each(struct model *md, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

/* ---- swap.c ---- */
int swap_init(struct model *md); /* 0 or -ENOMEM */
void swap_done(struct model *md);
int model_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns);

static inline void sched_point(struct cpu *c)
{
	if (unlikely(c->now_ps > c->run_until_ps))
		sched_catch_up(c);
}

/* Instructions a unit of each path, measured (scripts/measure-work). */
extern const uint32_t machine_work_table[NR_MACHINE_PATHS];

#endif
