/*
 * The fault wrapper: a machine's operations with some calls made to fail.
 *
 * Invariants
 *  - While attached, m->ops points to the `ops` inside a struct inject, which is how a call finds its rules.
 *  - at[cpu] is where the engine is on that CPU. The paths are no stack that could be looked at, but every path is put back by
 *    who set it, so the last one set is the innermost. Where a CPU may run something else meanwhile (a lock that sleeps), it is
 *    kept by the caller.
 * Locks: rules and all counts under `lock`, which is never held across a call of the machine.
 */
#include "machine/inject.h"

#include "base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rule_state {
	struct inject_rule r;
	uint64_t met; /* points that met the conditions, beyond the space */
	struct rng rng;
};

struct inject {
	struct machine_ops ops; /* what m->ops points to */
	const struct machine_ops *inner;
	struct machine *m;
	uint64_t seed;
	uint32_t was_ahead; /* clear_ahead: frames that nobody asked for are no calls that can fail */
	bool was_uncharged; /* a machine without prices, which is not told paths: they are kept here */
	pthread_mutex_t lock;
	struct {
		enum inject_mode mode;
		uint64_t n, calls, failures;
		struct rng rng;
	} simple[NR_INJECT_SITES];
	struct rule_state rules[INJECT_MAX_RULES];
	unsigned nr_rules;
	struct inject_count count[NR_INJECT_SITES][NR_MACHINE_PATHS];
	uint64_t point, fail_point; /* met so far; the one to fail, or 0 */
	struct inject_point failed_point;
	bool point_failed;
	struct inject_point *log;
	uint64_t log_cap;
	struct inject_at {
		enum machine_path path, site;
	} at[];
};

static struct inject *inject_of(const struct cpu *c)
{
	/* The operations are constant for everybody but their owner. */
	return (struct inject *)(uintptr_t)c->m->ops;
}

/* ---- where ---- */

bool inject_site_possible(enum machine_path site)
{
	switch (site) {
	case PATH_EXCEPTION:
	case PATH_SYSCALL:
	case PATH_SCHED:
	case PATH_IPI:
	case PATH_LOCK_WAIT:
	case PATH_CLEAR_PAGE:
	case PATH_COPY_PAGE:
	case PATH_HUGECOPY:
	case PATH_PAGE_ALLOC:
	case PATH_PAGE_FREE:
	case PATH_PCP_ALLOC:
	case PATH_PCP_FREE:
	case PATH_PCP_REFILL:
	case PATH_BUDDY_ALLOC:
	case PATH_BUDDY_FREE:
	case PATH_PREP_COMPOUND:
	case PATH_CLEAR_COMPOUND:
	case PATH_SLAB_ALLOC:
	case PATH_SLAB_FREE:
	case PATH_SLAB_REFILL:
	case PATH_FILE_LOOKUP:
	case PATH_VMA_FIND:
	case PATH_VMA_INSERT:
	case PATH_VMA_GAP:
	case PATH_WALK:
	case PATH_TLB_FLUSH:
	case PATH_SWITCH_MM:
		return false;
	default:
		return true;
	}
}

static enum machine_path inject_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	struct inject *in = inject_of(c);
	struct inject_at *at = &in->at[c->id];
	enum machine_path prev = at->path;

	at->path = path;
	if (inject_site_possible(path))
		at->site = path;
	return in->was_uncharged ? prev : in->inner->work(c, path, units);
}

static void inject_lock(struct cpu *c, struct mlock *l)
{
	struct inject *in = inject_of(c);
	struct inject_at at = in->at[c->id];

	in->inner->lock(c, l);
	in->at[c->id] = at;
}

static void inject_read_lock(struct cpu *c, struct mrwlock *l)
{
	struct inject *in = inject_of(c);
	struct inject_at at = in->at[c->id];

	in->inner->read_lock(c, l);
	in->at[c->id] = at;
}

static void inject_write_lock(struct cpu *c, struct mrwlock *l)
{
	struct inject *in = inject_of(c);
	struct inject_at at = in->at[c->id];

	in->inner->write_lock(c, l);
	in->at[c->id] = at;
}

static void inject_block(struct cpu *c)
{
	struct inject *in = inject_of(c);
	struct inject_at at = in->at[c->id];

	in->inner->block(c);
	in->at[c->id] = at;
}

