/*
 * Memory policies (mempolicy.h): making and comparing them, where an allocation goes, and the calls that set and ask them.
 *
 * BIND gives the allocator a set of nodes that it does not leave. PREFERRED, PREFERRED_MANY and interleaving only choose where it begins.
 * An area interleaves by page offset, a task in turn. docs/mempolicy.md says what differs from Linux. Charged as PATH_VMA_FIND, whose
 * steps are about as long.
 */
#include "mm/mempolicy.h"

#include "mm/fault_int.h"
#include "mm/follow.h"
#include "mm/vma_int.h"

static const struct mempolicy *policy(const struct quire *q, unsigned id)
{
	return &q->mpol.pol[id - 1];
}

static unsigned vma_mpol(const struct vma *v)
{
	return (unsigned)(v->flags >> VM_MPOL_SHIFT);
}

uint64_t mpol_mems_allowed(const struct quire *q)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		if (q->m->nodes[i].end_pfn > q->m->nodes[i].start_pfn)
			mask |= 1ULL << i;
	return mask;
}

int mpol_set_weight(struct quire *q, int nid, unsigned weight)
{
	if (nid < 0 || (unsigned)nid >= q->m->nr_nodes || weight > 255)
		return -EINVAL;
	__atomic_store_n(&q->mpol.weight[nid], (uint8_t)weight, __ATOMIC_RELAXED);
	return 0;
}

/* The n-th node of the set, n below their number. */
int mpol_nth_node(uint64_t nodes, uint64_t n)
{
	while (n--)
		nodes &= nodes - 1;
	return __builtin_ctzll(nodes);
}

/* The nearest of the set. */
static int nearest(const struct quire *q, int nid, uint64_t nodes)
{
	const struct node *home = &q->nodes[nid];

	for (unsigned i = 0; i < home->nr_fallback; i++)
		if (nodes >> home->fallback[i] & 1)
			return home->fallback[i];
	return nid;
}

static unsigned weight_of(const struct quire *q, const struct mempolicy *p, int nid)
{
	unsigned w = p->mode == MPOL_WEIGHTED_INTERLEAVE ? __atomic_load_n(&q->mpol.weight[nid], __ATOMIC_RELAXED) : 1;

	return w ? w : 1;
}

static int interleave_at(const struct quire *q, const struct mempolicy *p, uint64_t index)
{
	uint64_t total = 0, n = bits_set(p->nodes);

	if (p->mode == MPOL_INTERLEAVE)
		return mpol_nth_node(p->nodes, index % n);
	for (uint64_t i = 0; i < n; i++)
		total += weight_of(q, p, mpol_nth_node(p->nodes, i));
	index %= total;
	for (uint64_t i = 0; i < n; i++) {
		unsigned w = weight_of(q, p, mpol_nth_node(p->nodes, i));

		if (index < w)
			return mpol_nth_node(p->nodes, i);
		index -= w;
	}
	return __builtin_ctzll(p->nodes);
}

static bool interleaves(const struct mempolicy *p)
{
	return p->mode == MPOL_INTERLEAVE || p->mode == MPOL_WEIGHTED_INTERLEAVE;
}

static struct frame *alloc_by(struct cpu *c, const struct mempolicy *p, uint64_t index, unsigned order, unsigned gfp)
{
	struct alloc_req r = { .order = order, .gfp = gfp, .nid = NID_NONE };
	enum machine_path outer = machine_work(c, PATH_VMA_FIND, 1);
	struct frame *f;

	machine_path(c, outer);
	if (interleaves(p)) {
		r.nid = interleave_at(c->q, p, index);
	} else if (p->mode == MPOL_PREFERRED) {
		r.nid = __builtin_ctzll(p->nodes);
	} else if (p->mode == MPOL_BIND || p->mode == MPOL_PREFERRED_MANY) {
		r.nid = nearest(c->q, c->nid, p->nodes);
		r.nodes = p->nodes;
	}
	if (p->mode != MPOL_PREFERRED_MANY)
		return page_alloc(c, &r);
	r.gfp = (gfp | GFP_NOWARN) & ~GFP_DIRECT_RECLAIM;
	f = page_alloc(c, &r);
	r.gfp = gfp;
	r.nodes = 0;
	return f ? f : page_alloc(c, &r);
}

