/* The report of a comparison. One list says which metrics are always shown; of the others those that differ; the JSON holds all. */
#include "report/compare_report.h"

#include "base/compiler.h"
#include "report/json.h"
#include "report/table.h"
#include "report/units.h"

#include <math.h>
#include <string.h>

#define OTHERS 16U

/* Shown whenever they are there, in this order, after the main metric. */
static const char *const always[] = {
	"throughput_from_go_KBps", "throughput_steady_KBps", "time_ns", "work_time_ns", "user_time_ns", "system_time_ns", "ipc",
	"huge_clear_mean_ns", "huge_copy_mean_ns", "first_touch_fault_2m_ns", "first_touch_near_2m_ns", "first_touch_rest_2m_ns",
	"steady_fault_ns", "steady_rest_ns", "first_touch_fault_4k_ns", "first_touch_rest_4k_ns", "fault_time_ns", "fault_latency_p50_ns",
	"fault_latency_p99_ns", "pgfault", "llc_misses", "cache_misses",
};

void report_metric_value(char *buf, size_t len, const char *unit, double v)
{
	char text[UNIT_MAX];

	if (!strcmp(unit, "ns"))
		unit_format(text, STYLE_NS, (uint64_t)(v + 0.5), 0);
	else if (!strcmp(unit, "bytes"))
		unit_format(text, STYLE_BYTES, (uint64_t)(v + 0.5), 0);
	else if (!strcmp(unit, "KB/s"))
		snprintf(text, sizeof(text), "%.4g GB/s", v * 1024 / 1e9);
	else if (fabs(v - (double)(uint64_t)v) > 0)
		snprintf(text, sizeof(text), "%.4g", v);
	else
		unit_format(text, STYLE_COUNT, (uint64_t)v, 0);
	snprintf(buf, len, "%s", text);
}

void report_estimate(char *buf, size_t len, const struct stats_estimate *e)
{
	if (!e->n)
		snprintf(buf, len, "-");
	else if (e->n < 2)
		snprintf(buf, len, "%.3f", e->value);
	else
		snprintf(buf, len, "%.3f [%.3f, %.3f]", e->value, e->low, e->high);
}

static const char *verdict(const struct compare_metric *m, unsigned side)
{
	const struct stats_estimate *g = &m->gain[side];

	if (m->same)
		return "equal";
	if (!g->n)
		return "";
	if (g->n < 2)
		return "one pair";
	if (!compare_differs(g))
		return "no difference";
	if (m->better == BETTER_NEITHER)
		return g->value > 1 ? "more" : "fewer";
	return g->value > 1 ? "better" : "worse";
}

