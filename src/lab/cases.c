/*
 * Running cases. Each variant of each case is a job of its own: a fresh machine, a fresh engine, the script from its beginning. Jobs share
 * nothing, so results do not depend on how many run at once.
 */
#include "lab/cases.h"

#include "machine/desc.h"
#include "machine/host/host.h"
#include "machine/model/model.h"
#include "machine/null.h"
#include "machine/run.h"
#include "script/engine.h"
#include "script/run.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NULL_CPUS 64
#define NULL_BYTES (16ULL << 30)
#define HOST_BYTES (1ULL << 30)
#define MAX_LINES 4096
#define MAX_JOBS 256

/* ---- a run's lines ---- */

static struct case_line *line_of(struct case_run *r, const struct script_stmt *st)
{
	struct case_line *l;

	for (size_t i = 0; i < r->nr; i++)
		if (r->line[i].st == st)
			return &r->line[i];
	if (r->nr == r->cap) {
		l = r->nr < MAX_LINES ? realloc(r->line, (r->cap + 16) * sizeof(*l)) : NULL;
		if (!l) {
			r->error = -ENOMEM;
			return NULL;
		}
		r->line = l;
		r->cap += 16;
	}
	l = &r->line[r->nr++];
	*l = (struct case_line){ .st = st, .ok = true };
	return l;
}

static bool set_text(struct case_run *r, struct case_line *l, const char *text)
{
	if (!l->text)
		l->text = strdup(text);
	if (!l->text)
		r->error = -ENOMEM;
	return l->text != NULL;
}

static bool compares(const struct script_stmt *st)
{
	const struct script_expr *e = st->expr[0];

	return st->kind == SSTMT_APPROX || (e->kind == SEXPR_BINARY && strchr("<>lg=!", e->op));
}

static void on_expect(void *arg, const struct script_stmt *st, bool ok, const char *text, int64_t left, int64_t right)
{
	struct case_run *r = arg;
	struct case_line *l = line_of(r, st);

	if (!l || !set_text(r, l, text))
		return;
	l->times++;
	l->judged = true;
	l->compares = compares(st);
	if (!l->ok)
		return;
	l->ok = ok;
	l->found = left;
	l->expected = right;
}

static void on_report(void *arg, const struct script_stmt *st, const char *name, int64_t value, const char *unit)
{
	struct case_run *r = arg;
	struct case_line *l = line_of(r, st);

	if (!l || !set_text(r, l, name))
		return;
	l->times++;
	l->found = value;
	l->unit = unit;
	l->published = st->published;
}

/* ---- a run ---- */

/* *d is the model's as long as it lives. */
static int open_machine(const char *name, struct machine_desc *d, struct machine **ret, char *err, size_t errlen)
{
	int rc;

	*d = (struct machine_desc){ 0 };
	if (!strcmp(name, "host"))
		return host_create(&(struct host_options){ .memory = HOST_BYTES }, ret, err, errlen);
	if (!strcmp(name, "null"))
		return null_create(&(struct null_options){ .nr_cpus = NULL_CPUS, .node_bytes = NULL_BYTES }, ret, err, errlen);
	rc = machine_desc_find(name, d, err, errlen);
	return rc ? rc : model_create(d, &(struct model_options){ .seed = 1 }, ret, err, errlen);
}

static int play(const struct case_options *o, struct script_run *sr, struct script_exec *x, char *err, size_t errlen)
{
	struct script_call call;
	struct script_result res;
	int rc;

	while ((rc = script_run_next(sr, &call, err, errlen)) > 0) {
		if (o->stop && *o->stop)
			return -EINTR;
		rc = script_engine_ops.step(x, &call, &res, err, errlen);
		if (rc)
			return rc;
		rc = script_run_result(sr, &res, err, errlen);
		if (rc)
			return rc;
	}
	return rc;
}

