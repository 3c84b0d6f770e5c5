/* The executor on the kernel underneath: runs, settings, processes. kernel.h has the rules, kernel_int.h says where the rest is. */
#define _GNU_SOURCE
#include "script/kernel_int.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"

#define KERNEL_CPUS 256
#define SLEEP_MAX_MS 10000

static struct kernel_exec *kernel(struct script_exec *x)
{
	return (struct kernel_exec *)(void *)x;
}

int kernel_unsupported(char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return -EOPNOTSUPP;
}

int script_kernel_create(const struct script_kernel_options *o, struct script_exec **ret)
{
	struct kernel_exec *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->o = *o;
	if (!x->o.as_bytes)
		x->o.as_bytes = 4ULL << 30;
	if (!x->o.memlock_bytes)
		x->o.memlock_bytes = 8ULL << 20;
	if (!x->o.rss_bytes)
		x->o.rss_bytes = 1ULL << 30;
	if (!x->o.timeout_ms)
		x->o.timeout_ms = 10000;
	*ret = (struct script_exec *)(void *)x;
	return 0;
}

void script_kernel_destroy(struct script_exec *x)
{
	if (!x)
		return;
	kproc_areas_done(&kernel(x)->areas);
	free(x);
}

void script_kernel_place(struct script_exec *sx, uint64_t top, uint64_t heap)
{
	kernel(sx)->o.top = top;
	kernel(sx)->o.heap = heap;
}

struct script_kernel_layout script_kernel_layout(const struct script_exec *sx)
{
	const struct kernel_exec *x = (const struct kernel_exec *)(const void *)sx;
	const struct kagent_layout *l = kagents_layout(x->k);

	return (struct script_kernel_layout){ .top = l->top, .heap = l->heap, .as_bytes = x->as_bytes, .memlock_bytes = x->memlock };
}

/* ---- calls ---- */

static bool uses(const struct script_block *b, enum script_op op)
{
	for (size_t i = 0; i < b->nr; i++)
		if ((b->s[i]->kind == SSTMT_CALL && b->s[i]->op == op) || uses(&b->s[i]->body, op) || uses(&b->s[i]->other, op))
			return true;
	return false;
}

/* ---- processes ---- */

struct kernel_proc *kernel_proc(struct kernel_exec *x, uint32_t number)
{
	return number < KERNEL_MAX_PROCS && x->proc[number].known && x->proc[number].slot < KAGENT_MAX ? &x->proc[number] : NULL;
}

/* Nothing of the agent's own is left to be faulted in by the next order. */
static void warm_up(struct kernel_exec *x, unsigned slot)
{
	const struct kagent_accesses none = { .how = KAGENT_TOUCH_READ }, bad = { .how = KAGENT_TOUCH_READ, .va = 8, .nr = 1 };
	const struct kagent_accesses buffer = { .how = KAGENT_TOUCH_WRITE, .va = kagent_buffer_va(x->k, slot), .stride = PAGE_SIZE,
						.nr = KAGENT_BUF / PAGE_SIZE };
	const uint64_t no_args[6] = { 0 };
	uint64_t done, value;
	int64_t r;
	int sig;

	if (x->lock_all)
		kagents_bring_in_own(x->k, slot); /* so that locking all memory brings in the script's alone */
	for (int i = 0; i < 2; i++) {
		(void)kagent_syscall(x->k, slot, -1, no_args, &r); /* fails: errno is written */
		(void)kagent_access(x->k, slot, &buffer, &done, &value, &sig);
		(void)kagent_access(x->k, slot, &none, &done, &value, &sig);
		(void)kagent_access(x->k, slot, &bad, &done, &value, &sig);
	}
}

static int fork_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	struct kernel_proc *p = kernel_proc(x, c->proc), *child;
	unsigned slot = 0;
	int rc;

	while (slot < KAGENT_MAX && x->slot_used[slot])
		slot++;
	if (c->target >= KERNEL_MAX_PROCS || slot == KAGENT_MAX)
		return kernel_unsupported(err, errlen, "more than %d processes at once, or %d in all", KAGENT_MAX, KERNEL_MAX_PROCS);
	rc = kagent_fork(x->k, p->slot, slot, &ret->ret);
	if (rc || ret->ret < 0)
		return rc;
	child = &x->proc[c->target];
	*child = (struct kernel_proc){ .known = true, .parent = c->proc, .slot = slot, .pid = kagents_pid(x->k, slot) };
	x->slot_used[slot] = true;
	warm_up(x, p->slot);
	warm_up(x, slot);
	kernel_count_from_here(x, p);
	kernel_count_from_here(x, child);
	return 0;
}

static int exit_step(struct kernel_exec *x, const struct script_call *c)
{
	struct kernel_proc *p = kernel_proc(x, c->proc);
	int rc = kagent_exit(x->k, p->slot);

	x->slot_used[p->slot] = false;
	p->slot = KAGENT_MAX;
	x->dropped += p->shmem; /* what it mapped may be there for others */
	return rc;
}

