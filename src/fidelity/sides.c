/*
 * What both sides have in common before the first step: the kernel's settings are read and given to the engine, the engine's limits are those
 * of the kernel's processes, and the kernel's side is laid out as the engine's.
 */
#include "fidelity/sides.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/assert.h"
#include "machine/run.h"
#include "mm/mm.h"
#include "script/engine.h"
#include "script/kernel.h"
#include "script/kernel_proc.h"

#define DEFAULT_TOP 0x7ffff7fff000ULL
/* The kernel's side begins as a copy of this process, whose own heap is where the engine's would be: it gets one elsewhere. */
#define KERNEL_HEAP 0x380000000000ULL
#define HEAP_ALIGN (1ULL << 30)

/* Settings that decide what memory calls do, as far as a program can see it. */
static const char *const shared_settings[] = {
	"transparent_hugepage.enabled",
	"transparent_hugepage.defrag",
	"transparent_hugepage.use_zero_page",
	"transparent_hugepage.khugepaged.defrag",
	"transparent_hugepage.khugepaged.max_ptes_none",
	"transparent_hugepage.khugepaged.max_ptes_shared",
	"transparent_hugepage.khugepaged.max_ptes_swap",
	"transparent_hugepage.khugepaged.pages_to_scan",
	"transparent_hugepage.khugepaged.scan_sleep_millisecs",
	"transparent_hugepage.khugepaged.alloc_sleep_millisecs",
	"bdi.read_ahead_kb",
	"vm.max_map_count",
	"vm.mmap_min_addr",
	"vm.overcommit_memory",
	"vm.overcommit_ratio",
};

/* The switch for 2 MiB pages alone (since 6.8) decides, where it doesn't refer to the general one. */
static void pmd_size_switch(char *value, size_t len)
{
	char own[32];

	if (!kproc_setting("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", own, sizeof(own)) && strcmp(own, "inherit"))
		snprintf(value, len, "%s", own);
}

/* Is there a kernel thread of DAMON's? */
static bool damon_works(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	bool found = false;
	char path[300], name[32];

	while (d && !found && (e = readdir(d))) {
		if (*e->d_name < '0' || *e->d_name > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		found = !kproc_setting(path, name, sizeof(name)) && !strncmp(name, "kdamond.", 8);
	}
	if (d)
		closedir(d);
	return found;
}

static bool lru_generations(void)
{
	char value[32];

	return !kproc_setting("/sys/kernel/mm/lru_gen/enabled", value, sizeof(value)) && strtoul(value, NULL, 0);
}

/*
 * Does a read of untouched memory map the shared page of zeroes? Linux forbids that to some address spaces, and some computers run
 * kernels that never do it: it shows in pagemap, where such a page is the process's alone.
 */
static bool zero_page_used(const struct kproc_pages *pages)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t is = 0;

	if (p == MAP_FAILED)
		return true;
	(void)*(volatile char *)p;
	if (kproc_read_pages(pages, (uintptr_t)p, (uintptr_t)p + len, &is))
		is = 0;
	munmap(p, len);
	return !(is & SPAGE_EXCL);
}

int fidelity_kernel_read(struct fidelity_kernel *k, char *err, size_t errlen)
{
	unsigned major = 0, minor = 0;
	struct kproc_pages pages;
	struct utsname u;
	char value[64], why[200];
	int rc;

	memset(k, 0, sizeof(*k));
	knobs_default(&k->knobs);
#if defined(__SANITIZE_THREAD__)
	/* Its handler of signals needs memory of its own that the processes standing for a script's do not have. */
	snprintf(err, errlen, "a program under ThreadSanitizer cannot catch the faults of a script's processes");
	return -EOPNOTSUPP;
#endif
	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
		snprintf(err, errlen, "the kernel underneath does not tell its version");
		return -EOPNOTSUPP;
	}
	snprintf(k->release, sizeof(k->release), "%.60s", u.release);
	k->version = major * 1000 + minor;
	k->knobs.thp_align_mmap = k->version >= 6007;
	k->knobs.huge_zero_cow = k->version >= 6013 ? HUGE_ZERO_COW_HUGE : HUGE_ZERO_COW_SPLIT;
	k->knobs.merge_untouched = k->version >= 6016;
	k->knobs.readahead_resumes = k->version < 6011;
	k->knobs.readahead_folios = script_kernel_file_folios(k->version);
	k->knobs.write_begins_first = k->version >= 6016;
	k->knobs.mremap_judges_first = k->version >= 6017;
	k->knobs.mremap_several = k->version >= 6017;
	k->knobs.exec_read_forward = k->version >= 6016;
	k->knobs.pt_reclaim = k->version >= 6014;
	for (size_t i = 0; i < ARRAY_SIZE(shared_settings); i++) {
		const char *name = shared_settings[i];

		if (!knob_find(name) || script_kernel_setting(name, value, sizeof(value)))
			continue;
		if (!strcmp(name, "transparent_hugepage.enabled")) {
			pmd_size_switch(value, sizeof(value));
			snprintf(k->thp, sizeof(k->thp), "transparent huge pages: %s", value);
		}
		if (knob_set(&k->knobs, name, value, why, sizeof(why))) {
			snprintf(err, errlen, "%s is %s in the kernel underneath, which the engine does not have: %s", name, value, why);
			return -EOPNOTSUPP;
		}
	}
	if (!*k->thp) {
		snprintf(k->thp, sizeof(k->thp), "no transparent huge pages");
		k->knobs.thp_enabled = THP_NEVER;
	}
	rc = kproc_pages_open(getpid(), &pages);
	if (rc) {
		snprintf(err, errlen, "/proc/%d/pagemap cannot be read: %s", (int)getpid(), strerror(-rc));
		return -EOPNOTSUPP;
	}
	k->pagemap_scan = pages.scan;
	k->knobs.zero_page = zero_page_used(&pages);
	k->gigantic = !access("/sys/kernel/mm/hugepages/hugepages-1048576kB", F_OK);
	k->watched = damon_works();
	k->generations = lru_generations();
	kproc_pages_close(&pages);
	return 0;
}

