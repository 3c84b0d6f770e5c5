/*
 * Checking interleavings: small concurrent programs on the model machine under schedules (machine/model/schedule.h), with everything
 * checked that can be said about the engine while they run and afterwards. docs/checking.md is the user's side.
 *
 *   schedules_script.c   the programs: a small language, and the ones that are built in
 *   schedules_run.c      one run of one program under one schedule; schedules_ops.c what its tasks do
 *   schedules_oracle.c   which contents and rights a page may show
 *   schedules.c          many runs, in child processes, so that a failed assertion is a finding and not the end; minimal schedules
 */
#ifndef QUIRE_LAB_SCHEDULES_H
#define QUIRE_LAB_SCHEDULES_H

#include "machine/model/schedule.h"
#include "mm/knobs.h"

#define SCHEDULES_MAX_TASKS 8
#define SCHEDULES_MAX_AREAS 6
#define SCHEDULES_MAX_SPACES 12
#define SCHEDULES_MAX_OPS 200
#define SCHEDULES_MAX_PAGES 1024 /* of an area */
#define SCHEDULES_TEXT 400
#define SCHEDULES_MAX_EXHAUSTIVE 4 /* choices */

enum schedules_kind {
	SOP_MAP, SOP_UNMAP, SOP_READ, SOP_WRITE, SOP_PROTECT, SOP_DONTNEED, SOP_POPULATE, SOP_MOVE, SOP_HUGE, SOP_NOHUGE, SOP_COLLAPSE,
	SOP_LOCK, SOP_UNLOCK, SOP_PIN, SOP_PINREAD, SOP_POKE, SOP_UNPIN, SOP_FORK, SOP_VISIT, SOP_KERNEL, SOP_YIELD, SOP_DROP, SOP_EXIT,
	SOP_SPLIT, SOP_MIGRATE, SOP_SHRINK, SOP_DEFER, SOP_PENDING,
	NR_SOPS
};

struct schedules_op {
	enum schedules_kind kind;
	uint8_t area, to;   /* areas; to: of a move */
	uint8_t space;      /* fork, visit, drop */
	uint8_t prot;       /* UAPI_PROT_* */
	uint32_t first, nr; /* pages */
	char text[60];      /* as written, for reports */
};

struct schedules_task {
	char name[16];
	uint8_t cpu, space; /* space: whose; 0 is the first */
	bool child;         /* started by the fork that makes its space */
	uint16_t first, nr; /* ops */
};

struct schedules_program {
	char name[64];
	char space[SCHEDULES_MAX_SPACES][16];
	char area[SCHEDULES_MAX_AREAS][16];
	uint32_t pages[SCHEDULES_MAX_AREAS];
	uint32_t nr_spaces, nr_areas, nr_tasks, nr_ops, nr_setup; /* ops 0 to nr_setup are the setup's */
	uint32_t nr_cpus;
	struct schedules_task task[SCHEDULES_MAX_TASKS];
	struct schedules_op op[SCHEDULES_MAX_OPS];
	char set[8][80]; /* NAME=VALUE */
	uint32_t nr_set;
};

struct schedules_builtin {
	const char *name, *help, *text;
};
extern const struct schedules_builtin schedules_builtins[];
extern const size_t schedules_nr_builtins;
const struct schedules_builtin *schedules_builtin_find(const char *name);

/* 0, or -EINVAL with one line "NAME:LINE: what is wrong, what is allowed". */
int schedules_parse(const char *name, const char *text, struct schedules_program *ret, char *err, size_t errlen);

/* ---- one run ---- */

struct schedules_world; /* a machine that is used again and again */
int schedules_world_create(const struct schedules_program *p, const struct knobs *k, struct schedules_world **ret, char *err, size_t errlen);
void schedules_world_destroy(struct schedules_world *w);
/*
 * 0: nothing wrong. 1: something is, why has it (SCHEDULES_TEXT bytes), and the world must be destroyed. explain (or NULL, with as many bytes
 * as are left in it): what each task was doing at the choices of a list.
 */
int schedules_run(struct schedules_world *w, struct schedule *s, char *why, char *explain, size_t explain_len);

/* ---- many ---- */

enum schedules_search { SEARCH_RANDOM, SEARCH_PCT, SEARCH_EXHAUSTIVE };

struct schedules_options {
	const struct schedules_program *program;
	const struct knobs *knobs;
	enum schedules_search search;
	uint32_t preemptions; /* PCT: change points; exhaustive: most choices */
	uint64_t count, seed; /* seeds seed to seed + count - 1 */
	uint32_t jobs;
	const volatile bool *stop;                            /* may be NULL */
	void (*progress)(void *arg, uint64_t done, uint64_t of); /* may be NULL */
	void *arg;
};

struct schedules_result {
	uint64_t runs, points; /* points: of all runs */
	uint64_t wall_ns;
	bool complete;   /* exhaustive: all there are */
	bool failed;
	uint64_t seed;   /* of the failed run */
	bool minimal;    /* the list below replays a failure, and no choice can be left out */
	uint32_t nr_before; /* choices before they were reduced */
	uint32_t nr;
	struct schedule_choice list[SCHEDULE_MAX_CHOICES];
	char why[SCHEDULES_TEXT];
	char explain[8192];
};

/* 0: done, ret says what was found; else -errno with one line. *ret is large: not for the stack. */
int schedules_check(const struct schedules_options *o, struct schedules_result *ret, char *err, size_t errlen);
/* One given schedule. */
int schedules_replay(const struct schedules_options *o, const struct schedule_choice *list, uint32_t nr, struct schedules_result *ret,
		     char *err, size_t errlen);

/* "1@31:2,..."; NULL or -EINVAL with a line. */
int schedules_parse_list(const char *text, struct schedule_choice *ret, uint32_t max, uint32_t *ret_nr, char *err, size_t errlen);

#endif
