/* A text table in as many blocks as the width asks for. */
#include "report/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2

void table_init(struct table *t, size_t columns)
{
	*t = (struct table){ .columns = columns };
	t->breaks = calloc(columns, sizeof(*t->breaks));
	if (!t->breaks)
		t->error = -ENOMEM;
}

void table_break_before(struct table *t, size_t column)
{
	if (!t->error && column < t->columns)
		t->breaks[column] = true;
}

void table_cell(struct table *t, const char *text)
{
	if (t->error)
		return;
	if (t->nr == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : t->columns * 8;
		char **c = realloc(t->cells, cap * sizeof(*c));

		if (!c) {
			t->error = -ENOMEM;
			return;
		}
		t->cells = c;
		t->cap = cap;
	}
	t->cells[t->nr] = strdup(text);
	if (!t->cells[t->nr])
		t->error = -ENOMEM;
	else
		t->nr++;
}

/* Columns on the screen: the texts are ASCII but for a few names, whose continuation bytes take no room. */
static size_t shown(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t w = 0;

	for (size_t i = column; i < t->nr; i += t->columns)
		w = shown(t->cells[i]) > w ? shown(t->cells[i]) : w;
	return w;
}

static void put(FILE *f, const char *text, size_t width, bool right)
{
	size_t pad = width > shown(text) ? width - shown(text) : 0;

	if (right)
		fprintf(f, "%*s%s", (int)pad, "", text);
	else
		fprintf(f, "%s%*s", text, (int)pad, "");
}

/* Columns [from, to) beside the first. */
static void print_block(const struct table *t, FILE *f, size_t from, size_t to, bool bold)
{
	size_t first = column_width(t, 0);

	for (size_t row = 0; row + t->columns <= t->nr; row += t->columns) {
		if (!row && bold)
			fputs("\033[1m", f);
		put(f, t->cells[row], to > from ? first : 0, false);
		for (size_t c = from; c < to; c++) {
			fprintf(f, "%*s", GAP, "");
			put(f, t->cells[row + c], column_width(t, c), true);
		}
		fputs(!row && bold ? "\033[0m\n" : "\n", f);
	}
}

void table_print(const struct table *t, FILE *f, size_t width, bool bold)
{
	size_t from = 1, first = column_width(t, 0);

	if (t->error)
		return;
	do {
		size_t used = first, to = from;

		while (to < t->columns &&
		       (to == from || (used + GAP + column_width(t, to) <= width && !t->breaks[to]))) {
			used += GAP + column_width(t, to);
			to++;
		}
		if (from > 1)
			fputc('\n', f);
		print_block(t, f, from, to, bold);
		from = to;
	} while (from < t->columns);
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->nr; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->breaks);
	*t = (struct table){ 0 };
}
