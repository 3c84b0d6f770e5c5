/*
 * A script from anybody: parsed and printed, what is printed parses to the same text; or refused with one line that names the place. What
 * is understood then runs on the engine, over a small machine: the script may go wrong in its own way, the engine may not.
 */
#include "fuzz.h"

#include "machine/null.h"
#include "script/engine.h"
#include "script/run.h"

#include <errno.h>

#include <stdlib.h>
#include <string.h>

static char *printed(const struct script *s, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	fuzz_check(f != NULL, "out of memory");
	script_print(s, f);
	fclose(f);
	return text;
}

/* ---- running ---- */

#define MAX_STEPS 300
#define MAX_ACCESSES 4096 /* of a call; the language allows more, which takes its time */

static bool too_long(const struct script_call *call)
{
	uint64_t step = call->step ? call->step : 4096;

	return (call->op == SOP_TOUCH || call->op == SOP_FILL) && call->len / step > MAX_ACCESSES;
}

static void run(const struct script *s, const char *variant)
{
	static struct machine *m;
	struct script_run_options o = { .ops = &script_engine_ops, .variant = variant, .keep_going = true, .max_steps = MAX_STEPS };
	struct script_run *r = NULL;
	char err[600] = "";
	int rc = 0;

	if (!m)
		fuzz_check(!null_create(&(struct null_options){ .nr_cpus = 4, .nr_nodes = 2, .node_bytes = 128ULL << 20 }, &m, err, sizeof(err)),
			   "%s", err);
	fuzz_check(!script_engine_create(&(struct script_engine_options){ .machine = m }, &o.exec), "out of memory");
	rc = script_run_begin(s, &o, &r, err, sizeof(err));
	while (!rc) {
		struct script_call call;
		struct script_result res;

		rc = script_run_next(r, &call, err, sizeof(err));
		if (rc <= 0 || too_long(&call))
			break;
		rc = script_engine_ops.step(o.exec, &call, &res, err, sizeof(err));
		if (!rc)
			rc = script_run_result(r, &res, err, sizeof(err));
	}
	if (rc < 0)
		fuzz_check_message(err, sizeof(err));
	if (r) {
		struct quire *q = script_engine_quire(o.exec);

		fuzz_check(!quire_validate(q), "%s", q->err);
	}
	script_run_end(r);
	script_engine_destroy(o.exec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script *s, *again;
	char err[300] = "", *text, *twice;
	size_t len, len2;

	if (script_parse("input", (const char *)data, size, &s, err, sizeof(err))) {
		fuzz_check_message(err, sizeof(err));
		fuzz_check(!strncmp(err, "input:", 6), "no place: %s", err);
		return 0;
	}
	text = printed(s, &len);
	if (len <= SCRIPT_MAX_BYTES) { /* printing may make it longer than a script may be */
		fuzz_check(!script_parse("again", text, len, &again, err, sizeof(err)), "%s in:\n%s", err, text);
		twice = printed(again, &len2);
		fuzz_check(len == len2 && !memcmp(text, twice, len), "printed\n%s\nand then\n%s", text, twice);
		free(twice);
		script_free(again);
	}
	free(text);
	run(s, NULL);
	if (s->nr_variants)
		run(s, s->variant[0].name);
	script_free(s);
	return 0;
}
