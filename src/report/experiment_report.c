/* The report of an experiment: a table a case, the scale rule, the explanation; the same rows as JSON. */
#include "report/experiment_report.h"

#include "base/compiler.h"
#include "report/compare_report.h"
#include "report/json.h"
#include "report/table.h"
#include "report/units.h"

#include <math.h>
#include <string.h>

void report_figure_label(const struct experiment_row *row, char *buf, size_t len)
{
	const struct figure *f = row->f;

	switch (f->of) {
	case OF_GAIN:
		if (row->c->nr_with > 1)
			snprintf(buf, len, "%s: %s", f->metric, row->c->with[f->with]);
		else
			snprintf(buf, len, "%s", f->metric);
		break;
	case OF_BASE:
		snprintf(buf, len, "%s of %s", f->metric, row->c->base);
		break;
	case OF_WITH:
		snprintf(buf, len, "%s of %s", f->metric, row->c->with[f->with]);
		break;
	}
}

/* A value of the row, with its interval. */
static void estimate_cell(struct table *t, const struct experiment_row *row, const struct outcome *o)
{
	char v[40], low[40], high[40], buf[140];

	if (!o->run || !o->e.n) {
		table_cell(t, o->run ? "not there" : "-");
		return;
	}
	if (!strcmp(row->unit, "ratio")) {
		report_estimate(buf, sizeof(buf), &o->e);
	} else {
		report_metric_value(v, sizeof(v), row->unit, o->e.value);
		report_metric_value(low, sizeof(low), row->unit, o->e.low);
		report_metric_value(high, sizeof(high), row->unit, o->e.high);
		if (o->e.n < 2 || !strcmp(low, high))
			snprintf(buf, sizeof(buf), "%s", v);
		else
			snprintf(buf, sizeof(buf), "%s [%s, %s]", v, low, high);
	}
	table_cell(t, buf);
}

static void published_cell(struct table *t, const struct experiment_row *row)
{
	char buf[80], v[40];

	if (!row->f->has_published) {
		table_cell(t, row->c->control && row->f->of == OF_GAIN ? "none" : "-");
		return;
	}
	if (!strcmp(row->unit, "ratio"))
		snprintf(v, sizeof(v), "%.3f", row->f->published);
	else
		report_metric_value(v, sizeof(v), row->unit, row->f->published);
	snprintf(buf, sizeof(buf), "%s%s%.30s%s", v, row->f->as ? " (" : "", row->f->as ? row->f->as : "", row->f->as ? ")" : "");
	table_cell(t, buf);
}

/* A control's gain counts as none when it is small, or its interval spans 1. */
static bool flat(const struct experiment_row *row, const struct outcome *o)
{
	return fabs(o->e.value - 1) <= row->c->tolerance || (o->e.n > 1 && !compare_differs(&o->e));
}

/* What the modelled figure is, held against what it should be. */
static void verdict(const struct experiment_row *row, char *buf, size_t len)
{
	const struct outcome *m = &row->modelled;
	double off;

	buf[0] = '\0';
	if (!m->run || !m->e.n)
		return;
	if (row->c->control && row->f->of == OF_GAIN) {
		snprintf(buf, len, "%s", flat(row, m) ? "flat" : "NOT flat");
	} else if (row->f->has_published && row->f->of == OF_GAIN) {
		off = (m->e.value - row->f->published) * 100;
		snprintf(buf, len, "%+.1f%s", off,
			 !row->f->has_within ? "" : fabs(off) <= row->f->within * 100 ? ", near" : ", NOT near");
	} else if (row->f->has_published && row->f->published > 0) {
		snprintf(buf, len, "x %.2f", m->e.value / row->f->published);
	}
}

static void trial_text(FILE *f, const char *what, const char *where, const struct trial *t, const struct outcome *o)
{
	char size[UNIT_MAX];

	if (!o->run)
		return;
	unit_format(size, STYLE_BYTES, o->size, 0);
	fprintf(f, "  %s on %s: %u task%s, %s, %zu round%s\n", what, where, t->tasks, t->tasks == 1 ? "" : "s", size, o->e.n,
		o->e.n == 1 ? "" : "s");
}

