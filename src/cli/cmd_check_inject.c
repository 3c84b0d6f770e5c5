/* quire check inject: every call that can fail, failed in turn; and the lists of kinds, sites and scripts. */
#include "cli/check.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/inject_check.h"
#include "report/json.h"
#include "report/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct opt_help help = {
	.usage = "quire check inject [OPTIONS]\n       quire check inject --list",
	.text = "Runs small scripts of memory calls once without failures and counts the points: calls inside the\n"
		"engine that can fail. Then runs them again for each point, with that one failing. Afterwards the\n"
		"memory call must have ended in a documented errno or done without, all invariants and contents must\n"
		"hold, the call must succeed when repeated, and no frame may be missing.\n\n"
		"The columns of the table:\n"
		"  met       points of a kind at a site\n"
		"  tried     of them, made to fail\n"
		"  handled   of these, without anything wrong: reported and absorbed\n"
		"  reported  the memory call ended in an errno or a signal\n"
		"  absorbed  it succeeded all the same (a base page instead of a huge one, a page populated later)\n\n"
		"The same kinds and sites are those of --inject RULE in 'quire run', 'quire compare' and 'quire\n"
		"script': KIND[:NAME=VALUE,...] with the attributes of Linux's fault injection (probability in per\n"
		"cent, interval, times, space in bytes) and nth, order, site:\n"
		"  quire run anon-w-seq --inject fail_page_alloc:probability=10,times=5,order=9\n"
		"  quire run FILE.qtr --inject failslab:site=fork,nth=3\n",
};

static void print_lists(void)
{
	char site[40];
	unsigned column = 0;

	puts("kinds:");
	for (unsigned k = 0; k < NR_INJECT_SITES; k++)
		printf("  %-18s %s\n", inject_kind_name((enum inject_site)k), inject_kind_help((enum inject_site)k));
	puts("\nscripts:");
	for (size_t i = 0; i < inject_nr_scripts; i++)
		printf("  %-18s %s\n", inject_scripts[i].name, inject_scripts[i].help);
	puts("\nsites (a kind does not come at each):");
	for (unsigned i = 0; i < NR_MACHINE_PATHS; i++) {
		if (!inject_site_possible((enum machine_path)i))
			continue;
		inject_site_name((int)i, site, sizeof(site));
		printf("%s%-18s", column ? "" : "  ", site);
		column = (column + 1) % 5;
		if (!column)
			putchar('\n');
	}
	if (column)
		putchar('\n');
}

static const char *script_name(const void *arg, size_t i)
{
	(void)arg;
	return inject_scripts[i].name;
}

/* -1 to go on, or an exit code. */
static int find_script(const char *name, const struct inject_script **ret)
{
	const char *near;

	*ret = NULL;
	if (!name)
		return -1;
	for (size_t i = 0; i < inject_nr_scripts; i++)
		if (!strcmp(name, inject_scripts[i].name)) {
			*ret = &inject_scripts[i];
			return -1;
		}
	near = nearest(name, inject_nr_scripts, script_name, NULL);
	return usage_error("check inject", "no such script: %s%s%s%s", name, near ? "; did you mean " : "; --list shows them",
			   near ? near : "", near ? "?" : "");
}

static void show_progress(void *arg, const char *script, uint64_t done, uint64_t of)
{
	if (!(done % 16))
		progress_line(arg, "%s: %" PRIu64 " of %" PRIu64 " points", script, done, of);
}

static void add_row(struct table *t, const char *kind, const char *site, const struct inject_check_row *r)
{
	const uint64_t v[] = { r->met, r->tried, r->reported + r->absorbed, r->reported, r->absorbed };
	char name[80], n[24];

	snprintf(name, sizeof(name), "%s%s%s", kind, site[0] ? " at " : "", site);
	table_cell(t, name);
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		snprintf(n, sizeof(n), "%" PRIu64, v[i]);
		table_cell(t, n);
	}
}

static json_t *row_json(const struct inject_check_row *r)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "met", report_json_u64(r->met), "tried", report_json_u64(r->tried), "reported",
			 report_json_u64(r->reported), "absorbed", report_json_u64(r->absorbed));
}

/* The table to f, the same as JSON returned. */
static json_t *report(FILE *f, const struct inject_check_result *res)
{
	static const char *const heads[] = { "", "met", "tried", "handled", "reported", "absorbed" };
	json_t *root = report_json("check inject"), *rows = json_array(), *row;
	struct table t;
	char site[40];

	table_init(&t, ARRAY_SIZE(heads));
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		table_cell(&t, heads[i]);
	for (unsigned k = 0; k < NR_INJECT_SITES; k++)
		for (unsigned s = 0; s < NR_MACHINE_PATHS; s++) {
			const char *kind = inject_kind_name((enum inject_site)k);

			if (!res->row[k][s].met)
				continue;
			inject_site_name((int)s, site, sizeof(site));
			add_row(&t, kind, site, &res->row[k][s]);
			row = row_json(&res->row[k][s]);
			json_object_set_new(row, "kind", json_string(kind));
			json_object_set_new(row, "site", json_string(site));
			json_array_append_new(rows, row);
		}
	add_row(&t, "all", "", &res->sum);
	table_print(&t, f, TABLE_WIDTH, want_bold(fileno(f)));
	table_done(&t);
	json_object_set_new(root, "rows", rows);
	json_object_set_new(root, "all", row_json(&res->sum));
	json_object_set_new(root, "failure", res->failure[0] ? report_json_text(res->failure) : json_null());
	return root;
}

static int check(const struct inject_check_options *given, const char *json_path)
{
	struct inject_check_options mine = *given, *o = &mine;
	struct inject_check_result *res = calloc(1, sizeof(*res));
	struct progress line;
	struct output json;
	FILE *f = text_stream(json_path);
	json_t *root;
	int code = res ? json_begin(&json, json_path) : failure("out of memory"), rc;

	if (code >= 0) {
		free(res);
		return code;
	}
	progress_init(&line);
	if (line.on) {
		o->progress = show_progress;
		o->progress_arg = &line;
	}
	o->stop = &interrupted;
	signals_catch();
	rc = inject_check(o, res);
	progress_clear(&line);
	root = report(f, res);
	fflush(f);
	code = json_end(&json, root);
	if (rc)
		code = failure("%s", res->failure);
	else if (res->stopped)
		code = failure("interrupted: not all points were tried");
	free(res);
	return code;
}

int check_inject(int argc, char **argv)
{
	struct inject_check_options o = { 0 };
	struct opt_list operands;
	const char *name = NULL, *json = NULL;
	char **rest;
	bool list = false;
	uint64_t seed = 1, count = 0;
	int code;
	const struct opt opts[] = {
		{ "list", 'l', OPT_FLAG, &list, 0, 0, NULL, "the kinds of failures, the scripts, the sites" },
		{ "workload", 'w', OPT_TEXT, &name, 0, 0, "NAME", "one script only; default: all" },
		{ "count", 0, OPT_COUNT, &count, 1, 1ULL << 40, "N", "points of each kind and site in a script, at most; default: all" },
		{ "seed", 0, OPT_COUNT, &seed, 0, UINT64_MAX, "N", "with --count: chooses the points" },
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write the table as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &operands, &rest);
	if (code >= 0)
		return code;
	if (operands.nr || rest)
		return usage_error("check inject", "no operands: the script is --workload NAME");
	if (list) {
		print_lists();
		return EXIT_DONE;
	}
	code = find_script(name, &o.script);
	if (code >= 0)
		return code;
	o.count = count;
	o.seed = seed;
	return check(&o, json);
}
