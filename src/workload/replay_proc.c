/*
 * Processes of a recording, and the areas of a fresh image.
 *
 * A fresh image is laid out where Linux without address randomisation puts it: a position-independent executable at two
 * thirds of the address space, the heap behind it, the interpreter and everything mapped later top-down below the stack, the
 * stack at the top. Alignment and neighbourhood decide what becomes huge, so the emulator's own layout would mislead.
 */
#include "workload/replay_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIE_BASE 0x555555554000ULL
#define PIE_ABOVE 0x100000000ULL /* an executable recorded above 4 GiB was placed by the loader; below, by the linker */
#define STACK_INITIAL (132ULL << 10)
#define MAP_PRIVATE_ 0x02U
#define MAP_FIXED_ 0x10U
#define MAP_ANONYMOUS_ 0x20U
#define MAP_NORESERVE_ 0x4000U

struct process *process_new(struct cpu *c, struct replay *rp, struct mm *mm, uint64_t pid)
{
	struct process *p = calloc(1, sizeof(*p));

	(void)c;
	if (!p)
		return NULL;
	p->refs = 1;
	p->mm = mm;
	p->pid = pid;
	p->id = ++rp->next_proc_id;
	list_add_tail(&p->link, &rp->processes);
	rp->res->processes++;
	return p;
}

static uint64_t process_rss_bytes(const struct process *p)
{
	int64_t pages = 0;

	for (int k = 0; k < NR_RSS; k++)
		pages += mm_rss(p->mm, (enum rss_kind)k);
	return (uint64_t)pages * PAGE_SIZE;
}

void replay_account_memory(struct replay *rp)
{
	struct replay_result *r = rp->res;
	uint64_t rss = 0, anon = 0, huge = 0, tables = 0, used = 0;
	struct process *p;

	list_for_each_entry(p, &rp->processes, link) {
		if (!p->mm)
			continue;
		rss += process_rss_bytes(p);
		anon += (uint64_t)mm_rss(p->mm, RSS_ANON);
		huge += (uint64_t)__atomic_load_n(&p->mm->huge_mapped, __ATOMIC_RELAXED);
		tables += (uint64_t)__atomic_load_n(&p->mm->pgtables_bytes, __ATOMIC_RELAXED);
	}
	for (unsigned n = 0; n < rp->m->nr_nodes; n++)
		for (int z = 0; z < NR_ZONES; z++) {
			const struct zone *zn = &rp->q->nodes[n].zones[z];

			used += zn->managed - zn->free_pages;
		}
	if (rss > r->rss_peak_bytes) {
		r->rss_peak_bytes = rss;
		r->anon_peak_bytes = anon * PAGE_SIZE;
		r->anon_huge_peak_bytes = huge * PMD_SIZE;
	}
	r->memory_peak_bytes = MAX(r->memory_peak_bytes, used * PAGE_SIZE);
	r->pgtables_peak_bytes = MAX(r->pgtables_peak_bytes, tables);
}

void process_put(struct cpu *c, struct replay *rp, struct process *p)
{
	if (--p->refs)
		return;
	replay_account_memory(rp);
	if (p->mm) {
		if (p->first) /* an image that is replaced is overwritten by the next one's end */
			rp->res->rss_final_bytes = process_rss_bytes(p);
		/* The dying task leaves the address space first: a kernel task's context has none. */
		if (c->current && c->current->mm == p->mm) {
			c->current->mm = NULL;
			mm_activate(c, NULL);
		}
		mm_put(c, p->mm);
	}
	list_del(&p->link);
	reloc_done(&p->map);
	free(p);
	/* Only when nobody else can be in the middle of something. */
	if (rp->o->validate && rp->live <= 1 && !rp->error && quire_validate(rp->q))
		replay_fail(rp, -EINVAL, "invariant broken: %s", rp->q->err);
}

