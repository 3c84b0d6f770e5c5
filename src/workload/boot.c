/*
 * The workloads boot and hotplug: descriptors of a map of memory (boot_map.c) are initialised (mm/meminit.h). Boot: the first CPU does what
 * early boot does (reserved frames, zones that are not deferred, what is wanted before the workers begin, gigantic pages); then
 * tasks, which are kernel threads, do the rest. Hot-plug: all by tasks.
 *
 * On the model descriptors are charged at the addresses where they lie; all sections being alike, each task represents one (design: a
 * uniform section once). On the host it is one array of descriptors, made for the run; the speed at which this computer stores to that
 * array, as fast as it can, is measured right afterwards by the same tasks.
 */
#include "workload/boot_int.h"

#include "machine/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TASKS_MAX 256U
#define PAUSE_NS 1000
#define GIGANTIC_ORDER (PUD_SHIFT - PAGE_SHIFT)

static struct frame *array_start(const struct boot *b)
{
	return (struct frame *)(void *)ALIGN_UP((uintptr_t)b->desc, PMD_SIZE);
}

/* Descriptors on the host, as the setting says that their memory is. */
static int make_array(struct boot *b, char *err, size_t errlen)
{
	size_t bytes = b->frames * sizeof(struct frame);
	uint32_t kind = b->q->knobs.memmap_memory;
	void *p = mmap(NULL, bytes + PMD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		snprintf(err, errlen, "boot: no %zu MiB of this computer's memory for descriptors", bytes >> 20);
		return -ENOMEM;
	}
	b->desc = (struct frame *)p;
	(void)madvise(p, bytes + PMD_SIZE, kind == MEMMAP_MEMORY_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (uint64_t s = 0; s < b->frames && kind != MEMMAP_MEMORY_FRESH; s += SECTION_FRAMES)
		if (b->hotplug || b->mi.section[(b->base + s) >> SECTION_SHIFT])
			memset(array_start(b) + s, 0xff, SECTION_FRAMES * sizeof(struct frame)); /* what early boot leaves is not zero either */
	return 0;
}

/* ---- tasks ---- */

static bool point(struct boot_task *k)
{
	struct boot *b = k->b;
	uint64_t n = __atomic_add_fetch(&b->done_pieces, 1, __ATOMIC_RELAXED);

	if (b->o->progress)
		b->o->progress(b->o->progress_arg, n * SECTION_FRAMES);
	if (b->o->stop && *b->o->stop) {
		__atomic_store_n(&b->stopping, true, __ATOMIC_RELAXED);
		__atomic_store_n(&b->m->stop, true, __ATOMIC_RELAXED);
	}
	if (k->w.c->need_resched)
		k->w.c = machine_resched(k->w.c);
	return !__atomic_load_n(&b->m->stop, __ATOMIC_RELAXED);
}

static void note(struct boot_task *k, unsigned what, uint64_t since)
{
	if (k->nr[what] <= k->b->frames / SECTION_FRAMES)
		k->ns[what][k->nr[what]++] = machine_now_ns(k->w.c) - since;
}

static void boot_node(struct boot_task *k)
{
	uint64_t t = machine_now_ns(k->w.c);
	int r;

	for (; (r = meminit_piece(&k->w, k->nid)) != 0; t = machine_now_ns(k->w.c)) {
		if (r == -EAGAIN)
			k->w.c = machine_wait(k->w.c, PAUSE_NS);
		else
			note(k, k->b->node[k->nid].job_pass, t); /* the pass is this task's: steps with two have one worker */
		if (!point(k))
			break;
	}
}

static void hotplug_node(struct boot_task *k)
{
	struct boot *b = k->b;
	uint64_t start = b->node[k->nid].desc_base;

	for (uint64_t s = k->share * SECTION_FRAMES; s < b->frames; s += k->shares * SECTION_FRAMES) {
		uint64_t t = machine_now_ns(k->w.c);

		meminit_hot_add(&k->w, k->nid, ZONE_DEVICE, start + s, SECTION_FRAMES, b);
		note(k, 0, t);
		if (!point(k))
			break;
	}
}

/* All tasks begin together: threads that are a moment late would measure an idle memory. */
static void gather(struct boot *b, unsigned which)
{
	__atomic_add_fetch(&b->stored[which], 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&b->stored[which], __ATOMIC_ACQUIRE) < b->nr && !__atomic_load_n(&b->m->stop, __ATOMIC_RELAXED))
		__asm__ volatile("" ::: "memory");
}

