/*
 * A text table that fits a width: the first column names the row, the others are right-aligned. When they don't fit
 * side by side, the columns go into several blocks one below the other, each with the first column again.
 */
#ifndef QUIRE_REPORT_TABLE_H
#define QUIRE_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_WIDTH 100

struct table {
	char **cells; /* row by row, the heading first; NULL: empty */
	size_t columns, nr, cap; /* nr: cells */
	bool *breaks; /* before this column a new block begins */
	int error; /* -ENOMEM, sticky */
};

void table_init(struct table *t, size_t columns);
/* The column starts a new block whether or not there is room. */
void table_break_before(struct table *t, size_t column);
/* Rows are added cell by cell; the first `columns` cells are the heading. text is copied. */
void table_cell(struct table *t, const char *text);
/* bold: the heading in bold (a terminal). */
void table_print(const struct table *t, FILE *f, size_t width, bool bold);
void table_done(struct table *t);

#endif
