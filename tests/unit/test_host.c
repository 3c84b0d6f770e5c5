/* The host machine: memory, contents, tasks, locks, and shootdowns between real threads. */
#include "host_testing.h"

#include "base/rng.h"
#include "machine/run.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ULL << 20)

static const struct host_options small = { .memory = 256 * MIB, .nr_cpus = 8 };

static struct mm *space(struct host_world *w)
{
	struct mm *mm;

	assert_int_equal(mm_create(w->c, w->q, &mm), 0);
	mm_activate(w->c, mm);
	return mm;
}

static void space_end(struct host_world *w, struct mm *mm)
{
	mm_activate(w->c, NULL);
	mm_put(w->c, mm);
}

static void options(void **state)
{
	const struct host_options bad[] = {
		{ .memory = 100 * MIB },
		{ .memory = 128 * MIB, .nr_nodes = 2 },
		{ .memory = 256 * MIB, .nr_nodes = 2, .nr_cpus = 1 },
		{ .nr_cpus = 100000 },
		{ .nr_nodes = 65 },
		{ .clear = 3 },
		{ .shootdown = 2 },
	};
	struct machine *m = NULL;
	char err[200];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		err[0] = 0;
		assert_int_equal(host_create(&bad[i], &m, err, sizeof(err)), -EINVAL);
		assert_true(err[0]);
		assert_null(m);
	}
	assert_int_equal(host_create(&(struct host_options){ 0 }, &m, err, sizeof(err)), 0);
	assert_true(m->max_pfn << PAGE_SHIFT <= HOST_MAX_DEFAULT_BYTES);
	assert_int_equal(m->nr_cpus, HOST_DEFAULT_CPUS);
	assert_null(m->tags);
	host_destroy(m);
	host_destroy(NULL);
}

static void emulated_nodes(void **state)
{
	struct host_world w;
	struct mm *mm;

	(void)state;
	world_open(&w, &(struct host_options){ .memory = 512 * MIB, .nr_nodes = 2, .nr_cpus = 8, .populate = true }, NULL);
	assert_int_equal(w.m->nr_nodes, 2);
	assert_int_equal(w.m->cpus[0]->nid, 0);
	assert_int_equal(w.m->cpus[7]->nid, 1);
	mm = space(&w);

	vaddr_t va = map_some(w.c, mm, PAGE_SIZE);
	struct mm_page_info info;

	assert_int_equal(w.m->ops->store_value(w.c, va, 1), 0);
	mm_page_info(mm, va, &info);
	assert_true(info.pfn.v < w.m->nodes[0].end_pfn);
	space_end(&w, mm);
	world_close(&w);
}

/* ---- contents ---- */

static void values(void **state)
{
	struct host_world w;
	struct mm *mm;
	uint64_t v = 1;

	(void)state;
	for (unsigned thp = 0; thp < 2; thp++) {
		struct knobs k;

		knobs_default(&k);
		k.thp_enabled = thp ? THP_ALWAYS : THP_NEVER;
		world_open(&w, &small, &k);
		mm = space(&w);
		vaddr_t va = map_some(w.c, mm, 8 * MIB);

		for (vaddr_t at = va; at < va + 8 * MIB; at += 17 * PAGE_SIZE) {
			assert_int_equal(host_load(w.c, at, 8, &v), 0);
			assert_int_equal(v, 0);
			assert_int_equal(w.m->ops->store_value(w.c, at + 100, at), 0);
		}
		for (vaddr_t at = va; at < va + 8 * MIB; at += 17 * PAGE_SIZE) {
			assert_int_equal(w.m->ops->load_value(w.c, at + 8, &v), 0);
			assert_int_equal(v, at);
		}
		/* Every size, at every place around a page's end. */
		for (unsigned size = 1; size <= 8; size++) {
			uint64_t want = 0x8877665544332211ULL >> (64 - 8 * size);

			for (vaddr_t at = va + 5 * PAGE_SIZE - 9; at < va + 5 * PAGE_SIZE + 2; at++) {
				assert_int_equal(host_store(w.c, at, size, want), 0);
				assert_int_equal(host_load(w.c, at, size, &v), 0);
				assert_int_equal(v, want);
				assert_int_equal(host_load(w.c, at, 1, &v), 0);
				assert_int_equal(v, want & 0xff);
			}
		}
		assert_int_equal(host_load(w.c, va + 8 * MIB, 8, &v), -EFAULT);
		assert_int_equal(host_load(w.c, va + 8 * MIB - 4, 8, &v), -EFAULT);
		assert_int_equal(host_load(w.c, ~0ULL - 3, 8, &v), -EFAULT);
		world_valid(&w);
		space_end(&w, mm);
		world_close(&w);
	}
}

