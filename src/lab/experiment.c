/*
 * Running an experiment: each case is a comparison on a model, one on this computer, or both; its figures are rows of the result. A case
 * that cannot be run here (memory, no tasks) leaves its half empty, with the reason in the result.
 */
#include "lab/experiment.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MODEL 3
#define ROUNDS_HOST 9
#define QUICK_SCALE 8
#define HOST_SHARE 4 /* at most a quarter of this computer's memory */

static uint64_t host_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* Metrics under the names that files use: short ones that mean the same for all workloads, else a metric's own. */
static const char *metric_name(const struct experiment_case *c, const char *name, const struct compare_result *r)
{
	const struct workload *w = workload_find(c->workload);
	bool steady = compare_find(r, "throughput_steady_KBps"); /* staggered: start and end, which a long run does not feel, are left out */

	/* usemem's clock starts before the forks, which a long run does not feel and a scaled one would. */
	if (!strcmp(name, "throughput") && steady)
		return "throughput_steady_KBps";
	if (!strcmp(name, "throughput"))
		return compare_find(r, "throughput_from_go_KBps") ? "throughput_from_go_KBps" : w->metric;
	if (!strcmp(name, "time"))
		return "work_time_ns";
	if (!strcmp(name, "user_time"))
		return "user_time_ns";
	if (!strcmp(name, "system_time"))
		return "system_time_ns";
	if (!strcmp(name, "first_access_time"))
		return steady ? "steady_rest_ns" : "first_touch_rest_2m_ns";
	if (!strcmp(name, "fault_time"))
		return steady ? "steady_fault_ns" : "first_touch_fault_2m_ns";
	if (!strcmp(name, "near_access_time"))
		return "first_touch_near_2m_ns";
	if (!strcmp(name, "clear_time"))
		return "huge_clear_mean_ns";
	if (!strcmp(name, "copy_time"))
		return "huge_copy_mean_ns";
	return name;
}

uint64_t experiment_size(const struct experiment_case *c, const struct trial *t, double scale)
{
	bool shared = !strncmp(c->workload, "anon-cow", 8); /* the parent has a share too */
	uint64_t shares = t->tasks + (shared ? 1U : 0U);
	uint64_t size = (uint64_t)((double)t->size * scale);

	size = MAX(size, t->least);
	return MAX(size / shares / PMD_SIZE, 1ULL) * PMD_SIZE * shares;
}

/* ---- a case on one machine ---- */

struct half {
	const struct experiment_options *o;
	const struct experiment_case *c;
	const struct trial *t;
	const struct machine_desc *model; /* NULL: this computer */
	double scale;
	char what[160];
};

static void forward(void *arg, const struct compare_progress *p)
{
	const struct half *h = arg;

	h->o->progress(h->o->progress_arg, h->what, p);
}

static int make_sides(const struct experiment_case *c, struct compare_side *sides, char *err, size_t errlen)
{
	char text[200];

	for (uint32_t s = 0; s <= c->nr_with; s++) {
		knobs_default(&sides[s].knobs);
		for (uint32_t i = 0; i < c->nr_settings; i++)
			if (settings_apply(&sides[s].knobs, "settings", c->settings[i], err, errlen))
				return -EINVAL;
		snprintf(text, sizeof(text), "%s=%s", c->knob, s ? c->with[s - 1] : c->base);
		if (settings_apply(&sides[s].knobs, "knob", text, err, errlen))
			return -EINVAL;
		snprintf(sides[s].label, sizeof(sides[s].label), "%.150s", text);
	}
	return 0;
}

static unsigned rounds_of(const struct half *h)
{
	unsigned n = h->t->rounds ? h->t->rounds : h->model ? ROUNDS_MODEL : ROUNDS_HOST;

	return h->o->quick ? MIN(n, 2U) : n;
}

static int run_half(const struct half *h, struct compare_result *ret, char *err, size_t errlen)
{
	struct compare_side sides[EXPERIMENT_MAX_WITH + 1] = { 0 };
	struct compare_options co = {
		.subject = { .workload = workload_find(h->c->workload),
			     .options = { .tasks = h->t->tasks, .size = experiment_size(h->c, h->t, h->scale), .think_ns = h->t->think_ns,
					  .stagger_ns = h->t->stagger_ns, .passes = h->t->passes, .placement = h->t->placement } },
		.place = { .model = h->model }, .sides = sides, .nr_sides = h->c->nr_with + 1, .rounds = rounds_of(h),
		.jobs = h->o->jobs, .seed = h->o->seed, .stop = h->o->stop,
	};
	int rc = make_sides(h->c, sides, err, errlen);

	if (h->o->progress) {
		co.progress = forward;
		co.progress_arg = (void *)(uintptr_t)h;
	}
	return rc ? rc : compare_run(&co, ret, err, errlen);
}

static void take_figure(const struct half *h, const struct compare_result *r, const struct figure *f, const char **unit, struct outcome *out)
{
	const struct compare_metric *m = compare_find(r, metric_name(h->c, f->metric, r));

	*out = (struct outcome){ .run = true, .tasks = h->t->tasks, .size = experiment_size(h->c, h->t, h->scale) };
	if (!m)
		return;
	out->e = f->of == OF_GAIN ? m->gain[f->with + 1] : f->of == OF_BASE ? m->value[0] : m->value[f->with + 1];
	if (f->of != OF_GAIN)
		*unit = m->unit[0] ? m->unit : "count";
}

