/*
 * Executors: what carries a script's calls out. One runs them on the engine over any machine (engine.h), another on the kernel
 * underneath. They get calls in which all is numbers, one at a time, in order; names, loops and expectations are run.c's.
 *
 * Contract
 *  - begin .. end brackets one run of one script. Process 0 with thread 0 exists after begin; a new run starts from nothing.
 *  - step returns 0 when the call was made, whatever the call itself gave (that is in *ret: failing is a result), or
 *      -EOPNOTSUPP  this executor cannot do this call (err: one line why); the run ends as 'skipped'
 *      other        the executor itself is broken: out of the computer's memory, child gone, ... (err: one line)
 *  - A call in a process or thread that has ended is run.c's error and never arrives.
 *  - observe fills *ret (initialised by the caller) with what it can of `what` for one process. Same return values.
 *  - counter: -ENOENT when the name is unknown, -EINVAL when the number of arguments is wrong (err: what is allowed). Names that all
 *    executors must know are in docs/scripts.md, 'Counters'. `vmstat.NAME` is the change since begin or the last mark.
 */
#ifndef QUIRE_SCRIPT_EXEC_H
#define QUIRE_SCRIPT_EXEC_H

#include "script/observe.h"
#include "script/script.h"

struct script_exec; /* an executor's own state; embed or cast */

struct script_counter_ref {
	const char *name;     /* whole: "vmstat.pgfault", "rss", "mincore" */
	unsigned nr;
	int64_t arg[SCRIPT_MAX_ARGS];
	uint32_t proc, thread; /* who asks */
};

struct script_exec_ops {
	const char *kind; /* "engine", "kernel" */
	/*
	 * A new run: settings are in set[nr_set] (the variant's and the script's own `set` lines at its head), to be made before anything
	 * else. -EINVAL for a setting or value that does not exist, -EOPNOTSUPP when they may not be changed here. *ret_arena,
	 * *ret_arena_len: a stretch of free addresses, the same in every process, in which nothing but the script maps (`ARENA`);
	 * page and 2 MiB aligned, at least 1 GiB where the executor can.
	 */
	int (*begin)(struct script_exec *x, const struct script *s, const struct script_setting *set, size_t nr_set, uint64_t *ret_arena,
		     uint64_t *ret_arena_len, char *err, size_t errlen);
	int (*step)(struct script_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen);
	int (*observe)(struct script_exec *x, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen);
	int (*mark)(struct script_exec *x, char *err, size_t errlen);
	int (*counter)(struct script_exec *x, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen);
	/* Everything of the run is gone afterwards, processes included. Called also when begin failed. */
	void (*end)(struct script_exec *x);
};

#endif
