/* Interrupts and shootdowns of the model machine: who pays when, and that a stale translation is used until then and not after. */
#include "tiny_machine.h"

#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct shoot {
	struct task t[4];
	struct mlock lock;
	struct cpumask targets;
	unsigned remote, laps;
	uint64_t took_ps, sent_ps, spinner_ps;
	bool sent;
};

static const struct tlb_flush one_page = { .ctx = 1, .stride_shift = PAGE_SHIFT, .start = 0x10000, .end = 0x11000 };

/* CPU 0 holds the lock and interrupts CPU 1, which spins on it. */
static void shooter_fn(struct cpu *c, struct task *t)
{
	struct shoot *s = t->arg;

	machine_lock(c, &s->lock);
	busy(c, 20 * US);
	s->sent_ps = c->now_ps;
	c->m->ops->flush_remote(c, &s->targets, &one_page, &s->remote);
	s->took_ps = c->now_ps - s->sent_ps;
	machine_unlock(c, &s->lock);
}

static void spinner_fn(struct cpu *c, struct task *t)
{
	struct shoot *s = t->arg;

	busy(c, 10 * US);
	machine_lock(c, &s->lock);
	s->spinner_ps = c->now_ps;
	machine_unlock(c, &s->lock);
}

static void test_spinner_takes_interrupts(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct shoot s = { .targets = { { 3 } } };

	(void)state;
	mlock_init(&s.lock, RANK_PTL, 0);
	s.t[0] = (struct task){ .fn = shooter_fn, .arg = &s };
	s.t[1] = (struct task){ .fn = spinner_fn, .arg = &s };
	start(m, &s.t[0]);
	start(m, &s.t[1]);
	run_ok(m);
	assert_int_equal(s.remote, 1);
	/* local flush, send, deliver, interrupt, flush */
	assert_in_range(s.took_ps, 1600000, 1900000);
	assert_in_range(s.spinner_ps, s.sent_ps + s.took_ps, s.sent_ps + s.took_ps + 2 * US);
	assert_int_equal(stat(m, "ipis_sent"), 1);
	assert_int_equal(stat(m, "ipis_received"), 1);
	assert_true(stat(m, "path_ipi_ns") >= 1600 + 600);
	model_destroy(m);
}

/* All CPUs shoot at all others at once, some of them while they hold a lock that others spin on. */
static void crossfire_fn(struct cpu *c, struct task *t)
{
	struct shoot *s = t->arg;
	struct rng rng;

	rng_init(&rng, (uint64_t)(t - s->t), "crossfire");
	for (unsigned i = 0; i < 200; i++) {
		unsigned remote;

		c = compute(c, rng_below(&rng, 3 * US));
		if (i % 2)
			machine_lock(c, &s->lock);
		c->m->ops->flush_remote(c, &s->targets, &one_page, &remote);
		assert_int_equal(remote, 5);
		if (i % 2)
			machine_unlock(c, &s->lock);
		s->laps++;
	}
}

static void test_crossfire(void **state)
{
	struct machine *m = tiny_machine(2, 3); /* four tasks on six CPUs: idle ones are shot at as well */
	struct shoot s = { .targets = { { 0x3f } } };

	(void)state;
	mlock_init(&s.lock, RANK_PTL, 64 << 20);
	for (unsigned i = 0; i < 4; i++) {
		s.t[i] = (struct task){ .fn = crossfire_fn, .arg = &s };
		start(m, &s.t[i]);
	}
	run_ok(m);
	assert_int_equal(s.laps, 800);
	assert_int_equal(stat(m, "ipis_sent"), 800 * 5);
	assert_int_equal(stat(m, "ipis_received"), 800 * 5);
	model_destroy(m);
}

/* The receiver pays and is charged at the delivery, whether it is ahead or behind; the sender's wait does not depend on it. */
static void far_fn(struct cpu *c, struct task *t)
{
	struct shoot *s = t->arg;

	(void)s;
	busy(c, 100 * US);
}

static void sender_fn(struct cpu *c, struct task *t)
{
	struct shoot *s = t->arg;

	busy(c, 30 * US + s->laps * 100000);
	s->sent_ps = c->now_ps;
	c->m->ops->flush_remote(c, &s->targets, &one_page, &s->remote);
	s->took_ps = c->now_ps - s->sent_ps;
}

