/* quire workload: the standard workloads. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/work_args.h"
#include "report/json.h"
#include "report/units.h"

#include <stdio.h>
#include <string.h>

static const struct opt_help help = {
	.usage = "quire workload list [OPTIONS]\n       quire workload show [OPTIONS] NAME",
	.text = "list: the standard workloads, which 'quire run NAME' runs on a described machine or, with --machine\n"
		"host, on this computer.\n"
		"show: what one does, of which published program it is the like, its metric and its defaults.\n",
};

static json_t *describe(const struct workload *w)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:b, s:s}", "name", w->name, "origin", w->origin, "help", w->help,
			 "metric", w->metric, "unit", w->unit, "size_bytes", report_json_u64(w->size), "size_per_task", w->per_task,
			 "tasks", w->threads ? "threads" : "processes");
}

static int list(const char *json_path, struct output *out)
{
	FILE *f = text_stream(json_path);
	json_t *root = report_json("workload list"), *all = json_array();

	for (size_t i = 0; i < workload_count; i++) {
		const struct workload *w = &workload_table[i];

		fprintf(f, "%-23s %s\n", w->name, w->help);
		json_array_append_new(all, describe(w));
	}
	json_object_set_new(root, "workloads", all);
	return json_end(out, root);
}

static int show(const char *name, const char *json_path, struct output *out)
{
	const struct workload *w = workload_find(name);
	FILE *f = text_stream(json_path);
	char size[UNIT_MAX];
	json_t *root;

	if (work_memory_percent(w))
		snprintf(size, sizeof(size), "%u %% of the machine's", work_memory_percent(w));
	else
		unit_format(size, STYLE_BYTES, w->size, 0);
	fprintf(f, "%s: %s\n", w->name, w->help);
	fprintf(f, "like:     %s\n", w->origin);
	fprintf(f, "tasks:    %s; as many as the machine has CPUs, --tasks\n",
		w->threads ? "threads of one process" : "processes");
	fprintf(f, "memory:   %s %s, --size for all tasks together%s\n", size, w->per_task ? "each task" : "in all",
		strstr(w->name, "cow") ? " and their parent" : "");
	fprintf(f, "metric:   %s in %s: the sum over tasks; a task's lowest, median and highest beside it\n", w->metric, w->unit);
	fprintf(f, "ends:     %s\n",
		w->boot	    ? "when all descriptors are initialised; its options are --tasks and --size" :
		w->per_task || !strcmp(w->name, "pmbench") ? "after 50 ms of a modelled machine's time, 5 s of this computer's, or --seconds; or after --ops a task" :
			      "when all memory has been gone over, --repeat times; or after --seconds, or --ops accesses a task");
	root = report_json("workload show");
	json_object_set_new(root, "workload", describe(w));
	return json_end(out, root);
}

static const char *verb_name(const void *arg, size_t i)
{
	(void)arg;
	return i ? "show" : "list";
}

static int check_args(const struct opt_list *args)
{
	const char *near;

	if (!args->nr)
		return usage_error("workload", "list or show NAME?");
	if (strcmp(args->v[0], "list") && strcmp(args->v[0], "show")) {
		near = nearest(args->v[0], 2, verb_name, NULL);
		return usage_error("workload", "list or show, not %s%s%s%s", args->v[0], near ? "; did you mean " : "",
				   near ? near : "", near ? "?" : "");
	}
	if (args->nr != (args->v[0][0] == 'l' ? 1U : 2U))
		return usage_error("workload", args->v[0][0] == 'l' ? "list takes no name" : "show takes one name");
	if (args->nr == 2 && !workload_find(args->v[1])) {
		near = work_nearest(args->v[1]);
		return usage_error("workload", "no such workload: %s%s%s%s", args->v[1], near ? "; did you mean " : "",
				   near ? near : "", near ? "?" : "");
	}
	return -1;
}

static int run(int argc, char **argv)
{
	const char *json = NULL;
	struct opt_list args = { 0 };
	struct output out;
	char **rest;
	int code;
	const struct opt opts[] = {
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write it as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &args, &rest);
	if (code < 0)
		code = check_args(&args);
	if (code < 0)
		code = json_begin(&out, json);
	if (code >= 0)
		return code;
	code = args.v[0][0] == 'l' ? list(json, &out) : show(args.v[1], json, &out);
	output_abort(&out);
	return code;
}

const struct command cmd_workload = { .name = "workload", .help = "list or show the standard workloads", .run = run };
