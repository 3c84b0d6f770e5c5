/*
 * Several tasks in one address space and in forked ones, on a model machine: faults, unmapping, rights and fork at the
 * same time, with table locks that are spun on, interrupts and sleeping for mmap_lock. Each task owns some pages and
 * knows what they must contain; a child checks them as they were at the fork. Errors are counted, since an assertion
 * can't leave a fiber.
 */
#include "paging_world.h"

#include "base/rng.h"
#include "machine/model/model.h"

#include <string.h>

#define NR_WORKERS 6
#define OWN_PAGES 300ULL /* so that tasks share huge pages at the borders */
#define ROUNDS 250

struct crowd {
	struct world *w;
	struct mm *mm;
	unsigned errors, children, checked;
	uint64_t next_value;
};

struct worker {
	struct task t;
	struct crowd *crowd;
	struct rng rng;
	uint64_t first;
	uint64_t value[OWN_PAGES];
	struct mm *child; /* a child's own address space */
};

static vaddr_t own_page(const struct worker *k, uint64_t i)
{
	return AREA + PAGES(k->first + i);
}

static void expect(struct worker *k, bool ok)
{
	k->crowd->errors += !ok;
}

static void check_page(struct cpu *c, struct worker *k, uint64_t i)
{
	uint64_t v = 0;

	expect(k, c->m->ops->load_value(c, own_page(k, i), &v) == 0 && v == k->value[i]);
}

static void write_page(struct cpu *c, struct worker *k, uint64_t i)
{
	uint64_t v = ++k->crowd->next_value;

	expect(k, c->m->ops->store_value(c, own_page(k, i), v) == 0);
	k->value[i] = v;
}

static void child_fn(struct cpu *c, struct task *t)
{
	struct worker *k = t->arg;

	for (uint64_t i = 0; i < OWN_PAGES; i += 7)
		check_page(c, k, i);
	for (unsigned n = 0; n < 10; n++) {
		write_page(c, k, rng_below(&k->rng, OWN_PAGES));
		if (c->need_resched)
			c = machine_resched(c);
	}
	for (uint64_t i = 0; i < OWN_PAGES; i += 11)
		check_page(c, k, i);
	k->crowd->checked++;
	mm_put(c, k->child);
}

static void child_exit(struct task *t)
{
	free(t->arg);
}

static void fork_child(struct cpu *c, struct worker *k)
{
	struct worker *n = malloc(sizeof(*n));

	*n = *k;
	if (mm_fork(c, k->crowd->mm, &n->child)) {
		expect(k, false);
		free(n);
		return;
	}
	k->crowd->children++;
	n->t = (struct task){ .fn = child_fn, .on_exit = child_exit, .arg = n, .mm = n->child, .name = "child" };
	expect(k, c->m->ops->task_start(c, &n->t) == 0);
}

static void advise(struct cpu *c, struct worker *k, uint64_t first, uint64_t n, int advice)
{
	expect(k, mm_madvise(c, k->crowd->mm, own_page(k, first), PAGES(n), advice) == 0);
	if (advice == UAPI_MADV_DONTNEED)
		memset(&k->value[first], 0, n * sizeof(k->value[0]));
}

static void protect(struct cpu *c, struct worker *k, uint64_t first, uint64_t n)
{
	uint64_t v;

	expect(k, mm_mprotect(c, k->crowd->mm, own_page(k, first), PAGES(n), UAPI_PROT_READ) == 0);
	expect(k, c->m->ops->store_value(c, own_page(k, first), 1) == -EFAULT);
	check_page(c, k, first);
	expect(k, mm_mprotect(c, k->crowd->mm, own_page(k, first), PAGES(n), 0) == 0);
	expect(k, c->m->ops->load_value(c, own_page(k, first + n - 1), &v) == -EFAULT);
	expect(k, mm_mprotect(c, k->crowd->mm, own_page(k, first), PAGES(n), RW) == 0);
}

