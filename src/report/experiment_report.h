/* What `quire experiment` says: published, modelled and measured beside each other, and what explains the difference. */
#ifndef QUIRE_REPORT_EXPERIMENT_REPORT_H
#define QUIRE_REPORT_EXPERIMENT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/experiment.h"

void report_experiment_text(FILE *f, const struct experiment *e, const struct experiment_result *r, bool bold);
/* NULL: no memory. */
json_t *report_experiment_json(const struct experiment *e, const struct experiment_result *r);
/* How a row is called below its case: "throughput: target_last" (its gain), "ipc of linear". */
void report_figure_label(const struct experiment_row *row, char *buf, size_t len);

#endif