static void buffers(void **state)
{
	struct host_world w;
	struct mm *mm;
	static unsigned char out[3 * 4096], in[3 * 4096];
	size_t done;

	(void)state;
	world_open(&w, &small, NULL);
	mm = space(&w);
	vaddr_t va = map_some(w.c, mm, 4 * PAGE_SIZE);

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)(i * 7 + i / 256);
	assert_int_equal(host_write(w.c, va + 1000, out, sizeof(out), &done), 0);
	assert_int_equal(done, sizeof(out));
	assert_int_equal(host_read(w.c, va + 1000, in, sizeof(in), &done), 0);
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(host_write(w.c, va + 3 * PAGE_SIZE, out, sizeof(out), &done), -EFAULT);
	assert_int_equal(done, PAGE_SIZE);
	assert_int_equal(mm_mprotect(w.c, mm, va, PAGE_SIZE, UAPI_PROT_READ), 0);
	assert_int_equal(host_write(w.c, va, out, 1, &done), -EFAULT);
	assert_int_equal(host_read(w.c, va, in, 1, &done), 0);
	space_end(&w, mm);
	world_close(&w);
}

static void runs(void **state)
{
	struct host_world w;
	struct mm *mm;
	uint64_t done, v;

	(void)state;
	world_open(&w, &small, NULL);
	mm = space(&w);
	vaddr_t va = map_some(w.c, mm, 64 * PAGE_SIZE);

	for (unsigned size = 1; size <= 64; size = size * 3 + 1) {
		uint64_t n = 60 * PAGE_SIZE / (size + 5);

		assert_int_equal(w.m->ops->access_run(w.c, va, size + 5, n, size, ACCESS_USER | ACCESS_WRITE, 1, &done), 0);
		assert_int_equal(done, n);
		for (uint64_t i = 0; i < n; i += 97) {
			assert_int_equal(host_load(w.c, va + i * (size + 5), MIN(size, 8), &v), 0);
			assert_int_equal(v, ~0ULL >> (64 - 8 * MIN(size, 8)));
			assert_int_equal(host_load(w.c, va + i * (size + 5) + size, 5, &v), 0);
			assert_int_equal(v, 0);
		}
		assert_int_equal(mm_madvise(w.c, mm, va, 64 * PAGE_SIZE, UAPI_MADV_DONTNEED), 0);
	}
	/* Stops where the mapping does, with the exact number of those done. */
	assert_int_equal(w.m->ops->access_run(w.c, va + 62 * PAGE_SIZE, 100, 1000, 8, ACCESS_USER, 1, &done), -EFAULT);
	assert_int_equal(done, (2 * PAGE_SIZE - 8) / 100 + 1);
	space_end(&w, mm);
	world_close(&w);
}

