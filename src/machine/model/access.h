/* One line, one access: the inline middle of the cost core, shared by access.c, replay.c and core.c. */
#ifndef QUIRE_MACHINE_MODEL_ACCESS_H
#define QUIRE_MACHINE_MODEL_ACCESS_H

#include "machine/model/clock.h"
#include "machine/model/walk.h"

/*
 * A physical line at t (when its address is known). L1 hits cost nothing beyond their instruction. Returns when the data is
 * there; *ret_flags: the line's state in L1, or NULL when it did not stay there.
 */
static ATTR_ALWAYS_INLINE uint64_t line_access(struct cpu *c, struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op,
					       uint8_t **ret_flags)
{
	struct cache_arr *a = &cc->phys->l1;
	struct cache_pos p = cache_pos(a, line);
	int way = cache_find(a, &p);
	uint64_t start, done;

	if (way >= 0) {
		uint8_t *flags = &cache_flags(a, p.set)[way];

		if (!mem_op_writes(op) || (*flags & LINE_W)) {
			cache_touch(a, p.set, (unsigned)way);
			if (mem_op_writes(op))
				*flags |= LINE_D;
			*ret_flags = flags;
			return t;
		}
	}
	start = mshr_wait(cc, t);
	if (start > t && !mem_op_writes(op))
		clock_stall(c, cc, start);
	done = cache_miss(cc, line, start, op, &p, way, ret_flags);
	mshr_take(cc, done);
	return done;
}

static ATTR_ALWAYS_INLINE uint64_t access_need(unsigned flags)
{
	return (flags & ACCESS_WRITE ? TLB_W | TLB_D : 0) | (flags & ACCESS_USER ? TLB_U : 0) |
	       (flags & ACCESS_EXEC ? TLB_X : 0);
}

/* A store of the program: the frame's content is 'not zero' from now on (design rule 10). */
static ATTR_ALWAYS_INLINE void access_tag(struct cpu *c, paddr_t pa, uint8_t *line_flags)
{
	if (line_flags) {
		if (likely(*line_flags & LINE_TAGGED))
			return;
		*line_flags |= LINE_TAGGED;
	}
	if (c->m->tags && !c->m->tags[pa >> PAGE_SHIFT])
		c->m->tags[pa >> PAGE_SHIFT] = ~0ULL;
}

/*
 * The part of an access that lies in va's line, at c's time. 0 or the fault's error. *ret_easy: directly after it, further accesses
 * of the same kind to the line change nothing but counts and the clock.
 */
static ATTR_ALWAYS_INLINE int access_line(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, bool *ret_easy)
{
	uint64_t need = access_need(flags), t, done;
	bool write = flags & ACCESS_WRITE;
	uint8_t *lf;
	paddr_t pa;

	if (write)
		store_count(c, cc);
	t = c->now_ps;
	if (((va ^ cc->page_va) & cc->page_mask) || (cc->page_value & need) != need) {
		int r = walk_user(c, cc, va, flags, &t);

		if (r)
			return r;
	}
	pa = (cc->page_value & PTE_ADDR_MASK) | (va & ~cc->page_mask);
	done = line_access(c, cc, pa >> CACHE_LINE_SHIFT, t, write ? MEM_STORE : MEM_LOAD, &lf);
	if (write) {
		access_tag(c, pa, lf);
		if (done > c->now_ps)
			store_push(c, cc, done);
		*ret_easy = lf != NULL;
	} else {
		if (done > c->now_ps)
			window_push(c, cc, done);
		*ret_easy = lf != NULL;
	}
	return 0;
}

/* May n_insns instructions with n_stores stores pass as one step, without a stall and without anybody else's turn? */
static ATTR_ALWAYS_INLINE bool access_batch_ok(const struct cpu *c, const struct core_cpu *cc, uint64_t n_insns, uint64_t n_stores)
{
	return cc->insn + n_insns < cc->stall_insn && cc->st_seq + n_stores < cc->st_stall &&
	       c->now_ps + ((cc->frac + n_insns * cc->insn_rate) >> 32) <= c->run_until_ps;
}

#endif
