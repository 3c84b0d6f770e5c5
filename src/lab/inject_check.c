/* All points of scripts, one after another: which of them are tried, and the sums. */
#include "lab/inject_check.h"

#include "base/compiler.h"
#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
	const struct inject_check_options *o;
	struct inject_check_result *res;
	const struct inject_script *script;
	struct inject_point *log;
	uint64_t points;
	uint8_t *chosen; /* [points] */
};

/*
 * Of each kind and site, `count` points at most: the first and the last, where what is at the edges goes wrong, and random ones
 * of the others.
 */
static void choose_of(struct check *k, enum inject_site kind, enum machine_path site, struct rng *rng)
{
	uint64_t met = 0, left, first = 0, last = 0;

	for (uint64_t i = 0; i < k->points; i++)
		if (k->log[i].kind == kind && k->log[i].site == site) {
			first = met++ ? first : i;
			last = i;
		}
	k->res->row[kind][site].met += met;
	if (!met)
		return;
	left = k->o->count && k->o->count < met ? k->o->count : met;
	k->chosen[first] = true;
	if (left > 1)
		k->chosen[last] = true;
	left -= MIN(left, met > 1 ? 2UL : 1UL);
	met -= MIN(met, 2UL);
	for (uint64_t i = first + 1; i < last && left; i++) {
		if (k->log[i].kind != kind || k->log[i].site != site)
			continue;
		if (rng_below(rng, met) < left) {
			k->chosen[i] = true;
			left--;
		}
		met--;
	}
}

static int choose(struct check *k)
{
	struct rng rng;

	k->chosen = calloc(k->points + 1, 1);
	if (!k->chosen)
		return -ENOMEM;
	rng_init(&rng, k->o->seed, k->script->name);
	for (unsigned kind = 0; kind < NR_INJECT_SITES; kind++)
		for (unsigned site = 0; site < NR_MACHINE_PATHS; site++)
			choose_of(k, (enum inject_site)kind, (enum machine_path)site, &rng);
	return 0;
}

static int say_failure(struct check *k, uint64_t point, int rc, const char *err)
{
	char site[40];

	if (point) {
		inject_site_name((int)k->log[point - 1].site, site, sizeof(site));
		snprintf(k->res->failure, sizeof(k->res->failure), "%s, point %" PRIu64 " (%s at %s): %s", k->script->name, point,
			 inject_kind_name(k->log[point - 1].kind), site, err);
	} else {
		snprintf(k->res->failure, sizeof(k->res->failure), "%s, without a failure: %s", k->script->name, err);
	}
	return rc;
}

static int try_points(struct check *k)
{
	uint64_t done = 0, of = 0;
	char err[300] = "";

	for (uint64_t i = 0; i < k->points; i++)
		of += k->chosen[i];
	for (uint64_t i = 0; i < k->points; i++) {
		struct inject_check_row *row = &k->res->row[k->log[i].kind][k->log[i].site];
		enum inject_outcome outcome = INJECT_NOT_MET;
		int rc;

		if (!k->chosen[i])
			continue;
		if (k->o->stop && *k->o->stop) {
			k->res->stopped = true;
			return 0;
		}
		rc = inject_run_script(k->script, i + 1, &outcome, NULL, NULL, err, sizeof(err));
		if (rc)
			return say_failure(k, i + 1, rc, err);
		if (outcome == INJECT_NOT_MET)
			return say_failure(k, i + 1, -EPROTO, "the same run did not come there again");
		row->tried++;
		row->reported += outcome == INJECT_REPORTED;
		row->absorbed += outcome == INJECT_ABSORBED;
		if (k->o->progress)
			k->o->progress(k->o->progress_arg, k->script->name, ++done, of);
	}
	return 0;
}

static int check_script(struct check *k)
{
	enum inject_outcome outcome;
	char err[300] = "";
	int rc;

	k->log = NULL;
	k->chosen = NULL;
	rc = inject_run_script(k->script, 0, &outcome, &k->log, &k->points, err, sizeof(err));
	if (rc)
		return say_failure(k, 0, rc, err);
	rc = choose(k);
	if (rc)
		rc = say_failure(k, 0, rc, strerror(-rc));
	else
		rc = try_points(k);
	free(k->log);
	free(k->chosen);
	return rc;
}

int inject_check(const struct inject_check_options *o, struct inject_check_result *ret)
{
	struct check k = { .o = o, .res = ret };
	int rc = 0;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < inject_nr_scripts && !rc && !ret->stopped; i++) {
		k.script = &inject_scripts[i];
		if (!o->script || o->script == k.script)
			rc = check_script(&k);
	}
	for (unsigned kind = 0; kind < NR_INJECT_SITES; kind++)
		for (unsigned site = 0; site < NR_MACHINE_PATHS; site++) {
			const struct inject_check_row *r = &ret->row[kind][site];

			ret->sum.met += r->met;
			ret->sum.tried += r->tried;
			ret->sum.reported += r->reported;
			ret->sum.absorbed += r->absorbed;
		}
	return rc;
}
