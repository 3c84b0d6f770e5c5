/* What `quire run` says: a table and its notes for people, JSON for machines, the profile. */
#ifndef QUIRE_REPORT_RUN_REPORT_H
#define QUIRE_REPORT_RUN_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/run.h"

/* Heading, table and notes. */
void report_run_text(FILE *f, const struct lab_options *o, const struct lab_result *r, bool bold);
/* Where the time went, in per cent of the CPUs' time, a column a row of the run. */
void report_run_profile(FILE *f, const struct lab_options *o, const struct lab_result *r, bool bold);
/* What lab_options.proc asked for, row by row, each under a heading. */
void report_run_proc(FILE *f, const struct lab_result *r);
/* NULL: no memory. */
json_t *report_run_json(const struct lab_options *o, const struct lab_result *r);
/* One line each about what a reader must know to judge the figures. */
void report_run_notes(const struct lab_options *o, const struct lab_result *r,
		      void (*note)(void *arg, const char *line), void *arg);
/* How a row is called in tables: the values of what varies, "run" where nothing does. */
void report_row_label(const struct lab_row *row, char *buf, size_t len);

#endif
