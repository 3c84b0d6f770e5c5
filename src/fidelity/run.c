/*
 * A script on both sides, in step. The kernel goes first, so that a step that it cannot do is not done by the engine either. After each step
 * all living processes are looked at; contents at the end, and before a process ends, since looking at them leaves traces.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "fidelity/sides.h"
#include "mm/uapi.h"

#define MAX_LIVE 64
#define LOOK (SOBS_AREAS | SOBS_SMAPS | SOBS_PAGES | SOBS_VMSTAT | SOBS_NODES)

struct fid_run {
	const struct fidelity_options *o;
	struct fidelity_sides sides;
	struct fidelity_diffs diffs;
	struct fidelity_compare cmp;
	struct fidelity_result *res;
	uint32_t live[MAX_LIVE];
	size_t nr_live;
	struct script_call kcall, ecall;
	struct script_result kres, eres;
	char *err;
	size_t errlen;
};

/* ---- who lives ---- */

static bool track(struct fid_run *r)
{
	if (r->kcall.op == SOP_FORK && r->kres.ret >= 0) {
		if (r->nr_live == MAX_LIVE)
			return false;
		r->live[r->nr_live++] = r->kcall.target;
	}
	for (size_t i = 0; r->kcall.op == SOP_EXIT && i < r->nr_live; i++)
		if (r->live[i] == r->kcall.proc) {
			memmove(&r->live[i], &r->live[i + 1], (r->nr_live - i - 1) * sizeof(r->live[0]));
			r->nr_live--;
		}
	return true;
}

static void note_op(struct fid_run *r)
{
	struct fidelity_case *about = &r->cmp.about;

	if (r->kcall.op == SOP_MADVISE && r->kcall.advice == UAPI_MADV_FREE)
		about->ops_seen |= FIDELITY_SEEN_FREE;
	if (r->kcall.op == SOP_MADVISE && r->kcall.advice == UAPI_MADV_HUGEPAGE)
		about->ops_seen |= FIDELITY_SEEN_HUGE;
	if (r->kcall.op == SOP_MADVISE && r->kcall.advice == UAPI_MADV_PAGEOUT)
		about->ops_seen |= FIDELITY_SEEN_PAGEOUT;
	if (r->kcall.op == SOP_PWRITE && r->kres.ret == -EFAULT)
		about->ops_seen |= FIDELITY_SEEN_FAILED_WRITE;
	if (r->kcall.op == SOP_MMAP && (r->kcall.flags & UAPI_MAP_SHARED))
		about->ops_seen |= FIDELITY_SEEN_SHARED;
	if (r->kcall.op == SOP_MLOCK || r->kcall.op == SOP_MLOCK2 || r->kcall.op == SOP_MLOCKALL ||
	    (r->kcall.op == SOP_MMAP && (r->kcall.flags & UAPI_MAP_LOCKED)))
		about->ops_seen |= FIDELITY_SEEN_LOCK;
	if (r->kcall.op == SOP_MREMAP && (r->kcall.flags & UAPI_MREMAP_DONTUNMAP) && r->kres.ret >= 0 && (about->ops_seen & FIDELITY_SEEN_LOCK))
		about->ops_seen |= FIDELITY_SEEN_LEFT_LOCKED;
	if (r->kcall.op == SOP_FILE_CREATE && !(r->kcall.flags & 1) && r->kcall.file < 64)
		about->plain_files |= 1ULL << r->kcall.file;
}

/* ---- looking ---- */

static int look_at(struct fid_run *r, uint32_t proc, unsigned what)
{
	struct script_obs k, e;
	int rc;

	script_obs_init(&k);
	script_obs_init(&e);
	rc = r->sides.kernel.inner_ops->observe(r->sides.kernel.inner, proc, what, &k, r->err, r->errlen);
	if (!rc)
		rc = r->sides.engine.inner_ops->observe(r->sides.engine.inner, proc, what, &e, r->err, r->errlen);
	if (!rc)
		fidelity_compare_obs(&r->cmp, &k, &e);
	script_obs_clear(&k);
	script_obs_clear(&e);
	return rc;
}

/* What the engine has counted in a step after which nobody asks must not be taken for the next step's. */
static int forget_counts(struct fid_run *r)
{
	struct script_obs e;
	int rc;

	script_obs_init(&e);
	rc = r->nr_live ? r->sides.engine.inner_ops->observe(r->sides.engine.inner, r->live[0], SOBS_VMSTAT, &e, r->err, r->errlen) : 0;
	script_obs_clear(&e);
	return rc;
}

