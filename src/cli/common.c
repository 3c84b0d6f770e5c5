/* What several commands do alike. */
#include "cli/common.h"

#include "cli/cli.h"
#include "report/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int json_begin(struct output *o, const char *path)
{
	char err[300];

	*o = (struct output){ 0 };
	if (path && output_open(o, path, err, sizeof(err)))
		return failure("%s", err);
	return -1;
}

int json_end(struct output *o, json_t *root)
{
	char err[300];
	int rc;

	if (!o->f) {
		json_decref(root);
		return EXIT_DONE;
	}
	rc = report_json_write(root, o->f);
	if (rc) {
		failure("%s: %s", o->path ? o->path : "standard output", strerror(-rc));
		output_abort(o);
		return EXIT_FAILED;
	}
	return output_commit(o, err, sizeof(err)) ? failure("%s", err) : EXIT_DONE;
}

FILE *text_stream(const char *json_path)
{
	return json_path && !strcmp(json_path, "-") ? stderr : stdout;
}

int machine_get(const char *name, struct machine_desc *ret)
{
	char err[600];

	if (!name)
		name = machine_desc_default();
	if (machine_desc_find(name, ret, err, sizeof(err))) {
		failure("%s", err);
		return EXIT_USAGE;
	}
	return -1;
}