static void cow(void **state)
{
	struct host_world w;
	struct mm *mm, *child;
	uint64_t v;

	(void)state;
	for (unsigned mode = 0; mode < 3; mode++) {
		struct knobs k;

		knobs_default(&k);
		k.thp_enabled = mode ? THP_ALWAYS : THP_NEVER;
		k.huge_cow = mode == 2 ? HUGE_COW_COPY : HUGE_COW_SPLIT;
		world_open(&w, &small, &k);
		mm = space(&w);
		vaddr_t va = map_some(w.c, mm, 4 * MIB);

		for (vaddr_t at = va; at < va + 4 * MIB; at += PAGE_SIZE)
			assert_int_equal(host_store(w.c, at, 8, at), 0);
		assert_int_equal(mm_fork(w.c, mm, &child), 0);
		for (vaddr_t at = va; at < va + 4 * MIB; at += 3 * PAGE_SIZE)
			assert_int_equal(host_store(w.c, at, 8, ~at), 0);
		mm_activate(w.c, child);
		for (vaddr_t at = va; at < va + 4 * MIB; at += PAGE_SIZE) {
			assert_int_equal(host_load(w.c, at, 8, &v), 0);
			assert_int_equal(v, at);
		}
		world_valid(&w);
		mm_activate(w.c, mm);
		for (vaddr_t at = va; at < va + 4 * MIB; at += PAGE_SIZE) {
			assert_int_equal(host_load(w.c, at, 8, &v), 0);
			assert_int_equal(v, (at - va) / PAGE_SIZE % 3 ? at : ~at);
		}
		mm_put(w.c, child);
		space_end(&w, mm);
		world_close(&w);
	}
}

/* Every way to clear and copy gives the same bytes, and touches nothing beside the page. */
static void clear_and_copy(void **state)
{
	struct machine *m;
	char err[200];

	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct host_options o = { .memory = 128 * MIB, .nr_cpus = 2, .clear = (enum host_clear)how };

		assert_int_equal(host_create(&o, &m, err, sizeof(err)), 0);
		unsigned char *p = machine_ptr(m, 8 * PAGE_SIZE);

		memset(p - PAGE_SIZE, 0xaa, 3 * PAGE_SIZE);
		assert_int_equal(m->ops->clear_page(m->cpus[0], pfn(8)), 0);
		assert_int_equal(p[-1], 0xaa);
		assert_int_equal(p[PAGE_SIZE], 0xaa);
		for (unsigned i = 0; i < PAGE_SIZE; i++)
			assert_int_equal(p[i], 0);
		for (unsigned i = 0; i < PAGE_SIZE; i++)
			p[i] = (unsigned char)(i * 5 + i / 256);
		assert_int_equal(m->ops->copy_page(m->cpus[0], pfn(20), pfn(8)), 0);
		assert_memory_equal(machine_ptr(m, 20 * PAGE_SIZE), p, PAGE_SIZE);
		assert_int_equal(*(char *)machine_ptr(m, 21 * PAGE_SIZE), 0);
		host_destroy(m);
	}
}

/* Where a page's second write goes: into the line of the first or into another one. */
static unsigned second_at(unsigned i)
{
	return i & 1 ? i % 64 * 64 + 16 : (i * 7 + 1) % 64 * 64;
}

/* The page at va: `first` from offset a on, `second` from offset b on, nothing else. */
static void check_page(struct cpu *c, vaddr_t va, unsigned a, uint64_t first, unsigned b, uint64_t second)
{
	uint64_t words[PAGE_SIZE / 8];
	size_t done;

	assert_int_equal(host_read(c, va, words, sizeof(words), &done), 0);
	for (unsigned i = 0; i < PAGE_SIZE / 8; i++)
		assert_int_equal(words[i], i == b / 8 ? second : i == a / 8 ? first : 0);
}

/*
 * Faults at every line of a page, each way to clear: frames that held other bytes before are zero but for what was written, whether
 * they were cleared alone, ahead, or in two halves; they are counted when they are used; and what is copied is all of the page.
 */
