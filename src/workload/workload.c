/*
 * One run of a standard workload: a parent sets up, forks its tasks, waits until all are ready, lets them go at once, and waits for them;
 * then the tasks' figures are put together.
 *
 * Blocking: a waiter looks at its condition again after every wake-up, and who makes a condition true wakes afterwards, so that it
 * does not matter which comes first. Each address space has a reference a task; what tasks that were cut short have not given back is
 * given back when nothing runs any more.
 */
#include "workload/work_int.h"

#include "machine/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TASKS_MAX 65536U
#define SIZE_MAX_BYTES (1ULL << 46)
#define COMMON_FILE_SLACK (16ULL << 20)
#define HEAP_START 0x555555600000UL /* where exec would put it, there being none here */

static bool stop_seen(const struct work *w)
{
	return __atomic_load_n(&w->m->stop, __ATOMIC_RELAXED);
}

static struct cpu *pause_task(struct cpu *c)
{
	return machine_wait(c, UINT64_MAX);
}

/* Leave an address space, and give up its reference. */
static void leave_mm(struct work *w, struct cpu *c, struct mm **slot)
{
	struct mm *mm = *slot;

	if (!mm)
		return;
	pthread_mutex_lock(&w->lock);
	*slot = NULL;
	pthread_mutex_unlock(&w->lock);
	machine_enter(c, ENTRY_SYSCALL);
	c->current->mm = NULL;
	mm_activate(c, NULL);
	mm_put(c, mm);
	machine_leave(c, ENTRY_SYSCALL);
}

/* ---- tasks ---- */

