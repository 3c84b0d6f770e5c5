/* Compiler attributes and small helpers used everywhere. Freestanding. */
#ifndef QUIRE_BASE_COMPILER_H
#define QUIRE_BASE_COMPILER_H

#include <stddef.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ATTR_MUST_CHECK __attribute__((warn_unused_result))
#define ATTR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ATTR_NOINLINE __attribute__((noinline))
#define ATTR_ALWAYS_INLINE inline __attribute__((always_inline))
#define ATTR_UNUSED __attribute__((unused))

/* Fetch a line that will be written. (The builtin asks for it to be read, unless told that the CPU is a newer one.) */
static inline void prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))
#define ALIGN_UP(x, a) ALIGN_DOWN((x) + ((__typeof__(x))(a)-1), (a))
#define IS_ALIGNED(x, a) (((x) & ((__typeof__(x))(a)-1)) == 0)

#endif
