/*
 * What is seen of a process after a step of a script: what the call returned, its areas as /proc/PID/maps and smaps have them, and each
 * page as pagemap, mincore and a look at its contents have it. Filled by executors (exec.h), compared by whoever has two.
 *
 * Addresses are the executor's own; script_run_label (run.h) turns them into NAME+offset, which is what is compared. Sizes that Linux prints
 * in kB are in bytes here. Nothing of the observation changes what is observed: contents are taken of present pages only, and without
 * setting accessed bits where the executor can.
 */
#ifndef QUIRE_SCRIPT_OBSERVE_H
#define QUIRE_SCRIPT_OBSERVE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a call gave. Always there. */
struct script_result {
	int64_t ret;     /* what the system call returned; negative errno when it failed. Of accesses: 0, or -EFAULT with `signal` */
	int signal;      /* SIGSEGV or SIGBUS that an access raised (the access did not happen), or 0 */
	int64_t value;   /* SOP_READ */
	uint64_t count;  /* see the op */
};

/* Parts of an observation: what to look at. */
enum {
	SOBS_AREAS = 1 << 0,    /* areas, their rights and flags */
	SOBS_SMAPS = 1 << 1,    /* sums an area */
	SOBS_PAGES = 1 << 2,    /* bits a page: SPAGE_* */
	SOBS_CONTENTS = 1 << 3, /* values of present pages */
	SOBS_VMSTAT = 1 << 4,   /* change of counters since the last observation that asked for it, or begin */
	SOBS_NODES = 1 << 5,    /* with SOBS_PAGES: the node of each page */
	SOBS_ALL = (1 << 6) - 1,
};

/* Bits of a page. */
enum {
	SPAGE_PRESENT = 1 << 0,
	SPAGE_SWAP = 1 << 1,
	SPAGE_FILE = 1 << 2,   /* pagemap bit 61: a page of a file or of shared memory */
	SPAGE_EXCL = 1 << 3,   /* pagemap bit 56: mapped once */
	SPAGE_HUGE = 1 << 4,   /* mapped by an entry of 2 MiB */
	SPAGE_INCORE = 1 << 5, /* mincore's bit */
	SPAGE_VALUE = 1 << 6,  /* value[] was taken */
};

/* VmFlags of smaps that scripts can change: bits, and their letters in script_vmflag_names. */
enum script_vmflag {
	SVF_RD, SVF_WR, SVF_EX, SVF_SH, SVF_MR, SVF_MW, SVF_ME, SVF_GD, SVF_LO, SVF_SR, SVF_RR, SVF_DC, SVF_DE, SVF_AC, SVF_NR, SVF_HT, SVF_WF,
	SVF_DD, SVF_HG, SVF_NH, SVF_UM, SVF_UW, SVF_LF, NR_SCRIPT_VMFLAGS
};
extern const char script_vmflag_names[NR_SCRIPT_VMFLAGS][3];

/* Lines of smaps. */
enum script_smap {
	SMAP_RSS, SMAP_PSS, SMAP_PSS_DIRTY, SMAP_SHARED_CLEAN, SMAP_SHARED_DIRTY, SMAP_PRIVATE_CLEAN, SMAP_PRIVATE_DIRTY, SMAP_REFERENCED,
	SMAP_ANONYMOUS, SMAP_LAZYFREE, SMAP_ANONHUGEPAGES, SMAP_SHMEMPMDMAPPED, SMAP_FILEPMDMAPPED, SMAP_SWAP, SMAP_SWAPPSS, SMAP_LOCKED,
	NR_SCRIPT_SMAPS
};
extern const char *const script_smap_names[NR_SCRIPT_SMAPS]; /* "Rss", "Pss", ... */

struct script_area {
	uint64_t start, end;
	uint8_t prot;          /* PROT_* */
	bool shared;
	uint32_t file;         /* the script's number of the file, SCRIPT_NONE for anonymous memory */
	uint64_t off;          /* file mappings: offset in bytes; else 0 */
	uint32_t vmflags;      /* bit 1 << SVF_*; 0 when the executor cannot tell */
	bool folios;           /* the engine's: a part of its file would have been read in folios of several pages (quire.readahead_folios) */
	uint64_t smap[NR_SCRIPT_SMAPS]; /* with SOBS_SMAPS */
	uint8_t *page;         /* [(end - start) / 4096], with SOBS_PAGES or SOBS_CONTENTS */
	uint64_t *value;       /* as many, with SOBS_CONTENTS: valid where SPAGE_VALUE is set */
	int8_t *node;          /* as many, with SOBS_NODES: of the page that is there; -1: none, or a page of zeroes */
};

#define SCRIPT_COUNTER_UNKNOWN INT64_MIN /* a delta that others may have a part in */
struct script_counter_delta {
	const char *name;      /* of /proc/vmstat; belongs to the executor and stays valid until its end */
	int64_t delta;
};

struct script_obs {
	unsigned what;         /* parts that are filled in: an executor may be able to do less than was asked for */
	uint32_t proc;
	struct script_area *area; /* ordered by address; only those that the script made */
	size_t nr_areas;
	struct script_counter_delta *vmstat; /* those that are not 0 */
	size_t nr_vmstat;
};

/* Most pages of which bits are kept in one observation: an executor that meets more leaves SOBS_PAGES and SOBS_CONTENTS out. */
#define SCRIPT_OBS_MAX_PAGES (1ULL << 20)

void script_obs_init(struct script_obs *o);
/* Free what it holds; may be used again afterwards. */
void script_obs_clear(struct script_obs *o);
/* A new area at the end, zeroed, with page (and value) arrays as `what` wants them. NULL: out of memory. */
ATTR_MUST_CHECK struct script_area *script_obs_add(struct script_obs *o, uint64_t start, uint64_t end, unsigned what);

#endif