static void faulting_lines(void **state)
{
	enum { PAGES = 512 };
	struct host_world w;
	struct mm *mm, *child;
	struct knobs k;

	(void)state;
	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	for (unsigned how = 0; how < 3; how++) {
		struct host_options o = small;

		o.clear = (enum host_clear)how;
		world_open(&w, &o, &k);
		mm = space(&w);
		for (unsigned round = 0; round < 2; round++) {
			vaddr_t va = map_some(w.c, mm, PAGES * PAGE_SIZE);
			int64_t cleared = vmstat_read(w.q, VM_quire_pages_cleared);

			for (unsigned i = 0; i < PAGES; i++)
				assert_int_equal(host_store(w.c, va + i * PAGE_SIZE + i % 64 * 64 + 8, 8, i + 1), 0);
			assert_int_equal(vmstat_read(w.q, VM_quire_pages_cleared) - cleared, PAGES);
			for (unsigned i = 0; i < PAGES; i++)
				check_page(w.c, va + i * PAGE_SIZE, i % 64 * 64 + 8, i + 1, PAGE_SIZE, 0);
			world_valid(&w);
			assert_int_equal(mm_fork(w.c, mm, &child), 0);
			for (unsigned i = 0; i < PAGES; i++) {
				assert_int_equal(host_store(w.c, va + i * PAGE_SIZE + second_at(i), 8, ~0ULL), 0);
				check_page(w.c, va + i * PAGE_SIZE, i % 64 * 64 + 8, i + 1, second_at(i), ~0ULL);
			}
			mm_activate(w.c, child);
			for (unsigned i = 0; i < PAGES; i++)
				check_page(w.c, va + i * PAGE_SIZE, i % 64 * 64 + 8, i + 1, PAGE_SIZE, 0);
			mm_activate(w.c, mm);
			mm_put(w.c, child);
			for (unsigned i = 0; i < PAGES; i++)
				for (unsigned at = 0; at < PAGE_SIZE; at += 8)
					assert_int_equal(host_store(w.c, va + i * PAGE_SIZE + at, 8, ~0ULL), 0);
			assert_int_equal(mm_munmap(w.c, mm, va, PAGES * PAGE_SIZE), 0);
		}
		space_end(&w, mm);
		world_close(&w);
	}
}

static struct {
	int (*fault)(struct cpu *c, vaddr_t va, unsigned err);
	struct cpu *other;
	struct mm *mm;
	bool over;
} late;

/* Between a fault and the access that it was for, another CPU unmaps the page, and its table becomes the neighbour's. */
static int fault_too_late(struct cpu *c, vaddr_t va, unsigned err)
{
	int rc = late.fault(c, va, err);

	if (c == late.other || late.over)
		return rc;
	late.over = true;
	assert_int_equal(rc, 0);
	assert_int_equal(mm_munmap(late.other, late.mm, ALIGN_DOWN(va, PMD_SIZE), PMD_SIZE), 0);
	assert_int_equal(host_store(late.other, va + PMD_SIZE, 8, 7), 0);
	return rc;
}

/* What the engine says it has filled counts only while nobody has asked for a flush since. */
static void entry_of_a_freed_table(void **state)
{
	struct host_world w;
	struct mm *mm;
	struct knobs k;
	uint64_t v;

	(void)state;
	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	world_open(&w, &small, &k);
	mm = space(&w);
	vaddr_t va = ALIGN_UP(map_some(w.c, mm, 4 * PMD_SIZE), PMD_SIZE);

	assert_int_equal(host_store(w.c, va + 2 * PMD_SIZE, 8, 1), 0); /* the upper tables stay */
	late.mm = mm;
	late.over = false;
	assert_int_equal(host_attach(w.m, &late.other), 0);
	mm_activate(late.other, mm);
	late.fault = w.m->hooks.fault;
	w.m->hooks.fault = fault_too_late;
	assert_int_equal(host_store(w.c, va + 5 * PAGE_SIZE, 8, 9), -EFAULT);
	w.m->hooks.fault = late.fault;
	assert_true(late.over);
	assert_int_equal(host_load(w.c, va + PMD_SIZE + 5 * PAGE_SIZE, 8, &v), 0);
	assert_int_equal(v, 7);
	mm_activate(late.other, NULL);
	host_detach(late.other);
	space_end(&w, mm);
	world_close(&w);
}

