/*
 * The hot code for hosts with AVX2: the same source, with instructions that compare a set's tags in one piece. Everything inline gets the
 * target, so that it can be inlined here.
 */
#include "base/compiler.h"

#ifdef __x86_64__
#undef ATTR_ALWAYS_INLINE
#define HOT_TARGET __attribute__((target("avx2,bmi,bmi2")))
#define ATTR_ALWAYS_INLINE inline HOT_TARGET __attribute__((always_inline))
#define ASSOC_AVX2
#define HOT_TABLE core_hot_avx2
#define HOT_SHAPES CORE_SHAPES
#include "machine/model/hot_instances.h"
#else
typedef int hot_avx2_is_empty;
#endif
