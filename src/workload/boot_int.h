/* What the files of the workloads boot and hotplug share: boot_map.c the map of memory, boot.c tasks, stages and figures. */
#ifndef QUIRE_WORKLOAD_BOOT_INT_H
#define QUIRE_WORKLOAD_BOOT_INT_H

#include "mm/meminit.h"
#include "workload/memory_map.h"
#include "workload/work_int.h"

#include <stdio.h>

struct boot;

struct boot_task {
	struct task task;
	struct boot *b;
	struct meminit_worker w;
	int nid;
	unsigned share, shares; /* of its node's tasks */
	struct cpumask cpu;
	struct frame *window;
	uint64_t start_ns, end_ns;
	uint64_t *ns[4], nr[4];   /* times of sections: by pass, and of the measured limits: plain stores, past the caches */
} __attribute__((aligned(64)));

/* What was done before the workers began; frames. */
struct boot_early {
	uint64_t ns, gigantic_ns;
	uint64_t reserved, done, grown, gigantic; /* reserved; initialised as free; on demand; written of gigantic pages */
};

struct boot {
	struct quire *q;
	struct machine *m;
	const struct workload_options *o;
	bool model, hotplug;
	unsigned nr_nodes, nr;
	struct meminit mi;
	struct memory_map map;
	struct meminit_node *node; /* [nr_nodes] */
	struct boot_task *t;       /* [nr] */
	struct frame *desc;        /* host */
	uint64_t base, frames;     /* host: of desc, holes included; both machines: sections' times are kept for as many frames */
	uint64_t total, idle;      /* frames of memory; those of them that are not reserved */
	uint64_t *gigantic;        /* [nr_nodes] the first frame behind a node's memory that a gigantic page can have */
	uint64_t *early_done;      /* [nr_nodes] initialised before the workers began */
	struct boot_early early;
	unsigned stored[2];        /* host: tasks that have come to a measured pass */
	bool stopping;
	uint64_t done_pieces;
};

/*
 * boot_map.c: fill the map, nodes, sections and sums in: the map that is given, or one of `size` bytes on the machine's nodes. 0 or negative
 * errno with one line in err. What it made is freed by boot_map_done, also then.
 */
ATTR_MUST_CHECK int boot_map_open(struct boot *b, const struct workload *wl, char *err, size_t errlen);
void boot_map_done(struct boot *b);

#endif
