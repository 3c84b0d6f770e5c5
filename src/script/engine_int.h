/* What the files of the engine executor share: engine.c processes and calls, engine_io.c accesses and copies, engine_look.c what is seen. */
#ifndef QUIRE_SCRIPT_ENGINE_INT_H
#define QUIRE_SCRIPT_ENGINE_INT_H

#include "mm/tlb.h"
#include "mm/uapi.h"
#include "script/engine.h"
#include "workload/workload.h"

#include <errno.h>

struct engine_proc {
	struct mm *mm; /* NULL: has ended */
	uint32_t parent;
	bool waited;
	uint32_t cpu;  /* of the main thread */
};

struct engine_thread {
	uint32_t cpu;
};

struct engine_pin {
	pfn_t *frames; /* NULL: unpinned */
	uint64_t nr;
};

struct engine {
	struct machine *m;
	struct knobs given, knobs;
	bool validate;
	/* of a run; q NULL: none */
	struct quire *q;
	const struct script *script;
	struct engine_proc *procs;
	struct mfile **files; /* NULL: closed */
	struct engine_pin *pins;
	uint32_t nr_procs, nr_files, nr_pins;
	struct engine_thread threads[SCRIPT_MAX_THREADS + 1];
	uint64_t mark_ns;
	int64_t mark[NR_VM_COUNTERS], seen[NR_VM_COUNTERS]; /* at the last mark, at the last observation */
	struct list_head held[NR_ZONES]; /* frames that free_lists has taken, of node 0; next NULL: none yet */
	int64_t phys_at_begin;
	struct workload_boot boot; /* of the last call of boot */
};

/* The call at hand: where it runs and whose it is. */
struct engine_at {
	struct engine *x;
	struct cpu *c;
	struct mm *mm;
	const struct script_call *call;
	struct script_result *ret;
};

static inline struct engine *engine_of(struct script_exec *x)
{
	return (struct engine *)(void *)x;
}

/* ---- engine_io.c: 0, or -errno of the executor itself (never of the call) ---- */
void engine_touch(struct engine_at *a);
void engine_read(struct engine_at *a);
void engine_write(struct engine_at *a);
void engine_fill(struct engine_at *a);
void engine_file_read(struct engine_at *a, struct mfile *f);
void engine_file_write(struct engine_at *a, struct mfile *f);
void engine_file_truncate(struct engine_at *a, struct mfile *f);
void engine_pread(struct engine_at *a, struct mfile *f);
void engine_pwrite(struct engine_at *a, struct mfile *f);
/* The value of a frame. */
uint64_t engine_frame_value(const struct machine *m, pfn_t p);

/* ---- engine_memory.c ---- */
int engine_free_lists(struct engine_at *a, char *err, size_t errlen);
void engine_free_lists_end(struct engine *x, struct cpu *c);
uint64_t engine_reclaim(struct cpu *c, uint64_t pages);
/* zone.ZONE.WHAT of node 0. */
int engine_zone_counter(const struct engine *x, const char *name, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen);

/* ---- engine_look.c ---- */
int engine_observe(struct script_exec *x, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen);
int engine_counter(struct script_exec *x, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen);
int engine_mark(struct script_exec *x, char *err, size_t errlen);
/* Frames that hold user memory, page cache included: bytes. */
int64_t engine_phys(const struct engine *e);
/* Pages of [addr, addr + len) that mincore says are in memory. */
int64_t engine_incore(struct cpu *c, struct mm *mm, uint64_t addr, uint64_t len, uint64_t *ret_count);

#endif
