/*
 * The executor on the engine: runs, processes, and calls.
 *
 * No tasks: calls come one at a time, so each is made right here on the CPU of its thread, with the process's address space loaded on it.
 * What a thread left behind on its CPU (a loaded address space, TLB entries) stays there until that CPU is used for something else, as when
 * a thread goes on running. Only sleeping needs the machine's scheduler: one task that sleeps, and whoever else is alive.
 */
#include "script/engine_int.h"

#include "machine/run.h"
#include "mm/compact.h"
#include "mm/gup.h"
#include "mm/hugetlb.h"
#include "mm/khugepaged.h"
#include "mm/split.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA 0x100000000000ULL
#define ARENA_LEN 0x100000000000ULL
#define HEAP_START 0x555555756000ULL
#define STACK_BYTES (132ULL << 10)
#define NS_PER_MS 1000000ULL

int script_engine_create(const struct script_engine_options *o, struct script_exec **ret)
{
	struct engine *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->m = o->machine;
	x->validate = o->validate;
	if (o->knobs)
		x->given = *o->knobs;
	else
		knobs_default(&x->given);
	*ret = (struct script_exec *)(void *)x;
	return 0;
}

void script_engine_destroy(struct script_exec *x)
{
	if (x)
		ASSERT(!engine_of(x)->q);
	free(x);
}

struct quire *script_engine_quire(struct script_exec *x)
{
	return engine_of(x)->q;
}

/* ---- runs ---- */

