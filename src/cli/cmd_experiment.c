/* quire experiment: published figures, modelled and measured beside them. */
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/experiment.h"
#include "report/experiment_report.h"
#include "report/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct experiment_args {
	const char *json, *scale, *only;
	struct opt_list operands;
	uint64_t seed, jobs;
	bool quick, no_host, no_model, quiet;
};

static const struct opt_help help = {
	.usage = "quire experiment [OPTIONS] NAME|FILE\n"
		 "       quire experiment list\n"
		 "       quire experiment show NAME",
	.text = "Runs an experiment: a workload under an old and a new setting, on the model of the machine that a\n"
		"figure was published for and on this computer, and prints published, modelled and measured beside\n"
		"each other with what explains the difference. FILE is an experiment of your own (a name with a / or\n"
		"ending in .yaml; docs/experiments.md).\n",
};

static const char *experiment_name(const void *arg, size_t i)
{
	(void)arg;
	return experiment_files[i].name;
}

static size_t experiment_count(void)
{
	size_t n = 0;

	while (experiment_files[n].name)
		n++;
	return n;
}

static int list(const struct experiment_args *a)
{
	FILE *f = text_stream(a->json);
	json_t *root = NULL, *all = json_array();
	struct output json;
	int code = json_begin(&json, a->json);

	for (const struct experiment_file *file = experiment_files; code < 0 && file->name; file++) {
		struct experiment e;
		char err[400];

		if (experiment_find(file->name, &e, err, sizeof(err))) {
			code = failure("%s", err);
			break;
		}
		fprintf(f, "%-20s %s\n", e.name, e.title);
		json_array_append_new(all, json_pack("{s:s, s:s, s:i}", "name", e.name, "title", e.title, "mechanism", (int)e.mechanism));
		experiment_done(&e);
	}
	if (code >= 0) {
		json_decref(all);
		output_abort(&json);
		return code;
	}
	root = report_json("experiment list");
	if (root && json_object_set_new(root, "experiments", all)) {
		json_decref(root);
		root = NULL;
	}
	return json_end(&json, root);
}

static int unknown(const char *name)
{
	const char *near = nearest(name, experiment_count(), experiment_name, NULL);

	return usage_error("experiment", "no such experiment: %s; %s%s%s", name, near ? "did you mean " : "'quire experiment list' shows them",
			   near ? near : "", near ? "?" : "");
}

static int show(const char *name)
{
	for (const struct experiment_file *f = experiment_files; f->name; f++)
		if (!strcmp(f->name, name)) {
			fputs(f->text, stdout);
			return EXIT_DONE;
		}
	return unknown(name);
}

/* "0.1", "1/64", "1". 0 or -EINVAL. */
static int parse_scale(const char *text, double *ret)
{
	char *end;
	double v = strtod(text, &end), d = 1;

	if (end == text)
		return -EINVAL;
	if (*end == '/')
		d = strtod(end + 1, &end);
	if (*end || !(d >= 1) || !(v > 0 && v <= d))
		return -EINVAL;
	*ret = v / d;
	return 0;
}

static void show_progress(void *arg, const char *what, const struct compare_progress *p)
{
	char so_far[24];

	format_duration(so_far, p->host_ns);
	progress_line(arg, "%s: %u of %u rounds, %.0f M references, %s", what, p->rounds_done, p->rounds, (double)p->refs / 1e6, so_far);
}

static int report(const struct experiment_args *a, const struct experiment *e, const struct experiment_result *r, struct output *json)
{
	FILE *f = text_stream(a->json);

	if (!a->quiet) {
		report_experiment_text(f, e, r, want_bold(fileno(f)));
		fflush(f);
	}
	return json_end(json, json->f ? report_experiment_json(e, r) : NULL);
}

