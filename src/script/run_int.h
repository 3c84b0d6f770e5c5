/* What the files of running a script share: run.c walks the tree, eval.c has names and expressions, label.c gives addresses names. */
#ifndef QUIRE_SCRIPT_RUN_INT_H
#define QUIRE_SCRIPT_RUN_INT_H

#include "script/ops.h"
#include "script/run.h"

enum bind_kind { BIND_NONE, BIND_VALUE, BIND_FILE, BIND_PROC, BIND_THREAD, BIND_PIN };

/* What a name, or a name with an index, stands for. */
struct bind {
	uint32_t name, index; /* index 0: none; else index + 1 */
	enum bind_kind kind;
	int64_t value;        /* or the number of the file, process, ... */
};

struct run_proc {
	uint32_t parent;
	bool alive, waited;
};

struct run_thread {
	uint32_t proc;
};

/* An area that got a name. */
struct run_area {
	uint64_t start, end;
	uint32_t name, index;
};

/* A block being walked. */
struct run_frame {
	const struct script_block *b;
	size_t i;
	const struct script_stmt *loop; /* SSTMT_FOR: goes on with next until last */
	int64_t next, last;
	uint32_t proc, thread; /* to go back to afterwards */
};

struct script_run {
	const struct script *s;
	struct script_run_options o;
	const struct script_variant *variant;
	struct script_run_counts counts;
	uint64_t arena, arena_len, max_steps, walked;
	/* where */
	struct run_frame frame[SCRIPT_MAX_DEPTH + 2];
	unsigned depth;
	const struct script_stmt *stmt;
	bool waiting;              /* for the result of `call` */
	struct script_call call;
	struct script_result last;
	uint32_t proc, thread;
	/* names: an open hash */
	struct bind *bind;
	size_t nr_binds, cap_binds;
	struct run_proc *procs;
	uint32_t nr_procs, alive, cap_procs;
	struct run_thread threads[SCRIPT_MAX_THREADS + 1];
	uint32_t nr_threads, nr_files, nr_pins;
	struct run_area *areas;
	size_t nr_areas, cap_areas;
	char *err; /* of the call at work */
	size_t errlen;
};

/* Always `rc`; the place is the expression's or the statement's. */
ATTR_PRINTF(4, 5) int run_fail(struct script_run *r, int rc, const struct script_expr *e, const char *fmt, ...);

/* ---- eval.c ---- */
int run_eval(struct script_run *r, const struct script_expr *e, int64_t *ret);
/* What e stands for, NULL after an error: nothing, or something of another kind. */
const struct bind *run_lookup(struct script_run *r, const struct script_expr *e, enum bind_kind kind, int *ret_rc);
/* From now on e stands for this. */
int run_bind(struct script_run *r, const struct script_expr *e, enum bind_kind kind, int64_t value);
int run_bind_name(struct script_run *r, uint32_t name, enum bind_kind kind, int64_t value);
/* A comparison's sides; `right` 0 where e is none. *ok: e is not 0. */
int run_compare(struct script_run *r, const struct script_expr *e, int64_t *left, int64_t *right, bool *ok);
int run_index(struct script_run *r, const struct script_expr *e, uint32_t *ret);

/* ---- label.c ---- */
int run_area_add(struct script_run *r, const struct script_expr *e, uint64_t start, uint64_t len);

#endif