static void test_wait_does_not_depend_on_who_is_ahead(void **state)
{
	for (unsigned lap = 0; lap < 40; lap++) {
		struct machine *m = tiny_machine_quantum(1, 2, 5 * US);
		struct shoot s = { .laps = lap, .targets = { { 3 } } };

		(void)state;
		s.t[lap % 2] = (struct task){ .fn = sender_fn, .arg = &s };
		s.t[!(lap % 2)] = (struct task){ .fn = far_fn, .arg = &s };
		start(m, &s.t[0]);
		start(m, &s.t[1]);
		run_ok(m);
		assert_in_range(s.took_ps, 1600000, 1900000);
		assert_int_equal(s.t[!(lap % 2)].cpu_time_ps / US, 100);
		assert_in_range(s.t[!(lap % 2)].cpu_time_ps, 100 * US + 500000, 100 * US + 800000);
		model_destroy(m);
	}
}

/* ---- several senders ---- */

struct volley {
	struct task many, single, idle[5], victim;
	uint64_t took_ps;
};

/* Sends to the victim last, after five that are idle. */
static void many_fn(struct cpu *c, struct task *t)
{
	struct volley *v = t->arg;
	struct cpumask targets = { { 0xff } };
	unsigned remote;

	busy(c, 30 * US);
	assert_int_equal(v->victim.cpu->id, 7);
	cpumask_clear(&targets, c->id);
	cpumask_clear(&targets, v->single.cpu->id);
	c->m->ops->flush_remote(c, &targets, &one_page, &remote);
	assert_int_equal(remote, 6);
}

/* Sends later, but to the victim at once. */
static void single_fn(struct cpu *c, struct task *t)
{
	struct volley *v = t->arg;
	struct cpumask target = { { 0 } };
	unsigned remote;
	uint64_t sent;

	busy(c, 30 * US + 150000);
	cpumask_set(&target, v->victim.cpu->id);
	sent = c->now_ps;
	c->m->ops->flush_remote(c, &target, &one_page, &remote);
	v->took_ps = c->now_ps - sent;
}

static void idle_fn(struct cpu *c, struct task *t)
{
	(void)c;
	(void)t;
}

static void victim_fn(struct cpu *c, struct task *t)
{
	(void)t;
	(void)compute(c, 60 * US);
}

/* Interrupts are handled in the order of their delivery, not of their sending: the earlier one does not wait for the later. */
static void test_delivery_decides_the_order(void **state)
{
	struct machine *m = tiny_machine_quantum(1, 8, US / 10);
	struct volley v = { .many = { .fn = many_fn, .arg = &v }, .single = { .fn = single_fn, .arg = &v },
			    .victim = { .fn = victim_fn, .arg = &v } };

	(void)state;
	start(m, &v.many);
	start(m, &v.single);
	for (unsigned i = 0; i < 5; i++) {
		v.idle[i] = (struct task){ .fn = idle_fn };
		start(m, &v.idle[i]);
	}
	start(m, &v.victim);
	run_ok(m);
	assert_in_range(v.took_ps, 1600000, 1900000);
	model_destroy(m);
}

/* ---- stale translations ---- */

#define STALE_VA 0x400000ULL
#define STALE_PFN 0x3000ULL
#define STALE_CTX 7

struct stale {
	struct task user, unmapper;
	uint64_t *pte, cleared_ps, returned_ps, last_ok_ps, first_fault_ps;
};

static const struct tlb_flush stale_flush = { .ctx = STALE_CTX, .stride_shift = PAGE_SHIFT, .start = STALE_VA,
					      .end = STALE_VA + PAGE_SIZE };

/* One page mapped by tables at 32 MiB. Returns its entry. */
static uint64_t *map_one(struct machine *m)
{
	uint64_t *table = NULL;

	for (unsigned level = 0; level < 4; level++) {
		unsigned shift = PGDIR_SHIFT - 9 * level;
		uint64_t next = level < 3 ? 0x2001 + level : STALE_PFN;

		table = machine_ptr(m, pfn_to_paddr(pfn(0x2000 + level)));
		table += (STALE_VA >> shift) & 511;
		*table = next << PAGE_SHIFT | PTE_PRESENT | PTE_WRITE | PTE_USER;
	}
	return table;
}

