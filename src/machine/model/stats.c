/*
 * Counters by name, in a fixed order: the core's, then the scheduler's, locks by rank, then (with options.profile) time by path.
 * Kept: the per-CPU and per-rank counters. Derived, here: their sums, and idle time, to which the tail belongs that a CPU has
 * been idle since it last did anything.
 */
#include "machine/model/model_int.h"

#include <stdio.h>

typedef void stat_fn(void *arg, const char *name, uint64_t value);

static uint64_t elapsed_ps(const struct machine *m)
{
	uint64_t ps = 0;

	for (unsigned i = 0; i < m->nr_cpus; i++)
		ps = MAX(ps, m->cpus[i]->now_ps);
	return ps;
}

uint64_t model_elapsed_ns(const struct machine *m)
{
	return elapsed_ps(m) / PS_PER_NS;
}

const struct model_path_stat *model_path_stats(const struct machine *m)
{
	return container_of(m, const struct model, m)->path;
}

static void locks_each(const struct sched_shared *s, stat_fn *fn, void *arg)
{
	char name[64];

	for (unsigned r = 0; r < NR_LOCK_RANKS; r++) {
		const struct sched_lock_stat *ls = &s->lock[r];

		snprintf(name, sizeof(name), "lock_contended_%s", sched_rank_name(r));
		fn(arg, name, ls->contended);
		snprintf(name, sizeof(name), "lock_wait_%s_ns", sched_rank_name(r));
		fn(arg, name, ls->wait_ps / PS_PER_NS);
		snprintf(name, sizeof(name), "lock_wait_max_%s_ns", sched_rank_name(r));
		fn(arg, name, ls->max_wait_ps / PS_PER_NS);
	}
}

void sched_stats_each(struct model *md, stat_fn *fn, void *arg)
{
	uint64_t switches = 0, migrations = 0, steals = 0, sent = 0, received = 0, idle_ps = 0;
	uint64_t contended = 0, wait_ps = 0, end = elapsed_ps(&md->m);

	for (unsigned i = 0; i < md->m.nr_cpus; i++) {
		const struct sched_cpu *sc = &model_cpu(md->m.cpus[i])->sched;

		switches += sc->context_switches;
		migrations += sc->migrations;
		steals += sc->steals;
		sent += sc->ipi_sent;
		received += sc->ipi_received;
		idle_ps += sc->idle_ps + (end - md->m.cpus[i]->now_ps);
	}
	for (unsigned r = 0; r < NR_LOCK_RANKS; r++) {
		contended += md->sched.lock[r].contended;
		wait_ps += md->sched.lock[r].wait_ps;
	}
	fn(arg, "elapsed_ns", end / PS_PER_NS);
	fn(arg, "tasks_started", md->sched.tasks_started);
	fn(arg, "context_switches", switches);
	fn(arg, "cpu_migrations", migrations);
	fn(arg, "tasks_stolen", steals);
	fn(arg, "ipis_sent", sent);
	fn(arg, "ipis_received", received);
	fn(arg, "idle_ns", idle_ps / PS_PER_NS);
	fn(arg, "lock_contended", contended);
	fn(arg, "lock_wait_ns", wait_ps / PS_PER_NS);
	locks_each(&md->sched, fn, arg);
}

static void paths_each(const struct model *md, stat_fn *fn, void *arg)
{
	static const char *const id[NR_MACHINE_PATHS] = {
#define PATH(id, name, functions) [PATH_##id] = #id,
		MACHINE_PATHS(PATH)
#undef PATH
	};
	char name[96];

	for (unsigned p = 0; p < NR_MACHINE_PATHS; p++) {
		char lower[64];
		unsigned i;

		for (i = 0; id[p][i] && i < sizeof(lower) - 1; i++)
			lower[i] = (char)(id[p][i] >= 'A' && id[p][i] <= 'Z' ? id[p][i] - 'A' + 'a' : id[p][i]);
		lower[i] = '\0';
		snprintf(name, sizeof(name), "path_%s_ns", lower);
		fn(arg, name, md->path[p].ps / PS_PER_NS);
		snprintf(name, sizeof(name), "path_%s_insns", lower);
		fn(arg, name, md->path[p].insns);
		snprintf(name, sizeof(name), "path_%s_units", lower);
		fn(arg, name, md->path[p].units);
	}
}

void machine_stats_each(struct machine *m, stat_fn *fn, void *arg)
{
	struct model *md = container_of(m, struct model, m);

	core_stats_each(md, fn, arg);
	sched_stats_each(md, fn, arg);
	if (md->opt.profile)
		paths_each(md, fn, arg);
}
