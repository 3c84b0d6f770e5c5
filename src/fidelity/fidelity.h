/*
 * Fidelity: one script run on the kernel underneath and on the engine, side by side, compared after every step.
 *
 *   run.c       a script on both sides, step by step      sides.c   what both sides must have in common before the first step
 *   compare.c   two results, two observations             declared.c  the one table of differences that are known, with reasons
 *   random.c    scripts from a seed                       shrink.c  the shortest part of a script that still differs
 *
 * Addresses are compared as places relative to what each side has: the arena, the break's start, the top of the mmap region.
 */
#ifndef QUIRE_FIDELITY_FIDELITY_H
#define QUIRE_FIDELITY_FIDELITY_H

#include "mm/knobs.h"
#include "script/exec.h"
#include "script/run.h"

struct machine;

/* ---- differences ---- */

enum fidelity_kind {
	FID_RESULT,   /* what the call returned */
	FID_SIGNAL,   /* SIGSEGV, SIGBUS or none */
	FID_VALUE,    /* what a read gave */
	FID_COUNT,    /* how far a call came */
	FID_AREAS,    /* which areas there are, their rights and files */
	FID_VMFLAGS,  /* VmFlags of smaps; key: the bits that differ */
	FID_SMAPS,    /* a sum of smaps; key: enum script_smap */
	FID_PAGES,    /* presence, huge flag, ... of a page; key: the SPAGE_ bits that differ */
	FID_CONTENTS, /* what a page holds */
	FID_FAULTS,   /* how many faults the step took; key: 0 all, 1 major ones */
	FID_VMSTAT,   /* another counter of /proc/vmstat; key: its place in script_kernel_counters */
	FID_NODE,     /* the node that a page is on */
	NR_FIDELITY_KINDS
};
extern const char *const fidelity_kind_names[NR_FIDELITY_KINDS];

struct fidelity_declared {
	const char *name, *reason; /* a word; why Linux, or this version or configuration of it, does otherwise */
	bool ends;                 /* what follows the step in the script cannot be compared */
};

#define FIDELITY_TEXT 400

struct fidelity_diff {
	enum fidelity_kind kind;
	uint32_t key, proc;
	int64_t kernel, engine;         /* the two values */
	uint64_t start, end;            /* the area it was seen in, as the engine has it; 0, 0: none */
	const struct fidelity_declared *declared; /* NULL: it is not */
	char text[FIDELITY_TEXT];       /* in words */
};

/* Differences of a step; what comes after the first FIDELITY_DIFFS is counted only. */
#define FIDELITY_DIFFS 16
struct fidelity_diffs {
	struct fidelity_diff v[FIDELITY_DIFFS];
	size_t nr, nr_undeclared;
};

/* ---- sides ---- */

/* What the kernel underneath is and has set; the engine is given the same. */
struct fidelity_kernel {
	char release[64];
	unsigned version;    /* major * 1000 + minor: 6018 */
	struct knobs knobs;
	char thp[100];       /* in words */
	bool pagemap_scan;
	bool generations;    /* lists of pages by generations (lru_gen) are on */
	bool gigantic;       /* pages of 1 GiB can be asked for (CPUs have them or not) */
	bool watched;        /* DAMON is at work: it takes accessed bits and marks the page instead, which smaps shows of all that map it */
};
/* 0, or -EOPNOTSUPP with one line why in err: no /proc, a setting that is unknown here. */
ATTR_MUST_CHECK int fidelity_kernel_read(struct fidelity_kernel *k, char *err, size_t errlen);

struct fidelity_options {
	const struct fidelity_kernel *kernel;
	struct machine *machine;      /* for the engine */
	bool contents_every_step;     /* also in between, which leaves traces in what Linux says is referenced */
	bool programs_only;           /* the engine does its work otherwise than Linux: not compared are faults, smaps and who else maps a page */
	bool owned;                   /* nothing else runs on this computer, and its settings are ours: /proc/vmstat and nodes are compared too */
	uint64_t max_steps;           /* 0: no bound but the language's */
};

/* Between two steps: what was called, on both sides. */
struct fidelity_step {
	uint32_t index, line;
	const struct script_call *call;           /* as the engine got it */
	const struct script_result *kernel, *engine;
	const struct fidelity_diffs *diffs;
	struct script_run *run;                   /* the engine's: for labels */
};

struct fidelity_result {
	uint64_t steps, equal, declared, undeclared; /* steps by the worst of their differences */
	uint64_t not_compared;     /* made after a declared difference that ends the comparison */
	bool skipped;              /* at this step, or before the first */
	char why[300];
	uint32_t first;            /* index and line of the first step with an undeclared difference */
	uint32_t first_line;
	struct fidelity_diff diff; /* that difference */
	uint64_t by_declared[64];  /* steps, by place in the table */
};

/*
 * Run s on both sides. Stops at the first step with an undeclared difference. 0 whatever was found; negative errno with one line in err
 * when a side is broken or the script itself is wrong. each: may be NULL; called after every step.
 */
ATTR_MUST_CHECK int fidelity_run(const struct script *s, const struct fidelity_options *o,
				 void (*each)(void *arg, const struct fidelity_step *st), void *arg, struct fidelity_result *ret, char *err,
				 size_t errlen);

/* The same script on one executor alone; each gets all observations of a step. For comparing elsewhere. */
struct fidelity_seen {
	uint32_t index, line;
	const struct script_call *call;
	const struct script_result *result;
	const struct script_obs *obs;
	size_t nr_obs;
	struct script_run *run;
	uint64_t arena, top, heap;
};
ATTR_MUST_CHECK int fidelity_run_kernel(const struct script *s, const struct fidelity_options *o,
					void (*each)(void *arg, const struct fidelity_seen *seen), void *arg, struct fidelity_result *ret,
					char *err, size_t errlen);

/* ---- scripts ---- */

extern const struct fidelity_declared *fidelity_declared_at(size_t i); /* NULL behind the last */

/* Scripts that are in the command itself; name NULL behind the last. */
struct fidelity_file {
	const char *name, *text;
};
extern const struct fidelity_file fidelity_files[];

/* A script of a few steps from a seed; the same seed gives the same. Text in the language. */
void fidelity_random(uint64_t seed, FILE *to);

/*
 * The shortest script found by taking statements out of s while differs(arg, script) holds. *ret is a new script. 0, -ENOMEM.
 */
ATTR_MUST_CHECK int fidelity_shrink(const struct script *s, bool (*differs)(void *arg, const struct script *s), void *arg,
				    struct script **ret);

#endif