/* As fast as this computer stores whole lines: without a thought, and past the caches. Each task its share, section by section. */
static void measure_stores(struct boot_task *k)
{
	struct boot *b = k->b;

	for (unsigned which = 0; which < 2; which++) {
		gather(b, which);
		for (uint64_t s = k->share * SECTION_FRAMES; s < b->frames; s += b->nr * SECTION_FRAMES) {
			struct frame *f = array_start(b) + s;
			uint64_t t = machine_now_ns(k->w.c);

			if (!b->hotplug && !b->mi.section[(b->base + s) >> SECTION_SHIFT])
				continue;
			if (which)
				meminit_run_free_nt(f, SECTION_FRAMES, 0);
			else
				memset(f, 0, SECTION_FRAMES * sizeof(*f));
			note(k, 2 + which, t);
		}
	}
}

static void task_main(struct cpu *c, struct task *t)
{
	struct boot_task *k = t->arg;

	k->w.c = c;
	k->start_ns = machine_now_ns(c);
	if (k->b->hotplug)
		hotplug_node(k);
	else
		boot_node(k);
	k->end_ns = machine_now_ns(k->w.c);
	if (!k->b->model)
		measure_stores(k);
}

static int make_tasks(struct boot *b, char *err, size_t errlen)
{
	b->t = aligned_alloc(_Alignof(struct boot_task), b->nr * sizeof(*b->t));
	if (!b->t) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	memset(b->t, 0, b->nr * sizeof(*b->t));
	for (unsigned i = 0; i < b->nr; i++) {
		struct boot_task *k = &b->t[i];
		const struct machine_node *mn;

		k->b = b;
		k->nid = (int)(i % b->nr_nodes);
		k->share = i / b->nr_nodes;
		k->shares = (b->nr - (unsigned)k->nid + b->nr_nodes - 1) / b->nr_nodes;
		k->task = (struct task){ .fn = task_main, .arg = k, .name = b->hotplug ? "hotplug" : "pgdatinit" };
		for (unsigned n = 0; n < ARRAY_SIZE(k->ns); n++) {
			k->ns[n] = calloc(b->frames / SECTION_FRAMES + 1, sizeof(*k->ns[n]));
			if (!k->ns[n]) {
				snprintf(err, errlen, "out of memory");
				return -ENOMEM;
			}
		}
		k->w = (struct meminit_worker){ .mi = &b->mi, .base = b->base, .mask = ~0ULL, .desc = b->desc ? array_start(b) : NULL };
		if (!b->model)
			continue;
		mn = &b->m->nodes[k->nid];
		cpumask_set(&k->cpu, mn->first_cpu + k->share % mn->nr_cpus);
		k->task.affinity = &k->cpu;
		k->window = aligned_alloc(CACHE_LINE, SECTION_FRAMES * sizeof(struct frame));
		if (!k->window) {
			snprintf(err, errlen, "out of memory");
			return -ENOMEM;
		}
		k->w.desc = k->window;
		k->w.mask = SECTION_FRAMES - 1;
		k->w.base = 0;
	}
	return 0;
}

/* ---- before them ---- */

static uint64_t initialised(const struct boot *b)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < b->nr_nodes; i++)
		n += b->node[i].initialised;
	return n;
}