static void inject_sleep_ns(struct cpu *c, uint64_t ns)
{
	struct inject *in = inject_of(c);
	struct inject_at at = in->at[c->id];

	in->inner->sleep_ns(c, ns);
	in->at[c->id] = at;
}

static struct cpu *inject_wait(struct cpu *c, uint64_t ns)
{
	struct inject *in = inject_of(c);
	struct inject_at at = in->at[c->id];

	c = in->inner->wait(c, ns);
	in->at[c->id] = at;
	return c;
}

/* ---- whether ---- */

static bool decide_simple(struct inject *in, enum inject_site kind)
{
	bool fail = false;

	in->simple[kind].calls++;
	switch (in->simple[kind].mode) {
	case INJECT_NEVER:
		break;
	case INJECT_NTH:
		fail = in->simple[kind].calls == in->simple[kind].n;
		break;
	case INJECT_EVERY:
		fail = in->simple[kind].calls % in->simple[kind].n == 0;
		break;
	case INJECT_RANDOM:
		fail = rng_below(&in->simple[kind].rng, 1000) < in->simple[kind].n;
		break;
	}
	in->simple[kind].failures += fail;
	return fail;
}

static bool decide_rule(struct rule_state *s, enum inject_site kind, enum machine_path site, size_t bytes)
{
	struct inject_rule *r = &s->r;

	if (r->kind != kind || !r->times || (r->site != INJECT_ANY && r->site != (int)site))
		return false;
	if (r->order != INJECT_ANY && bytes != PAGE_SIZE << r->order)
		return false;
	if (r->space >= MAX(bytes, 1UL)) {
		r->space -= MAX(bytes, 1UL);
		return false;
	}
	r->space = 0;
	s->met++;
	if ((r->nth && s->met != r->nth) || s->met % r->interval)
		return false;
	if (r->probability < 100 && rng_below(&s->rng, 100) >= r->probability)
		return false;
	r->times -= r->times > 0;
	return true;
}

static bool decide_point(struct inject *in, enum inject_site kind, enum machine_path site)
{
	if (in->point < in->log_cap)
		in->log[in->point] = (struct inject_point){ kind, site };
	if (++in->point != in->fail_point)
		return false;
	in->failed_point = (struct inject_point){ kind, site };
	in->point_failed = true;
	return true;
}

static bool decide(struct cpu *c, enum inject_site kind, size_t bytes)
{
	struct inject *in = inject_of(c);
	enum machine_path site = in->at[c->id].site;
	bool fail;

	pthread_mutex_lock(&in->lock);
	fail = decide_simple(in, kind);
	fail |= decide_point(in, kind, site);
	for (unsigned i = 0; i < in->nr_rules && !fail; i++)
		fail = decide_rule(&in->rules[i], kind, site, bytes);
	in->count[kind][site].points++;
	in->count[kind][site].failures += fail;
	pthread_mutex_unlock(&in->lock);
	return fail;
}

static int inject_clear_page(struct cpu *c, pfn_t p)
{
	return decide(c, INJECT_CLEAR, PAGE_SIZE) ? -ENOMEM : inject_of(c)->inner->clear_page(c, p);
}

static int inject_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	return decide(c, INJECT_COPY, PAGE_SIZE) ? -EHWPOISON : inject_of(c)->inner->copy_page(c, dst, src);
}

static int inject_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns)
{
	if (decide(c, INJECT_IO, (size_t)nr << PAGE_SHIFT))
		return -EIO;
	return inject_of(c)->inner->swap_io(c, slot, frames, nr, write, ret_done_ns);
}

static bool inject_trylock(struct cpu *c, struct mlock *l)
{
	return !decide(c, INJECT_TRYLOCK, 0) && inject_of(c)->inner->trylock(c, l);
}

/* ---- life ---- */