/* ---- tasks ---- */

struct job {
	struct task t;
	struct host_world *w;
	struct job *other;
	struct mm *mm;
	vaddr_t va;
	uint64_t n, result;
	const uint64_t *shared;
	int rc;
	bool woken;
};

static void count_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;

	for (vaddr_t at = j->va; at < j->va + j->n * PAGE_SIZE; at += PAGE_SIZE)
		j->rc |= host_store(c, at, 8, at ^ j->n);
	for (vaddr_t at = j->va; at < j->va + j->n * PAGE_SIZE; at += PAGE_SIZE) {
		uint64_t v = 0;

		j->rc |= host_load(c, at, 8, &v);
		j->result += v == (at ^ j->n);
	}
}

/* More tasks than slots, faulting into one address space side by side. */
static void tasks(void **state)
{
	enum { TASKS = 20, PAGES = 500 };
	static struct job j[TASKS];
	struct host_world w;
	struct knobs k;
	char err[200] = "";

	(void)state;
	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	world_open(&w, &(struct host_options){ .memory = 256 * MIB, .nr_cpus = 5, .place = true }, &k);
	struct mm *mm = space(&w);
	vaddr_t va = map_some(w.c, mm, TASKS * PAGES * PAGE_SIZE);

	mm_activate(w.c, NULL);
	for (unsigned i = 0; i < TASKS; i++) {
		j[i] = (struct job){ .va = va + i * PAGES * PAGE_SIZE, .n = PAGES };
		j[i].t = (struct task){ .fn = count_job, .arg = &j[i], .mm = mm, .name = "count" };
		assert_int_equal(machine_task_start(w.m, &j[i].t), 0);
	}
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	for (unsigned i = 0; i < TASKS; i++) {
		assert_int_equal(j[i].rc, 0);
		assert_int_equal(j[i].result, PAGES);
		assert_int_equal(j[i].t.state, TASK_DEAD);
		assert_true(j[i].t.cpu_time_ps > 0);
	}
	assert_int_equal(vmstat_read(w.q, VM_quire_fault_anon_4k), TASKS * PAGES);
	world_valid(&w);
	space_end(&w, mm);
	world_close(&w);
}

static void ping_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;

	for (uint64_t i = 0; i < j->n; i++) {
		if (j->result || i)
			c->m->ops->block(c);
		j->rc++;
		c->m->ops->wake(c, &j->other->t);
	}
}

static void ping_pong(void **state)
{
	struct host_world w;
	struct job a = { .n = 50, .result = 0 }, b = { .n = 50, .result = 1 };
	char err[200] = "";

	(void)state;
	world_open(&w, &small, NULL);
	a.other = &b;
	b.other = &a;
	a.t = (struct task){ .fn = ping_job, .arg = &a };
	b.t = (struct task){ .fn = ping_job, .arg = &b };
	assert_int_equal(machine_task_start(w.m, &b.t), 0);
	assert_int_equal(machine_task_start(w.m, &a.t), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	assert_int_equal(a.rc, 50);
	assert_int_equal(b.rc, 50);
	world_close(&w);
}

static void block_job(struct cpu *c, struct task *t)
{
	(void)t;
	c->m->ops->block(c);
}

static void sleep_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint64_t before = machine_now_ns(c);

	c->m->ops->sleep_ns(c, 2000000);
	(void)machine_wait(c, 2000000);
	j->result = machine_now_ns(c) - before;
}

static void stop_job(struct cpu *c, struct task *t)
{
	(void)t;
	__atomic_store_n(&c->m->stop, true, __ATOMIC_RELAXED);
}