/* Descriptors of gigantic pages, which take turns on the nodes; where sharing them is tried and fails, all of them in the end. */
static void early_gigantic(struct boot *b, struct meminit_worker *w)
{
	uint64_t before = initialised(b), t = machine_now_ns(w->c);

	for (uint64_t i = 0; i < b->o->gigantic; i++) {
		int nid = (int)(i % b->nr_nodes);
		uint64_t head = b->gigantic[nid] + (i / b->nr_nodes << GIGANTIC_ORDER);

		meminit_gigantic(w, nid, ZONE_NORMAL, head, GIGANTIC_ORDER, b->o->tails != BOOT_TAILS_EAGER);
		if (b->o->tails == BOOT_TAILS_FAILED)
			meminit_gigantic_rest(w, nid, ZONE_NORMAL, head, GIGANTIC_ORDER);
	}
	b->early.gigantic_ns = machine_now_ns(w->c) - t;
	b->early.gigantic = initialised(b) - before;
	for (unsigned i = 0; i < b->nr_nodes && b->o->gigantic; i++) /* which are counted apart */
		b->node[i].initialised -= b->early.gigantic / b->o->gigantic * ((b->o->gigantic + b->nr_nodes - 1 - i) / b->nr_nodes);
}

/* By one CPU. What is wanted beyond it is taken from the first nodes that have it deferred, section by section. */
static void early(struct boot *b, struct meminit_worker *w)
{
	uint64_t want = b->o->early >> PAGE_SHIFT, t = machine_now_ns(w->c);

	for (unsigned i = 0; i < b->nr_nodes; i++)
		meminit_early(w, (int)i);
	b->early.grown = initialised(b);
	for (unsigned i = 0; i < b->nr_nodes; i++)
		while (initialised(b) < want && meminit_grow(w, (int)i, want - initialised(b)))
			;
	b->early.ns = machine_now_ns(w->c) - t;
	b->early.reserved = b->total - b->idle;
	b->early.done = initialised(b);
	b->early.grown = b->early.done - b->early.grown;
	for (unsigned i = 0; i < b->nr_nodes; i++)
		b->early_done[i] = b->node[i].initialised;
}

static int run_tasks(struct boot *b, char *err, size_t errlen)
{
	struct meminit_worker w = b->t[0].w;
	int rc;

	w.c = machine_boot_cpu(b->m);
	if (!b->hotplug) {
		early_gigantic(b, &w);
		early(b, &w);
	}
	for (unsigned i = 0; i < b->nr_nodes && !b->hotplug; i++)
		(void)meminit_begin(&w, (int)i);
	for (unsigned i = 0; i < b->nr; i++) {
		rc = machine_task_start(b->m, &b->t[i].task);
		if (rc) {
			snprintf(err, errlen, "boot: task %u could not be started", i);
			return rc;
		}
	}
	rc = machine_run(b->m, err, errlen);
	for (unsigned i = 0; i < b->nr_nodes && !rc && !b->hotplug && !b->stopping; i++)
		if (meminit_grow(&w, (int)i, 1)) { /* once all is ready nothing grows any more */
			snprintf(err, errlen, "boot: node %u still grows after its workers are done", i);
			return -EBADMSG;
		}
	return rc == -EINTR ? 0 : rc;
}

/* ---- figures ---- */

static void extra(struct workload_result *r, const char *name, const char *unit, uint64_t value, unsigned decimals, const char *help)
{
	if (r->nr_extra < ARRAY_SIZE(r->extra))
		r->extra[r->nr_extra++] = (struct workload_extra){ name, unit, help, value, decimals };
}

