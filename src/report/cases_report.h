/* What `quire cases` prints: expected beside found for every exact value, shapes beside the published figures. */
#ifndef QUIRE_REPORT_CASES_REPORT_H
#define QUIRE_REPORT_CASES_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lab/cases.h"

/* text: the cases' own words (source, note, the script) are printed too. */
void report_cases_text(FILE *f, const struct case_result *k, size_t nr, bool details, bool bold);
/* The same as a page of documentation. */
void report_cases_markdown(FILE *f, const struct case_result *k, size_t nr);
json_t *report_cases_json(const struct case_result *k, size_t nr); /* NULL: no memory */

#endif
