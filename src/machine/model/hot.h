/*
 * The hot code of the cost core, by shape of machine: misses of L1, translation, replay (hot_miss.h, hot_walk.h, hot_replay.h). It is compiled
 * for each shape of shape.h and for any, and again with AVX2 where the compiler has it; core_hot_pick takes what fits the machine and
 * the host. All give the same results.
 */
#ifndef QUIRE_MACHINE_MODEL_HOT_H
#define QUIRE_MACHINE_MODEL_HOT_H

#include "machine/model/model_int.h"
#include "machine/model/shape.h"

typedef uint64_t (*miss_fn)(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op, const struct cache_pos *p1,
			    int way, uint8_t **ret_flags);
typedef int (*walk_fn)(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t *t);
typedef size_t (*replay_fn)(struct cpu *c, const uint64_t *words, size_t nr, struct replay_windows *win, int *ret_err);

struct core_hot {
	miss_fn miss;
	walk_fn walk;
	replay_fn replay;
};

extern const struct core_hot core_hot_plain[NR_SHAPES];
#ifdef __x86_64__
#define CORE_HOT_AVX2
extern const struct core_hot core_hot_avx2[NR_SHAPES];
#endif

/* The first shape whose description the machine's arrays fit. */
enum core_shape core_shape_of(const struct model *md);
const struct core_hot *core_hot_pick(const struct model *md);
/* replay.c: puts the window that holds addr first. False: there is none. */
bool replay_window_find(struct replay_windows *win, uint64_t addr);

#endif
