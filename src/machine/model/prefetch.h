/* The stream prefetcher of a core (prefetch.c). */
#ifndef QUIRE_MACHINE_MODEL_PREFETCH_H
#define QUIRE_MACHINE_MODEL_PREFETCH_H

#include "machine/desc.h"

struct core_cpu;
struct core_phys;

/* A demand access to `line` missed L1: follow its stream and bring in what comes next. */
void prefetch_train(struct core_cpu *cc, uint64_t line, uint64_t t);
int prefetch_init(struct core_phys *core, const struct machine_desc *d);
void prefetch_done(struct core_phys *core);

#endif