int inject_attach(struct machine *m, uint64_t seed, struct inject **ret)
{
	struct inject *in = calloc(1, sizeof(*in) + m->nr_cpus * sizeof(in->at[0]));

	if (!in)
		return -ENOMEM;
	pthread_mutex_init(&in->lock, NULL);
	in->inner = m->ops;
	in->m = m;
	in->seed = seed;
	in->was_uncharged = m->nr_cpus && m->cpus[0]->uncharged;
	in->was_ahead = m->nr_cpus ? m->cpus[0]->clear_ahead : 0;
	in->ops = *m->ops;
	in->ops.work = inject_work;
	in->ops.lock = inject_lock;
	in->ops.read_lock = inject_read_lock;
	in->ops.write_lock = inject_write_lock;
	in->ops.block = inject_block;
	in->ops.sleep_ns = inject_sleep_ns;
	in->ops.wait = m->ops->wait ? inject_wait : NULL;
	in->ops.swap_io = inject_swap_io;
	in->ops.clear_page = inject_clear_page;
	in->ops.copy_page = inject_copy_page;
	in->ops.trylock = inject_trylock;
	in->ops.inject = decide;
	for (unsigned i = 0; i < m->nr_cpus; i++) {
		m->cpus[i]->uncharged = false;
		m->cpus[i]->clear_ahead = 0;
	}
	m->ops = &in->ops;
	*ret = in;
	return 0;
}

void inject_detach(struct inject *in)
{
	if (!in)
		return;
	for (unsigned i = 0; i < in->m->nr_cpus; i++) {
		in->m->cpus[i]->uncharged = in->was_uncharged;
		in->m->cpus[i]->clear_ahead = in->was_ahead;
	}
	in->m->ops = in->inner;
	pthread_mutex_destroy(&in->lock);
	free(in);
}

int inject_add(struct inject *in, const struct inject_rule *r)
{
	struct rule_state *s = &in->rules[in->nr_rules];
	char name[] = "inject-rule-A";

	if (!r->interval || r->probability > 100 || r->times < -1 || (unsigned)r->kind >= NR_INJECT_SITES)
		return -EINVAL;
	if (in->nr_rules == INJECT_MAX_RULES)
		return -ENOSPC;
	name[sizeof(name) - 2] = (char)('A' + in->nr_rules);
	*s = (struct rule_state){ .r = *r };
	rng_init(&s->rng, in->seed, name);
	in->nr_rules++;
	return 0;
}

int inject_attach_rules(struct machine *m, uint64_t seed, const struct inject_rules *rules, struct inject **ret)
{
	struct inject *in;
	int rc;

	*ret = NULL;
	if (!rules || !rules->nr)
		return 0;
	rc = inject_attach(m, seed, &in);
	if (rc)
		return rc;
	for (unsigned i = 0; i < rules->nr && !rc; i++)
		rc = inject_add(in, &rules->rule[i]);
	if (rc)
		inject_detach(in);
	else
		*ret = in;
	return rc;
}

struct inject_count inject_count_at(const struct inject *in, enum inject_site kind, enum machine_path site)
{
	return in->count[kind][site];
}

struct inject_count inject_count_kind(const struct inject *in, enum inject_site kind)
{
	struct inject_count sum = { 0 };

	for (unsigned i = 0; i < NR_MACHINE_PATHS; i++) {
		sum.points += in->count[kind][i].points;
		sum.failures += in->count[kind][i].failures;
	}
	return sum;
}

uint64_t inject_failed(const struct inject *in)
{
	uint64_t n = 0;

	for (unsigned k = 0; k < NR_INJECT_SITES; k++)
		n += inject_count_kind(in, (enum inject_site)k).failures;
	return n;
}

void inject_fail_point(struct inject *in, uint64_t n)
{
	in->point = 0;
	in->fail_point = n;
	in->point_failed = false;
}

uint64_t inject_points(const struct inject *in)
{
	return in->point;
}

bool inject_point_failed(const struct inject *in, struct inject_point *ret)
{
	*ret = in->failed_point;
	return in->point_failed;
}

void inject_log(struct inject *in, struct inject_point *log, uint64_t cap)
{
	in->log = log;
	in->log_cap = log ? cap : 0;
}

int inject_set(struct inject *in, enum inject_site kind, enum inject_mode mode, uint64_t n)
{
	char name[] = "inject-0";

	if ((mode != INJECT_NEVER && !n) || (mode == INJECT_RANDOM && n > 1000))
		return -EINVAL;
	name[sizeof(name) - 2] = (char)('0' + kind);
	in->simple[kind].mode = mode;
	in->simple[kind].n = n;
	in->simple[kind].calls = 0;
	in->simple[kind].failures = 0;
	rng_init(&in->simple[kind].rng, in->seed, name);
	return 0;
}

uint64_t inject_calls(const struct inject *in, enum inject_site kind)
{
	return in->simple[kind].calls;
}

uint64_t inject_failures(const struct inject *in, enum inject_site kind)
{
	return in->simple[kind].failures;
}