static uint64_t per(uint64_t ns, uint64_t n)
{
	return n ? (uint64_t)((unsigned __int128)ns * 1000 / n) : 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A descriptor's time in thousandths of ns by the tasks' medians of sections, all tasks side by side. 0: nothing was timed. */
static uint64_t by_median(const struct boot *b, unsigned what)
{
	uint64_t sum = 0, n = 0;

	for (unsigned i = 0; i < b->nr; i++) {
		const struct boot_task *k = &b->t[i];

		if (!k->nr[what])
			continue;
		qsort(k->ns[what], k->nr[what], sizeof(*k->ns[what]), by_value);
		sum += k->ns[what][k->nr[what] / 2];
		n++;
	}
	return n ? per(sum, SECTION_FRAMES * n * n) : 0;
}

/* Only here: on the model nobody takes anything away. */
static void limits(struct boot *b, struct workload_result *r)
{
	uint64_t own = by_median(b, 0) + by_median(b, 1), store = by_median(b, 2), nt = by_median(b, 3);

	extra(r, "descriptor_median_ns", "ns", own, 3, "of a descriptor, by the median of sections: without what other programs took of the CPU");
	extra(r, "store_line_ns", "ns", store, 3, "of 64 bytes stored to the same memory by all tasks, as memset does, by the median of sections");
	extra(r, "store_nt_line_ns", "ns", nt, 3, "of 64 bytes stored past the caches, likewise");
	if (own)
		extra(r, "share_of_stores", "ratio", MIN(store, nt) * 1000 / own, 3, "the faster of both over a descriptor's median");
}

static void figures(const struct boot *b, struct workload_result *r, const struct workload_boot *e, uint64_t largest)
{
	extra(r, "descriptor_ns", "ns", per(r->work_ns, largest), 3, "of a descriptor: the workers' time, by descriptors of the node with most");
	extra(r, "descriptors", "", e->descriptors, 0, "initialised, early ones and reserved frames' included");
	extra(r, "ready_s", "s", r->work_ns / 1000, 6, "from when the workers begin until all is ready");
	if (b->hotplug)
		return;
	extra(r, "descriptors_early", "", e->early, 0, "of them before the workers began");
	extra(r, "descriptors_reserved", "", e->reserved, 0, "of those of reserved frames: kernel, initial file system, descriptors");
	extra(r, "early_s", "s", e->early_ns / 1000, 6, "by one CPU, before the workers began");
	if (!b->o->gigantic)
		return;
	extra(r, "descriptors_gigantic", "", e->gigantic, 0, "of gigantic pages, written besides");
	extra(r, "gigantic_s", "s", e->gigantic_ns / 1000, 6, "that took");
}

static int conclude(struct boot *b, struct workload_result *r, char *err, size_t errlen)
{
	uint64_t start = UINT64_MAX, end = 0, all = initialised(b), done = all - b->early.done, largest = 0, free_pages = 0;
	uint64_t slowest = 0, fastest = UINT64_MAX;

	r->task = calloc(b->nr, sizeof(*r->task));
	if (!r->task) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < b->nr; i++) {
		start = MIN(start, b->t[i].start_ns);
		end = MAX(end, b->t[i].end_ns);
		r->cpu_ns += b->t[i].end_ns - b->t[i].start_ns;
		slowest = MAX(slowest, b->t[i].end_ns - b->t[i].start_ns);
		fastest = MIN(fastest, b->t[i].end_ns - b->t[i].start_ns);
	}
	for (unsigned i = 0; i < b->nr_nodes; i++) {
		largest = MAX(largest, b->node[i].initialised - b->early_done[i]);
		for (unsigned t = 0; t < NR_ZONES; t++)
			free_pages += b->node[i].zone[t].free_pages;
	}
	r->tasks = b->nr;
	r->stopped = b->stopping;
	r->elapsed_ns = r->work_ns = r->task_kernel_ns = end > start ? end - start : 0;
	r->task_kernel_ns = r->cpu_ns;
	r->ops = done;
	r->bytes = done * sizeof(struct frame);
	r->task_bytes = b->total / b->nr * PAGE_SIZE;
	r->total = r->work_ns ? (uint64_t)((unsigned __int128)done * 1000000000ULL / r->work_ns) : 0;
	r->min = r->median = r->max = r->total / b->nr;
	r->boot = (struct workload_boot){
		.descriptors = all + b->early.reserved, .reserved = b->early.reserved, .early = b->early.reserved + b->early.done,
		.grown = b->early.grown, .gigantic = b->early.gigantic, .free = free_pages, .early_ns = b->early.ns,
		.gigantic_ns = b->early.gigantic_ns, .ready_ns = r->work_ns, .sum_ns = r->cpu_ns, .slowest_ns = slowest,
	};
	figures(b, r, &r->boot, largest);
	extra(r, "worker_time_min_ns", "ns", fastest, 0, "of a task, the first to be done");
	extra(r, "worker_time_max_ns", "ns", slowest, 0, "of a task, the last");
	if (!b->model && !r->stopped)
		limits(b, r);
	if (r->stopped || (all == (b->hotplug ? b->total : b->idle) && (b->hotplug || free_pages == all)))
		return 0;
	snprintf(err, errlen, "boot: %llu of %llu descriptors initialised, %llu frames free", (unsigned long long)all,
		 (unsigned long long)b->idle, (unsigned long long)free_pages);
	return -EBADMSG;
}