struct frame *mpol_alloc_task(struct cpu *c, struct mm *mm, unsigned order, unsigned gfp)
{
	unsigned id = mm ? __atomic_load_n(&mm->mpol, __ATOMIC_ACQUIRE) : 0;
	struct alloc_req r = { .order = order, .gfp = gfp, .nid = NID_NONE };
	uint64_t index = 0;

	if (likely(!id))
		return page_alloc(c, &r);
	if (interleaves(policy(c->q, id)))
		index = __atomic_fetch_add(&mm->mpol_next, 1, __ATOMIC_RELAXED);
	return alloc_by(c, policy(c->q, id), index, order, gfp);
}

struct frame *mpol_alloc_vma(struct cpu *c, const struct vma *v, vaddr_t va, unsigned order, unsigned gfp)
{
	unsigned id = vma_mpol(v);

	if (likely(!id))
		return mpol_alloc_task(c, v->mm, order, gfp);
	return alloc_by(c, policy(c->q, id), vma_page_index(v, va) >> order, order, gfp);
}

int mpol_node_for(struct cpu *c, const struct vma *v, unsigned id, vaddr_t va)
{
	const struct mempolicy *p;

	if (!id || policy(c->q, id)->mode == MPOL_LOCAL)
		return c->nid;
	p = policy(c->q, id);
	return interleaves(p) ? interleave_at(c->q, p, vma_page_index(v, va)) : nearest(c->q, c->nid, p->nodes);
}

bool mpol_allows(const struct quire *q, unsigned id, int nid)
{
	return !id || policy(q, id)->mode == MPOL_LOCAL || (policy(q, id)->nodes >> nid & 1);
}

int mpol_misplaced(struct cpu *c, const struct frame *folio, const struct vma *v, vaddr_t va)
{
	unsigned id = vma_mpol(v) ? vma_mpol(v) : __atomic_load_n(&v->mm->mpol, __ATOMIC_ACQUIRE);
	int here = frame_nid(folio), want = c->nid;

	(void)va;
	if (id) {
		const struct mempolicy *p = policy(c->q, id);

		if (!(p->flags & MPOL_F_NUMA_BALANCING))
			return NID_NONE;
		if (!(p->nodes >> want & 1)) {
			if (p->nodes >> here & 1)
				return NID_NONE;
			want = nearest(c->q, c->nid, p->nodes);
		}
	}
	return want == here ? NID_NONE : want;
}

/* ---- making them ---- */

/* Onto the allowed nodes, the n-th asked for to the n-th there is. */
static uint64_t relative(uint64_t user, uint64_t allowed)
{
	uint64_t n = bits_set(allowed), out = 0;

	for (unsigned i = 0; i < 64; i++)
		if (user >> i & 1)
			out |= 1ULL << mpol_nth_node(allowed, i % n);
	return out;
}

/* 0 or -EINVAL. A policy of mode DEFAULT is none. */
static int decode(const struct quire *q, unsigned mode, uint64_t nodes, struct mempolicy *p)
{
	unsigned flags = mode & MPOL_MODE_FLAGS;
	uint64_t allowed = mpol_mems_allowed(q);

	mode &= ~MPOL_MODE_FLAGS;
	*p = (struct mempolicy){ .mode = mode, .flags = flags, .user = nodes };
	if (mode >= NR_MPOL || ((flags & MPOL_F_STATIC_NODES) && (flags & MPOL_F_RELATIVE_NODES)))
		return -EINVAL;
	if ((flags & MPOL_F_NUMA_BALANCING) && mode != MPOL_BIND && mode != MPOL_PREFERRED_MANY)
		return -EINVAL;
	if (mode == MPOL_DEFAULT)
		return nodes ? -EINVAL : 0;
	if (mode == MPOL_LOCAL || (mode == MPOL_PREFERRED && !nodes)) {
		p->mode = MPOL_LOCAL;
		return nodes || flags ? -EINVAL : 0;
	}
	p->nodes = flags & MPOL_F_RELATIVE_NODES ? relative(nodes, allowed) : nodes & allowed;
	if (mode == MPOL_PREFERRED)
		p->nodes &= -p->nodes;
	if (!(flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES)))
		p->user = p->nodes;
	return p->nodes ? 0 : -EINVAL;
}

