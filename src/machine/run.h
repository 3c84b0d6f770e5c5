/* Running tasks on a machine of any kind: for what stands above the machines and should not know which one it has. */
#ifndef QUIRE_MACHINE_RUN_H
#define QUIRE_MACHINE_RUN_H

#include "machine/machine.h"

/*
 * Run all started tasks, and those that they start, to their end. 0; -EINTR: m->stop was set; -EDEADLK: all that are left have
 * blocked; else negative errno; with one line in err.
 */
ATTR_MUST_CHECK int machine_run(struct machine *m, char *err, size_t errlen);
/* A CPU for calls outside of tasks: boot, setting up, teardown. Not to be used while machine_run is at work. */
struct cpu *machine_boot_cpu(struct machine *m);
/* Give t to the machine; before machine_run too. 0, -EINVAL or -ENOMEM. */
ATTR_MUST_CHECK int machine_task_start(struct machine *m, struct task *t);
/* Destroy a machine of any kind. NULL is allowed. */
void machine_destroy(struct machine *m);

#endif