/* Counters are the acting process's: it is looked at first, since looking makes the engine's start again. */
static int look(struct fid_run *r, unsigned what)
{
	bool acts = r->kcall.op != SOP_EXIT;
	int rc = acts ? look_at(r, r->kcall.proc, what) : forget_counts(r);

	for (size_t i = 0; !rc && i < r->nr_live; i++)
		if (!acts || r->live[i] != r->kcall.proc)
			rc = look_at(r, r->live[i], what & ~(unsigned)SOBS_VMSTAT);
	return rc;
}

/* ---- steps ---- */

static void judge(struct fid_run *r)
{
	struct fidelity_result *res = r->res;
	uint64_t seen = 0;

	if (!r->diffs.nr) {
		res->equal++;
		return;
	}
	for (size_t i = 0; i < r->diffs.nr; i++) {
		size_t at;

		if (!r->diffs.v[i].declared)
			continue;
		at = fidelity_declared_index(r->diffs.v[i].declared);
		if (at < ARRAY_SIZE(res->by_declared) && !(seen >> at & 1))
			res->by_declared[at]++;
		seen |= 1ULL << (at & 63);
	}
	if (!r->diffs.nr_undeclared) {
		res->declared++;
		return;
	}
	res->undeclared++;
	for (size_t i = 0; i < r->diffs.nr; i++)
		if (!r->diffs.v[i].declared) {
			res->diff = r->diffs.v[i];
			break;
		}
	res->first = (uint32_t)res->steps - 1;
	res->first_line = r->kcall.line;
}

static bool at_end(const struct fid_run *r)
{
	for (size_t i = 0; i < r->diffs.nr; i++)
		if (!r->diffs.v[i].declared || r->diffs.v[i].declared->ends)
			return true;
	return r->diffs.nr_undeclared != 0;
}

/* 0: made on both sides; 1: skipped. */
static int carry_out(struct fid_run *r)
{
	int rc;

	if (r->kcall.op == SOP_EXIT) {
		rc = look_at(r, r->kcall.proc, (LOOK | SOBS_CONTENTS) & ~(unsigned)SOBS_VMSTAT);
		if (rc)
			return rc;
	}
	rc = r->sides.kernel.ops.step((struct script_exec *)(void *)&r->sides.kernel, &r->kcall, &r->kres, r->err, r->errlen);
	if (!rc)
		rc = r->sides.engine.ops.step((struct script_exec *)(void *)&r->sides.engine, &r->ecall, &r->eres, r->err, r->errlen);
	if (rc != -EOPNOTSUPP)
		return rc;
	r->res->skipped = true;
	snprintf(r->res->why, sizeof(r->res->why), "line %u: %s", r->kcall.line, r->err);
	return 1;
}

static int compare(struct fid_run *r)
{
	int rc;

	fidelity_compare_results(&r->cmp, &r->kcall, &r->kres, &r->eres);
	rc = script_run_result(r->sides.kernel.run, &r->kres, r->err, r->errlen);
	if (!rc)
		rc = script_run_result(r->sides.engine.run, &r->eres, r->err, r->errlen);
	if (rc)
		return rc;
	if (!track(r)) {
		snprintf(r->err, r->errlen, "more than %d processes at once", MAX_LIVE);
		return -E2BIG;
	}
	return look(r, LOOK | (r->o->contents_every_step ? SOBS_CONTENTS : 0));
}

/* The next call of both; they must be the same one. 1, 0: the end, or an error. */
static int next(struct fid_run *r)
{
	int k = script_run_next(r->sides.kernel.run, &r->kcall, r->err, r->errlen), e;

	if (k < 0)
		return k;
	e = script_run_next(r->sides.engine.run, &r->ecall, r->err, r->errlen);
	if (e < 0)
		return e;
	if (k != e || (k && (r->kcall.op != r->ecall.op || r->kcall.line != r->ecall.line))) {
		snprintf(r->err, r->errlen, "the script went different ways on the two sides: it decides by what they count differently");
		return -EBADMSG;
	}
	return k;
}

static void tell(struct fid_run *r, void (*each)(void *arg, const struct fidelity_step *st), void *arg)
{
	const struct fidelity_step st = { .index = (uint32_t)r->res->steps - 1, .line = r->kcall.line, .call = &r->ecall, .kernel = &r->kres,
					  .engine = &r->eres, .diffs = &r->diffs, .run = r->sides.engine.run };

	if (each)
		each(arg, &st);
}

