/*
 * Experiments: a published figure, what the model of its machine gives, what this computer gives, and what explains the difference. A
 * file says all of that (docs/experiments.md); those in experiments/ ship inside the command.
 *
 *   experiment_yaml.c  files to structs, every mistake with its place     experiment.c  running the cases
 */
#ifndef QUIRE_LAB_EXPERIMENT_H
#define QUIRE_LAB_EXPERIMENT_H

#include "lab/compare.h"

#define EXPERIMENT_MAX_CASES 32
#define EXPERIMENT_MAX_FIGURES 24
#define EXPERIMENT_MAX_WITH 4
#define EXPERIMENT_MAX_SETTINGS 16

/* What a figure is of: the gain of a side, or the value of one. */
enum figure_of { OF_GAIN, OF_BASE, OF_WITH };

/* One row of results a case. */
struct figure {
	char *metric;
	enum figure_of of;
	uint32_t with;        /* OF_GAIN, OF_WITH: which value of the case's `with` */
	bool has_published, has_within;
	double published;     /* in the row's unit; gains are ratios */
	double within;        /* how near the model is expected to come: a share of 1 for gains, else of the value */
	char *as;             /* the published figure as it was printed; may be NULL */
};

/* Where a case runs, when it does. */
struct trial {
	bool on;
	char *machine;        /* models only */
	uint32_t tasks;
	uint64_t size;        /* of the whole experiment, before it is scaled */
	uint64_t least;       /* but not scaled below this */
	uint64_t stagger_ns, think_ns;
	uint32_t passes, rounds;
	enum workload_placement placement;
};

struct experiment_case {
	char *name, *note;    /* note may be NULL */
	char *workload, *knob, *base;
	char *with[EXPERIMENT_MAX_WITH];
	uint32_t nr_with;
	char *settings[EXPERIMENT_MAX_SETTINGS]; /* NAME=VALUE, the experiment's first */
	uint32_t nr_settings;
	bool control;         /* a negative control: no difference is expected */
	double tolerance;     /* of a control: gains within 1 +- this count as none */
	struct trial model, host;
	struct figure *figures;
	uint32_t nr_figures;
};

struct experiment {
	char *name, *title, *source, *scale_rule, *explains;
	uint32_t mechanism;
	double scale;         /* of sizes, where nothing else is asked for */
	struct experiment_case *cases;
	uint32_t nr_cases;
};

/* By name among those that ship, or from a file (a name with / or .yaml). 0, -ENOENT, -EINVAL, -ENOMEM or another errno, one line in err. */
int experiment_find(const char *name, struct experiment *ret, char *err, size_t errlen);
/* file: the name to be shown in complaints: "FILE:LINE:COL: key: value: what is allowed". */
int experiment_parse(const char *file, const char *text, size_t len, struct experiment *ret, char *err, size_t errlen);
void experiment_done(struct experiment *e);

struct experiment_file {
	const char *name, *text;
};
/* Generated from experiments/; ends with a NULL name. */
extern const struct experiment_file experiment_files[];

/* ---- running ---- */

struct outcome {
	bool run;
	struct stats_estimate e; /* in the row's unit; n 0: the metric is not there */
	uint32_t tasks;
	uint64_t size;
};

struct experiment_row {
	const struct experiment_case *c;
	const struct figure *f;
	const char *unit;
	struct outcome modelled, measured;
};

struct experiment_options {
	const struct experiment *experiment;
	double scale;           /* 0: the file's */
	bool quick;             /* an eighth of the scale, two rounds */
	bool no_host, no_model;
	const char *only;       /* cases whose name holds this; NULL: all */
	unsigned jobs;
	uint64_t seed;
	void (*progress)(void *arg, const char *what, const struct compare_progress *p);
	void *progress_arg;
	const volatile bool *stop;
};

struct experiment_result {
	struct experiment_row *rows;
	uint32_t nr_rows;
	double scale;
	char host[200];         /* this computer */
	char no_host[200];      /* why nothing was measured; "" where something was */
	char no_hwcount[100];   /* why hardware counters were not read; "" where they were */
	bool stopped;
	uint64_t host_ns;
};

/* 0; -EINTR: interrupted, *ret holds what there is; else negative errno with one line in err. *ret is to be freed in any case. */
int experiment_run(const struct experiment_options *o, struct experiment_result *ret, char *err, size_t errlen);
void experiment_result_done(struct experiment_result *r);
/* The size that a trial runs with, at a scale; whole 2 MiB pages a task and parent. */
uint64_t experiment_size(const struct experiment_case *c, const struct trial *t, double scale);

#endif
