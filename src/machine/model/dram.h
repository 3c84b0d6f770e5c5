/*
 * Memory controllers and links between sockets: servers with a service time a line and a latency (dram.c).
 */
#ifndef QUIRE_MACHINE_MODEL_DRAM_H
#define QUIRE_MACHINE_MODEL_DRAM_H

#include "base/types.h"

struct model;
struct core_cpu;

/*
 * CPUs run ahead of each other by up to a quantum, so requests do not arrive in order of time. A server therefore keeps how
 * much of each slot of time is taken, in a ring, instead of one next-free time; a request takes the first slot at or after its
 * arrival that has room.
 */
#define DRAM_SLOTS 2048U

struct dram_slot {
	uint64_t number; /* which slot of time this entry holds now */
	uint64_t used;   /* in 1/256 ps */
};

struct dram_server {
	unsigned shift;  /* a slot is 2^shift ps */
	struct dram_slot *slot;
};

struct dram_node {
	struct dram_server srv;
	uint64_t read_service, write_service; /* 1/256 ps a line */
	uint64_t read_latency_ps, write_latency_ps;
	unsigned socket;
};

/* When the server begins to serve a request of `service` (1/256 ps) that arrives at t. */
uint64_t dram_serve(struct dram_server *s, uint64_t t, uint64_t service);

/* A line read by a core of `socket` from `node` at t: when the data is there. */
uint64_t dram_read(struct model *md, struct core_cpu *cc, unsigned socket, unsigned node, uint64_t t);
/*
 * A line written back. Nobody waits for it as long as the controller's queue has room; beyond that, the miss that pushed it out does
 * (core_cpu.write_ready_ps), so that a CPU cannot write faster than memory takes it.
 */
#define DRAM_WRITE_QUEUE 64U
void dram_write(struct model *md, struct core_cpu *cc, unsigned socket, unsigned node, uint64_t t);
/* A line (or an acknowledgement) over the link between two sockets at t: when it has arrived. */
uint64_t dram_link(struct model *md, unsigned from, unsigned to, uint64_t t, bool data);

int dram_init(struct model *md, char *err, size_t errlen);
void dram_done(struct model *md);

#endif
