/*
 * What is seen of a script's process on the kernel's side: smaps for the areas, pagemap for the pages, mincore asked by the process itself,
 * contents read last, since that leaves traces (a page that is read counts as referenced).
 */
#include "script/kernel_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"

static struct kernel_exec *kernel(struct script_exec *x)
{
	return (struct kernel_exec *)(void *)x;
}

static const struct kernel_file *mapped_file(const struct kernel_exec *x, const struct kproc_area *a)
{
	for (unsigned i = 0; a->inode && i < x->nr_files; i++)
		if (x->file[i].inode == a->inode && x->file[i].number != SCRIPT_NONE)
			return &x->file[i];
	return NULL;
}

static void copy_area(const struct kernel_exec *x, struct script_area *to, const struct kproc_area *from)
{
	const struct kernel_file *f = mapped_file(x, from);

	to->prot = (uint8_t)((from->perms[0] == 'r' ? PROT_READ : 0) | (from->perms[1] == 'w' ? PROT_WRITE : 0) |
			     (from->perms[2] == 'x' ? PROT_EXEC : 0));
	to->shared = from->perms[3] == 's';
	to->file = f ? f->number : SCRIPT_NONE;
	to->off = f ? from->offset : 0;
	to->vmflags = from->vmflags;
	memcpy(to->smap, from->smap, sizeof(to->smap));
}

/* ---- pages ---- */

static int see_mincore(struct kernel_exec *x, unsigned slot, struct script_area *a)
{
	const uint8_t *vec = kagent_buffer(x->k, slot);
	uint64_t pages = (a->end - a->start) >> PAGE_SHIFT;
	int64_t r;
	int rc = 0;

	for (uint64_t at = 0; !rc && at < pages; at += KAGENT_BUF) {
		uint64_t n = MIN(pages - at, (uint64_t)KAGENT_BUF);
		const uint64_t args[6] = { a->start + (at << PAGE_SHIFT), n << PAGE_SHIFT, kagent_buffer_va(x->k, slot) };

		rc = kagent_syscall(x->k, slot, SYS_mincore, args, &r);
		for (uint64_t i = 0; !rc && !r && i < n; i++)
			if (vec[i] & 1)
				a->page[at + i] |= SPAGE_INCORE;
	}
	return rc;
}

/*
 * The first words of pages that are there, as a debugger reads them. (process_vm_readv would pin the pages, and what is shared after a fork is
 * copied before it is pinned.)
 */
static void see_contents(pid_t pid, struct script_area *a)
{
	uint64_t pages = (a->end - a->start) >> PAGE_SHIFT;
	char path[48];
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return;
	for (uint64_t i = 0; i < pages; i++)
		if ((a->page[i] & SPAGE_PRESENT) &&
		    pread(mem, &a->value[i], sizeof(uint64_t), (off_t)(a->start + (i << PAGE_SHIFT))) == sizeof(uint64_t))
			a->page[i] |= SPAGE_VALUE;
	close(mem);
}

/* Asked about from outside. -1: no page of a node's there. */
static int see_nodes(pid_t pid, struct script_area *a)
{
	uint64_t pages = (a->end - a->start) >> PAGE_SHIFT;
	void *page[512];
	int node[512];

	for (uint64_t at = 0; at < pages; at += ARRAY_SIZE(page)) {
		uint64_t n = MIN(pages - at, (uint64_t)ARRAY_SIZE(page));

		for (uint64_t i = 0; i < n; i++)
			page[i] = (void *)(uintptr_t)(a->start + ((at + i) << PAGE_SHIFT));
		if (syscall(SYS_move_pages, pid, n, page, NULL, node, 0))
			return -errno;
		for (uint64_t i = 0; i < n; i++)
			a->node[at + i] = (int8_t)(node[i] < 0 ? -1 : node[i]);
	}
	return 0;
}

