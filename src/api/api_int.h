/* What the files of the public calls share: the objects behind quire.h's names. */
#ifndef QUIRE_API_API_INT_H
#define QUIRE_API_API_INT_H

#include "machine/host/host.h"
#include "mm/system.h"

#include <pthread.h>
#include <quire/quire.h>

#define HOST_API_MAX_THREADS 255U

struct quire_manager {
	struct machine *m;
	struct quire *q;
	pthread_mutex_t lock;
	unsigned nr_threads, nr_spaces, nr_pins;
};

struct quire_space {
	struct mm *mm;
	uint32_t refs; /* atomic: holders, and threads that are in it */
};

struct quire_thread {
	struct quire_manager *q;
	struct cpu *c;
	struct quire_space *space; /* NULL: in none */
};

static inline void api_enter(struct quire_thread *t)
{
	machine_enter(t->c, ENTRY_SYSCALL);
}

static inline void api_leave(struct quire_thread *t)
{
	machine_leave(t->c, ENTRY_SYSCALL);
}

#endif