static int stale_fault(struct cpu *c, vaddr_t va, unsigned err)
{
	(void)c;
	(void)va;
	(void)err;
	return -EFAULT;
}

static void stale_user_fn(struct cpu *c, struct task *t)
{
	struct stale *s = t->arg;

	core_load_context(c, pfn(0x2000), STALE_CTX);
	while (!core_access(c, STALE_VA, 8, ACCESS_USER)) {
		s->last_ok_ps = c->now_ps;
		core_charge(c, 20000, PATH_USER);
		sched_point(c);
	}
	s->first_fault_ps = c->now_ps;
}

static void unmapper_fn(struct cpu *c, struct task *t)
{
	struct stale *s = t->arg;
	struct cpumask user = { { 0 } };
	unsigned remote;
	pfn_t p;
	bool w, h;

	busy(c, 30 * US);
	*s->pte = 0;
	s->cleared_ps = c->now_ps;
	assert_true(core_tlb_probe(s->user.cpu, STALE_CTX, STALE_VA, &p, &w, &h));
	assert_int_equal(p.v, STALE_PFN);
	cpumask_set(&user, s->user.cpu->id);
	c->m->ops->flush_remote(c, &user, &stale_flush, &remote);
	s->returned_ps = c->now_ps;
	assert_int_equal(remote, 1);
	assert_false(core_tlb_probe(s->user.cpu, STALE_CTX, STALE_VA, &p, &w, &h));
}

/* A stale entry translates until the interrupt is handled, and never after the sender has been told. */
static void test_stale_until_interrupted(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct stale s = { .user = { .fn = stale_user_fn, .arg = &s }, .unmapper = { .fn = unmapper_fn, .arg = &s } };

	(void)state;
	m->hooks.fault = stale_fault;
	s.pte = map_one(m);
	start(m, &s.user);
	start(m, &s.unmapper);
	run_ok(m);
	/* sent 0.1 us after, delivered 1 us later, handled within 0.6 us */
	assert_in_range(s.last_ok_ps, s.cleared_ps + US, s.cleared_ps + 1200000);
	assert_true(s.last_ok_ps < s.returned_ps);
	assert_in_range(s.returned_ps, s.cleared_ps + 1600000, s.cleared_ps + 2 * US);
	assert_true(s.first_fault_ps > s.last_ok_ps + 500000);
	model_destroy(m);
}

static void test_boot_and_broadcast(void **state)
{
	struct machine_desc d = tiny_desc(1, 4);
	struct cpumask all = { { 0xf } };
	struct machine *m;
	struct mlock l;
	struct mrwlock rw;
	unsigned remote = 99;
	uint64_t before;
	char err[100];

	(void)state;
	for (unsigned broadcast = 0; broadcast < 2; broadcast++) {
		struct cpu *c;

		d.tlbi.broadcast = broadcast;
		assert_int_equal(model_create(&d, NULL, &m, err, sizeof(err)), 0);
		c = model_boot_cpu(m);
		assert_int_equal(c->id, 0);
		mlock_init(&l, RANK_ZONE, 0);
		mrwlock_init(&rw, RANK_MMAP_LOCK, 0);
		machine_write_lock(c, &rw);
		machine_lock(c, &l);
		assert_false(machine_trylock(c, &l));
		machine_unlock(c, &l);
		machine_downgrade(c, &rw);
		machine_read_unlock(c, &rw);
		before = c->now_ps;
		m->ops->flush_remote(c, &all, &one_page, &remote);
		assert_int_equal(remote, broadcast ? 0 : 3);
		if (broadcast)
			assert_in_range(c->now_ps - before, 300000, 320000);
		assert_int_equal(m->cpus[3]->now_ps != 0, !broadcast);
		before = c->now_ps;
		m->ops->sleep_ns(c, 1000);
		assert_true(c->now_ps >= before + US);
		model_destroy(m);
	}
}

/* ---- broadcast: issued, then waited for ---- */

struct broadcast {
	struct task t[2];
	uint64_t issued_ps, took_ps[2];
};

static void broadcast_fn(struct cpu *c, struct task *t)
{
	struct broadcast *b = t->arg;
	uint64_t before = c->now_ps;

	for (unsigned i = 0; i < 100; i++)
		c->m->ops->flush_issue(c, &one_page);
	c->m->ops->flush_sync(c);
	b->took_ps[t - b->t] = c->now_ps - before;
}

