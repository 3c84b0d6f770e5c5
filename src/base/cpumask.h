/* A fixed-size set of CPU numbers, big enough for every machine that can be described. Freestanding. */
#ifndef QUIRE_BASE_CPUMASK_H
#define QUIRE_BASE_CPUMASK_H

#include <stdbool.h>
#include <stdint.h>

#define QUIRE_MAX_CPUS 1024

struct cpumask {
	uint64_t bits[QUIRE_MAX_CPUS / 64];
};

static inline bool cpumask_test(const struct cpumask *m, unsigned cpu)
{
	return (m->bits[cpu / 64] >> (cpu % 64)) & 1;
}

static inline void cpumask_set(struct cpumask *m, unsigned cpu)
{
	m->bits[cpu / 64] |= 1ULL << (cpu % 64);
}

static inline void cpumask_clear(struct cpumask *m, unsigned cpu)
{
	m->bits[cpu / 64] &= ~(1ULL << (cpu % 64));
}

/* The lowest set CPU that is >= from, or nr where there is none below nr. */
static inline unsigned cpumask_next(const struct cpumask *m, unsigned from, unsigned nr)
{
	while (from < nr) {
		uint64_t w = m->bits[from / 64] >> (from % 64);

		if (w) {
			unsigned c = from + (unsigned)__builtin_ctzll(w);

			return c < nr ? c : nr;
		}
		from = (from / 64 + 1) * 64;
	}
	return nr;
}

#define for_each_cpu(cpu, mask, nr)                                                                \
	for ((cpu) = cpumask_next((mask), 0, (nr)); (cpu) < (nr);                                   \
	     (cpu) = cpumask_next((mask), (cpu) + 1, (nr)))

#endif