/* On the host a task's time goes on while it waits: its thread's CPU time is what counts. */
static uint64_t thread_cpu_ns(const struct work *w)
{
	struct timespec t = { 0 };

	if (!w->model)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void task_main(struct cpu *c, struct task *t)
{
	struct work_task *k = t->arg;
	struct work *w = k->w;

	if (__atomic_add_fetch(&w->ready, 1, __ATOMIC_ACQ_REL) >= __atomic_load_n(&w->expected, __ATOMIC_ACQUIRE))
		c->m->ops->wake(c, &w->parent);
	while (!__atomic_load_n(&w->go, __ATOMIC_ACQUIRE) && !stop_seen(w))
		c = pause_task(c);
	k->c = c;
	k->go_ns = w->go_ns;
	if (w->o->stagger_ns && !stop_seen(w)) {
		c->m->ops->sleep_ns(c, rng_below(&k->rng, w->o->stagger_ns)); /* unlike a wait, no late wake-up ends it */
		k->go_ns = machine_now_ns(c);
	}
	if (!stop_seen(w))
		(void)w->kind->run(k);
	work_account(w);
	c = k->c;
	leave_mm(w, c, &k->mm);
	k->cpu_ns = thread_cpu_ns(w);
	k->wall_ns = machine_now_ns(c) - k->go_ns;
	if (!__atomic_sub_fetch(&w->left, 1, __ATOMIC_ACQ_REL))
		c->m->ops->wake(c, &w->parent);
}

/* The address space of task i: a fork of the parent's, or the common one. 0 or -ENOMEM. */
static int task_mm(struct work *w, struct cpu *c, struct mm **ret)
{
	int rc = 0;

	if (!w->w->threads || !w->group_mm) {
		struct mm *mm;

		machine_enter(c, ENTRY_SYSCALL);
		rc = mm_fork(c, w->parent_mm, &mm);
		machine_leave(c, ENTRY_SYSCALL);
		if (rc)
			return rc;
		w->res->processes++;
		*ret = mm;
		if (w->w->threads)
			w->group_mm = mm;
	}
	if (w->w->threads) {
		mm_get(w->group_mm);
		*ret = w->group_mm;
	}
	return 0;
}

static int task_start(struct work *w, struct cpu *c, unsigned i)
{
	struct work_task *k = &w->t[i];
	struct mm *mm = NULL;
	int rc = task_mm(w, c, &mm);

	if (rc)
		return rc;
	pthread_mutex_lock(&w->lock);
	k->mm = mm;
	pthread_mutex_unlock(&w->lock);
	k->task = (struct task){ .fn = task_main, .arg = k, .name = w->w->name, .mm = mm };
	for (unsigned n = 0; n < ARRAY_SIZE(k->cpu.bits); n++)
		if (k->cpu.bits[n])
			k->task.affinity = &k->cpu;
	k->started = true;
	rc = c->m->ops->task_start(c, &k->task);
	if (rc) {
		k->started = false;
		snprintf(w->err, w->errlen, "task %u could not be started: %s", i, strerror(-rc));
		w->error = rc;
		__atomic_store_n(&w->m->stop, true, __ATOMIC_RELAXED);
	}
	return rc;
}

/* ---- the parent ---- */

/* Map what all will share, and populate it where the workload says so. */
static void prealloc(struct work *w, struct cpu *c)
{
	int64_t r;

	machine_enter(c, ENTRY_SYSCALL);
	r = mm_mmap(c, w->parent_mm, 0, w->task_bytes, UAPI_PROT_READ | UAPI_PROT_WRITE,
		    work_map_flags(w) | UAPI_MAP_ANONYMOUS, NULL, 0);
	if (r >= 0) {
		w->area = (vaddr_t)r;
		if (w->kind->prefault)
			r = mm_populate(c, w->parent_mm, w->area, w->area + w->task_bytes, true);
	}
	machine_leave(c, ENTRY_SYSCALL);
	if (r < 0)
		w->oom = true;
}

static unsigned start_all(struct work *w, struct cpu *c)
{
	unsigned n = 0;

	while (n < w->nr && !stop_seen(w)) {
		int rc = task_start(w, c, n);

		if (rc == -ENOMEM && !w->error)
			__atomic_store_n(&w->oom, true, __ATOMIC_RELAXED);
		if (rc)
			break;
		n++;
	}
	return n;
}

static uint64_t fault_time(const struct quire *q)
{
	return quire_fault_time_ns(q);
}

/* The parent's memory is as it was before its children wrote to their copies. */
static struct cpu *verify_parent(struct work *w, struct cpu *c)
{
	for (vaddr_t va = w->area; va < w->area + w->task_bytes && !stop_seen(w); va += PAGE_SIZE) {
		uint64_t v;
		int rc = c->m->ops->load_value(c, va, &v);

		if (rc) {
			w->oom |= rc == -ENOMEM;
			break;
		}
		w->parent_checked++;
		w->parent_wrong += v != 0;
		if (c->need_resched)
			c = machine_resched(c);
	}
	return c;
}

static void parent_main(struct cpu *c, struct task *t)
{
	struct work *w = t->arg;
	unsigned started = 0;

	w->start_ns = machine_now_ns(c);
	if (w->kind->prealloc)
		prealloc(w, c);
	if (w->kind->common_file &&
	    file_create(c, w->q, 0, (uint64_t)w->nr * w->task_bytes + COMMON_FILE_SLACK, false, &w->file))
		w->oom = true;
	work_account(w);
	w->fork_ns = machine_now_ns(c);
	if (!w->oom)
		started = start_all(w, c);
	__atomic_store_n(&w->expected, started, __ATOMIC_RELEASE);
	__atomic_add_fetch(&w->left, started, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&w->ready, __ATOMIC_ACQUIRE) < started && !stop_seen(w))
		c = pause_task(c);
	work_account(w);
	w->fault_go_ns = fault_time(w->q);
	w->go_ns = machine_now_ns(c);
	__atomic_store_n(&w->go, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < started; i++)
		c->m->ops->wake(c, &w->t[i].task);
	while (__atomic_load_n(&w->left, __ATOMIC_ACQUIRE))
		c = pause_task(c);
	w->end_ns = machine_now_ns(c);
	if (w->kind->prefault && w->o->check && !w->oom)
		c = verify_parent(w, c);
	if (w->group_mm) {
		struct mm *mm = w->group_mm;

		machine_enter(c, ENTRY_SYSCALL);
		pthread_mutex_lock(&w->lock);
		w->group_mm = NULL;
		pthread_mutex_unlock(&w->lock);
		mm_put(c, mm);
		machine_leave(c, ENTRY_SYSCALL);
	}
	leave_mm(w, c, &w->parent_mm);
	w->done_ns = machine_now_ns(c);
	w->parent_cpu_ns = thread_cpu_ns(w);
}

/* ---- before ---- */

static int refuse(struct work *w, const char *what)
{
	snprintf(w->err, w->errlen, "%s: %s", w->w->name, what);
	return -EINVAL;
}

static int check_options(struct work *w)
{
	const struct workload_options *o = w->o;

	if (o->tasks > TASKS_MAX)
		return refuse(w, "at most 65536 tasks");
	if (o->size > SIZE_MAX_BYTES)
		return refuse(w, "at most 64 TiB");
	if (!w->kind->usemem && (o->step || o->think_ns || o->passes > 1))
		return refuse(w, "steps, think time and passes are usemem's, this is a workload of will-it-scale");
	if (o->step % 8)
		return refuse(w, "the step must be a multiple of 8 bytes");
	if (o->check && o->step && PAGE_SIZE % o->step && o->step % PAGE_SIZE)
		return refuse(w, "to check contents, the step must divide 4096 or be a multiple of it");
	return 0;
}

