/* Cases as text, as a page, and as JSON. A line's sides are shown in its own unit: counts grouped, anything else as it is. */
#include "report/cases_report.h"

#include "report/json.h"
#include "report/units.h"

#include <inttypes.h>
#include <string.h>

#define EXPR_WIDTH 58
#define VALUE_WIDTH 14

static void value_text(char buf[40], int64_t v)
{
	char digits[32];

	unit_grouped(digits, v < 0 ? -(uint64_t)v : (uint64_t)v);
	snprintf(buf, 40, "%s%s", v < 0 ? "-" : "", digits);
}

static const char *verdict(const struct case_line *l)
{
	return !l->judged ? "~" : l->ok ? "= ok" : "= WRONG";
}

/* What was found, and for a report its unit. */
static void found_text(const struct case_line *l, char *buf, size_t len)
{
	char v[40];

	if (l->judged && !l->compares) { /* no two sides: only whether it held */
		snprintf(buf, len, "%s", l->found ? "yes" : "no");
		return;
	}
	value_text(v, l->found);
	snprintf(buf, len, "%s%s%s", v, l->unit && *l->unit ? " " : "", l->unit ? l->unit : "");
}

/* What was expected, or published. */
static void expected_text(const struct case_line *l, char *buf, size_t len)
{
	char v[40];

	if (!l->judged) {
		snprintf(buf, len, "%s", l->published ? l->published : "-");
		return;
	}
	if (!l->compares) {
		snprintf(buf, len, "yes");
		return;
	}
	value_text(v, l->expected);
	snprintf(buf, len, "%s", v);
}

static void print_line(FILE *f, const struct case_line *l)
{
	char found[80], expected[SCRIPT_MAX_TEXT + 1];

	found_text(l, found, sizeof(found));
	expected_text(l, expected, sizeof(expected));
	fprintf(f, "    %-*s %*s  ", EXPR_WIDTH, l->text, VALUE_WIDTH, found);
	if (l->judged)
		fprintf(f, "%*s  %s\n", VALUE_WIDTH, expected, verdict(l));
	else
		fprintf(f, "~ %s%s\n", l->published ? "published: " : "", l->published ? l->published : "");
}

static void print_run(FILE *f, const struct case_run *r)
{
	if (r->variant)
		fprintf(f, "  %s\n", r->variant);
	for (size_t i = 0; i < r->nr; i++)
		print_line(f, &r->line[i]);
	if (r->skipped)
		fprintf(f, "    skipped: %s\n", r->err);
	else if (r->error)
		fprintf(f, "    FAILED: %s\n", r->err);
}

static void print_case(FILE *f, const struct case_result *k, bool details, bool bold)
{
	if (!k->script) {
		fprintf(f, "%s\n    FAILED: %s\n", k->name, k->err);
		return;
	}
	fprintf(f, "%s%u  %s%s\n", bold ? "\033[1m" : "", k->number, k->script->title ? k->script->title : k->name, bold ? "\033[0m" : "");
	if (k->script->source)
		fprintf(f, "  source: %s\n", k->script->source);
	if (k->script->pending) {
		fprintf(f, "  pending: %s\n", k->script->pending);
		return;
	}
	if (k->script->note)
		fprintf(f, "  note: %s\n", k->script->note);
	if (details)
		fprintf(f, "  machine: %s\n", k->machine);
	for (size_t i = 0; i < k->nr_runs; i++)
		print_run(f, &k->run[i]);
	if (details) {
		fputs("  the script:\n", f);
		for (size_t i = 0; i < k->script->body.nr; i++)
			script_print_stmt(k->script, k->script->body.s[i], 1, f);
	}
}

static void print_counts(FILE *f, const struct case_result *k, size_t nr)
{
	struct case_counts n;

	cases_count(k, nr, &n);
	fprintf(f, "%" PRIu64 " case%s: %" PRIu64 " exact values, %" PRIu64 " wrong; %" PRIu64 " shapes", n.cases, n.cases == 1 ? "" : "s", n.exact, n.wrong, n.shapes);
	if (n.broken)
		fprintf(f, "; %" PRIu64 " failed", n.broken);
	if (n.skipped)
		fprintf(f, "; %" PRIu64 " variants skipped", n.skipped);
	fprintf(f, "; %" PRIu64 " pending\n", n.pending);
}

void report_cases_text(FILE *f, const struct case_result *k, size_t nr, bool details, bool bold)
{
	fprintf(f, "    %-*s %*s  %*s\n", EXPR_WIDTH, "", VALUE_WIDTH, "found", VALUE_WIDTH, "expected");
	for (size_t i = 0; i < nr; i++)
		if (!k[i].script || !k[i].script->pending || details) {
			print_case(f, &k[i], details, bold);
			fputc('\n', f);
		}
	for (size_t i = 0; i < nr && !details; i++)
		if (k[i].script && k[i].script->pending)
			fprintf(f, "%u  %s: pending, %s\n", k[i].number, k[i].script->title ? k[i].script->title : k[i].name,
				k[i].script->pending);
	print_counts(f, k, nr);
}

/* ---- markdown ---- */

