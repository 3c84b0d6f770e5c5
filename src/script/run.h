/*
 * Running a script: walks the tree, keeps names, evaluates expressions and checks expectations. Pull style: script_run_next gives the next
 * call, the caller has it carried out and hands the result back. So two runs of one script over two executors go in step:
 *
 *	while ((rc = script_run_next(run, &call)) > 0) {
 *		rc = x->ops->step(x, &call, &result, err, sizeof(err));
 *		...observe, compare...
 *		script_run_result(run, &result);
 *	}
 *
 * script_run_all does this for one executor. A run holds a reference to the script, which must stay as it is.
 */
#ifndef QUIRE_SCRIPT_RUN_H
#define QUIRE_SCRIPT_RUN_H

#include "script/exec.h"

struct script_run;

struct script_run_options {
	const struct script_exec_ops *ops;
	struct script_exec *exec;
	const char *variant;     /* NULL: none; must exist in the script otherwise */
	bool keep_going;         /* calls may fail without `-> ERRNO` (fidelity), and what `->` says is not checked */
	bool no_expect;          /* expect and report lines are passed over (fidelity) */
	uint64_t max_steps;      /* 0: SCRIPT_MAX_STEPS */
	const struct script_setting *set; /* settings beside the script's own; they come first */
	size_t nr_set;
	/* May be NULL. An expectation was looked at; text: "EXPR == EXPR" as written; left, right: both sides (right 0 without a comparison). */
	void (*on_expect)(void *arg, const struct script_stmt *st, bool ok, const char *text, int64_t left, int64_t right);
	/* May be NULL. A `report` line. */
	void (*on_report)(void *arg, const struct script_stmt *st, const char *name, int64_t value, const char *unit);
	void *arg;
};

/* Counts of a run. */
struct script_run_counts {
	uint64_t steps, expects, failed, reports; /* failed: expectations that did not hold */
};

/* Start: calls ops->begin. 0 and *ret, or negative errno (-EOPNOTSUPP: the executor can't do this) with one line in err. */
ATTR_MUST_CHECK int script_run_begin(const struct script *s, const struct script_run_options *o, struct script_run **ret, char *err,
				     size_t errlen);
/* 1: *call is to be carried out; 0: the script is at its end; negative errno with one line "FILE:LINE:COL: ..." in err. */
ATTR_MUST_CHECK int script_run_next(struct script_run *r, struct script_call *call, char *err, size_t errlen);
/* What the call gave. 0, or -EBADMSG with one line in err: it failed, or did not fail as `->` said (never with keep_going). */
ATTR_MUST_CHECK int script_run_result(struct script_run *r, const struct script_result *res, char *err, size_t errlen);
/* Calls ops->end and frees the run. NULL is allowed. */
void script_run_end(struct script_run *r);

const struct script_run_counts *script_run_counts(const struct script_run *r);
/* Of the statement that the last call came from. */
const struct script_stmt *script_run_stmt(const struct script_run *r);

/*
 * The address as NAME+offset: of the areas that were bound to names by mmap and mremap (in any process), the one bound last that
 * contains it (its end included when no other contains it), else ARENA+offset, else a number. Comparable between two runs of one script.
 */
void script_run_label(const struct script_run *r, uint64_t addr, char *buf, size_t len);

/* begin, every step, end. 0: all calls were as they had to be (expectations may have failed: counts). */
ATTR_MUST_CHECK int script_run_all(const struct script *s, const struct script_run_options *o, struct script_run_counts *ret, char *err,
				   size_t errlen);

#endif
