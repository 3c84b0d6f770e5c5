/*
 * The functions of every shape, for the file that includes this: HOT_TARGET are their attributes, HOT_TABLE the name of the table, HOT_SHAPES
 * the shapes beside SHAPE_ANY.
 */
#include "machine/model/hot.h"
#include "machine/model/hot_replay.h"

/* One shape's functions. */
#define S(name, ...)                                                                                                      \
	static HOT_TARGET uint64_t miss_##name(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op,             \
					       const struct cache_pos *p1, int way, uint8_t **ret_flags)                   \
	{                                                                                                                  \
		return hot_miss(SHAPE_##name, cc, line, t, op, p1, way, ret_flags);                                        \
	}                                                                                                                  \
	static HOT_TARGET int walk_##name(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t *t)     \
	{                                                                                                                  \
		return hot_walk(SHAPE_##name, miss_##name, c, cc, va, flags, t);                                                        \
	}                                                                                                                  \
	static HOT_TARGET size_t replay_##name(struct cpu *c, const uint64_t *words, size_t nr, struct replay_windows *win, \
					       int *ret_err)                                                               \
	{                                                                                                                  \
		const struct replay_calls calls = { .walk = walk_##name, .miss = miss_##name };                            \
                                                                                                                           \
		return hot_replay(SHAPE_##name, calls, c, words, nr, win, ret_err);                                        \
	}
S(ANY)
HOT_SHAPES(S)
#undef S

#define S(name, ...) [SHAPE_##name] = { .miss = miss_##name, .walk = walk_##name, .replay = replay_##name },
const struct core_hot HOT_TABLE[NR_SHAPES] = { S(ANY) HOT_SHAPES(S) };
#undef S