static bool same(const struct mempolicy *a, const struct mempolicy *b)
{
	return a->mode == b->mode && a->flags == b->flags && a->nodes == b->nodes && a->user == b->user;
}

/* The policy's number. 0 or more, -EINVAL, or -ENOMEM: the table is full. No locks held. */
static int intern(struct cpu *c, struct quire *q, unsigned mode, uint64_t nodes)
{
	struct mempolicy p;
	int rc = decode(q, mode, nodes, &p);
	uint32_t i;

	if (rc || p.mode == MPOL_DEFAULT)
		return rc;
	machine_lock(c, &q->list_lock);
	for (i = 0; i < q->mpol.nr && !same(&q->mpol.pol[i], &p); i++)
		;
	rc = i < MPOL_MAX ? (int)i + 1 : -ENOMEM;
	if (rc > 0 && i == q->mpol.nr) {
		q->mpol.pol[i] = p;
		__atomic_store_n(&q->mpol.nr, i + 1, __ATOMIC_RELEASE);
	}
	machine_unlock(c, &q->list_lock);
	return rc;
}

/* ---- calls ---- */

int64_t mm_set_mempolicy(struct cpu *c, struct mm *mm, unsigned mode, uint64_t nodes)
{
	enum machine_path outer = machine_work(c, PATH_MADVISE, 1);
	int id = intern(c, mm->q, mode, nodes);

	if (id >= 0) {
		__atomic_store_n(&mm->mpol_next, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&mm->mpol, (uint16_t)id, __ATOMIC_RELEASE);
	}
	machine_path(c, outer);
	return id < 0 ? id : 0;
}

/* The node of the page at addr, which is brought in. Negative errno: it can't be. */
static int node_of_page(struct cpu *c, struct mm *mm, vaddr_t addr)
{
	struct frame *f;
	int nid;

	if (mm_populate(c, mm, ALIGN_DOWN(addr, PAGE_SIZE), ALIGN_DOWN(addr, PAGE_SIZE) + PAGE_SIZE, false))
		return -EFAULT;
	f = mm_follow_folio(c, mm, addr, NULL);
	if (!f)
		return 0; /* the zero page, which is node 0's */
	nid = frame_nid(f);
	frame_put(c, f);
	return nid;
}

static int64_t get_policy(struct cpu *c, struct mm *mm, int *ret_mode, uint64_t *ret_nodes, vaddr_t addr, unsigned flags)
{
	unsigned id = __atomic_load_n(&mm->mpol, __ATOMIC_ACQUIRE);
	const struct mempolicy none = { 0 }, *p;
	int mode;

	if (flags & MPOL_F_ADDR) {
		machine_read_lock(c, &mm->mmap_lock);
		struct vma *v = vma_lookup(c, mm, addr);
		int known = v ? (int)vma_mpol(v) : -EFAULT;

		machine_read_unlock(c, &mm->mmap_lock);
		if (known < 0)
			return known;
		id = (unsigned)known;
	}
	p = id ? policy(mm->q, id) : &none;
	mode = (int)(p->mode | p->flags);
	if (flags & MPOL_F_NODE) {
		if (flags & MPOL_F_ADDR)
			mode = node_of_page(c, mm, addr);
		else if (interleaves(p))
			mode = interleave_at(mm->q, p, __atomic_load_n(&mm->mpol_next, __ATOMIC_RELAXED));
		else
			return -EINVAL;
		if (mode < 0)
			return mode;
	}
	if (ret_mode)
		*ret_mode = mode;
	if (ret_nodes)
		*ret_nodes = p->flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES) ? p->user : p->nodes;
	return 0;
}