static int wait_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	struct kernel_proc *t = c->target < KERNEL_MAX_PROCS ? &x->proc[c->target] : NULL;

	if (!t || !t->known || t->parent != c->proc || t->waited) {
		ret->ret = -ECHILD;
		return 0;
	}
	t->waited = true;
	return kagent_wait(x->k, kernel_proc(x, c->proc)->slot, t->pid);
}

/* ---- calls ---- */

static int sleep_step(const struct script_call *c, char *err, size_t errlen)
{
	if (c->value > SLEEP_MAX_MS)
		return kernel_unsupported(err, errlen, "sleep of more than %d ms", SLEEP_MAX_MS);
	usleep((useconds_t)c->value * 1000);
	return 0;
}

/* Only where all CPUs are ours: elsewhere calls are made wherever the process happens to be, and nothing that depends on it is compared. */
static int cpu_step(struct kernel_exec *x, uint32_t proc, unsigned cpu)
{
	unsigned slot = kernel_proc(x, proc)->slot;
	uint64_t *mask = kagent_buffer(x->k, slot);
	const uint64_t args[6] = { 0, KERNEL_CPUS / 8, kagent_buffer_va(x->k, slot) };
	int64_t r;

	memset(mask, 0, KERNEL_CPUS / 8);
	if (cpu < KERNEL_CPUS)
		mask[cpu / 64] = 1ULL << cpu % 64;
	return kagent_syscall(x->k, slot, SYS_sched_setaffinity, args, &r); /* a CPU that is not there: it stays where it is */
}

static int dispatch(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	switch (c->op) {
	case SOP_MINCORE:
		return kernel_mincore(x, c, ret, err, errlen);
	case SOP_MBIND:
	case SOP_SET_MEMPOLICY:
		return kernel_policy(x, c, ret);
	case SOP_MOVE_PAGES:
		return kernel_move_pages(x, c, ret, err, errlen);
	case SOP_SBRK:
		return x->o.heap && kagents_layout(x->k)->heap ? kernel_sbrk(x, c, ret) :
								 kernel_unsupported(err, errlen, "the break cannot be placed in this kernel");
	case SOP_BRK:
		return x->o.heap && kagents_layout(x->k)->heap ? kernel_plain(x, c, ret) :
								 kernel_unsupported(err, errlen, "the break cannot be placed in this kernel");
	case SOP_TOUCH:
	case SOP_READ:
	case SOP_WRITE:
	case SOP_FILL:
		return kernel_access(x, c, ret);
	case SOP_FILE_CREATE:
		return kernel_file_create(x, c, ret, err, errlen);
	case SOP_MMAP:
	case SOP_FILE_TRUNCATE:
	case SOP_FILE_READ:
	case SOP_FILE_WRITE:
	case SOP_FILE_CLOSE:
	case SOP_PREAD:
	case SOP_PWRITE:
		return kernel_file_step(x, c, ret, err, errlen);
	case SOP_FORK:
		return fork_step(x, c, ret, err, errlen);
	case SOP_EXIT:
		return exit_step(x, c);
	case SOP_WAIT:
		return wait_step(x, c, ret);
	case SOP_CPU:
		return x->o.owned ? cpu_step(x, c->proc, (unsigned)c->value) : 0;
	case SOP_THREAD:
	case SOP_IDLE: /* between its calls a thread sleeps anyway */
		return 0;
	case SOP_SET:
		return kernel_settings_set(&x->settings, c->name, c->text, x->o.owned, err, errlen);
	case SOP_SLEEP:
		return sleep_step(c, err, errlen);
	case SOP_BOOT:
	case SOP_CLEAR_AHEAD:
		return kernel_unsupported(err, errlen, "the kernel that runs has booted, and clears its pools' pages when it likes");
	case SOP_KHUGEPAGED:
	case SOP_SPLIT:
	case SOP_DEFERRED_SPLIT:
		return kernel_unsupported(err, errlen, "the kernel makes and splits huge pages when it likes");
	case SOP_FREE_LISTS:
	case SOP_RECLAIM:
	case SOP_COMPACT:
		return kernel_unsupported(err, errlen, "the kernel's free memory is not a script's to arrange");
	case SOP_PIN:
	case SOP_UNPIN:
	case NR_SCRIPT_OPS:
		return kernel_unsupported(err, errlen, "programs cannot pin memory with a system call of their own");
	default:
		return kernel_plain(x, c, ret);
	}
}