struct mfile *replay_file(struct cpu *c, struct replay *rp, uint64_t dev, uint64_t ino, uint64_t size, bool shmem)
{
	struct mfile *f;

	for (size_t i = 0; i < rp->nr_files; i++)
		if (rp->files[i].dev == dev && rp->files[i].ino == ino) {
			f = rp->files[i].file;
			if (size > f->size)
				file_set_size(c, f, size);
			file_get(f);
			return f;
		}
	if (rp->nr_files == rp->cap_files) {
		size_t cap = rp->cap_files ? rp->cap_files * 2 : 64;
		struct replay_file *n = realloc(rp->files, cap * sizeof(*n));

		if (!n)
			return NULL;
		rp->files = n;
		rp->cap_files = cap;
	}
	/* The identity is what file_tag derives contents from: the same in every run. */
	if (file_create(c, rp->q, (dev << 40) ^ ino, size, shmem, &f))
		return NULL;
	rp->files[rp->nr_files++] = (struct replay_file){ dev, ino, f };
	file_get(f);
	return f;
}

/* Map one area of a fresh image at `here`. */
static int map_area(struct cpu *c, struct replay_stream *s, uint64_t start, uint64_t len, unsigned prot, uint64_t here,
		    bool fixed, const uint64_t *pay)
{
	struct process *p = s->proc;
	struct mfile *f = NULL;
	unsigned flags = MAP_PRIVATE_ | (fixed ? MAP_FIXED_ : 0);
	int64_t at;

	if (pay[3] || pay[4]) {
		f = replay_file(c, s->rp, pay[3], pay[4], pay[6], false);
		if (!f)
			return -ENOMEM;
	} else {
		flags |= MAP_ANONYMOUS_;
	}
	at = mm_mmap(c, p->mm, here, len, prot, flags, f, f ? pay[5] & PAGE_MASK : 0);
	if (f)
		file_put(c, f);
	if (at < 0)
		return (int)at;
	return reloc_set(&p->map, start, len, (uint64_t)at);
}

/* Where an area of kind belongs. false: wherever mmap puts it. */
static bool area_place(const struct replay_stream *s, enum area_kind kind, uint64_t start, uint64_t *ret_here)
{
	if (s->rp->o->keep_addresses)
		*ret_here = start;
	else if (kind == AREA_EXE)
		*ret_here = start + s->proc->exe_delta;
	else if (kind == AREA_INTERP)
		*ret_here = start + s->proc->interp_delta;
	else
		return false;
	return true;
}

int replay_area(struct cpu *c, struct replay_stream *s, uint64_t w, const uint64_t *pay)
{
	enum area_kind kind = (enum area_kind)word_arg(w);
	uint64_t start = pay[0] & PAGE_MASK, end = ALIGN_UP(pay[0] + pay[1], PAGE_SIZE), here = 0;
	struct process *p = s->proc;

	if (end <= start || end > WORD_ADDR_MASK)
		return -EINVAL;
	if (kind == AREA_STACK) {
		uint64_t top = s->rp->o->keep_addresses ? end : TASK_SIZE - PAGE_SIZE;

		/* All of the recorded stack is translated; the area itself starts small and grows by faults. */
		return reloc_set(&p->map, start, end - start, top - (end - start));
	}
	if (kind == AREA_HEAP) {
		uint64_t brk = p->brk_start + (end - start);

		/* A refused break comes back as it was, not as an error. */
		if ((uint64_t)mm_brk(c, p->mm, brk) != brk)
			return -ENOMEM;
		p->rec_brk_start = start;
		p->rec_brk = end;
		return reloc_set(&p->map, start, end - start, p->brk_start);
	}
	bool fixed = area_place(s, kind, start, &here);

	return map_area(c, s, start, end - start, (unsigned)pay[2] & 7, here, fixed, pay);
}

/* The span of each object of a fresh image, as recorded. Linux starts the break at the executable's end. */
struct image_span {
	uint64_t exe_start, exe_end, interp_start, interp_end, stack_end;
};

