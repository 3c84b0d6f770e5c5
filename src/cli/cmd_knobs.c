/* quire knobs: every setting with its values, default and origin. */
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/era.h"
#include "mm/knobs.h"
#include "report/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct opt_help help = {
	.usage = "quire knobs [OPTIONS] [NAME]",
	.text = "Lists the settings that --set and --vary take, under Linux's names where it has one. NAME: only\n"
		"those that contain it.\n",
};

static void value_text(const struct knob *k, uint64_t v, char *buf, size_t len)
{
	if (k->type == KNOB_ENUM)
		snprintf(buf, len, "%s", k->choices[v]);
	else
		snprintf(buf, len, "%" PRIu64, v);
}

static void print_knob(FILE *f, const struct knob *k)
{
	char def[64];

	value_text(k, k->def, def, sizeof(def));
	fprintf(f, "%s\n    %s\n    values: ", k->name, k->help);
	if (k->type == KNOB_ENUM)
		for (size_t i = 0; k->choices[i]; i++)
			fprintf(f, "%s%s", i ? ", " : "", k->choices[i]);
	else if (k->type == KNOB_BOOL)
		fputs("0, 1", f);
	else
		fprintf(f, "%s%" PRIu64 " to %" PRIu64 "%s%s", k->zero_ok && k->min ? "0, " : "", k->min, k->max,
			*k->unit ? " " : "", k->unit);
	fprintf(f, "; default %s\n    from: %s\n", def, k->origin);
}

/* scdoc takes underscores for underlining. */
static void put_scdoc(FILE *f, const char *text)
{
	for (; *text; text++)
		fprintf(f, "%s%c", *text == '_' ? "\\" : "", *text);
}

/* The man page's section on settings is made from the same table. */
static void print_scdoc(FILE *f)
{
	char def[64];

	for (size_t i = 0; i < knob_count; i++) {
		const struct knob *k = &knob_table[i];
		const char *sep = "";

		value_text(k, k->def, def, sizeof(def));
		fputs("*", f);
		put_scdoc(f, k->name);
		fputs("* = ", f);
		if (k->type == KNOB_INT)
			fprintf(f, "%" PRIu64 "..%" PRIu64 "%s%s", k->min, k->max, *k->unit ? " " : "", k->unit);
		else if (k->type == KNOB_BOOL)
			fputs("0|1", f);
		else
			for (size_t v = 0; k->choices[v]; v++, sep = "|") {
				fputs(sep, f);
				put_scdoc(f, k->choices[v]);
			}
		fprintf(f, "\n\t%s. Default: ", k->help);
		put_scdoc(f, def);
		fprintf(f, ". From: ");
		put_scdoc(f, k->origin);
		fputs(".\n\n", f);
	}
}

static json_t *knob_json(const struct knob *k)
{
	static const char *const types[] = { [KNOB_BOOL] = "bool", [KNOB_ENUM] = "enum", [KNOB_INT] = "int" };
	char def[64];
	json_t *o;

	value_text(k, k->def, def, sizeof(def));
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "name", k->name, "type", types[k->type], "default", def, "unit",
		      k->unit, "help", k->help, "origin", k->origin);
	if (o && k->type == KNOB_ENUM) {
		json_t *values = json_array();

		for (size_t i = 0; k->choices[i]; i++)
			json_array_append_new(values, json_string(k->choices[i]));
		json_object_set_new(o, "values", values);
	}
	if (o && k->type == KNOB_INT) {
		json_object_set_new(o, "min", report_json_u64(k->zero_ok ? 0 : k->min));
		json_object_set_new(o, "max", report_json_u64(k->max));
	}
	return o;
}

/* What --era sets, and why. */
static int print_era(const char *text, const char *json)
{
	FILE *f = text_stream(json);
	json_t *root = report_json("knobs"), *list = json_array();
	struct output out;
	struct era e;
	char err[200];
	int code = era_find(text, &e, err, sizeof(err)) ? usage_error("knobs", "%s", err) : json_begin(&out, json);

	if (code >= 0) {
		json_decref(root);
		json_decref(list);
		return code;
	}
	for (size_t i = 0; i < e.nr; i++) {
		const struct era_line *l = &e.line[i];
		char since[24] = "from the beginning";

		if (l->since)
			snprintf(since, sizeof(since), "since %u.%u", l->since / 1000, l->since % 1000);
		fprintf(f, "%s=%s\n    %s: %s\n", l->knob, l->value, since, l->reason);
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", l->knob, "value", l->value, "since", since, "reason", l->reason));
	}
	json_object_set_new(root, "era", json_string(text));
	json_object_set_new(root, "knobs", list);
	return json_end(&out, root);
}

static int run(int argc, char **argv)
{
	const char *json = NULL, *filter = NULL, *era = NULL;
	struct opt_list args = { 0 };
	struct output out;
	char **rest;
	size_t shown = 0;
	json_t *root, *list;
	bool scdoc = false;
	int code;
	const struct opt opts[] = {
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write them as JSON too; - is standard output" },
		{ "era", 0, OPT_TEXT, &era, 0, 0, "RELEASE", "only what --era RELEASE sets, with the reasons" },
		{ "scdoc", 0, OPT_FLAG, &scdoc, 0, 0, NULL, "print them as the man page's source has them" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &args, &rest);
	if (code >= 0)
		return code;
	if (args.nr > 1)
		return usage_error("knobs", "one name at a time");
	if (era)
		return args.nr ? usage_error("knobs", "--era or a name") : print_era(era, json);
	if (scdoc) {
		print_scdoc(stdout);
		return EXIT_DONE;
	}
	filter = args.nr ? args.v[0] : "";
	code = json_begin(&out, json);
	if (code >= 0)
		return code;
	root = report_json("knobs");
	list = json_array();
	for (size_t i = 0; i < knob_count; i++)
		if (strstr(knob_table[i].name, filter)) {
			print_knob(text_stream(json), &knob_table[i]);
			json_array_append_new(list, knob_json(&knob_table[i]));
			shown++;
		}
	json_object_set_new(root, "knobs", list);
	if (!shown) {
		const char *near = knob_nearest(filter);

		json_decref(root);
		output_abort(&out);
		return usage_error("knobs", "no such setting: %s%s%s%s", filter, near ? "; did you mean " : "",
				   near ? near : "", near ? "?" : "");
	}
	return json_end(&out, root);
}

const struct command cmd_knobs = { .name = "knobs", .help = "list the settings", .run = run };
