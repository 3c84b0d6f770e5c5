/*
 * Cases: situations that people reported from production, each a script (docs/scripts.md) that does the smallest sequence with its essence and
 * says what must be counted (`expect`) and what depends on prices (`report`, shown beside the published figure). Those in cases/ ship inside the
 * command; the number is the file's.
 */
#ifndef QUIRE_LAB_CASES_H
#define QUIRE_LAB_CASES_H

#include "mm/knobs.h"
#include "script/script.h"

struct case_file {
	const char *name, *text; /* "03-one-touch-per-arena" */
};
extern const struct case_file case_files[]; /* name NULL behind the last */

/* One `expect` or `report` of one variant. In a loop: the first time that it was wrong, else the last time. */
struct case_line {
	const struct script_stmt *st;
	char *text;           /* what was expected, as written; a report's name */
	const char *unit, *published; /* reports; the script's; published may be NULL */
	int64_t found, expected;
	uint64_t times;
	bool judged, compares, ok;
};

/* A variant, or the whole of a script without any. */
struct case_run {
	const char *variant;  /* the script's; NULL: none */
	struct case_line *line;
	size_t nr, cap;
	uint64_t calls;
	bool done, skipped;   /* skipped: this machine cannot do it */
	int error;            /* a call went otherwise than it says */
	char err[400];
};

struct case_result {
	const char *name;     /* of the file */
	unsigned number;      /* what the name begins with, 0: nothing */
	struct script *script; /* NULL: it could not be read */
	struct case_run *run;
	size_t nr_runs;
	char err[600];        /* of reading it */
	char machine[64];
};

struct case_options {
	const char *machine;  /* a name, a file, "host", "null"; NULL: what the script says, else null */
	const struct knobs *knobs; /* what scripts set comes on top */
	unsigned jobs;
	const volatile bool *stop;
};

struct case_counts {
	uint64_t cases, pending, skipped, exact, wrong, shapes, broken; /* broken: could not be read, or a call went wrong */
};

/* What is to be run: files with name and text. 0 or -ENOMEM. All runs of all cases share the jobs. *ret[nr] is to be freed. */
ATTR_MUST_CHECK int cases_run(const struct case_options *o, const struct case_file *files, size_t nr, struct case_result **ret);
void cases_done(struct case_result *r, size_t nr);
void cases_count(const struct case_result *r, size_t nr, struct case_counts *ret);

#endif