static int apply(struct knobs *k, const char *name, const char *value, char *err, size_t errlen)
{
	char allowed[200] = "";
	const char *near;
	int rc = knob_set(k, name, value, allowed, sizeof(allowed));

	if (rc == -ENOENT) {
		near = knob_nearest(name);
		snprintf(err, errlen, "there is no setting %s%s%s%s", name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	} else if (rc) {
		snprintf(err, errlen, "%s: %s is not allowed: %s", name, value, allowed);
	}
	return rc ? -EINVAL : 0;
}

static int first_process(struct engine *x, char *err, size_t errlen)
{
	struct cpu *c = machine_boot_cpu(x->m);
	int rc;

	x->procs = calloc(1, sizeof(*x->procs));
	if (!x->procs)
		return -ENOMEM;
	rc = mm_create(c, x->q, &x->procs[0].mm);
	x->nr_procs = !rc;
	if (!rc)
		rc = mm_setup_exec(c, x->procs[0].mm, HEAP_START, TASK_SIZE - PAGE_SIZE, STACK_BYTES);
	if (rc)
		snprintf(err, errlen, "the first process: %s", strerror(-rc));
	return rc;
}

static int begin(struct script_exec *sx, const struct script *s, const struct script_setting *set, size_t nr_set, uint64_t *ret_arena,
		 uint64_t *ret_arena_len, char *err, size_t errlen)
{
	struct engine *x = engine_of(sx);
	char why[300] = "";
	int rc = 0;

	ASSERT(!x->q);
	*ret_arena = ARENA;
	*ret_arena_len = ARENA_LEN;
	x->script = s;
	x->knobs = x->given;
	for (size_t i = 0; i < nr_set && !rc; i++) {
		rc = apply(&x->knobs, set[i].name, set[i].value, why, sizeof(why));
		if (rc && set[i].line)
			snprintf(err, errlen, "%s:%u:%u: %s", s->file, set[i].line, set[i].col ? set[i].col : 1, why);
		else if (rc)
			snprintf(err, errlen, "%s", why);
	}
	if (rc)
		return rc;
	rc = quire_boot(x->m, &x->knobs, &x->q, err, errlen);
	if (rc) {
		x->q = NULL;
		return rc;
	}
	x->q->time_phases = true;
	rc = first_process(x, err, errlen);
	x->phys_at_begin = engine_phys(x);
	if (!rc)
		rc = engine_mark(sx, err, errlen);
	memcpy(x->seen, x->mark, sizeof(x->seen));
	return rc;
}

/* No CPU keeps mm any more, not even lazily. */
static void leave_everywhere(struct engine *x, const struct mm *mm)
{
	for (unsigned i = 0; i < x->m->nr_cpus; i++)
		if (percpu_mm(x->q->percpu[i]) == mm)
			mm_activate(x->m->cpus[i], NULL);
}

static void end_process(struct engine *x, struct cpu *c, struct engine_proc *p)
{
	struct mm *mm = p->mm;

	leave_everywhere(x, mm);
	p->mm = NULL;
	mm_put(c, mm);
}

static void unpin(struct engine *x, struct cpu *c, struct engine_pin *p)
{
	(void)x;
	if (p->frames)
		mm_unpin(c, p->frames, p->nr);
	free(p->frames);
	p->frames = NULL;
}

static void end(struct script_exec *sx)
{
	struct engine *x = engine_of(sx);
	struct cpu *c;
	int rc;

	if (x->q) {
		c = machine_boot_cpu(x->m);
		for (uint32_t i = 0; i < x->nr_pins; i++)
			unpin(x, c, &x->pins[i]);
		for (uint32_t i = 0; i < x->nr_procs; i++)
			if (x->procs[i].mm)
				end_process(x, c, &x->procs[i]);
		for (uint32_t i = 0; i < x->nr_files; i++)
			if (x->files[i])
				file_put(c, x->files[i]);
		engine_free_lists_end(x, c);
		rc = quire_shutdown(x->q);
		ASSERT(!rc);
	}
	free(x->procs);
	free(x->files);
	free(x->pins);
	*x = (struct engine){ .m = x->m, .given = x->given, .validate = x->validate };
}

/* One more element at the end of an array that grows at powers of two. */
static bool grow(void *array, uint32_t nr, size_t size)
{
	void **a = array, *p;

	if (nr & (nr - 1))
		return true;
	p = realloc(*a, (nr ? 2 * (size_t)nr : 1) * size);
	if (p)
		*a = p;
	return p != NULL;
}

/* ---- processes ---- */

static int do_fork(struct engine_at *a)
{
	struct engine *x = a->x;
	uint32_t cpu = a->c->id;
	struct mm *child;

	ASSERT(a->call->target == x->nr_procs);
	if (!grow(&x->procs, x->nr_procs, sizeof(*x->procs)))
		return -ENOMEM;
	a->ret->ret = mm_fork(a->c, a->mm, &child);
	if (!a->ret->ret)
		x->procs[x->nr_procs++] = (struct engine_proc){ .mm = child, .parent = a->call->proc, .cpu = cpu };
	return 0;
}

static void do_wait(struct engine_at *a)
{
	struct engine_proc *p = &a->x->procs[a->call->target];

	if (p->mm || p->waited || p->parent != a->call->proc || !a->call->target)
		a->ret->ret = -ECHILD;
	else
		p->waited = true;
}

static int set_cpu(struct engine_at *a, uint32_t *cpu, int64_t value, char *err, size_t errlen)
{
	if (value >= 0 && value < a->x->m->nr_cpus) {
		*cpu = (uint32_t)value;
		return 0;
	}
	snprintf(err, errlen, "this machine has no CPU %ld: 0 to %u", (long)value, a->x->m->nr_cpus - 1);
	return -EOPNOTSUPP;
}

static uint32_t *cpu_of(struct engine *x, const struct script_call *call)
{
	return call->thread ? &x->threads[call->thread].cpu : &x->procs[call->proc].cpu;
}

/* ---- mapping ---- */

static int64_t map_aligned(struct engine_at *a, struct mfile *f)
{
	const struct script_call *k = a->call;
	int64_t at = mm_mmap(a->c, a->mm, k->addr, k->len + k->align, 0, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS, NULL, 0);
	vaddr_t to;

	if (at < 0)
		return at;
	to = ALIGN_UP((vaddr_t)at, k->align);
	at = mm_munmap(a->c, a->mm, (vaddr_t)at, k->len + k->align);
	return at < 0 ? at : mm_mmap(a->c, a->mm, to, k->len, k->prot, k->flags, f, k->off);
}

static void do_mmap(struct engine_at *a, struct mfile *f, bool bad_file)
{
	const struct script_call *k = a->call;

	if (bad_file && !(k->flags & UAPI_MAP_ANONYMOUS))
		a->ret->ret = -EBADF;
	else if (k->align)
		a->ret->ret = map_aligned(a, f);
	else
		a->ret->ret = mm_mmap(a->c, a->mm, k->addr, k->len, k->prot, k->flags, f, k->off);
}

static void do_sbrk(struct engine_at *a)
{
	int64_t before = mm_brk(a->c, a->mm, 0), to = (int64_t)((uint64_t)before + (uint64_t)a->call->value);

	a->ret->ret = !a->call->value || mm_brk(a->c, a->mm, (vaddr_t)to) == to ? before : -ENOMEM;
}

static int do_pin(struct engine_at *a)
{
	const struct script_call *k = a->call;
	struct engine *x = a->x;
	uint64_t nr = ((k->addr & ~PAGE_MASK) + k->len + PAGE_SIZE - 1) >> PAGE_SHIFT;
	pfn_t *frames = nr ? calloc(nr, sizeof(*frames)) : NULL;

	ASSERT(k->target == x->nr_pins);
	if (nr && (!frames || !grow(&x->pins, x->nr_pins, sizeof(*x->pins)))) {
		free(frames);
		return -ENOMEM;
	}
	a->ret->ret = nr ? mm_pin(a->c, a->mm, k->addr & PAGE_MASK, nr, k->write, frames) : -EINVAL;
	if (a->ret->ret)
		free(frames);
	else
		x->pins[x->nr_pins++] = (struct engine_pin){ .frames = frames, .nr = nr };
	return 0;
}

static int do_create(struct engine_at *a)
{
	struct engine *x = a->x;
	struct mfile *f;

	ASSERT(a->call->file == x->nr_files);
	if (!grow(&x->files, x->nr_files, sizeof(struct mfile *)))
		return -ENOMEM;
	/* The number is the file's identity, from which its first contents follow: script_file_value. */
	a->ret->ret = file_create(a->c, x->q, (uint64_t)a->call->file + 1, a->call->len, a->call->flags != 0, &f);
	if (!a->ret->ret)
		x->files[x->nr_files++] = f;
	return 0;
}

static void do_close(struct engine_at *a)
{
	struct mfile **f = &a->x->files[a->call->file];

	if (*f)
		file_put(a->c, *f);
	else
		a->ret->ret = -EBADF;
	*f = NULL;
}

/* ---- sleeping ---- */

struct sleeper {
	struct task t;
	uint64_t ns;
};

static void sleep_main(struct cpu *c, struct task *t)
{
	(void)c->m->ops->sleep_ns(c, ((struct sleeper *)t->arg)->ns);
}

static int do_sleep(struct engine *x, uint64_t ms, char *err, size_t errlen)
{
	struct sleeper s = { .ns = ms * NS_PER_MS };
	int rc;

	s.t = (struct task){ .fn = sleep_main, .arg = &s, .name = "sleep" };
	rc = machine_task_start(x->m, &s.t);
	return rc ? rc : machine_run(x->m, err, errlen);
}

/* ---- booting, and what idle time is used for ---- */

static int do_boot(struct engine *x, const struct script_call *k, char *err, size_t errlen)
{
	const struct workload_options o = { .size = k->len, .tasks = (unsigned)k->value, .early = k->len2, .gigantic = k->off,
					    .tails = (enum boot_tails)k->mode };
	struct workload_result r;
	int rc = workload_run(x->q, workload_find("boot"), &o, &r, err, errlen);

	x->boot = r.boot;
	workload_result_done(&r);
	return rc;
}

static int do_clear_ahead(struct engine_at *a, char *err, size_t errlen)
{
	const struct script_call *k = a->call;

	if (k->len != PMD_SIZE && k->len != PUD_SIZE) {
		snprintf(err, errlen, "%s:%u:1: clear_ahead: pools have pages of 2M and 1G", a->x->script->file, k->line);
		return -EINVAL;
	}
	a->ret->count = hugetlb_clear_ahead(a->c, k->len == PMD_SIZE ? HUGETLB_2M : HUGETLB_1G, (uint64_t)k->value);
	return 0;
}

/* ---- calls ---- */

static int unsupported(const struct engine_at *a, const char *what, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s:%u:1: the engine has no %s yet", a->x->script->file, a->call->line, what);
	return -EOPNOTSUPP;
}

/* Calls on a file. 0, or what the executor itself ran into. */
static int file_call(struct engine_at *a)
{
	struct mfile *f = a->x->files[a->call->file];

	if (!f) {
		a->ret->ret = -EBADF;
		return 0;
	}
	switch (a->call->op) {
	case SOP_FILE_TRUNCATE: engine_file_truncate(a, f); break;
	case SOP_FILE_READ: engine_file_read(a, f); break;
	case SOP_FILE_WRITE: engine_file_write(a, f); break;
	case SOP_PREAD: engine_pread(a, f); break;
	default: engine_pwrite(a, f); break;
	}
	return 0;
}

/* Calls on the address space. */
static void memory_call(struct engine_at *a)
{
	const struct script_call *k = a->call;
	int64_t r = 0;

	switch (k->op) {
	case SOP_MUNMAP: r = mm_munmap(a->c, a->mm, k->addr, k->len); break;
	case SOP_MPROTECT: r = mm_mprotect(a->c, a->mm, k->addr, k->len, k->prot); break;
	case SOP_MREMAP: r = mm_mremap(a->c, a->mm, k->addr, k->len, k->len2, k->flags, k->addr2); break;
	case SOP_MADVISE: r = mm_madvise(a->c, a->mm, k->addr, k->len, k->advice); break;
	case SOP_MSYNC: r = mm_msync(a->c, a->mm, k->addr, k->len, k->flags); break;
	case SOP_MINCORE: r = engine_incore(a->c, a->mm, k->addr, k->len, &a->ret->count); break;
	case SOP_MLOCK: r = mm_mlock(a->c, a->mm, k->addr, k->len, false); break;
	case SOP_MLOCK2: r = k->flags & ~1U ? -EINVAL : mm_mlock(a->c, a->mm, k->addr, k->len, k->flags != 0); break;
	case SOP_MUNLOCK: r = mm_munlock(a->c, a->mm, k->addr, k->len); break;
	case SOP_MLOCKALL: r = mm_mlockall(a->c, a->mm, k->flags); break;
	case SOP_MUNLOCKALL: r = mm_munlockall(a->c, a->mm); break;
	case SOP_BRK: r = mm_brk(a->c, a->mm, k->addr); break;
	case SOP_PRCTL_THP: r = mm_set_thp_disable(a->c, a->mm, k->value != 0); break;
	default: break;
	}
	a->ret->ret = r;
}

static int carry_out(struct engine_at *a, char *err, size_t errlen)
{
	const struct script_call *k = a->call;
	struct engine *x = a->x;
	bool has_file = k->file != SCRIPT_NONE && k->file < x->nr_files;

	switch (k->op) {
	case SOP_MMAP:
		do_mmap(a, has_file && !(k->flags & UAPI_MAP_ANONYMOUS) ? x->files[k->file] : NULL, has_file ? !x->files[k->file] : true);
		return 0;
	case SOP_SBRK:
		do_sbrk(a);
		return 0;
	case SOP_FILE_CREATE:
		return do_create(a);
	case SOP_FILE_CLOSE:
		do_close(a);
		return 0;
	case SOP_FILE_TRUNCATE:
	case SOP_FILE_READ:
	case SOP_FILE_WRITE:
	case SOP_PREAD:
	case SOP_PWRITE:
		return file_call(a);
	case SOP_FORK:
		return do_fork(a);
	case SOP_EXIT:
		end_process(x, a->c, &x->procs[k->proc]);
		return 0;
	case SOP_WAIT:
		do_wait(a);
		return 0;
	case SOP_PIN:
		return do_pin(a);
	case SOP_UNPIN:
		unpin(x, a->c, &x->pins[k->target]);
		return 0;
	case SOP_MBIND:
	case SOP_SET_MEMPOLICY:
	case SOP_MOVE_PAGES:
		return unsupported(a, "memory policies and no moving of pages", err, errlen);
	default:
		memory_call(a);
		return 0;
	}
}

/* What is no system call: accesses, and what only says where things happen. false: it is one. */
static bool not_a_call(struct engine_at *a, int *rc, char *err, size_t errlen)
{
	const struct script_call *k = a->call;
	struct engine *x = a->x;

	*rc = 0;
	switch (k->op) {
	case SOP_TOUCH:
		engine_touch(a);
		return true;
	case SOP_READ:
		engine_read(a);
		return true;
	case SOP_WRITE:
		engine_write(a);
		return true;
	case SOP_FILL:
		engine_fill(a);
		return true;
	case SOP_CPU:
		*rc = set_cpu(a, cpu_of(x, k), k->value, err, errlen);
		return true;
	case SOP_THREAD:
		x->threads[k->target].cpu = a->c->id;
		if (k->value >= 0)
			*rc = set_cpu(a, &x->threads[k->target].cpu, k->value, err, errlen);
		return true;
	case SOP_IDLE:
		mm_activate(a->c, NULL);
		return true;
	case SOP_SET:
		*rc = apply(&x->q->knobs, k->name, k->text, err, errlen);
		return true;
	case SOP_BOOT:
		*rc = do_boot(x, k, err, errlen);
		return true;
	case SOP_CLEAR_AHEAD:
		*rc = do_clear_ahead(a, err, errlen);
		return true;
	case SOP_KHUGEPAGED:
		a->ret->count = khugepaged_run(a->c, (unsigned)k->value);
		return true;
	case SOP_SPLIT:
		a->ret->count = quire_split_range(a->c, a->mm, k->addr, k->len);
		return true;
	case SOP_DEFERRED_SPLIT:
		a->ret->count = 0;
		for (unsigned n = 0; n < x->m->nr_nodes; n++)
			a->ret->count += deferred_split_scan(a->c, (int)n, (uint64_t)k->value);
		return true;
	case SOP_FREE_LISTS:
		*rc = engine_free_lists(a, err, errlen);
		return true;
	case SOP_RECLAIM:
		a->ret->count = engine_reclaim(a->c, (uint64_t)k->value);
		return true;
	case SOP_COMPACT:
		quire_compact_node(a->c, NID_NONE);
		return true;
	case SOP_SLEEP:
		*rc = do_sleep(x, (uint64_t)k->value, err, errlen);
		return true;
	default:
		return false;
	}
}

static int step(struct script_exec *sx, const struct script_call *k, struct script_result *ret, char *err, size_t errlen)
{
	struct engine *x = engine_of(sx);
	struct engine_at a = { .x = x, .c = x->m->cpus[*cpu_of(x, k)], .mm = x->procs[k->proc].mm, .call = k, .ret = ret };
	int rc;

	*ret = (struct script_result){ 0 };
	if (a.c->id == 0)
		(void)machine_boot_cpu(x->m); /* on the model: not before what the other CPUs have done */
	mm_activate(a.c, a.mm);
	if (!not_a_call(&a, &rc, err, errlen)) {
		machine_enter(a.c, ENTRY_SYSCALL);
		rc = carry_out(&a, err, errlen);
		machine_leave(a.c, ENTRY_SYSCALL);
	}
	if (rc == -ENOMEM)
		snprintf(err, errlen, "out of memory");
	if (!rc && x->validate && quire_validate(x->q)) {
		snprintf(err, errlen, "%s:%u:1: %s", x->script->file, k->line, x->q->err);
		rc = -EFAULT;
	}
	return rc;
}

const struct script_exec_ops script_engine_ops = {
	.kind = "engine",
	.begin = begin,
	.step = step,
	.observe = engine_observe,
	.mark = engine_mark,
	.counter = engine_counter,
	.end = end,
};