static bool in_list(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

/* Others are worth a line when they differ by more than the digits that are shown. */
static bool worth_showing(const struct compare_metric *m, unsigned side, const struct compare_title *t)
{
	const struct stats_estimate *g = &m->gain[side];

	/* Quantiles and single tasks say again what is there already. */
	if (!t->all && (strstr(m->name, "_task_") || !strncmp(m->name, "fault_latency_", 14)))
		return false;
	return t->all || (!m->same && compare_differs(g) && g->bounded && fabs(g->value - 1) >= 0.005);
}

static void line(struct table *t, const struct compare_metric *m, unsigned side)
{
	char buf[80];

	table_cell(t, m->name);
	report_metric_value(buf, sizeof(buf), m->unit, m->median[0]);
	table_cell(t, buf);
	report_metric_value(buf, sizeof(buf), m->unit, m->median[side]);
	table_cell(t, buf);
	report_estimate(buf, sizeof(buf), &m->gain[side]);
	table_cell(t, buf);
	table_cell(t, verdict(m, side));
}

static void side_table(FILE *f, const struct compare_options *o, const struct compare_result *r, const struct compare_title *title,
		       unsigned side, bool bold)
{
	const struct compare_metric *m = compare_find(r, compare_main_metric(&o->subject));
	static const char *const heading[] = { "", "base", "with", "gain [95 %]", "" };
	unsigned shown = 0;
	struct table t;

	table_init(&t, ARRAY_SIZE(heading));
	for (size_t i = 0; i < ARRAY_SIZE(heading); i++)
		table_cell(&t, heading[i]);
	if (m)
		line(&t, m, side);
	for (size_t i = 0; i < ARRAY_SIZE(always); i++) {
		const struct compare_metric *a = compare_find(r, always[i]);

		if (a && a != m && (a->median[0] > 0 || a->median[side] > 0))
			line(&t, a, side);
	}
	for (size_t i = 0; i < r->nr; i++)
		if (&r->m[i] != m && !in_list(r->m[i].name, always, ARRAY_SIZE(always)) && worth_showing(&r->m[i], side, title)) {
			if (!title->all && shown++ >= OTHERS)
				continue;
			line(&t, &r->m[i], side);
		}
	table_print(&t, f, TABLE_WIDTH, bold);
	table_done(&t);
	if (!title->all && shown > OTHERS)
		fprintf(f, "and %u more that differ (--all, --json)\n", shown - OTHERS);
}

static bool all_alike(const struct compare_options *o, const struct compare_result *r)
{
	for (size_t i = 0; i < r->nr; i++)
		for (unsigned s = 0; s < o->nr_sides; s++)
			if (r->m[i].value[s].low < r->m[i].value[s].high)
				return false;
	return true;
}

void report_compare_text(FILE *f, const struct compare_options *o, const struct compare_result *r,
			 const struct compare_title *t, bool bold)
{
	char why[100] = "";

	fprintf(f, "%s, %u round%s of %u sides%s\n", t->name, r->rounds, r->rounds == 1 ? "" : "s", o->nr_sides,
		r->stopped ? " (interrupted)" : "");
	fprintf(f, "machine: %s (%s)\n", place_name(&o->place), t->where);
	if (t->set[0])
		fprintf(f, "setting: %s\n", t->set);
	fprintf(f, "base:    %s\n", o->sides[0].label);
	for (unsigned s = 1; s < o->nr_sides; s++) {
		fprintf(f, "with:    %s\n\n", o->sides[s].label);
		side_table(f, o, r, t, s, bold);
	}
	fprintf(f, "\n- All figures are %s. Medians of %u; gain is the median of the pairs' ratios: new over old for rates and counts,\n"
		   "  old over new for times, so that more than 1 is better where one is.\n",
		o->place.model ? "modelled" : "measured on this computer", r->rounds);
	if (r->rounds < STATS_MIN_PAIRS)
		fprintf(f, "- Fewer than %d rounds: in brackets is the range of what was seen, not an interval of 95 %%.\n", STATS_MIN_PAIRS);
	if (o->place.model)
		fputs("- Rounds differ by seed only: the interval says how much chance inside the model matters, not how near the model is.\n",
		      f);
	if (o->place.model && r->rounds > 1 && all_alike(o, r))
		fputs("- All rounds came out the same: nothing in this run is left to chance. --stagger lets tasks start at random times.\n", f);
	if (o->until > 0 && !r->reached && !r->stopped)
		fprintf(f, "- The interval asked for (%.3g %%) was not reached in %u rounds.\n", o->until * 100, r->rounds);
	if (!o->place.model) {
		hwcount_check(why, sizeof(why));
		if (why[0])
			fprintf(f, "- Instructions a cycle and cache misses are not available: %s.\n", why);
	}
}

static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *gain_json(const struct compare_metric *m, unsigned side)
{
	const struct stats_estimate *g = &m->gain[side];
	bool several = g->n > 1;

	if (!g->n)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:b, s:b, s:o, s:o}", "ratio", number(g->value), "low", several ? number(g->low) : json_null(),
			 "high", several ? number(g->high) : json_null(), "interval", g->bounded, "differs",
			 several && compare_differs(g), "p", number(m->p[side]), "p_holm", number(m->p_holm[side]));
}

static json_t *metric_json(const struct compare_options *o, const struct compare_metric *m)
{
	static const char *const better[] = {
		[BETTER_NEITHER] = "neither", [BETTER_HIGHER] = "higher", [BETTER_LOWER] = "lower"
	};
	json_t *medians = json_array(), *gains = json_array();

	for (unsigned s = 0; s < o->nr_sides; s++) {
		json_array_append_new(medians, number(m->median[s]));
		if (s)
			json_array_append_new(gains, gain_json(m, s));
	}
	return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", "metric", m->name, "unit", m->unit, "better", better[m->better], "equal",
			 m->same, "medians", medians, "gains", gains);
}

json_t *report_compare_json(const struct compare_options *o, const struct compare_result *r, const struct compare_title *t)
{
	json_t *root = report_json("compare"), *results = json_array(), *sides = json_array();

	for (unsigned s = 0; s < o->nr_sides; s++)
		json_array_append_new(sides, report_json_text(o->sides[s].label));
	for (size_t i = 0; i < r->nr; i++)
		json_array_append_new(results, metric_json(o, &r->m[i]));
	if (!root || json_object_set_new(root, "results", results) || json_object_set_new(root, "sides", sides) ||
	    json_object_set_new(root, "machine", json_pack("{s:s, s:s, s:s}", "name", place_name(&o->place), "kind",
							    o->place.model ? "model" : "host", "title", t->where)) ||
	    json_object_set_new(root, "source", report_json_text(t->name)) || json_object_set_new(root, "settings", report_json_text(t->set)) ||
	    json_object_set_new(root, "rounds", report_json_u64(r->rounds)) ||
	    json_object_set_new(root, "seed", report_json_u64(o->seed)) ||
	    json_object_set_new(root, "main", json_string(compare_main_metric(&o->subject))) ||
	    json_object_set_new(root, "interrupted", json_boolean(r->stopped))) {
		json_decref(root);
		return NULL;
	}
	return root;
}
