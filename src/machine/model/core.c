/*
 * The cost core: charges for instructions, events, data lines, clearing and copying; the clock (clock.h); set-up.
 *
 * Between any two charges the scheduler may let other CPUs run (sched_point), never in the middle of one.
 *
 * core_init needs of the machine: desc, opt, nodes, nr_cpus, cpus, max_pfn, direct, tags.
 */
#include "base/assert.h"
#include "machine/model/access.h"
#include "machine/model/clock.h"
#include "machine/model/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * What `rep stos` and `rep movs` execute for a line of 64 bytes with fast strings: 32 bytes a cycle and direction. Clearing and
 * copying are bound by lines moving through the caches, which is priced apart.
 */
#define CLEAR_INSNS_PER_LINE 2U
#define COPY_INSNS_PER_LINE 4U
#define INSNS_AT_ONCE (1ULL << 18)

void clock_cross(struct cpu *c, struct core_cpu *cc, uint64_t n)
{
	for (uint64_t k; n; n -= k) {
		k = MIN(n, INSNS_AT_ONCE);
		clock_insns(c, cc, k);
	}
}

void core_drain(struct cpu *c)
{
	struct core_cpu *cc = core_of(c);

	if (cc->win_head != cc->win_tail)
		clock_stall(c, cc, cc->win_done[(cc->win_tail - 1) % CORE_WINDOW_RING]);
	if (cc->st_head != cc->st_tail) {
		/* The wait is for those who stored by the page, not for whoever comes to a locked instruction next. */
		enum machine_path was = cc->bulk_path == PATH_USER ? cc->path : path_set(c, cc, cc->bulk_path);

		clock_stall(c, cc, cc->st_done[(cc->st_tail - 1) % CORE_STORES_MAX]);
		(void)path_set(c, cc, was);
	}
	cc->bulk_path = PATH_USER;
	cc->win_head = cc->win_tail;
	cc->st_head = cc->st_tail;
	cc->stall_insn = cc->st_stall = CORE_NEVER;
	mshr_expire(cc, c->now_ps);
}

void path_book(struct cpu *c, struct core_cpu *cc)
{
	struct model *md = model_of(c);
	uint64_t ps = cc->run_ps - cc->path_since;

	if (cc->path == PATH_USER)
		cc->stats.user_ps += ps;
	else
		cc->stats.kernel_ps += ps;
	if (md->opt.profile) {
		md->path[cc->path].ps += ps;
		md->path[cc->path].insns += cc->insn - cc->path_insns;
	}
	cc->path_since = cc->run_ps;
	cc->path_insns = cc->insn;
}

void core_charge(struct cpu *c, uint64_t ps, enum machine_path path)
{
	struct core_cpu *cc = core_of(c);
	enum machine_path was = path_set(c, cc, path);

	clock_ps(c, cc, ps);
	(void)path_set(c, cc, was);
}

/* Units of PATH_USER are instructions of the program itself (those between its references). */
enum machine_path core_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	struct core_cpu *cc = core_of(c);
	enum machine_path was = path_set(c, cc, path);

	if (units) {
		uint64_t n = path == PATH_USER ? units : units * machine_work_table[path];

		if (model_of(c)->opt.profile)
			model_of(c)->path[path].units += units;
		if (unlikely(path == PATH_STRING_START))
			clock_ps(c, cc, units * model_of(c)->desc.cost.string_start_ps);
		if (likely(n < INSNS_AT_ONCE))
			clock_insns(c, cc, n);
		else
			clock_cross(c, cc, n);
		sched_point(c);
	}
	return was;
}

static uint64_t entry_ps(const struct machine_desc *d, enum machine_entry e)
{
	return e == ENTRY_SYSCALL ? d->cost.syscall_ps : e == ENTRY_EXCEPTION ? d->cost.exception_ps : d->cost.irq_ps;
}

static enum machine_path entry_path(enum machine_entry e)
{
	return e == ENTRY_SYSCALL ? PATH_SYSCALL : e == ENTRY_EXCEPTION ? PATH_EXCEPTION : PATH_IPI;
}

/*
 * The price covers entry and exit and is charged at entry. A system call comes from user mode and returns there; the others return
 * to what they interrupted, which a short stack remembers: nothing blocks between their entry and their exit.
 */
void core_enter(struct cpu *c, enum machine_entry e)
{
	struct core_cpu *cc = core_of(c);

	core_drain(c);
	if (e != ENTRY_SYSCALL) {
		ASSERT(cc->entry_depth < CORE_ENTRY_DEPTH);
		cc->entry_path[cc->entry_depth++] = cc->path;
	}
	(void)path_set(c, cc, entry_path(e));
	clock_ps(c, cc, entry_ps(&model_of(c)->desc, e));
}