static void case_text(FILE *f, const struct experiment_row *rows, uint32_t n, bool bold)
{
	static const char *const heading[] = { "gains; values of one side", "published", "modelled", "measured here", "model" };
	const struct experiment_case *c = rows->c;
	struct table t;
	char buf[120];

	fprintf(f, "%s%s%s%s\n", bold ? "\033[1m" : "", c->name, c->control ? " (negative control)" : "", bold ? "\033[0m" : "");
	fprintf(f, "  %s, %s=%s", c->workload, c->knob, c->base);
	for (uint32_t i = 0; i < c->nr_with; i++)
		fprintf(f, "%s%s", i ? ", " : " against ", c->with[i]);
	for (uint32_t i = 0; i < c->nr_settings; i++)
		fprintf(f, "; %s", c->settings[i]);
	fputc('\n', f);
	trial_text(f, "modelled", c->model.machine ? c->model.machine : "", &c->model, &rows->modelled);
	trial_text(f, "measured", "this computer", &c->host, &rows->measured);
	if (c->note)
		fprintf(f, "  %s\n", c->note);
	fputc('\n', f);
	table_init(&t, ARRAY_SIZE(heading));
	for (size_t i = 0; i < ARRAY_SIZE(heading); i++)
		table_cell(&t, heading[i]);
	for (uint32_t i = 0; i < n; i++) {
		report_figure_label(&rows[i], buf, sizeof(buf));
		table_cell(&t, buf);
		published_cell(&t, &rows[i]);
		estimate_cell(&t, &rows[i], &rows[i].modelled);
		estimate_cell(&t, &rows[i], &rows[i].measured);
		verdict(&rows[i], buf, sizeof(buf));
		table_cell(&t, buf);
	}
	table_print(&t, f, TABLE_WIDTH, bold);
	table_done(&t);
	fputc('\n', f);
}

static void paragraph(FILE *f, const char *heading, const char *text)
{
	fprintf(f, "%s\n", heading);
	while (*text) {
		size_t n = strcspn(text, "\n");

		fprintf(f, "  %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
	fputc('\n', f);
}

void report_experiment_text(FILE *f, const struct experiment *e, const struct experiment_result *r, bool bold)
{
	fprintf(f, "%s: %s\n", e->name, e->title);
	fprintf(f, "mechanism %u; scale %.4g of the published size%s\n", e->mechanism, r->scale, r->stopped ? " (interrupted)" : "");
	fprintf(f, "measured on %s\n\n", r->host);
	for (uint32_t i = 0, n; i < r->nr_rows; i += n) {
		for (n = 1; i + n < r->nr_rows && r->rows[i + n].c == r->rows[i].c; n++)
			;
		case_text(f, &r->rows[i], n, bold);
	}
	fputs("Gains: new over old for rates, old over new for times; more than 1 is better. In brackets the interval of 95 %, or, of fewer\n"
	      "than six rounds, the range of what was seen. Modelled and measured figures are of different machines. The last column: points\n"
	      "of a gain that the model is above the published one; the model's value over the published one; whether a control is flat.\n", f);
	if (r->no_host[0])
		fprintf(f, "Not measured here: %s.\n", r->no_host);
	if (r->no_hwcount[0])
		fprintf(f, "Instructions a cycle and cache misses were not measured: %s.\n", r->no_hwcount);
	fputc('\n', f);
	paragraph(f, "Scale:", e->scale_rule);
	paragraph(f, "What explains the differences:", e->explains);
	paragraph(f, "Source:", e->source);
}

/* ---- JSON ---- */

static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *outcome_json(const struct outcome *o, const char *machine)
{
	bool several = o->e.n > 1;

	if (!o->run || !o->e.n)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:s, s:I, s:I, s:b, s:I}", "value", number(o->e.value), "low",
			 several ? number(o->e.low) : json_null(), "high", several ? number(o->e.high) : json_null(), "machine", machine,
			 "tasks", (json_int_t)o->tasks, "size_bytes", (json_int_t)o->size, "interval", o->e.bounded, "rounds",
			 (json_int_t)o->e.n);
}

static json_t *row_json(const struct experiment_row *row)
{
	static const char *const of[] = { [OF_GAIN] = "gain", [OF_BASE] = "base", [OF_WITH] = "with" };
	const struct experiment_case *c = row->c;
	json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "metric", row->f->metric, "unit", row->unit, "case", c->name, "of",
			      of[row->f->of], "knob", c->knob, "base", c->base, "with", c->with[row->f->with], "control", c->control);

	if (!j)
		return NULL;
	json_object_set_new(j, "published", row->f->has_published ? number(row->f->published) : json_null());
	json_object_set_new(j, "modelled", outcome_json(&row->modelled, c->model.machine ? c->model.machine : ""));
	json_object_set_new(j, "measured", outcome_json(&row->measured, "host"));
	return j;
}

json_t *report_experiment_json(const struct experiment *e, const struct experiment_result *r)
{
	json_t *root = report_json("experiment"), *results = json_array();

	for (uint32_t i = 0; i < r->nr_rows; i++)
		json_array_append_new(results, row_json(&r->rows[i]));
	if (!root || json_object_set_new(root, "results", results) || json_object_set_new(root, "name", json_string(e->name)) ||
	    json_object_set_new(root, "title", json_string(e->title)) || json_object_set_new(root, "scale", number(r->scale)) ||
	    json_object_set_new(root, "mechanism", json_integer((json_int_t)e->mechanism)) ||
	    json_object_set_new(root, "scale_rule", json_string(e->scale_rule)) ||
	    json_object_set_new(root, "explains", json_string(e->explains)) ||
	    json_object_set_new(root, "host", json_string(r->host)) ||
	    json_object_set_new(root, "not_measured", r->no_host[0] ? json_string(r->no_host) : json_null()) ||
	    json_object_set_new(root, "interrupted", json_boolean(r->stopped))) {
		json_decref(root);
		return NULL;
	}
	return root;
}
