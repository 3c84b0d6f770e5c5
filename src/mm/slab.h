/*
 * Slab allocator (slab.c) for the engine's own objects (mm, vma, file, ...), carved from frames so that they are
 * accounted as memory and have modelled addresses (rule 1). One cache a type; a slab is one or more frames; free
 * objects are linked through their first word. Guarded by the cache's lock; per-CPU magazines in front of it.
 */
#ifndef QUIRE_MM_SLAB_H
#define QUIRE_MM_SLAB_H

#include "mm/zone.h"

struct slab_cache {
	const char *name;
	uint32_t size; /* object size, multiple of 8, at least 16, at most 4096 * 8 */
	uint32_t per_slab;
	uint32_t order;
	uint32_t magazine; /* objects a CPU keeps */
	unsigned id;
	/*
	 * Objects keep what they hold when they are freed, but for their first word, and their frames are kept while tasks
	 * run: who finds an object without a lock may look whether it still is what it was (the kernel's SLAB_TYPESAFE_BY_RCU). A new frame's are zeroed.
	 */
	bool typesafe;
	struct mlock lock;
	struct list_head partial, full; /* slabs with and without free objects */
	uint64_t nr_partial;
	uint64_t nr_objects; /* handed out: in use or in a magazine */
	uint64_t nr_slabs;
};

enum slab_id { SLAB_MM, SLAB_VMA, SLAB_FILE, SLAB_RADIX, SLAB_HUGETLB_RMAP, SLAB_KTHREAD, SLAB_ANON_VMA, SLAB_ANON_VMA_CHAIN, NR_SLABS };

int slab_boot(struct cpu *c, struct quire *q);
/* An object, zeroed unless the cache is typesafe, or NULL when out of memory. */
void *slab_alloc(struct cpu *c, enum slab_id id);
void slab_free(struct cpu *c, enum slab_id id, void *obj);
/* Give this CPU's magazines back, and all empty slabs (shutdown, tests). No task runs. */
void slab_drain(struct cpu *c);
/* Lists, counts, free objects, magazines. 0 or -EINVAL with q->err set. */
int slab_validate(struct quire *q);

#endif