static void put_cell(FILE *f, const char *text)
{
	fputc(' ', f);
	for (; *text; text++)
		fprintf(f, "%s%c", *text == '|' ? "\\" : "", *text);
	fputs(" |", f);
}

static void markdown_run(FILE *f, const struct case_run *r)
{
	char text[SCRIPT_MAX_TEXT + 1], code[SCRIPT_MAX_TEXT + 4];

	for (size_t i = 0; i < r->nr; i++) {
		const struct case_line *l = &r->line[i];

		fputc('|', f);
		put_cell(f, r->variant ? r->variant : "");
		snprintf(code, sizeof(code), l->judged ? "`%s`" : "%s", l->text);
		put_cell(f, code);
		expected_text(l, text, sizeof(text));
		put_cell(f, text);
		found_text(l, text, 80);
		put_cell(f, text);
		put_cell(f, verdict(l));
		fputc('\n', f);
	}
	if (r->skipped || r->error)
		fprintf(f, "| %s | %s: %s | | | |\n", r->variant ? r->variant : "", r->skipped ? "skipped" : "failed", r->err);
}

void report_cases_markdown(FILE *f, const struct case_result *k, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct script *s = k[i].script;

		if (!s || s->pending)
			continue;
		fprintf(f, "## %u. %s\n\n", k[i].number, s->title ? s->title : k[i].name);
		if (s->source)
			fprintf(f, "Source: %s\n\n", s->source);
		if (s->note)
			fprintf(f, "%s\n\n", s->note);
		fprintf(f, "Machine: %s. Script: `cases/%s.q`.\n\n", k[i].machine, k[i].name);
		fputs("| variant | what | expected, or published | found | |\n| --- | --- | ---: | ---: | --- |\n", f);
		for (size_t j = 0; j < k[i].nr_runs; j++)
			markdown_run(f, &k[i].run[j]);
		fputc('\n', f);
	}
	fputs("## Pending\n\n| case | what is missing |\n| --- | --- |\n", f);
	for (size_t i = 0; i < nr; i++)
		if (k[i].script && k[i].script->pending)
			fprintf(f, "| %u. %s | %s |\n", k[i].number, k[i].script->title ? k[i].script->title : k[i].name, k[i].script->pending);
	fputc('\n', f);
	print_counts(f, k, nr);
}

/* ---- JSON ---- */

static json_t *line_json(const struct case_line *l)
{
	if (l->judged && !l->compares)
		return json_pack("{s:s, s:s, s:b, s:I}", "kind", "exact", "expression", l->text, "ok", l->ok, "times", (json_int_t)l->times);
	if (l->judged)
		return json_pack("{s:s, s:s, s:I, s:I, s:b, s:I}", "kind", "exact", "expression", l->text, "expected",
				 (json_int_t)l->expected, "found", (json_int_t)l->found, "ok", l->ok, "times", (json_int_t)l->times);
	return json_pack("{s:s, s:s, s:I, s:s, s:s*}", "kind", "shape", "name", l->text, "found", (json_int_t)l->found, "unit", l->unit,
			 "published", l->published);
}

static json_t *run_json(const struct case_run *r)
{
	json_t *lines = json_array();

	for (size_t i = 0; lines && i < r->nr; i++)
		json_array_append_new(lines, line_json(&r->line[i]));
	return json_pack("{s:s*, s:I, s:s, s:o*, s:o}", "variant", r->variant, "calls", (json_int_t)r->calls, "status",
			 r->skipped ? "skipped" : r->error ? "failed" : "done", "error", *r->err ? report_json_text(r->err) : NULL, "lines", lines);
}

static json_t *case_json(const struct case_result *k)
{
	const struct script *s = k->script;
	json_t *runs = json_array();

	for (size_t i = 0; runs && i < k->nr_runs; i++)
		json_array_append_new(runs, run_json(&k->run[i]));
	if (!s)
		return json_pack("{s:o, s:s, s:o, s:o}", "name", report_json_text(k->name), "status", "failed", "error",
				 report_json_text(k->err), "variants", runs);
	return json_pack("{s:o, s:i, s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:o}", "name", report_json_text(k->name), "number", (int)k->number,
			 "status", s->pending ? "pending" : "run", "title", s->title, "source", s->source, "note", s->note, "pending",
			 s->pending, "machine", s->pending ? NULL : k->machine, "variants", runs);
}

json_t *report_cases_json(const struct case_result *k, size_t nr)
{
	json_t *root = report_json("cases"), *list = json_array();
	struct case_counts n;

	cases_count(k, nr, &n);
	for (size_t i = 0; list && i < nr; i++)
		json_array_append_new(list, case_json(&k[i]));
	if (!root || json_object_set_new(root, "cases", list) || json_object_set_new(root, "exact", report_json_u64(n.exact)) ||
	    json_object_set_new(root, "wrong", report_json_u64(n.wrong)) || json_object_set_new(root, "failed", report_json_u64(n.broken)) ||
	    json_object_set_new(root, "skipped", report_json_u64(n.skipped)) || json_object_set_new(root, "pending", report_json_u64(n.pending))) {
		json_decref(root);
		root = NULL;
	}
	return root;
}
