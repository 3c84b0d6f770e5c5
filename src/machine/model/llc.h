/* The last level of a socket and its directory (llc.c). */
#ifndef QUIRE_MACHINE_MODEL_LLC_H
#define QUIRE_MACHINE_MODEL_LLC_H

#include "machine/model/cache.h"

/* A line wanted by a core beyond its L2. Returns when; *ret_state: LINE_W and LINE_D as granted. */
#define LLC_REFUSED (~0ULL) /* a prefetch that would have disturbed another core */
uint64_t llc_access(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op, uint8_t *ret_state);
/* A line leaves L2. */
void llc_put(struct core_cpu *cc, uint64_t line, uint64_t t, bool dirty);
/* `way` of the last level (or, with `filter`, of the snoop filter) at p is about to be filled: its occupant goes. */
void llc_evict(struct model *md, struct core_cpu *cc, unsigned socket, bool filter, const struct cache_pos *p,
	       unsigned way, uint64_t t);

#endif