static void run_one(const struct case_options *o, const struct case_result *k, struct case_run *r)
{
	struct script_run_options ro = {
		.ops = &script_engine_ops, .variant = r->variant, .on_expect = on_expect, .on_report = on_report, .arg = r,
	};
	struct script_run *sr = NULL;
	struct machine *m = NULL;
	struct machine_desc d;
	int rc = open_machine(k->machine, &d, &m, r->err, sizeof(r->err));

	if (!rc)
		rc = script_engine_create(&(struct script_engine_options){ .machine = m, .knobs = o->knobs }, &ro.exec);
	if (!rc)
		rc = script_run_begin(k->script, &ro, &sr, r->err, sizeof(r->err));
	if (!rc)
		rc = play(o, sr, ro.exec, r->err, sizeof(r->err));
	if (sr)
		r->calls = script_run_counts(sr)->steps;
	script_run_end(sr);
	script_engine_destroy(ro.exec);
	if (m)
		machine_destroy(m);
	machine_desc_done(&d);
	r->skipped = rc == -EOPNOTSUPP;
	r->error = rc && !r->skipped ? rc : r->error;
	if (r->error && !*r->err)
		snprintf(r->err, sizeof(r->err), "%s", r->error == -EINTR ? "interrupted" : strerror(-r->error));
	r->done = true;
}

/* ---- all of them ---- */

static int prepare(const struct case_options *o, const struct case_file *f, struct case_result *k)
{
	char *end;

	k->name = f->name;
	k->number = (unsigned)strtoul(f->name, &end, 10);
	if (script_parse(f->name, f->text, strlen(f->text), &k->script, k->err, sizeof(k->err)))
		return 0;
	snprintf(k->machine, sizeof(k->machine), "%s", o->machine ? o->machine : k->script->machine ? k->script->machine : "null");
	if (k->script->pending)
		return 0;
	k->nr_runs = k->script->nr_variants ? k->script->nr_variants : 1;
	k->run = calloc(k->nr_runs, sizeof(*k->run));
	if (!k->run)
		return -ENOMEM;
	for (size_t i = 0; i < k->script->nr_variants; i++)
		k->run[i].variant = k->script->variant[i].name;
	return 0;
}

struct pool {
	const struct case_options *o;
	struct case_result *k;
	size_t nr, next, total;
};

static void *work(void *arg)
{
	struct pool *p = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->total) {
		const struct case_result *k = p->k;

		for (; i >= k->nr_runs; k++)
			i -= k->nr_runs;
		run_one(p->o, k, &k->run[i]);
	}
	return NULL;
}

int cases_run(const struct case_options *o, const struct case_file *files, size_t nr, struct case_result **ret)
{
	struct case_result *k = calloc(nr ? nr : 1, sizeof(*k));
	struct pool p = { .o = o, .k = k, .nr = nr };
	pthread_t thread[MAX_JOBS];
	unsigned n = 0, jobs = o->jobs < MAX_JOBS ? o->jobs : MAX_JOBS;
	int rc = k ? 0 : -ENOMEM;

	*ret = NULL;
	for (size_t i = 0; i < nr && !rc; i++) {
		rc = prepare(o, &files[i], &k[i]);
		p.total += k[i].nr_runs;
	}
	if (rc) {
		cases_done(k, nr);
		return rc;
	}
	while (n + 1 < jobs && n + 1 < p.total && !pthread_create(&thread[n], NULL, work, &p))
		n++;
	work(&p);
	while (n)
		pthread_join(thread[--n], NULL);
	*ret = k;
	return 0;
}

void cases_done(struct case_result *k, size_t nr)
{
	for (size_t i = 0; k && i < nr; i++) {
		for (size_t j = 0; k[i].run && j < k[i].nr_runs; j++) {
			for (size_t l = 0; l < k[i].run[j].nr; l++)
				free(k[i].run[j].line[l].text);
			free(k[i].run[j].line);
		}
		free(k[i].run);
		script_free(k[i].script);
	}
	free(k);
}

void cases_count(const struct case_result *k, size_t nr, struct case_counts *ret)
{
	*ret = (struct case_counts){ 0 };
	for (size_t i = 0; i < nr; i++) {
		ret->broken += !k[i].script;
		ret->pending += k[i].script && k[i].script->pending;
		ret->cases += k[i].nr_runs != 0;
		for (size_t j = 0; j < k[i].nr_runs; j++) {
			const struct case_run *r = &k[i].run[j];

			ret->skipped += r->skipped;
			ret->broken += r->error != 0;
			for (size_t l = 0; l < r->nr; l++) {
				ret->exact += r->line[l].judged;
				ret->wrong += r->line[l].judged && !r->line[l].ok;
				ret->shapes += !r->line[l].judged;
			}
		}
	}
}