void core_leave(struct cpu *c, enum machine_entry e)
{
	struct core_cpu *cc = core_of(c);

	if (e == ENTRY_SYSCALL) {
		(void)path_set(c, cc, PATH_USER);
	} else {
		ASSERT(cc->entry_depth);
		(void)path_set(c, cc, cc->entry_path[--cc->entry_depth]);
	}
	sched_point(c);
}

/* ---- data lines ---- */

/* One line of kernel data, translated by the direct map. Returns when it is there. */
static uint64_t touch_line(struct cpu *c, struct core_cpu *cc, uint64_t line, enum mem_op op)
{
	uint8_t *flags;
	uint64_t done;

	if (mem_op_writes(op))
		store_count(c, cc);
	done = line_access(c, cc, line, walk_kernel(c, cc, line << CACHE_LINE_SHIFT), op, &flags);
	if (mem_op_writes(op)) {
		if (flags)
			*flags &= (uint8_t)~LINE_TAGGED;
		store_push(c, cc, done);
	} else {
		window_push(c, cc, done);
	}
	return done;
}

void core_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind)
{
	struct core_cpu *cc = core_of(c);
	uint64_t line = pa >> CACHE_LINE_SHIFT, last = (pa + (len ? len - 1 : 0)) >> CACHE_LINE_SHIFT;

	ASSERT_DEBUG(last < model_of(c)->core.nr_lines);
	for (; line <= last; line++) {
		cc->stats.kernel_touches++;
		if (kind != TOUCH_ATOMIC) {
			(void)touch_line(c, cc, line, kind == TOUCH_WRITE ? MEM_STORE : MEM_LOAD);
			continue;
		}
		core_drain(c);
		clock_stall(c, cc, touch_line(c, cc, line, MEM_STORE));
		core_drain(c);
		clock_ps(c, cc, model_of(c)->desc.cost.atomic_ps);
	}
	sched_point(c);
}

static void set_tag(struct cpu *c, pfn_t p, uint64_t tag)
{
	if (c->m->tags)
		c->m->tags[p.v] = tag;
}

static enum mem_op full_line_store(struct cpu *c)
{
	return model_of(c)->desc.full_line_store_reads ? MEM_STORE : MEM_STORE_FULL;
}

int core_clear_page(struct cpu *c, pfn_t p)
{
	struct core_cpu *cc = core_of(c);
	enum machine_path was = path_set(c, cc, PATH_CLEAR_PAGE);
	enum mem_op op = full_line_store(c);
	uint64_t line = pfn_to_paddr(p) >> CACHE_LINE_SHIFT;

	ASSERT(p.v < c->m->max_pfn);
	for (unsigned i = 0; i < PAGE_SIZE / CACHE_LINE; i++) {
		clock_insns(c, cc, CLEAR_INSNS_PER_LINE);
		(void)touch_line(c, cc, line + i, op);
	}
	set_tag(c, p, 0);
	cc->stats.bytes_cleared += PAGE_SIZE;
	if (model_of(c)->opt.profile)
		model_of(c)->path[PATH_CLEAR_PAGE].units++;
	cc->bulk_path = PATH_CLEAR_PAGE;
	(void)path_set(c, cc, was);
	sched_point(c);
	return 0;
}

int core_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	struct core_cpu *cc = core_of(c);
	enum machine_path was = path_set(c, cc, PATH_COPY_PAGE);
	enum mem_op op = full_line_store(c);
	uint64_t from = pfn_to_paddr(src) >> CACHE_LINE_SHIFT, to = pfn_to_paddr(dst) >> CACHE_LINE_SHIFT;

	ASSERT(dst.v < c->m->max_pfn && src.v < c->m->max_pfn);
	for (unsigned i = 0; i < PAGE_SIZE / CACHE_LINE; i++) {
		clock_insns(c, cc, COPY_INSNS_PER_LINE);
		(void)touch_line(c, cc, from + i, MEM_LOAD);
		(void)touch_line(c, cc, to + i, op);
	}
	if (c->m->tags)
		set_tag(c, dst, c->m->tags[src.v]);
	cc->stats.bytes_copied += PAGE_SIZE;
	if (model_of(c)->opt.profile)
		model_of(c)->path[PATH_COPY_PAGE].units++;
	cc->bulk_path = PATH_COPY_PAGE;
	(void)path_set(c, cc, was);
	sched_point(c);
	return 0;
}

/* ---- set-up ---- */

static int refuse(char *err, size_t errlen, const struct machine_desc *d, const char *what, int r)
{
	snprintf(err, errlen, "%s: %s", d->name, what);
	return r;
}

