/* quire cases: situations reported from production, what must be counted in them beside what the engine counts. */
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/cases.h"
#include "lab/era.h"
#include "lab/settings.h"
#include "report/cases_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cases_args {
	const char *json, *machine, *era;
	struct opt_list which, set;
	uint64_t jobs;
	bool list, quiet, markdown;
};

static const struct opt_help help = {
	.usage = "quire cases [OPTIONS] [NUMBER|FILE...]",
	.text = "Runs situations that people reported from production, as scripts (docs/scripts.md), and prints what\n"
		"must be counted beside what was: '=' exact values, ok or WRONG; '~' figures that depend on prices,\n"
		"beside the published ones. NUMBER: only that case, with its script; FILE: a case of your own (a name\n"
		"with a / or ending in .q). Exit code 1 when an exact value is wrong.\n\n"
		"  quire cases; quire cases 3; quire cases --era 5.4 1 10\n",
};

/* ---- what to run ---- */

struct chosen {
	struct case_file *f;
	char **text; /* of files; NULL: the command's own */
	size_t nr;
};

static int add(struct chosen *c, const char *name, const char *text, char *own)
{
	struct case_file *f = realloc(c->f, (c->nr + 1) * sizeof(*f));
	char **t = f ? realloc(c->text, (c->nr + 1) * sizeof(*t)) : NULL;

	if (f)
		c->f = f;
	if (t)
		c->text = t;
	if (!f || !t) {
		free(own);
		return failure("out of memory");
	}
	c->f[c->nr] = (struct case_file){ name, text };
	c->text[c->nr++] = own;
	return -1;
}

static void chosen_done(struct chosen *c)
{
	for (size_t i = 0; i < c->nr; i++)
		free(c->text[i]);
	free(c->text);
	free(c->f);
}

static int add_path(struct chosen *c, const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(SCRIPT_MAX_BYTES + 2) : NULL;
	size_t len;

	if (!f)
		return failure("%s: %s", path, strerror(errno));
	if (!text) {
		fclose(f);
		return failure("out of memory");
	}
	len = fread(text, 1, SCRIPT_MAX_BYTES + 1, f);
	if (ferror(f)) {
		int code = failure("%s: %s", path, strerror(errno));

		fclose(f);
		free(text);
		return code;
	}
	fclose(f);
	text[len] = 0;
	if (strlen(text) != len) {
		free(text);
		return failure("%s: byte 0 in it; a script is text", path);
	}
	return add(c, path, text, text);
}

static int add_number(struct chosen *c, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	for (const struct case_file *f = case_files; *text >= '0' && *text <= '9' && !*end && f->name; f++)
		if (strtoul(f->name, NULL, 10) == n)
			return add(c, f->name, f->text, NULL);
	return usage_error("cases", "no such case: %s ('quire cases --list' has their numbers; a file's name has a / or ends in .q)", text);
}

static int choose(const struct cases_args *a, struct chosen *c)
{
	int code = -1;

	for (const struct case_file *f = case_files; !a->which.nr && code < 0 && f->name; f++)
		code = add(c, f->name, f->text, NULL);
	for (size_t i = 0; i < a->which.nr && code < 0; i++) {
		const char *w = a->which.v[i];
		size_t len = strlen(w);

		code = strchr(w, '/') || (len > 2 && !strcmp(w + len - 2, ".q")) ? add_path(c, w) : add_number(c, w);
	}
	return code;
}

/* ---- running ---- */

static int list(const struct chosen *c)
{
	for (size_t i = 0; i < c->nr; i++) {
		struct script *s;
		char err[600];

		if (script_parse(c->f[i].name, c->f[i].text, strlen(c->f[i].text), &s, err, sizeof(err)))
			return failure("%s", err);
		printf("%-48s %s%s%s\n", c->f[i].name, s->title ? s->title : "", s->pending ? "; pending: " : "", s->pending ? s->pending : "");
		script_free(s);
	}
	return EXIT_DONE;
}

static int show(const struct cases_args *a, struct output *json, const struct case_result *k, size_t nr)
{
	FILE *f = text_stream(a->json);
	struct case_counts n;
	int code = json_end(json, json->f ? report_cases_json(k, nr) : NULL);

	cases_count(k, nr, &n);
	if (a->markdown)
		report_cases_markdown(f, k, nr);
	else if (!a->quiet)
		report_cases_text(f, k, nr, a->which.nr != 0, want_bold(fileno(f)));
	fflush(f);
	if (code == EXIT_DONE && (n.wrong || n.broken))
		code = EXIT_FAILED;
	return code;
}

static int run_them(const struct cases_args *a, const struct knobs *k, const struct chosen *c)
{
	const struct case_options o = { .machine = a->machine, .knobs = k, .jobs = (unsigned)a->jobs, .stop = &interrupted };
	struct case_result *res;
	struct output json;
	int code = json_begin(&json, a->json);

	if (code >= 0)
		return code;
	signals_catch();
	if (cases_run(&o, c->f, c->nr, &res)) {
		output_abort(&json);
		return failure("out of memory");
	}
	code = show(a, &json, res, c->nr);
	cases_done(res, c->nr);
	return code;
}

static int run(int argc, char **argv)
{
	struct cases_args a = { .jobs = (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L) };
	const struct opt opts[] = {
		{ "list", 'l', OPT_FLAG, &a.list, 0, 0, NULL, "only say which there are" },
		{ "machine", 'm', OPT_TEXT, &a.machine, 0, 0, "NAME", "run all on this one: a machine file, a built-in machine, host or null" },
		{ "era", 0, OPT_TEXT, &a.era, 0, 0, "RELEASE",
		  "what that release of Linux did ('quire knobs --era RELEASE' says what); --set and what a case sets come on top" },
		{ "set", 's', OPT_LIST, &a.set, 0, 0, "NAME=VALUE", "a setting; what a case sets comes on top" },
		{ "json", 'j', OPT_TEXT, &a.json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ "jobs", 0, OPT_COUNT, &a.jobs, 1, 256, "N", "variants run at once; default: as many as there are CPUs" },
		{ "markdown", 0, OPT_FLAG, &a.markdown, 0, 0, NULL, "print docs/cases.md's tables" },
		{ "quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL, "no table" },
		{ 0 },
	};
	struct chosen c = { 0 };
	struct knobs k;
	struct era era;
	char err[300], **rest = NULL;
	int code = opt_parse(argc, argv, opts, &help, &a.which, &rest);

	if (code >= 0)
		return code;
	if (era_find(a.era, &era, err, sizeof(err)))
		return usage_error("cases", "%s", err);
	knobs_default(&k);
	era_apply(&era, &k);
	for (size_t i = 0; i < a.set.nr; i++)
		if (settings_apply(&k, "--set", a.set.v[i], err, sizeof(err)))
			return usage_error("cases", "%s", err);
	if (a.machine && !strcmp(a.machine, "host")) {
		a.jobs = 1;
	} else if (a.machine && strcmp(a.machine, "null") != 0) {
		struct machine_desc d;

		code = machine_get(a.machine, &d); /* said once, before any case runs */
		if (code >= 0)
			return code;
		machine_desc_done(&d);
	}
	code = choose(&a, &c);
	if (code < 0)
		code = a.list ? list(&c) : run_them(&a, &k, &c);
	chosen_done(&c);
	return code;
}

const struct command cmd_cases = { .name = "cases", .help = "situations from production: expected beside found", .run = run };
