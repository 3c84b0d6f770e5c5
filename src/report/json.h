/* JSON as the project writes it: keys sorted, exact integers. docs/json-schema.md has the schema. */
#ifndef QUIRE_REPORT_JSON_H
#define QUIRE_REPORT_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "lab/metrics.h"

#define JSON_SCHEMA 1

/* {"schema": 1, "command": command}. NULL: no memory, as everywhere below. */
json_t *report_json(const char *command);
/* An integer; above 2^63-1 a string. */
json_t *report_json_u64(uint64_t v);
/* Text from outside (file names, arguments, what a recording says): bytes that are not UTF-8 become U+FFFD each. */
json_t *report_json_text(const char *s);
json_t *report_json_metric(const struct metric *m);
/* {name: value, ...} */
json_t *report_json_metrics(const struct metrics *ms);
/* Writes and lets go of root. 0, or -ENOMEM (root NULL too), -EIO. */
int report_json_write(json_t *root, FILE *f);

#endif
