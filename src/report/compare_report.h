/* What `quire compare` says: a table and its notes for people, JSON for machines. */
#ifndef QUIRE_REPORT_COMPARE_REPORT_H
#define QUIRE_REPORT_COMPARE_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/compare.h"

/* What a comparison was of, for the heading. */
struct compare_title {
	const char *name;  /* of the workload or the recording */
	const char *where; /* the machine's title, or what this computer is */
	const char *set;   /* settings of all sides, "" for none */
	bool all;          /* show counters that do not differ, too */
};

void report_compare_text(FILE *f, const struct compare_options *o, const struct compare_result *r,
			 const struct compare_title *t, bool bold);
/* NULL: no memory. */
json_t *report_compare_json(const struct compare_options *o, const struct compare_result *r, const struct compare_title *t);
/* A value in the unit of its metric, short. */
void report_metric_value(char *buf, size_t len, const char *unit, double v);
/* "1.166 [1.150, 1.180]", or without an interval where there is none. */
void report_estimate(char *buf, size_t len, const struct stats_estimate *e);

#endif