static void worker_fn(struct cpu *c, struct task *t)
{
	struct worker *k = t->arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t first = rng_below(&k->rng, OWN_PAGES),
			 n = 1 + rng_below(&k->rng, MIN(OWN_PAGES - first, 40ULL));

		switch (rng_below(&k->rng, 16)) {
		case 0:
			advise(c, k, first, n, UAPI_MADV_DONTNEED);
			break;
		case 1:
			advise(c, k, first, n, UAPI_MADV_FREE);
			break;
		case 2:
			protect(c, k, first, n);
			break;
		case 3:
			if (!rng_below(&k->rng, 6))
				fork_child(c, k);
			break;
		default:
			for (unsigned i = 0; i < 12; i++)
				rng_below(&k->rng, 2) ? write_page(c, k, rng_below(&k->rng, OWN_PAGES))
						      : check_page(c, k, rng_below(&k->rng, OWN_PAGES));
		}
		if (c->need_resched)
			c = machine_resched(c);
	}
	for (uint64_t i = 0; i < OWN_PAGES; i++)
		check_page(c, k, i);
}

static void crowd_on_model(const struct knobs *set, bool broadcast, uint64_t seed)
{
	struct machine_desc d;
	struct machine *m;
	struct crowd crowd = { 0 };
	struct worker *k = calloc(NR_WORKERS, sizeof(*k));
	char err[300] = "";

	if (machine_desc_find("laptop", &d, err, sizeof(err)))
		fail_msg("%s", err);
	d.nodes[0].memory = 1024 * MIB;
	d.tlbi.broadcast = broadcast;
	d.timeslice_ps = 50 * 1000 * 1000;
	if (model_create(&d, &(struct model_options){ .seed = seed }, &m, err, sizeof(err)))
		fail_msg("%s", err);
	crowd.w = world_on(m);
	crowd.w->q->knobs.thp_enabled = set->thp_enabled;
	crowd.w->q->knobs.huge_cow = set->huge_cow;
	assert_ok(mm_create(crowd.w->c, crowd.w->q, &crowd.mm));
	map_at(crowd.w, crowd.mm, AREA, PAGES(NR_WORKERS * OWN_PAGES), RW);
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		k[i].crowd = &crowd;
		k[i].first = i * OWN_PAGES;
		k[i].t = (struct task){ .fn = worker_fn, .arg = &k[i], .mm = crowd.mm, .name = "worker" };
		rng_init(&k[i].rng, seed + i, "worker");
		assert_ok(model_task_start(m, NULL, &k[i].t));
	}
	int rc = model_run(m, err, sizeof(err));

	if (rc)
		fail_msg("run: %d %s", rc, err);
	assert_int_equal(crowd.errors, 0);
	assert_true(crowd.children > 3);
	assert_int_equal(crowd.checked, crowd.children);
	assert_true(broadcast || count_of(crowd.w, VM_nr_tlb_remote_flush_received) > 0);
	world_check(crowd.w);
	mm_put(crowd.w->c, crowd.mm);
	check_fault_sum(crowd.w);
	world_leave(crowd.w);
	model_destroy(m);
	machine_desc_done(&d);
	free(k);
}

static void base_pages(void **state)
{
	(void)state;
	crowd_on_model(&(struct knobs){ .thp_enabled = THP_NEVER }, false, 1);
}

static void huge_pages_copied(void **state)
{
	(void)state;
	crowd_on_model(&(struct knobs){ .thp_enabled = THP_ALWAYS, .huge_cow = HUGE_COW_COPY }, false, 2);
}

static void huge_pages_split(void **state)
{
	(void)state;
	crowd_on_model(&(struct knobs){ .thp_enabled = THP_ALWAYS, .huge_cow = HUGE_COW_SPLIT }, false, 3);
}

static void broadcast(void **state)
{
	(void)state;
	crowd_on_model(&(struct knobs){ .thp_enabled = THP_ALWAYS, .huge_cow = HUGE_COW_SPLIT }, true, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base_pages),
		cmocka_unit_test(huge_pages_copied),
		cmocka_unit_test(huge_pages_split),
		cmocka_unit_test(broadcast),
	};

	return test_run(tests);
}