static int check(const struct machine_desc *d, char *err, size_t errlen)
{
	if (!d->mshrs || d->mshrs > CORE_MSHRS_MAX)
		return refuse(err, errlen, d, "mshrs: 1 to 64", -EINVAL);
	if (!d->store_buffer || d->store_buffer > CORE_STORES_MAX)
		return refuse(err, errlen, d, "store_buffer: 1 to 128", -EINVAL);
	if (!d->walkers || d->walkers > CORE_WALKERS_MAX)
		return refuse(err, errlen, d, "walkers: 1 to 8", -EINVAL);
	if (!d->window_insns || !d->freq_khz || !d->ipc_milli)
		return refuse(err, errlen, d, "window_insns, frequency and ipc must not be 0", -EINVAL);
	if (d->cores_per_socket > CORE_SET_MAX)
		return refuse(err, errlen, d, "at most 128 cores a socket", -EINVAL);
	if (d->threads_per_core > CORE_THREADS_MAX)
		return refuse(err, errlen, d, "at most 8 threads a core", -EINVAL);
	return 0;
}

/* Picoseconds an instruction in 2^-32 ps: 10^12 / (freq_khz * 1000 * ipc_milli / 1000), rounded. */
static uint64_t insn_rate(const struct machine_desc *d)
{
	unsigned __int128 per_s = (unsigned __int128)d->freq_khz * d->ipc_milli;

	return (uint64_t)((((unsigned __int128)1000000000000ULL << 32) + per_s / 2) / per_s);
}

static void init_cpu(struct model *md, struct cpu *c)
{
	struct core_shared *sh = &md->core;
	struct core_cpu *cc = core_of(c);
	uint32_t per_socket = sh->cores_per_socket * sh->threads_per_core;
	uint32_t socket = c->id / per_socket, in = c->id % per_socket;
	uint32_t index = in % sh->cores_per_socket, thread = in / sh->cores_per_socket;
	struct core_phys *core = &sh->phys[socket * sh->cores_per_socket + index];

	core->socket = socket;
	core->index = index;
	core->thread[thread] = cc;
	core->nr_threads = sh->threads_per_core;
	cc->phys = core;
	cc->md = md;
	cc->insn_rate = insn_rate(&md->desc);
	cc->window = md->desc.window_insns;
	cc->mshrs = md->desc.mshrs;
	cc->store_buffer = md->desc.store_buffer;
	cc->nr_walkers = md->desc.walkers;
	cc->stall_insn = cc->st_stall = CORE_NEVER;
	cc->tag = thread << TLB_CTX_BITS;
	cc->kernel_tag = cc->tag | TLB_CTX_KERNEL;
	cc->path = PATH_USER;
	cc->page_va = cc->page_mask = ~0ULL;
}

static int init_map(struct model *md)
{
	struct core_shared *sh = &md->core;
	uint64_t sections = ALIGN_UP(md->m.max_pfn, SECTION_FRAMES) / SECTION_FRAMES;

	sh->nr_lines = md->m.max_pfn << (PAGE_SHIFT - CACHE_LINE_SHIFT);
	sh->ever = calloc((sh->nr_lines >> 10) + 1, 1);
	sh->node_of_section = calloc(sections + 1, 1);
	if (!sh->ever || !sh->node_of_section)
		return -ENOMEM;
	for (unsigned n = 0; n < md->m.nr_nodes; n++)
		for (uint64_t s = md->m.nodes[n].start_pfn / SECTION_FRAMES;
		     s * SECTION_FRAMES < md->m.nodes[n].end_pfn; s++)
			sh->node_of_section[s] = (uint8_t)n;
	return 0;
}

int core_init(struct model *md, char *err, size_t errlen)
{
	struct core_shared *sh = &md->core;
	const struct machine_desc *d = &md->desc;
	int r = check(d, err, errlen);

	if (r)
		return r;
	sh->nr_sockets = d->sockets;
	sh->cores_per_socket = d->cores_per_socket;
	sh->threads_per_core = d->threads_per_core;
	sh->nr_cores = d->sockets * d->cores_per_socket;
	sh->kernel_1g = d->dtlb.entries_1g != 0;
	sh->phys = calloc(sh->nr_cores, sizeof(*sh->phys));
	if (!sh->phys || init_map(md)) {
		r = refuse(err, errlen, d, "out of memory", -ENOMEM);
		goto fail;
	}
	for (unsigned i = 0; i < md->m.nr_cpus; i++)
		init_cpu(md, md->m.cpus[i]);
	for (unsigned i = 0; i < sh->nr_cores && !r; i++)
		r = tlb_init(&sh->phys[i].tlb, d);
	if (r) {
		refuse(err, errlen, d, r == -ENOMEM ? "out of memory" : "tlb: ways must divide entries, at most 64 ways", r);
		goto fail;
	}
	r = dram_init(md, err, errlen);
	if (!r)
		r = cache_init(md, err, errlen);
	if (!r)
		return 0;
fail:
	core_done(md);
	return r;
}

void core_done(struct model *md)
{
	struct core_shared *sh = &md->core;

	cache_done(md);
	dram_done(md);
	for (unsigned i = 0; sh->phys && i < sh->nr_cores; i++)
		tlb_done(&sh->phys[i].tlb);
	free(sh->phys);
	free(sh->ever);
	free(sh->node_of_section);
	*sh = (struct core_shared){ 0 };
}
