/*
 * Accesses through the current address space: single ones, runs, and scripted contents.
 *
 * A run does per-line work once a line; everything that its other accesses would do to counts and clock is added up. It gives the same counts
 * and times as so many single accesses, because a step is taken as one only when nothing can happen inside it (access_batch_ok).
 */
#include "machine/model/access.h"

#include "base/assert.h"

/* One access with its instructions; does not give way. The line of its last byte is the one that *ret_easy speaks of. */
static ATTR_ALWAYS_INLINE int access_one(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned size, unsigned flags,
					 unsigned insns, bool *ret_easy)
{
	vaddr_t last = (va + (size ? size - 1 : 0)) >> CACHE_LINE_SHIFT;
	vaddr_t line = va >> CACHE_LINE_SHIFT;
	int r;

	if (flags & ACCESS_USER)
		(void)path_set(c, cc, PATH_USER);
	if (likely(insns < 1U << 18))
		clock_insns(c, cc, insns);
	else
		clock_cross(c, cc, insns);
	if (flags & ACCESS_WRITE)
		cc->stats.stores++;
	else
		cc->stats.loads++;
	r = access_line(c, cc, va, flags, ret_easy);
	for (; unlikely(line < last) && !r; line++)
		r = access_line(c, cc, (line + 1) << CACHE_LINE_SHIFT, flags, ret_easy);
	return r;
}

int core_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags)
{
	bool easy;
	int r = access_one(c, core_of(c), va, size, flags, 1, &easy);

	sched_point(c);
	return r;
}

/* How many of the accesses after the one at va lie wholly in its line. */
static uint64_t followers(vaddr_t va, uint64_t stride, unsigned size)
{
	uint64_t at = va % CACHE_LINE;

	if (!size || at + size > CACHE_LINE || stride >= CACHE_LINE)
		return 0;
	return (CACHE_LINE - size - at) / stride;
}

/*
 * A simple loop keeps the core's issue slots full, as far as the core's other threads leave them; never slower than a program's usual
 * mix of instructions, whose rate is one thread's whatever the others do.
 */
static void loop_begin(struct core_cpu *cc)
{
	const struct machine_desc *d = &cc->md->desc;
	const struct core_phys *core = cc->phys;
	uint32_t busy = 0, ipc;

	if (!d->loop_ipc_milli || cc->usual_rate)
		return;
	for (unsigned i = 0; i < core->nr_threads; i++)
		busy += core->thread[i] && container_of(core->thread[i], struct model_cpu, core)->c.current;
	ipc = MAX(d->loop_ipc_milli / MAX(busy, 1U), d->ipc_milli);
	cc->usual_rate = cc->insn_rate;
	cc->insn_rate = cc->insn_rate * d->ipc_milli / ipc;
}

static void loop_end(struct core_cpu *cc)
{
	if (cc->usual_rate)
		cc->insn_rate = cc->usual_rate;
	cc->usual_rate = 0;
}

int core_access_run(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags, unsigned insns,
		    uint64_t *ret_done)
{
	struct core_cpu *cc = core_of(c);
	uint64_t done = 0, k;
	bool easy;
	int r = 0;

	ASSERT_DEBUG(stride);
	if (flags & ACCESS_LOOP)
		loop_begin(cc);
	flags &= ~(unsigned)ACCESS_LOOP;
	while (done < n) {
		r = access_one(c, cc, va, size, flags, insns, &easy);
		if (r)
			break;
		done++;
		va += stride;
		k = MIN(followers(va - stride, stride, size), n - done);
		if (easy && k && insns < 4096 && access_batch_ok(c, cc, k * insns, flags & ACCESS_WRITE ? k : 0)) {
			clock_raw(c, cc, k * insns);
			if (flags & ACCESS_WRITE) {
				cc->stats.stores += k;
				cc->st_seq += k;
			} else {
				cc->stats.loads += k;
			}
			done += k;
			va += k * stride;
		}
		sched_point(c);
	}
	loop_end(cc);
	*ret_done = done;
	return r;
}

/* The frame that the access just made went to. */
static pfn_t last_frame(const struct core_cpu *cc, vaddr_t va)
{
	return paddr_to_pfn((cc->page_value & PTE_ADDR_MASK) | (va & ~cc->page_mask));
}

int core_load_value(struct cpu *c, vaddr_t va, uint64_t *ret_value)
{
	struct core_cpu *cc = core_of(c);
	bool easy;
	int r = access_one(c, cc, va, 8, ACCESS_USER, 1, &easy);

	if (!r)
		*ret_value = c->m->tags ? c->m->tags[last_frame(cc, va).v] : 0;
	sched_point(c);
	return r;
}

int core_store_value(struct cpu *c, vaddr_t va, uint64_t value)
{
	struct core_cpu *cc = core_of(c);
	bool easy;
	int r = access_one(c, cc, va, 8, ACCESS_USER | ACCESS_WRITE, 1, &easy);

	if (!r && c->m->tags)
		c->m->tags[last_frame(cc, va).v] = value;
	sched_point(c);
	return r;
}