static int run_it(const struct experiment_args *a, const struct experiment_options *given)
{
	struct experiment_options mine = *given, *o = &mine;
	struct progress line;
	struct experiment_result res;
	struct output json;
	char err[400] = "";
	int rc, code = json_begin(&json, a->json);

	if (code >= 0)
		return code;
	progress_init(&line);
	if (line.on && !a->quiet) {
		o->progress = show_progress;
		o->progress_arg = &line;
	}
	signals_catch();
	rc = experiment_run(o, &res, err, sizeof(err));
	progress_clear(&line);
	if (!rc && !res.nr_rows)
		code = usage_error("experiment", "--only %s: no case of %s is called so", a->only ? a->only : "", o->experiment->name);
	else if (!rc || rc == -EINTR)
		code = report(a, o->experiment, &res, &json);
	else
		code = failure("%s", err);
	if (rc == -EINTR && code == EXIT_DONE)
		code = EXIT_FAILED;
	output_abort(&json);
	experiment_result_done(&res);
	return code;
}

static int run_named(const struct experiment_args *a, const char *name)
{
	struct experiment e;
	struct experiment_options o = {
		.experiment = &e, .quick = a->quick, .no_host = a->no_host, .no_model = a->no_model, .only = a->only,
		.jobs = (unsigned)a->jobs, .seed = a->seed, .stop = &interrupted,
	};
	char err[500];
	int rc, code;

	if (a->scale && parse_scale(a->scale, &o.scale))
		return usage_error("experiment", "--scale %s: a part of the whole such as 1/64 or 0.1; 1 is the whole", a->scale);
	if (a->no_host && a->no_model)
		return usage_error("experiment", "with neither the model nor this computer nothing is left to run");
	rc = experiment_find(name, &e, err, sizeof(err));
	if (rc == -ENOENT && !strchr(name, '/') && !strstr(name, ".yaml"))
		return unknown(name);
	if (rc) {
		failure("%s", err);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	code = run_it(a, &o);
	experiment_done(&e);
	return code;
}

static int run(int argc, char **argv)
{
	struct experiment_args a = { .seed = 1, .jobs = (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L) };
	const struct opt opts[] = {
		{ "scale", 0, OPT_TEXT, &a.scale, 0, 0, "PART", "how much of the published size to run, such as 1/64 or 0.1; default: the file's" },
		{ "quick", 0, OPT_FLAG, &a.quick, 0, 0, NULL, "an eighth of the scale and two rounds: to see whether it works" },
		{ "only", 0, OPT_TEXT, &a.only, 0, 0, "TEXT", "only cases whose name holds this" },
		{ "no-host", 0, OPT_FLAG, &a.no_host, 0, 0, NULL, "model only" },
		{ "no-model", 0, OPT_FLAG, &a.no_model, 0, 0, NULL, "this computer only" },
		{ "seed", 0, OPT_COUNT, &a.seed, 0, UINT64_MAX, "N", "of the first round; each has its own" },
		{ "json", 'j', OPT_TEXT, &a.json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ "jobs", 0, OPT_COUNT, &a.jobs, 1, 64, "N", "runs at once on a model; default: as many as there are CPUs" },
		{ "quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL, "no table and no progress" },
		{ 0 },
	};
	char **rest;
	int code = opt_parse(argc, argv, opts, &help, &a.operands, &rest);
	const char *what;

	if (code >= 0)
		return code;
	what = a.operands.nr ? a.operands.v[0] : NULL;
	if (rest || !what)
		return usage_error("experiment", "which one? 'quire experiment list' shows what there is");
	if (!strcmp(what, "list") && a.operands.nr == 1)
		return list(&a);
	if (!strcmp(what, "show"))
		return a.operands.nr == 2 ? show(a.operands.v[1]) : usage_error("experiment", "show which one?");
	if (a.operands.nr > 1)
		return usage_error("experiment", "one experiment at a time");
	return run_named(&a, what);
}

const struct command cmd_experiment = { .name = "experiment", .help = "published figures, modelled and measured beside them", .run = run };
