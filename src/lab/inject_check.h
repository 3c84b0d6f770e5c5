/*
 * Fails each call of a small script that can fail, one after another, and looks at what the engine makes of it.
 *
 * A script runs once without failures, and each point (machine/inject.h) is written down. Then it runs again for each point, on a
 * fresh machine that counts only (machine/null.h), with that point failing. After the step in which it failed:
 *  - the step gave an errno that is documented for it, or went on without what it asked for;
 *  - all invariants hold (quire_validate), no lock is held, and what was stored is where it was;
 *  - a step that is all or nothing left the areas as they were;
 *  - the step, repeated, succeeds, and so does the rest of the script;
 *  - when all address spaces are gone, no frame is missing.
 */
#ifndef QUIRE_LAB_INJECT_CHECK_H
#define QUIRE_LAB_INJECT_CHECK_H

#include "machine/inject.h"

/* ---- scripts (inject_script.c) ---- */
enum inject_op {
	OP_END,
	OP_MMAP,     /* [a, a + n) at that address; b: PROT_*, flags: MAP_* beyond MAP_FIXED */
	OP_MMAP_FILE, /* the same of the file, from its beginning */
	OP_MMAP_SHM,  /* of the memory-backed file */
	OP_STORE,    /* a value into each page of [a, a + n) */
	OP_LOAD,     /* from each page */
	OP_MUNMAP,
	OP_MPROTECT, /* b: PROT_* */
	OP_MREMAP,   /* [a, a + n) becomes b bytes; flags; `to` where needed */
	OP_MADVISE,  /* b: advice */
	OP_MLOCK,    /* b: on fault */
	OP_MUNLOCK,
	OP_MLOCKALL, /* b: MCL_* */
	OP_MUNLOCKALL,
	OP_PIN,      /* [a, a + n); b: for writing */
	OP_UNPIN,
	OP_EXEC,     /* a stack of n bytes with its top at a, the heap at b */
	OP_BRK,      /* a */
	OP_FORK,     /* the next address space in the list */
	OP_SWITCH,   /* to address space a */
	OP_EXIT,     /* address space a goes; the current one is another */
	OP_READ,     /* read(2) of [a, a + n) of the file */
	OP_WRITE,
	OP_POOL,     /* nr_hugepages of size b (enum hugetlb_size) becomes n; when there are fewer then, that is ENOMEM here */
};

struct inject_step {
	enum inject_op op;
	uint64_t a, n, b, to;
	unsigned flags;
};

struct inject_script {
	const char *name, *help;
	const struct inject_step *steps; /* up to OP_END */
	bool huge, huge_cow_copy;        /* transparent_hugepage.enabled=always; quire.huge_cow=copy */
	bool shared_tables;              /* quire.fork_tables=shared */
	uint64_t overcommit_2m;          /* hugepages-2048kB.nr_overcommit_hugepages */
	uint64_t node_bytes;             /* 0: 128 MiB */
};

extern const struct inject_script inject_scripts[];
extern const size_t inject_nr_scripts;

/* ---- one run of a script (inject_world.c) ---- */
enum inject_outcome {
	INJECT_NOT_MET,  /* the point did not come */
	INJECT_REPORTED, /* the step gave an errno */
	INJECT_ABSORBED, /* the step succeeded nevertheless */
};

/*
 * Run with point n (0: none) failing. *ret_log, where asked for: every point, to be freed, *ret_points of them. 0, or -EPROTO with what is
 * wrong in err, or another errno when the run could not be made.
 */
int inject_run_script(const struct inject_script *s, uint64_t n, enum inject_outcome *ret, struct inject_point **ret_log,
		      uint64_t *ret_points, char *err, size_t errlen);

/* ---- all points (inject_check.c) ---- */
struct inject_check_options {
	const struct inject_script *script; /* NULL: all */
	uint64_t count;                     /* points to try of each kind, site and script at most, chosen by seed; 0: all */
	uint64_t seed;
	void (*progress)(void *arg, const char *script, uint64_t done, uint64_t of); /* may be NULL */
	void *progress_arg;
	const volatile bool *stop; /* may be NULL */
};

struct inject_check_row {
	uint64_t met, tried, reported, absorbed;
};

struct inject_check_result {
	struct inject_check_row row[NR_INJECT_SITES][NR_MACHINE_PATHS], sum;
	char failure[400]; /* what was wrong, and how to see it again; "" */
	bool stopped;
};

/* 0, -EPROTO: failure says what, or another errno with failure. */
int inject_check(const struct inject_check_options *o, struct inject_check_result *ret);

#endif