static int run_case_on(struct half *h, struct experiment_row *rows, char *err, size_t errlen)
{
	struct compare_result r;
	int rc = run_half(h, &r, err, errlen);

	if (r.rounds)
		for (uint32_t i = 0; i < h->c->nr_figures; i++)
			take_figure(h, &r, &h->c->figures[i], &rows[i].unit, h->model ? &rows[i].modelled : &rows[i].measured);
	compare_result_done(&r);
	return rc;
}

/* ---- the whole ---- */

static bool wanted(const struct experiment_options *o, const struct experiment_case *c)
{
	return !o->only || strstr(c->name, o->only);
}

static int run_modelled(const struct experiment_options *o, const struct experiment_case *c, double scale, struct experiment_row *rows,
			char *err, size_t errlen)
{
	struct half h = { .o = o, .c = c, .t = &c->model, .scale = scale };
	struct machine_desc d;
	int rc;

	if (!c->model.on || o->no_model)
		return 0;
	rc = machine_desc_find(c->model.machine, &d, err, errlen);
	if (rc)
		return rc;
	h.model = &d;
	snprintf(h.what, sizeof(h.what), "%.100s, modelled", c->name);
	rc = run_case_on(&h, rows, err, errlen);
	machine_desc_done(&d);
	return rc;
}

static int run_measured(const struct experiment_options *o, const struct experiment_case *c, double scale, struct experiment_row *rows,
			struct experiment_result *ret, char *err, size_t errlen)
{
	struct half h = { .o = o, .c = c, .t = &c->host, .scale = scale };
	uint64_t have = (uint64_t)MAX(sysconf(_SC_PHYS_PAGES), 0L) * (uint64_t)sysconf(_SC_PAGESIZE), need;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int rc;

	if (!c->host.on || o->no_host)
		return 0;
	need = experiment_size(c, &c->host, scale);
	if (workload_find(c->workload)->boot) /* descriptors of so much memory, and a little for the machine */
		need = need / (PAGE_SIZE / 64) + (512ULL << 20);
	if (need > have / HOST_SHARE || (long)c->host.tasks > cpus) {
		snprintf(ret->no_host, sizeof(ret->no_host), "%.60s: needs %u CPUs and %llu MiB, a quarter of the memory at most", c->name,
			 c->host.tasks, (unsigned long long)(need >> 20));
		return 0;
	}
	snprintf(h.what, sizeof(h.what), "%.100s, measured here", c->name);
	rc = run_case_on(&h, rows, err, errlen);
	if (rc && rc != -EINTR) { /* this computer may not be able to: the modelled half stands */
		snprintf(ret->no_host, sizeof(ret->no_host), "%.60s: %.120s", c->name, err);
		rc = 0;
	}
	return rc;
}

static int run_cases(const struct experiment_options *o, struct experiment_result *ret, char *err, size_t errlen)
{
	const struct experiment *e = o->experiment;
	int rc = 0;

	for (uint32_t i = 0, row = 0; i < e->nr_cases && !rc; i++) {
		const struct experiment_case *c = &e->cases[i];

		if (!wanted(o, c))
			continue;
		rc = run_modelled(o, c, ret->scale, &ret->rows[row], err, errlen);
		if (!rc)
			rc = run_measured(o, c, ret->scale, &ret->rows[row], ret, err, errlen);
		row += c->nr_figures;
	}
	return rc;
}

int experiment_run(const struct experiment_options *o, struct experiment_result *ret, char *err, size_t errlen)
{
	const struct experiment *e = o->experiment;
	uint64_t start = host_now_ns();
	int rc;

	*ret = (struct experiment_result){ .scale = o->scale > 0 ? o->scale : e->scale };
	if (o->quick)
		ret->scale /= QUICK_SCALE;
	host_describe(ret->host, sizeof(ret->host));
	hwcount_check(ret->no_hwcount, sizeof(ret->no_hwcount));
	for (uint32_t i = 0; i < e->nr_cases; i++)
		ret->nr_rows += wanted(o, &e->cases[i]) ? e->cases[i].nr_figures : 0;
	ret->rows = calloc(MAX(ret->nr_rows, 1U), sizeof(*ret->rows));
	if (!ret->rows) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0, row = 0; i < e->nr_cases; i++)
		for (uint32_t f = 0; wanted(o, &e->cases[i]) && f < e->cases[i].nr_figures; f++)
			ret->rows[row++] = (struct experiment_row){ .c = &e->cases[i], .f = &e->cases[i].figures[f], .unit = "ratio" };
	if (o->no_host)
		snprintf(ret->no_host, sizeof(ret->no_host), "not asked for");
	rc = run_cases(o, ret, err, errlen);
	ret->stopped = rc == -EINTR;
	ret->host_ns = host_now_ns() - start;
	return rc;
}

void experiment_result_done(struct experiment_result *r)
{
	free(r->rows);
	*r = (struct experiment_result){ 0 };
}
