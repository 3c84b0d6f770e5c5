/*
 * The executor on the engine: boots a fresh manager on a machine for each run, over the null machine, a model or the host. The calls are the
 * engine's own (mm.h), entered and left as system calls; accesses go through the machine. Threads are CPUs of the machine, so calls of
 * different threads come one after another, in the script's order, each on its own CPU.
 */
#ifndef QUIRE_SCRIPT_ENGINE_H
#define QUIRE_SCRIPT_ENGINE_H

#include "mm/system.h"
#include "script/exec.h"

extern const struct script_exec_ops script_engine_ops;

struct script_engine_options {
	struct machine *machine;   /* not owned; nothing else may use it during a run */
	const struct knobs *knobs; /* NULL: defaults; what the script sets is set on top, each run anew */
	bool validate;             /* quire_validate after every step (slow) */
};

/* 0 or -ENOMEM. */
ATTR_MUST_CHECK int script_engine_create(const struct script_engine_options *o, struct script_exec **ret);
/* NULL is allowed. No run may be at work. */
void script_engine_destroy(struct script_exec *x);
/* During a run: the manager, for counters and reports. */
struct quire *script_engine_quire(struct script_exec *x);

#endif