static int see_pages(struct kernel_exec *x, struct kernel_proc *p, unsigned what, struct script_obs *o)
{
	struct kproc_pages pages;
	int rc = kproc_pages_open(p->pid, &pages);

	for (size_t i = 0; !rc && i < o->nr_areas; i++) {
		rc = kproc_read_pages(&pages, o->area[i].start, o->area[i].end, o->area[i].page);
		if (!rc)
			rc = see_mincore(x, p->slot, &o->area[i]);
		if (!rc && o->area[i].node)
			rc = see_nodes(p->pid, &o->area[i]);
	}
	kproc_pages_close(&pages);
	for (size_t i = 0; !rc && (what & SOBS_CONTENTS) && i < o->nr_areas; i++)
		see_contents(p->pid, &o->area[i]);
	if (what & SOBS_CONTENTS)
		kernel_drain(x);
	return rc;
}

/* ---- batches ---- */

#define DRAIN_BYTES (4ULL << 20)
#define MADV_COLLAPSE_ 25 /* Linux 6.1, for headers that are older */

/* MADV_COLLAPSE begins with emptying every CPU's batches; of a range without a whole huge page it does nothing else. */
void kernel_drain(struct kernel_exec *x)
{
	if (!x->drain) {
		x->drain = mmap(NULL, DRAIN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (x->drain != MAP_FAILED)
			*(volatile char *)x->drain = 1; /* memory without a page is refused */
	}
	if (x->drain == MAP_FAILED)
		return;
	if (madvise(x->drain, PAGE_SIZE, MADV_COLLAPSE_)) {
		munmap(x->drain, DRAIN_BYTES);
		x->drain = MAP_FAILED;
	}
}

void kernel_drain_done(struct kernel_exec *x)
{
	if (x->drain && x->drain != MAP_FAILED)
		munmap(x->drain, DRAIN_BYTES);
	x->drain = NULL;
}

/* ---- counters ---- */

const char *const script_kernel_counters[] = {
	"pgfault", "pgmajfault", "pgreuse", "pglazyfree", "thp_fault_alloc", "thp_fault_fallback", "thp_split_pmd", "thp_zero_page_alloc",
	"thp_deferred_split_page", "unevictable_pgs_mlocked", "unevictable_pgs_munlocked", NULL,
};
_Static_assert(ARRAY_SIZE(script_kernel_counters) <= KERNEL_COUNTERS, "there is room");

/*
 * What everybody has moved but this process, which is the only other one that does anything. Into memory that was there before: a fault between the two
 * looks would count in one of them only. -1: the kernel does not count it.
 */
static void read_all(struct kernel_exec *x, int64_t *ret)
{
	int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, x->vmstat_text, sizeof(x->vmstat_text) - 1);
	struct rusage own = { 0 };

	if (fd >= 0)
		close(fd);
	(void)getrusage(RUSAGE_SELF, &own);
	x->vmstat_text[MAX(n, 0)] = '\0';
	for (size_t i = 0; script_kernel_counters[i]; i++) {
		size_t len = strlen(script_kernel_counters[i]);
		const char *p = x->vmstat_text;

		while (p && (strncmp(p, script_kernel_counters[i], len) || p[len] != ' ')) {
			p = strchr(p, '\n');
			p = p ? p + 1 : NULL;
		}
		ret[i] = p ? strtoll(p + len + 1, NULL, 10) : -1;
	}
	x->own_faults = own.ru_minflt + own.ru_majflt;
	ret[0] -= own.ru_minflt + own.ru_majflt;
	ret[1] -= own.ru_majflt;
}

void kernel_count_to_here(struct kernel_exec *x)
{
	int64_t own = x->own_faults;

	if (!x->o.owned)
		return;
	read_all(x, x->after);
	/* A fault of our own (another thread's stack, say) may have been one of those. */
	x->reuse_unknown = x->own_faults != own;
}