/* Its nodes instead of the machine's, which must have as many with CPUs. */
static int read_map(struct boot *b, const struct workload *wl, char *err, size_t errlen)
{
	unsigned most = b->nr_nodes;
	int rc = 0;

	if (b->hotplug || b->o->size) {
		snprintf(err, errlen, "%s: a map is for boot, and says itself how large memory is", wl->name);
		return -EINVAL;
	}
	rc = memory_map_read(b->o->map, b->o->zoneinfo, &b->map, err, errlen);
	if (rc)
		return rc;
	b->nr_nodes = b->map.nr_nodes;
	if (!b->model || b->nr_nodes <= most)
		return 0;
	snprintf(err, errlen, "%s: %u nodes, the modelled machine has %u with CPUs", b->o->map, b->nr_nodes, most);
	return -EINVAL;
}

static int prepare(struct boot *b, const struct workload *wl, char *err, size_t errlen)
{
	const struct workload_options *o = b->o;
	int rc;

	if (o->step || o->think_ns || o->passes > 1 || o->stagger_ns || o->limit_ns || o->ops || o->check) {
		snprintf(err, errlen, "%s: of the workloads' options it has tasks, size, map, zoneinfo and early only", wl->name);
		return -EINVAL;
	}
	for (b->nr_nodes = 0; b->model && b->nr_nodes < b->m->nr_nodes && b->m->nodes[b->nr_nodes].nr_cpus; b->nr_nodes++)
		;
	b->nr_nodes = MAX(b->nr_nodes, 1U);
	if (o->map) {
		rc = read_map(b, wl, err, errlen);
		if (rc)
			return rc;
	}
	b->nr = o->tasks ? o->tasks : b->nr_nodes;
	if (b->nr < b->nr_nodes || b->nr > TASKS_MAX || b->nr >= b->m->nr_cpus + (b->model ? 1U : 0U)) {
		snprintf(err, errlen, "%s: %u tasks; a node needs one, a CPU takes one, and there are at most %u", wl->name, b->nr, TASKS_MAX);
		return -EINVAL;
	}
	rc = boot_map_open(b, wl, err, errlen);
	if (!rc && !b->model)
		rc = make_array(b, err, errlen);
	return rc ? rc : make_tasks(b, err, errlen);
}

static void free_task(struct boot_task *k)
{
	free(k->window);
	for (unsigned n = 0; n < ARRAY_SIZE(k->ns); n++)
		free(k->ns[n]);
}

int boot_run(struct quire *q, const struct workload *wl, const struct workload_options *o, struct workload_result *ret, char *err,
	     size_t errlen)
{
	struct boot b = { .q = q, .m = q->m, .o = o, .model = strcmp(q->m->ops->kind, "host") != 0, .hotplug = wl->kind->hotplug };
	int rc;

	*ret = (struct workload_result){ 0 };
	if (errlen)
		err[0] = '\0';
	rc = prepare(&b, wl, err, errlen);
	if (!rc)
		rc = run_tasks(&b, err, errlen);
	if (!rc)
		rc = conclude(&b, ret, err, errlen);
	for (unsigned i = 0; b.t && i < b.nr; i++)
		free_task(&b.t[i]);
	free(b.t);
	boot_map_done(&b);
	if (b.desc)
		munmap(b.desc, b.frames * sizeof(struct frame) + PMD_SIZE);
	return rc;
}