static int step(struct script_exec *sx, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	struct kernel_proc *p = kernel_proc(x, c->proc);
	int rc;

	*ret = (struct script_result){ 0 };
	if (!p) {
		snprintf(err, errlen, "process %u does not exist on the kernel's side", c->proc);
		return -ESRCH;
	}
	/* What is larger than the address space is refused by the kernel. */
	if (kernel_brings_in(c) > x->o.rss_bytes && kernel_brings_in(c) <= x->as_bytes)
		return kernel_unsupported(err, errlen, "bringing in more than %llu MiB at once", (unsigned long long)(x->o.rss_bytes >> 20));
	kernel_count_from_here(x, p);
	rc = dispatch(x, c, ret, err, errlen);
	if (c->op == SOP_FILE_CREATE) /* which this process has made */
		kernel_count_from_here(x, p);
	kernel_count_to_here(x);
	if (rc == -EOPNOTSUPP)
		return rc;
	kernel_settle(x);
	kernel_drain(x);
	kernel_count_drained(x);
	if (!rc && c->op == SOP_MMAP && (c->flags & MAP_SHARED) && (c->flags & MAP_ANONYMOUS) && ret->ret >= 0)
		rc = kernel_note_object(x, p, (uint64_t)ret->ret, c->len);
	if (!rc && kernel_check_memory(x)) {
		snprintf(err, errlen, "the script's processes have more than %llu MiB in memory", (unsigned long long)(x->o.rss_bytes >> 20));
		return -EOPNOTSUPP;
	}
	if (rc)
		snprintf(err, errlen, "%s: the process on the kernel's side is gone or does not answer (%s)", "step", strerror(-rc));
	return rc;
}

/* ---- runs ---- */

static uint64_t memlock_limit(uint64_t wanted)
{
	struct rlimit r;

	return getrlimit(RLIMIT_MEMLOCK, &r) || r.rlim_max > wanted ? wanted : r.rlim_max;
}

static int begin(struct script_exec *sx, const struct script *s, const struct script_setting *set, size_t nr_set, uint64_t *ret_arena,
		 uint64_t *ret_arena_len, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	bool lock_all = uses(&s->body, SOP_MLOCKALL);
	struct kagent_limits limits = {
		.may_lock = lock_all,
		.stack_bytes = 8ULL << 20,
		.timeout_ms = x->o.timeout_ms,
	};
	int rc;

	x->lock_all = lock_all;
	x->memlock = lock_all ? UINT64_MAX : memlock_limit(x->o.memlock_bytes);
	/* Whoever may lock all may bring all in with one call. */
	x->as_bytes = lock_all ? MIN(x->o.as_bytes, x->o.rss_bytes) : x->o.as_bytes;
	limits.as_bytes = x->as_bytes;
	limits.memlock_bytes = x->memlock;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (lock_all)
		return kernel_unsupported(err, errlen, "a program under a sanitizer cannot lock all of its memory");
#endif
	if (lock_all && prctl(PR_CAPBSET_READ, CAP_IPC_LOCK) != 1)
		return kernel_unsupported(err, errlen, "locking all memory needs CAP_IPC_LOCK here");
	memset(x->proc, 0, sizeof(x->proc));
	memset(x->slot_used, 0, sizeof(x->slot_used));
	for (size_t i = 0; i < nr_set; i++) {
		rc = kernel_settings_set(&x->settings, set[i].name, set[i].value, x->o.owned, err, errlen);
		if (rc)
			return rc;
	}
	rc = uses(&s->body, SOP_FILE_CREATE) ? kernel_open_files(x) : 0;
	if (rc) {
		snprintf(err, errlen, "no file in memory can be made: %s", strerror(-rc));
		return rc;
	}
	rc = kagents_start(&limits, x->o.heap, x->o.top, &x->k, err, errlen);
	if (rc)
		return rc;
	x->proc[0] = (struct kernel_proc){ .known = true, .pid = kagents_pid(x->k, 0) };
	x->slot_used[0] = true;
	if (x->o.owned) {
		rc = cpu_step(x, 0, 0);
		if (rc) {
			snprintf(err, errlen, "the first process does not answer: %s", strerror(-rc));
			return rc;
		}
	}
	warm_up(x, 0);
	kernel_drain(x);
	kernel_count_from_here(x, &x->proc[0]); /* forking made what is read into write-protected: not in the first step */
	*ret_arena = KERNEL_ARENA;
	*ret_arena_len = KERNEL_ARENA_LEN;
	return 0;
}

static void end(struct script_exec *sx)
{
	struct kernel_exec *x = kernel(sx);

	kagents_stop(x->k);
	x->k = NULL;
	kernel_drain_done(x);
	free(x->object);
	x->object = NULL;
	x->nr_objects = 0;
	x->dropped = 0;
	kernel_close_files(x);
	kernel_settings_restore(&x->settings);
}

static int mark(struct script_exec *x, char *err, size_t errlen)
{
	(void)x, (void)err, (void)errlen;
	return 0;
}

static int counter(struct script_exec *sx, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	const char *name = !strncmp(r->name, "vmstat.", 7) ? r->name + 7 : NULL;

	if (name && x->o.owned && !kproc_vmstat(&name, 1, ret))
		return 0;
	snprintf(err, errlen, "%s is not counted on the kernel's side", r->name);
	return -ENOENT;
}

const struct script_exec_ops script_kernel_ops = {
	.kind = "kernel",
	.begin = begin,
	.step = step,
	.observe = kernel_observe,
	.mark = mark,
	.counter = counter,
	.end = end,
};