int64_t mm_get_mempolicy(struct cpu *c, struct mm *mm, int *ret_mode, uint64_t *ret_nodes, vaddr_t addr, unsigned flags)
{
	enum machine_path outer = machine_work(c, PATH_MADVISE, 1);
	int64_t rc = -EINVAL;

	if (flags & MPOL_F_MEMS_ALLOWED) {
		if (!(flags & ~MPOL_F_MEMS_ALLOWED)) {
			if (ret_mode)
				*ret_mode = 0;
			if (ret_nodes)
				*ret_nodes = mpol_mems_allowed(mm->q);
			rc = 0;
		}
	} else if (!(flags & ~(MPOL_F_NODE | MPOL_F_ADDR)) && ((flags & MPOL_F_ADDR) || !addr)) {
		rc = get_policy(c, mm, ret_mode, ret_nodes, addr, flags);
	}
	machine_path(c, outer);
	return rc;
}

/* No hole in [start, end)? Lock held. */
static bool all_mapped(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end)
{
	struct vma *v = vma_find(c, mm, start);

	for (; v && v->start <= start; v = vma_next_charged(c, v)) {
		start = v->end;
		if (start >= end)
			return true;
	}
	return false;
}

/* Lock held for writing; no holes. */
static int bind_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned id)
{
	struct vma *v = vma_find(c, mm, start);
	int err = 0;

	while (start < end && !err) {
		vaddr_t stop = MIN(v->end, end);
		uint64_t flags = (v->flags & ~VM_MPOL_MASK) | (uint64_t)id << VM_MPOL_SHIFT;

		if (flags != v->flags)
			err = vma_modify(c, v, start, stop, flags, &v);
		start = stop;
		if (!err && v->end <= start && start < end)
			v = vma_next_charged(c, v);
	}
	return err;
}

static int64_t bind_checked(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned id, unsigned flags)
{
	const unsigned moves = MPOL_MF_MOVE | MPOL_MF_MOVE_ALL;
	int64_t rc;

	mm_write_lock(c, mm);
	rc = all_mapped(c, mm, start, end) ? 0 : -EFAULT;
	if (!rc && (flags & MPOL_MF_STRICT) && !(flags & moves) && mpol_move_range(c, mm, start, end, id, flags, true))
		rc = -EIO; /* and nothing is changed */
	if (!rc)
		rc = bind_range(c, mm, start, end, id);
	mm_write_unlock(c, mm);
	if (!rc && (flags & moves)) {
		rc = mpol_move_range(c, mm, start, end, id, flags, false);
		if (rc > 0)
			rc = flags & MPOL_MF_STRICT ? -EIO : 0;
	}
	return rc;
}

int64_t mm_mbind(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned mode, uint64_t nodes, unsigned flags)
{
	uint64_t whole = ALIGN_UP(len, PAGE_SIZE);
	enum machine_path outer;
	int64_t rc;
	int id;

	if ((flags & ~(MPOL_MF_STRICT | MPOL_MF_MOVE | MPOL_MF_MOVE_ALL)) || (addr & ~PAGE_MASK) || addr + whole < addr)
		return -EINVAL;
	if ((mode & ~MPOL_MODE_FLAGS) == MPOL_DEFAULT)
		flags &= ~MPOL_MF_STRICT;
	outer = machine_work(c, PATH_MADVISE, 1);
	id = addr + whole == addr ? 0 : intern(c, mm->q, mode, nodes);
	rc = id < 0 ? id : whole ? bind_checked(c, mm, addr, addr + whole, (unsigned)id, flags) : 0;
	machine_path(c, outer);
	return rc;
}