/* ---- the wrapper ---- */

static struct fidelity_side *side(struct script_exec *x)
{
	return (struct fidelity_side *)(void *)x;
}

static int begin(struct script_exec *x, const struct script *s, const struct script_setting *set, size_t nr_set, uint64_t *ret_arena,
		 uint64_t *ret_arena_len, char *err, size_t errlen)
{
	struct fidelity_places *p = &side(x)->places;
	int rc = side(x)->inner_ops->begin(side(x)->inner, s, set, nr_set, &p->arena, &p->arena_len, err, errlen);

	*ret_arena = p->arena;
	*ret_arena_len = p->arena_len;
	return rc;
}

static int step(struct script_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	return side(x)->inner_ops->step(side(x)->inner, c, ret, err, errlen);
}

static int observe(struct script_exec *x, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen)
{
	return side(x)->inner_ops->observe(side(x)->inner, proc, what, ret, err, errlen);
}

static int mark(struct script_exec *x, char *err, size_t errlen)
{
	return side(x)->inner_ops->mark(side(x)->inner, err, errlen);
}

static int counter(struct script_exec *x, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	return side(x)->inner_ops->counter(side(x)->inner, r, ret, err, errlen);
}

static void end(struct script_exec *x)
{
	side(x)->inner_ops->end(side(x)->inner);
}

static void wrap(struct fidelity_side *s, const struct script_exec_ops *ops, struct script_exec *inner)
{
	s->inner_ops = ops;
	s->inner = inner;
	s->ops = (struct script_exec_ops){ .kind = ops->kind, .begin = begin, .step = step, .observe = observe, .mark = mark, .counter = counter,
					   .end = end };
}

/* ---- both ---- */

int fidelity_sides_create(const struct fidelity_options *o, bool engine, struct fidelity_sides *ret, char *err, size_t errlen)
{
	const struct script_kernel_options k = { .owned = o->owned };
	const struct script_engine_options e = { .machine = o->machine, .knobs = &o->kernel->knobs };
	struct script_exec *inner = NULL;
	int rc;

	memset(ret, 0, sizeof(*ret));
	rc = script_kernel_create(&k, &inner);
	if (!rc)
		wrap(&ret->kernel, &script_kernel_ops, inner);
	if (!rc && engine) {
		inner = NULL;
		rc = script_engine_create(&e, &inner);
		if (!rc)
			wrap(&ret->engine, &script_engine_ops, inner);
	}
	if (rc) {
		snprintf(err, errlen, "out of memory");
		fidelity_sides_destroy(ret);
	}
	return rc;
}

/*
 * The engine's process has a stack of its own, as one that ran a program would. It is not the script's, which would lock it with all its memory and be
 * charged for it: gone with it.
 */
static void drop_stack(struct mm *mm)
{
	struct cpu *c = machine_boot_cpu(mm->q->m);

	for (struct vma *v = vma_first(mm); v; v = vma_next(v))
		if (v->flags & VM_STACK) {
			int64_t rc = mm_munmap(c, mm, v->start, v->end - v->start);

			ASSERT(!rc);
			return;
		}
}

/* The first address space of the run. */
static struct mm *first_mm(struct fidelity_side *e)
{
	return list_first_entry(&script_engine_quire(e->inner)->mms, struct mm, link);
}

static int begin_side(struct fidelity_side *s, const struct script *script, const struct fidelity_options *o, char *err, size_t errlen)
{
	const struct script_run_options ro = {
		.ops = &s->ops, .exec = (struct script_exec *)(void *)s, .keep_going = true, .no_expect = true, .max_steps = o->max_steps,
	};

	return script_run_begin(script, &ro, &s->run, err, errlen);
}

int fidelity_sides_begin(struct fidelity_sides *both, const struct script *s, const struct fidelity_options *o, char *err, size_t errlen)
{
	struct script_kernel_layout l;
	struct mm *mm = NULL;
	int rc = 0;

	if (both->engine.inner) {
		rc = begin_side(&both->engine, s, o, err, errlen);
		if (rc)
			return rc;
		mm = first_mm(&both->engine);
		both->engine.places.top = mm->mmap_base ? mm->mmap_base : DEFAULT_TOP;
		both->engine.places.heap = mm->start_brk;
		drop_stack(mm);
	} else {
		both->engine.places = (struct fidelity_places){ .top = DEFAULT_TOP, .heap = 0x555555800000ULL };
	}
	script_kernel_place(both->kernel.inner, both->engine.places.top, KERNEL_HEAP + (both->engine.places.heap & (HEAP_ALIGN - 1)));
	rc = begin_side(&both->kernel, s, o, err, errlen);
	if (rc)
		return rc;
	l = script_kernel_layout(both->kernel.inner);
	both->kernel.places.top = l.top;
	both->kernel.places.heap = l.heap;
	if (mm) {
		mm->as_rlimit = l.as_bytes;
		mm->memlock_rlimit = l.memlock_bytes;
	}
	return 0;
}

void fidelity_sides_end(struct fidelity_sides *both)
{
	script_run_end(both->kernel.run);
	script_run_end(both->engine.run);
	both->kernel.run = both->engine.run = NULL;
}

void fidelity_sides_destroy(struct fidelity_sides *both)
{
	script_kernel_destroy(both->kernel.inner);
	script_engine_destroy(both->engine.inner);
	memset(both, 0, sizeof(*both));
}