/* Will the pool do for a workload on huge pages, the copies included? Said before the run, with the setting that helps. */
static int check_pool(struct work *w)
{
	const struct hugetlb_info pool = hugetlb_info(w->q, HUGETLB_2M, NID_NONE);
	const struct knobs *k = &w->q->knobs;
	uint64_t spaces = w->kind->prealloc ? (w->w->threads ? 2 : w->nr + 1ULL) : w->nr;
	uint64_t need = spaces * (w->task_bytes >> PMD_SHIFT), have = pool.free - pool.rsvd + k->hugetlb_2m_overcommit - pool.surp;

	if (!w->kind->hugetlb || need <= have)
		return 0;
	if (pool.total < k->hugetlb_2m_nr)
		snprintf(w->err, w->errlen,
			 "%s: needs %lu pages of 2 MiB, and the machine's memory had room for %lu of hugepages-2048kB.nr_hugepages=%lu: "
			 "more memory, or a smaller --size",
			 w->w->name, (unsigned long)need, (unsigned long)pool.total, (unsigned long)k->hugetlb_2m_nr);
	else
		snprintf(w->err, w->errlen, "%s: needs %lu pages of 2 MiB, the pool has %lu: set hugepages-2048kB.nr_hugepages=%lu or more",
			 w->w->name, (unsigned long)need, (unsigned long)have, (unsigned long)need);
	return -EINVAL;
}

static uint64_t memory_of(const struct machine *m)
{
	uint64_t frames = 0;

	for (unsigned n = 0; n < m->nr_nodes; n++)
		frames += m->nodes[n].end_pfn - m->nodes[n].start_pfn;
	return frames * PAGE_SIZE;
}

/* Whole huge pages where there is room for one, so that counts are exact; else whole pages. */
static int share_out(struct work *w)
{
	uint64_t size = w->o->size, share = w->nr;

	if (w->kind->prealloc)
		share = !w->kind->prefault ? 1 : w->w->threads ? 2 : share + 1;
	if (!size && (w->o->size_percent || w->kind->memory_percent))
		size = memory_of(w->m) * (w->o->size_percent ? w->o->size_percent : w->kind->memory_percent) / 100;
	if (size || !w->w->per_task)
		size = (size ? size : w->w->size) / share;
	else
		size = w->w->size;
	size = ALIGN_DOWN(size, size >= PMD_SIZE ? PMD_SIZE : PAGE_SIZE);
	if (!size || (w->kind->hugetlb && size < PMD_SIZE))
		return refuse(w, size ? "less than a page of 2 MiB for each task" : "less than a page of memory for each task");
	w->task_bytes = size;
	return check_pool(w);
}

/* CPU number i in the order of filling. */
static unsigned place(const struct machine *m, unsigned i, bool spread)
{
	unsigned with_cpus = 0, n;

	i %= m->nr_cpus;
	if (!spread) {
		for (n = 0; n < m->nr_nodes; n++) {
			if (i < m->nodes[n].nr_cpus)
				return m->nodes[n].first_cpu + i;
			i -= m->nodes[n].nr_cpus;
		}
	}
	for (unsigned round = 0; spread; round++) {
		with_cpus = 0;
		for (n = 0; n < m->nr_nodes; n++) {
			if (round >= m->nodes[n].nr_cpus)
				continue;
			with_cpus++;
			if (!i--)
				return m->nodes[n].first_cpu + round;
		}
		if (!with_cpus)
			break;
	}
	return 0;
}

/* On the host a task owns its CPU for its life: the parent has the first, and who may use which is left to this computer's kernel. */
static void place_tasks(struct work *w)
{
	enum workload_placement p = w->o->placement;
	unsigned first = w->model ? 0 : 1;

	if (p == PLACEMENT_DEFAULT)
		p = w->model && w->nr <= w->m->nr_cpus ? PLACEMENT_SPREAD : PLACEMENT_NONE;
	if (p == PLACEMENT_NONE)
		return;
	for (unsigned i = 0; i < w->nr; i++)
		cpumask_set(&w->t[i].cpu, place(w->m, i + first, p == PLACEMENT_SPREAD));
	if (!w->model) {
		cpumask_set(&w->parent_cpu, place(w->m, 0, true));
		w->parent.affinity = &w->parent_cpu;
	}
}