static void endings(void **state)
{
	struct host_world w;
	struct job j = { 0 };
	struct task never = { .fn = block_job }, also = { .fn = block_job }, stop = { .fn = stop_job };
	struct task sleep = { .fn = sleep_job, .arg = &j };
	char err[200] = "";

	(void)state;
	world_open(&w, &small, NULL);
	assert_int_equal(w.m->ops->task_start(w.c, &(struct task){ 0 }), -EINVAL);
	assert_int_equal(w.m->ops->task_start(w.c, &(struct task){ .fn = block_job, .affinity = &(struct cpumask){ .bits = { 0 } } }), -EINVAL);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	assert_int_equal(machine_task_start(w.m, &sleep), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	assert_true(j.result >= 4000000);
	assert_int_equal(machine_task_start(w.m, &never), 0);
	assert_int_equal(machine_task_start(w.m, &also), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), -EDEADLK);
	assert_non_null(strstr(err, "2 tasks"));
	w.m->stop = false;
	assert_int_equal(machine_task_start(w.m, &never), 0);
	assert_int_equal(machine_task_start(w.m, &stop), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), -EINTR);
	w.m->stop = false;
	world_close(&w);
}

static void own_threads(void **state)
{
	struct machine *m;
	struct cpu *c[3], *more;
	char err[200];

	(void)state;
	assert_int_equal(host_create(&(struct host_options){ .memory = 128 * MIB, .nr_cpus = 4 }, &m, err, sizeof(err)), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(host_attach(m, &c[i]), 0);
	assert_int_equal(host_attach(m, &more), -EBUSY);
	host_detach(c[1]);
	assert_int_equal(host_attach(m, &more), 0);
	assert_ptr_equal(more, c[1]);
	for (unsigned i = 0; i < 3; i++)
		host_detach(c[i]);
	host_destroy(m);
}

/* ---- locks ---- */

static struct {
	struct mlock spin;
	struct mrwlock rw;
	uint64_t a, b; /* equal whenever neither lock is held by a writer */
	uint64_t torn;
} locked;

static void lock_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	struct rng r;

	rng_init(&r, j->n, "locks");
	for (unsigned i = 0; i < 20000; i++) {
		switch (rng_below(&r, 8)) {
		case 0:
			machine_write_lock(c, &locked.rw);
			locked.a++;
			locked.b++;
			if (rng_below(&r, 4)) {
				machine_write_unlock(c, &locked.rw);
				break;
			}
			machine_downgrade(c, &locked.rw);
			__atomic_add_fetch(&locked.torn, locked.a != locked.b, __ATOMIC_RELAXED);
			machine_read_unlock(c, &locked.rw);
			break;
		case 1:
			if (!machine_trylock(c, &locked.spin))
				break;
			j->result++;
			locked.spin.pa++;
			machine_unlock(c, &locked.spin);
			break;
		case 2:
			machine_lock(c, &locked.spin);
			j->result++;
			locked.spin.pa++;
			machine_unlock(c, &locked.spin);
			break;
		default:
			machine_read_lock(c, &locked.rw);
			__atomic_add_fetch(&locked.torn, locked.a != locked.b, __ATOMIC_RELAXED);
			if (!rng_below(&r, 4000))
				c->m->ops->sleep_ns(c, 200000); /* long enough for writers to fall asleep */
			machine_read_unlock(c, &locked.rw);
			break;
		}
	}
}

static void locks(void **state)
{
	static struct job j[4];
	struct host_world w;
	uint64_t sum = 0, sleeps = 0;
	char err[200] = "";

	(void)state;
	world_open(&w, &small, NULL);
	memset(&locked, 0, sizeof(locked));
	mlock_init(&locked.spin, RANK_ZONE, 0);
	mrwlock_init(&locked.rw, RANK_MMAP_LOCK, 0);
	for (unsigned i = 0; i < 4; i++) {
		j[i] = (struct job){ .n = i };
		j[i].t = (struct task){ .fn = lock_job, .arg = &j[i] };
		assert_int_equal(machine_task_start(w.m, &j[i].t), 0);
	}
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	for (unsigned i = 0; i < 4; i++) {
		sum += j[i].result;
		sleeps += host_stats(j[i].t.cpu)->lock_sleeps;
	}
	assert_int_equal(locked.torn, 0);
	assert_int_equal(locked.spin.pa, sum);
	assert_true(locked.a > 0 && locked.a == locked.b);
	assert_true(sleeps > 0);
	world_close(&w);
}