void kernel_count_drained(struct kernel_exec *x)
{
	int64_t now[KERNEL_COUNTERS], own = x->own_faults;

	if (!x->o.owned)
		return;
	read_all(x, now);
	x->own_faults = own;
	for (size_t i = 0; script_kernel_counters[i]; i++)
		if (!strcmp(script_kernel_counters[i], "pglazyfree"))
			x->after[i] = now[i];
}

static int see_all_counters(struct kernel_exec *x, struct script_obs *o)
{
	o->vmstat = calloc(KERNEL_COUNTERS, sizeof(*o->vmstat));
	if (!o->vmstat)
		return -ENOMEM;
	for (size_t i = 0; script_kernel_counters[i]; i++)
		if (x->reuse_unknown && !strcmp(script_kernel_counters[i], "pgreuse"))
			o->vmstat[o->nr_vmstat++] = (struct script_counter_delta){ script_kernel_counters[i], SCRIPT_COUNTER_UNKNOWN };
		else if (x->after[i] != x->before[i])
			o->vmstat[o->nr_vmstat++] = (struct script_counter_delta){ script_kernel_counters[i], x->after[i] - x->before[i] };
	return 0;
}

void kernel_count_from_here(struct kernel_exec *x, struct kernel_proc *p)
{
	if (x->o.owned)
		read_all(x, x->before);
	(void)kproc_faults(p->pid, &p->minor, &p->major);
}

static int see_counters(struct kernel_exec *x, struct kernel_proc *p, struct script_obs *o)
{
	uint64_t minor, major;
	int rc = x->o.owned ? see_all_counters(x, o) : kproc_faults(p->pid, &minor, &major);

	if (rc || x->o.owned)
		return rc;
	o->vmstat = calloc(2, sizeof(*o->vmstat));
	if (!o->vmstat)
		return -ENOMEM;
	if (minor + major > p->minor + p->major)
		o->vmstat[o->nr_vmstat++] = (struct script_counter_delta){ "pgfault", (int64_t)(minor + major - p->minor - p->major) };
	if (major > p->major)
		o->vmstat[o->nr_vmstat++] = (struct script_counter_delta){ "pgmajfault", (int64_t)(major - p->major) };
	return 0;
}

/* ---- all of it ---- */

static uint64_t script_pages(const struct kernel_exec *x)
{
	uint64_t n = 0;

	for (size_t i = 0; i < x->areas.nr; i++)
		if (!kagents_own(x->k, x->areas.v[i].start, x->areas.v[i].end))
			n += (x->areas.v[i].end - x->areas.v[i].start) >> PAGE_SHIFT;
	return n;
}

int kernel_observe(struct script_exec *sx, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	struct kernel_proc *p = kernel_proc(x, proc);
	int rc = p ? 0 : -ESRCH;

	ret->proc = proc;
	if (!x->o.owned || !(what & SOBS_PAGES))
		what &= ~(unsigned)SOBS_NODES;
	if (!rc && (what & SOBS_VMSTAT)) /* first: looking costs nothing, but the process answers questions below */
		rc = see_counters(x, p, ret);
	if (!rc)
		rc = kproc_read_areas(p->pid, &x->areas);
	if (!rc && script_pages(x) > SCRIPT_OBS_MAX_PAGES)
		what &= ~(unsigned)(SOBS_PAGES | SOBS_CONTENTS | SOBS_NODES);
	for (size_t i = 0; !rc && i < x->areas.nr; i++) {
		const struct kproc_area *k = &x->areas.v[i];
		struct script_area *a;

		if (kagents_own(x->k, k->start, k->end))
			continue;
		a = script_obs_add(ret, k->start, k->end, what);
		if (a)
			copy_area(x, a, k);
		else
			rc = -ENOMEM;
	}
	if (!rc && (what & (SOBS_PAGES | SOBS_CONTENTS)))
		rc = see_pages(x, p, what, ret);
	ret->what = what;
	if (rc)
		snprintf(err, errlen, "the process on the kernel's side cannot be looked at: %s", strerror(-rc));
	return rc;
}
