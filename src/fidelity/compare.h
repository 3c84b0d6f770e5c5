/* Comparing what two sides gave and showed; which differences are declared. Private to src/fidelity. */
#ifndef QUIRE_FIDELITY_COMPARE_H
#define QUIRE_FIDELITY_COMPARE_H

#include "fidelity/fidelity.h"

/* Where a side has what scripts refer to. */
struct fidelity_places {
	uint64_t arena, arena_len, heap, top;
};

/* What the judgement of one difference may look at. */
struct fidelity_case {
	const struct fidelity_kernel *kernel;
	const struct script_call *call;
	const struct script_result *k, *e;
	const struct script_area *ka, *ea; /* the area in question on both sides; NULL where there is none */
	const struct script_area *knext;   /* FID_AREAS: the one behind ka; this and ka are where the engine would have them */
	int64_t kmajor;                    /* FID_FAULTS: major faults of the step on the kernel's side */
	uint8_t kpage, epage;              /* FID_PAGES, FID_CONTENTS */
	uint64_t plain_files;              /* by number: of the first 64, those that are ordinary files */
	unsigned ops_seen;                 /* of the script so far: FIDELITY_SEEN_* */
};

enum {
	FIDELITY_SEEN_FREE = 1 << 0,      /* MADV_FREE */
	FIDELITY_SEEN_HUGE = 1 << 1,      /* MADV_HUGEPAGE */
	FIDELITY_SEEN_HUGE_FILE = 1 << 2, /* an area of an ordinary file that asks for huge pages */
	FIDELITY_SEEN_PAGEOUT = 1 << 6,   /* MADV_PAGEOUT */
	FIDELITY_SEEN_LOCK = 1 << 4,      /* mlock, mlock2, mlockall, MAP_LOCKED */
	FIDELITY_SEEN_LEFT_LOCKED = 1 << 5, /* after that MREMAP_DONTUNMAP */
	FIDELITY_SEEN_FAILED_WRITE = 1 << 7, /* write(2) from memory that is not there */
	FIDELITY_SEEN_SHARED = 1 << 8,    /* a shared mapping */
	FIDELITY_SEEN_FOLIOS = 1 << 3,    /* a mapped ordinary file that Linux has in folios of several pages */
};

/* Everything that a step's comparison needs. */
struct fidelity_compare {
	struct fidelity_case about;
	struct fidelity_places k, e;
	struct script_run *run; /* the engine's: for labels */
	struct fidelity_diffs *diffs;
	bool programs_only; /* fidelity_options */
	bool owned; /* counters of /proc/vmstat were taken */
};

/* An address of the kernel's side as the engine has it. */
uint64_t fidelity_translate(const struct fidelity_places *k, const struct fidelity_places *e, uint64_t addr);

void fidelity_compare_results(struct fidelity_compare *c, const struct script_call *kcall, const struct script_result *k,
			      const struct script_result *e);
void fidelity_compare_obs(struct fidelity_compare *c, const struct script_obs *k, const struct script_obs *e);

/* The entry that says that d is known, or NULL. */
const struct fidelity_declared *fidelity_judge(const struct fidelity_case *about, const struct fidelity_diff *d);
size_t fidelity_declared_index(const struct fidelity_declared *d);

#endif