/* ---- shootdown ---- */

/* Touches its page until told to stop; `woken` once it is at it. */
static void busy_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint64_t v;

	while (!__atomic_load_n(j->shared, __ATOMIC_ACQUIRE)) {
		j->rc |= host_load(c, j->va, 8, &v);
		__atomic_store_n(&j->woken, true, __ATOMIC_RELEASE);
	}
}

/* Active, but without a further access. */
static void compute_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint64_t v;

	j->rc |= host_load(c, j->va, 8, &v);
	__atomic_store_n(&j->woken, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(j->shared, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void idle_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	uint64_t v;

	j->rc |= host_load(c, j->va, 8, &v);
	__atomic_store_n(&j->woken, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(j->shared, __ATOMIC_ACQUIRE))
		c->m->ops->sleep_ns(c, 100000);
}

static void flusher_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;

	while (!__atomic_load_n(&j->other->woken, __ATOMIC_ACQUIRE))
		sched_yield();
	for (uint64_t i = 0; i < j->n; i++) {
		j->rc |= host_store(c, j->va, 8, i);
		j->rc |= (int)mm_madvise(c, j->mm, j->va, PAGE_SIZE, UAPI_MADV_DONTNEED);
	}
	__atomic_store_n((uint64_t *)(uintptr_t)j->shared, 1, __ATOMIC_RELEASE);
}

/* Each kind of target is waited for in its own way, and is waited for. */
static void shootdown_ways(void **state)
{
	void (*const fns[])(struct cpu *, struct task *) = { busy_job, compute_job, idle_job, busy_job };
	char err[200] = "";

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct host_options o = small;
		struct host_world w;
		uint64_t end = 0;
		struct job target = { .shared = &end }, flusher = { .shared = &end, .n = 300, .other = &target };

		o.shootdown = i == 3 ? HOST_SHOOTDOWN_MEMBARRIER : HOST_SHOOTDOWN_POLL;
		world_open(&w, &o, NULL);
		struct mm *mm = space(&w);

		flusher.mm = mm;
		target.va = map_some(w.c, mm, PAGE_SIZE);
		flusher.va = map_some(w.c, mm, PAGE_SIZE);
		target.t = (struct task){ .fn = fns[i], .arg = &target, .mm = mm };
		flusher.t = (struct task){ .fn = flusher_job, .arg = &flusher, .mm = mm };
		mm_activate(w.c, NULL);
		assert_int_equal(machine_task_start(w.m, &target.t), 0);
		assert_int_equal(machine_task_start(w.m, &flusher.t), 0);
		assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
		assert_int_equal(target.rc, 0);
		assert_int_equal(flusher.rc, 0);

		const struct host_stats *s = host_stats(flusher.t.cpu);

		assert_true(s->flushes >= 300);
		assert_true(s->targets >= 300);
		if (i == 1 || i == 3)
			assert_true(s->barriers > 0);
		if (i == 2)
			assert_true(s->targets_idle > 250);
		if (i == 3)
			assert_int_equal(s->targets_polled, 0);
		space_end(&w, mm);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options),
		cmocka_unit_test(emulated_nodes),
		cmocka_unit_test(values),
		cmocka_unit_test(buffers),
		cmocka_unit_test(runs),
		cmocka_unit_test(cow),
		cmocka_unit_test(clear_and_copy),
		cmocka_unit_test(faulting_lines),
		cmocka_unit_test(entry_of_a_freed_table),
		cmocka_unit_test(tasks),
		cmocka_unit_test(ping_pong),
		cmocka_unit_test(endings),
		cmocka_unit_test(own_threads),
		cmocka_unit_test(locks),
		cmocka_unit_test(shootdown_ways),
	};

	return test_run(tests);
}