static int all_steps(struct fid_run *r, void (*each)(void *arg, const struct fidelity_step *st), void *arg)
{
	bool made = false;
	int rc;

	while ((rc = next(r)) > 0) {
		memset(&r->diffs, 0, offsetof(struct fidelity_diffs, v[1]));
		r->diffs.nr = r->diffs.nr_undeclared = 0;
		rc = carry_out(r);
		if (rc)
			return rc == 1 ? 0 : rc;
		r->res->steps++;
		note_op(r);
		rc = compare(r);
		if (rc)
			return rc;
		judge(r);
		tell(r, each, arg);
		if (at_end(r))
			return 0;
		made = true;
	}
	if (rc || !made)
		return rc;
	/* Contents belong to the last step; it is not counted twice. */
	r->diffs.nr = r->diffs.nr_undeclared = 0;
	rc = look(r, (LOOK | SOBS_CONTENTS) & ~(unsigned)SOBS_VMSTAT);
	if (!rc && r->diffs.nr_undeclared) {
		if (r->res->equal)
			r->res->equal--;
		else
			r->res->declared--;
		judge(r);
		tell(r, each, arg);
	}
	return rc;
}

int fidelity_run(const struct script *s, const struct fidelity_options *o, void (*each)(void *arg, const struct fidelity_step *st), void *arg,
		 struct fidelity_result *ret, char *err, size_t errlen)
{
	struct fid_run *r = calloc(1, sizeof(*r));
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (!r) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	r->o = o;
	r->res = ret;
	r->err = err;
	r->errlen = errlen;
	r->nr_live = 1;
	rc = fidelity_sides_create(o, true, &r->sides, err, errlen);
	if (!rc) {
		rc = fidelity_sides_begin(&r->sides, s, o, err, errlen);
		if (rc == -EOPNOTSUPP) {
			ret->skipped = true;
			snprintf(ret->why, sizeof(ret->why), "%s", err);
			rc = 0;
		} else if (!rc) {
			r->cmp = (struct fidelity_compare){ .about = { .kernel = o->kernel, .call = &r->kcall, .k = &r->kres, .e = &r->eres,
									   .ops_seen = o->kernel->knobs.thp_enabled == THP_ALWAYS ? FIDELITY_SEEN_HUGE : 0 },
							    .k = r->sides.kernel.places, .e = r->sides.engine.places,
							    .run = r->sides.engine.run, .diffs = &r->diffs, .owned = o->owned,
							    .programs_only = o->programs_only };
			rc = all_steps(r, each, arg);
		}
		fidelity_sides_end(&r->sides);
		fidelity_sides_destroy(&r->sides);
	}
	free(r);
	return rc;
}

/* ---- one side ---- */

int fidelity_run_kernel(const struct script *s, const struct fidelity_options *o, void (*each)(void *arg, const struct fidelity_seen *seen),
			void *arg, struct fidelity_result *ret, char *err, size_t errlen)
{
	struct fid_run *r = calloc(1, sizeof(*r));
	struct script_obs obs[MAX_LIVE];
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (!r) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	r->nr_live = 1;
	r->err = err;
	r->errlen = errlen;
	rc = fidelity_sides_create(o, false, &r->sides, err, errlen);
	if (!rc)
		rc = fidelity_sides_begin(&r->sides, s, o, err, errlen);
	while (!rc && (rc = script_run_next(r->sides.kernel.run, &r->kcall, err, errlen)) > 0) {
		struct fidelity_seen seen = { .index = (uint32_t)ret->steps, .line = r->kcall.line, .call = &r->kcall, .result = &r->kres,
					      .obs = obs, .run = r->sides.kernel.run, .arena = r->sides.kernel.places.arena,
					      .top = r->sides.kernel.places.top, .heap = r->sides.kernel.places.heap };

		rc = r->sides.kernel.inner_ops->step(r->sides.kernel.inner, &r->kcall, &r->kres, err, errlen);
		if (!rc)
			rc = script_run_result(r->sides.kernel.run, &r->kres, err, errlen);
		if (!rc && !track(r))
			rc = -E2BIG;
		for (; !rc && seen.nr_obs < r->nr_live; seen.nr_obs++) {
			script_obs_init(&obs[seen.nr_obs]);
			rc = r->sides.kernel.inner_ops->observe(r->sides.kernel.inner, r->live[seen.nr_obs],
								LOOK | (o->contents_every_step ? SOBS_CONTENTS : 0), &obs[seen.nr_obs], err,
								errlen);
		}
		ret->steps++;
		if (!rc)
			each(arg, &seen);
		for (size_t i = 0; i < seen.nr_obs; i++)
			script_obs_clear(&obs[i]);
	}
	if (rc == -EOPNOTSUPP) {
		ret->skipped = true;
		snprintf(ret->why, sizeof(ret->why), "line %u: %s", r->kcall.line, err);
		rc = 0;
	}
	if (r->sides.kernel.inner) {
		fidelity_sides_end(&r->sides);
		fidelity_sides_destroy(&r->sides);
	}
	free(r);
	return rc;
}