static struct machine *arm(unsigned cores)
{
	struct machine_desc d = tiny_desc(1, cores);
	struct machine *m;
	char err[100];

	d.tlbi.broadcast = true;
	assert_int_equal(model_create(&d, NULL, &m, err, sizeof(err)), 0);
	return m;
}

/* 50 ns each and 250 for the barrier; alone, or with another CPU whose invalidations go through the same fabric. */
static void test_broadcast_prices(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 2; n++) {
		struct machine *m = arm(2);
		struct broadcast b = { 0 };

		for (unsigned i = 0; i < n; i++) {
			b.t[i] = (struct task){ .fn = broadcast_fn, .arg = &b };
			start(m, &b.t[i]);
		}
		run_ok(m);
		for (unsigned i = 0; i < n; i++)
			assert_in_range(b.took_ps[i], (n * 100 - (n - 1)) * 50000 + 250000, n * 100 * 50000 + 300000);
		/* a range in one call is the same */
		struct cpu *c = model_boot_cpu(m);
		struct cpumask all = { { 3 } };
		struct tlb_flush f = { .ctx = 1, .stride_shift = PAGE_SHIFT, .start = 0x10000, .end = 0x74000 };
		uint64_t before = c->now_ps;
		unsigned remote = 9;

		c->m->ops->flush_remote(c, &all, &f, &remote);
		assert_int_equal(remote, 0);
		assert_in_range(c->now_ps - before, 100 * 50000 + 250000, 100 * 50000 + 300000);
		model_destroy(m);
	}
}

/* What is issued is in force at the latest when it is waited for; more than can be remembered, before. */
static void test_broadcast_stale(void **state)
{
	struct machine *m = arm(2);
	struct cpu *c = model_boot_cpu(m);
	pfn_t p;
	bool w, h;

	(void)state;
	(void)map_one(m);
	m->hooks.fault = stale_fault;
	core_load_context(c, pfn(0x2000), STALE_CTX);
	for (unsigned others = 0; others <= SCHED_ISSUED; others += SCHED_ISSUED) {
		assert_int_equal(core_access(c, STALE_VA, 8, ACCESS_USER), 0);
		m->ops->flush_issue(c, &stale_flush);
		for (unsigned i = 0; i < others; i++)
			m->ops->flush_issue(c, &one_page);
		assert_int_equal(core_tlb_probe(c, STALE_CTX, STALE_VA, &p, &w, &h), !others);
		m->ops->flush_sync(c);
		assert_false(core_tlb_probe(c, STALE_CTX, STALE_VA, &p, &w, &h));
	}
	model_destroy(m);
}

/* Context 0, full: what is held of any address space, of this CPU and others. */
static void test_flush_of_all_contexts(void **state)
{
	const struct tlb_flush everything = { .full = true };

	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct machine *m = how == 2 ? arm(2) : tiny_machine(1, 2);
		struct cpu *c = model_boot_cpu(m), *user = how ? m->cpus[1] : c;
		struct cpumask both = { { 3 } };
		unsigned remote;
		pfn_t p;
		bool w, h;

		(void)map_one(m);
		for (unsigned ctx = STALE_CTX; ctx < STALE_CTX + 3; ctx++) {
			core_load_context(user, pfn(0x2000), ctx);
			assert_int_equal(core_access(user, STALE_VA, 8, ACCESS_USER), 0);
		}
		if (how == 0)
			m->ops->flush_local(c, &everything);
		else
			m->ops->flush_remote(c, &both, &everything, &remote);
		for (unsigned ctx = STALE_CTX; ctx < STALE_CTX + 3; ctx++)
			assert_false(core_tlb_probe(user, ctx, STALE_VA, &p, &w, &h));
		model_destroy(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spinner_takes_interrupts),
		cmocka_unit_test(test_crossfire),
		cmocka_unit_test(test_wait_does_not_depend_on_who_is_ahead),
		cmocka_unit_test(test_delivery_decides_the_order),
		cmocka_unit_test(test_stale_until_interrupted),
		cmocka_unit_test(test_boot_and_broadcast),
		cmocka_unit_test(test_broadcast_prices),
		cmocka_unit_test(test_broadcast_stale),
		cmocka_unit_test(test_flush_of_all_contexts),
	};

	return test_run(tests);
}