static int prepare(struct work *w)
{
	const struct workload_options *o = w->o;
	char stream[32];
	int rc = check_options(w);

	if (rc)
		return rc;
	w->nr = o->tasks ? o->tasks : w->model ? w->m->nr_cpus : (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	if (!w->model && w->nr >= w->m->nr_cpus)
		return refuse(w, "more tasks than this machine has CPUs beside the parent's"); /* a thread keeps its CPU */
	w->step = o->step ? o->step : 8;
	w->passes = o->passes ? o->passes : MAX(w->kind->passes, 1U);
	w->limit_ns = o->limit_ns;
	if (!w->limit_ns && !o->ops && !w->kind->usemem)
		w->limit_ns = w->model ? 50000000ULL : 5000000000ULL;
	if (!w->kind->usemem && !o->ops)
		w->warmup_ns = w->limit_ns / 5;
	w->expected = w->nr;
	rc = share_out(w);
	if (rc)
		return rc;
	if (w->kind->refuses && w->kind->refuses(w))
		return refuse(w, w->kind->refuses(w));
	w->t = aligned_alloc(_Alignof(struct work_task), w->nr * sizeof(*w->t));
	w->res->task = calloc(w->nr, sizeof(*w->res->task));
	if (!w->t || !w->res->task) {
		snprintf(w->err, w->errlen, "out of memory");
		return -ENOMEM;
	}
	memset(w->t, 0, w->nr * sizeof(*w->t));
	for (unsigned i = 0; i < w->nr; i++) {
		w->t[i].w = w;
		w->t[i].nr = i;
		snprintf(stream, sizeof(stream), "%s %u", w->w->name, i);
		rng_init(&w->t[i].rng, o->seed, stream);
	}
	place_tasks(w);
	return 0;
}

/* ---- after ---- */

static void add_phase(struct workload_phase *to, const struct workload_phase *from)
{
	to->count += from->count;
	to->fault_ns += from->fault_ns;
	to->near_ns += from->near_ns;
	to->pass_ns += from->pass_ns;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int spread_of_values(struct workload_result *r)
{
	uint64_t *v = calloc(MAX(r->tasks, 1U), sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (unsigned i = 0; i < r->tasks; i++)
		v[i] = r->task[i].value;
	qsort(v, r->tasks, sizeof(*v), by_value);
	if (r->tasks) {
		r->min = v[0];
		r->max = v[r->tasks - 1];
		r->median = r->tasks % 2 ? v[r->tasks / 2] : v[r->tasks / 2 - 1] + (v[r->tasks / 2] - v[r->tasks / 2 - 1]) / 2;
	}
	free(v);
	return 0;
}

/* What a long run comes to: only the time in which all tasks were at work. Nothing when one has none of it. */
static void steady(struct work *w)
{
	struct workload_steady s = { 0 };

	for (unsigned i = 0; i < w->nr; i++) {
		const struct work_mark *a = &w->t[i].from, *b = &w->t[i].to;

		if (!w->t[i].started || b->blocks <= a->blocks || b->ns <= a->ns)
			return;
		s.blocks += b->blocks - a->blocks;
		s.fault_ns += b->fault_ns - a->fault_ns;
		s.pass_ns += b->pass_ns - a->pass_ns;
		s.KBps += (b->ops - a->ops) * 8 * 1000000000ULL / 1024 / (b->ns - a->ns);
	}
	w->res->steady = s;
}

static void add_task(struct workload_result *r, const struct work_task *k)
{
	r->task[r->tasks++] = (struct workload_task_result){ k->value, k->ops, k->bytes, k->value_ns };
	r->total += k->value;
	r->total_from_go += k->value_from_go;
	r->loads += k->loads;
	r->stores += k->stores;
	r->ops += k->ops;
	r->bytes += k->bytes;
	r->free_ns += k->free_ns;
	r->task_kernel_ns += k->sys_ns;
	r->checked += k->checked;
	r->wrong += k->wrong;
	if (k->done_ns > k->w->go_ns)
		r->work_ns = MAX(r->work_ns, k->done_ns - k->w->go_ns);
	add_phase(&r->phase_4k, &k->phase_4k);
	add_phase(&r->phase_2m, &k->phase_2m);
}

static int conclude(struct work *w)
{
	struct workload_result *r = w->res;
	uint64_t cpu = 0, wall = 0, faults = fault_time(w->q) - w->fault_go_ns;

	r->stopped = w->stopping;
	r->out_of_memory = w->oom;
	r->task_bytes = w->task_bytes;
	r->elapsed_ns = w->done_ns > w->start_ns ? w->done_ns - w->start_ns : 0;
	r->setup_ns = w->go_ns > w->start_ns ? w->go_ns - w->start_ns : 0;
	r->checked = w->parent_checked;
	r->wrong = w->parent_wrong;
	for (unsigned i = 0; i < w->nr; i++) {
		if (!w->t[i].started)
			continue;
		add_task(r, &w->t[i]);
		wall += w->t[i].wall_ns;
		cpu += w->model ? w->t[i].task.cpu_time_ps / PS_PER_NS : w->t[i].cpu_ns;
	}
	steady(w);
	if (w->kind->conclude)
		w->kind->conclude(w);
	r->cpu_ns = cpu + (w->model ? w->parent.cpu_time_ps / PS_PER_NS : w->parent_cpu_ns);
	r->refs = r->loads + r->stores;
	r->task_kernel_ns += w->go ? faults : 0;
	if (!w->model && wall) /* threads that wait for a CPU of this computer's: faults last longer than they compute */
		r->task_kernel_ns = (uint64_t)((unsigned __int128)r->task_kernel_ns * cpu / wall);
	r->task_kernel_ns = MIN(r->task_kernel_ns, cpu);
	r->task_user_ns = cpu - r->task_kernel_ns;
	if (w->error)
		return w->error;
	if (spread_of_values(r)) {
		snprintf(w->err, w->errlen, "out of memory");
		return -ENOMEM;
	}
	if (r->wrong) {
		snprintf(w->err, w->errlen, "%s: %lu of %lu pages held other contents than were stored", w->w->name, (unsigned long)r->wrong,
			 (unsigned long)r->checked);
		return -EBADMSG;
	}
	return 0;
}

/* What tasks left behind that were cut short. */
static void clean_up(struct work *w)
{
	struct cpu *c = machine_boot_cpu(w->m);

	for (unsigned i = 0; w->t && i < w->nr; i++)
		if (w->t[i].mm)
			mm_put(c, w->t[i].mm);
	if (w->group_mm)
		mm_put(c, w->group_mm);
	if (w->parent_mm)
		mm_put(c, w->parent_mm);
	if (w->file)
		file_put(c, w->file);
}

static int run_tasks(struct work *w)
{
	struct cpu *c = machine_boot_cpu(w->m);
	char why[160] = "";
	int rc = mm_create(c, w->q, &w->parent_mm);

	if (rc) {
		w->oom = true;
		return 0;
	}
	if (w->kind->heap)
		w->parent_mm->start_brk = w->parent_mm->brk = HEAP_START;
	w->res->processes = 1;
	w->parent.fn = parent_main;
	w->parent.arg = w;
	w->parent.name = "parent";
	w->parent.mm = w->parent_mm;
	rc = c->m->ops->task_start(c, &w->parent);
	if (rc) {
		snprintf(w->err, w->errlen, "the first task could not be started: %s", strerror(-rc));
		return rc;
	}
	rc = machine_run(w->m, why, sizeof(why));
	if (rc == -EINTR)
		rc = 0; /* we did that ourselves, on the caller's behalf or after an error that is noted */
	if (rc)
		snprintf(w->err, w->errlen, "%s: no task can go on: %s", w->w->name, why);
	if (!w->done_ns)
		w->done_ns = machine_now_ns(machine_boot_cpu(w->m));
	return rc;
}

int workload_run(struct quire *q, const struct workload *wl, const struct workload_options *o, struct workload_result *ret, char *err,
		 size_t errlen)
{
	struct work w = { .q = q, .m = q->m, .w = wl, .kind = wl->kind, .o = o, .res = ret, .err = err, .errlen = errlen };
	int rc, rc2;

	if (wl->boot)
		return boot_run(q, wl, o, ret, err, errlen);
	*ret = (struct workload_result){ 0 };
	if (errlen)
		err[0] = '\0';
	w.model = strcmp(q->m->ops->kind, "host") != 0;
	pthread_mutex_init(&w.lock, NULL);
	rc = prepare(&w);
	if (!rc) {
		rc = run_tasks(&w);
		rc2 = conclude(&w);
		rc = rc ? rc : rc2;
	}
	clean_up(&w);
	free(w.t);
	pthread_mutex_destroy(&w.lock);
	return rc;
}

void workload_result_done(struct workload_result *r)
{
	free(r->task);
	free(r->pmbench);
	r->pmbench = NULL;
	r->task = NULL;
}