static struct image_span image_span(const uint64_t *words, size_t nr, size_t pos)
{
	struct image_span sp = { .exe_start = ~0ULL, .interp_start = ~0ULL };

	for (; pos < nr; pos += 1 + word_payload(words[pos])) {
		uint64_t w = words[pos], start, end;

		if (word_type(w) != W_AREA)
			continue;
		start = words[pos + 1] & PAGE_MASK;
		end = ALIGN_UP(words[pos + 1] + words[pos + 2], PAGE_SIZE);
		if (word_arg(w) == AREA_EXE) {
			sp.exe_start = MIN(sp.exe_start, start);
			sp.exe_end = MAX(sp.exe_end, end);
		} else if (word_arg(w) == AREA_INTERP) {
			sp.interp_start = MIN(sp.interp_start, start);
			sp.interp_end = MAX(sp.interp_end, end);
		} else if (word_arg(w) == AREA_STACK) {
			sp.stack_end = end;
		}
	}
	return sp;
}

/* The interpreter goes where mmap puts an area of its whole span: reserve that, note the place, give it back. */
static int place_interp(struct cpu *c, struct process *p, const struct image_span *sp)
{
	uint64_t span = sp->interp_end - sp->interp_start;
	int64_t at;

	if (sp->interp_start == ~0ULL || span > (1ULL << 32))
		return 0;
	at = mm_mmap(c, p->mm, 0, span, 0, MAP_PRIVATE_ | MAP_ANONYMOUS_ | MAP_NORESERVE_, NULL, 0);
	if (at < 0)
		return (int)at;
	p->interp_delta = (uint64_t)at - sp->interp_start;
	return (int)mm_munmap(c, p->mm, (uint64_t)at, span);
}

/* A fresh address space for s, with its break and stack placed; the old image, if any, is gone afterwards. */
static int fresh_image(struct cpu *c, struct replay_stream *s, uint64_t rec_brk, const struct image_span *sp)
{
	struct replay *rp = s->rp;
	bool keep = rp->o->keep_addresses;
	struct process *old = s->proc, *p;
	struct mm *mm;
	int e = mm_create(c, rp->q, &mm);

	if (e)
		return e;
	p = process_new(c, rp, mm, s->pid);
	if (!p) {
		mm_put(c, mm);
		return -ENOMEM;
	}
	rp->res->images++;
	if (old && old->refs == 1)
		rp->res->processes--; /* the same process, a new image; a vfork child's only now gets its own */
	p->first = old ? old->first && old->refs == 1 : rp->res->images == 1;
	if (!keep && sp->exe_start != ~0ULL && sp->exe_start >= PIE_ABOVE)
		p->exe_delta = PIE_BASE - sp->exe_start;
	p->rec_brk_start = p->rec_brk = ALIGN_UP(rec_brk ? rec_brk : sp->exe_end, PAGE_SIZE);
	p->brk_start = keep ? p->rec_brk_start : sp->exe_end + p->exe_delta;
	s->proc = p;
	s->win.nr = 0;
	c->current->mm = mm;
	mm_activate(c, mm);
	if (old)
		process_put(c, rp, old);
	e = mm_setup_exec(c, mm, p->brk_start, keep && sp->stack_end ? sp->stack_end : TASK_SIZE - PAGE_SIZE, STACK_INITIAL);
	return e ? e : keep ? 0 : place_interp(c, p, sp);
}

int replay_exec(struct cpu *c, struct replay_stream *s, const uint64_t *words, size_t nr)
{
	size_t pos = 1 + word_payload(words[0]);
	struct image_span sp = image_span(words, nr, pos);
	int e = fresh_image(c, s, words[2], &sp);

	for (; !e && pos < nr; pos += 1 + word_payload(words[pos]))
		if (word_type(words[pos]) == W_AREA)
			e = replay_area(c, s, words[pos], words + pos + 1);
	return e;
}
