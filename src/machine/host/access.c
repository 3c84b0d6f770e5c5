/*
 * The software TLB, the walker behind it, and a program's accesses.
 *
 * Two direct-mapped arrays a thread, 4 KiB and 2 MiB translations apart. Only the owner touches them. A hit is a load and compare
 * of the tag (page, right, epoch) and an add; dropping everything is a new epoch. A miss walks the engine's tables, as the
 * hardware would: accessed and dirty bits are set with compare-and-swap, so that an entry that was changed meanwhile is read again
 * and never written. Walks happen inside the access, so tables are not freed under them (shootdown.c S1).
 *
 * An access is one critical section for each page (at most) that it touches: a long run never holds up a flusher by more than a
 * page's worth of work. Faults are handled outside of it, while the thread is quiescent.
 */
#include "machine/host/guest.h"
#include "machine/host/host_int.h"

#include <errno.h>
#include <string.h>

#define MAX_RETRIES (1U << 20) /* a fault hook that says 'retry' this often without the entry appearing is a bug of ours */
#define NOT_MAPPED (1U << 31)

/* ---- the arrays ---- */

void host_tlb_flush_all(struct host_cpu *h)
{
	h->epoch = (h->epoch + 1) % TLB_EPOCHS;
	if (!h->epoch) {
		memset(h->tlb4k, 0, sizeof(h->tlb4k));
		memset(h->tlb2m, 0, sizeof(h->tlb2m));
	}
	h->key = TLB_VALID | (uint64_t)h->epoch << TLB_EPOCH_SHIFT;
}

static struct tlb_entry *slot_4k(struct host_cpu *h, vaddr_t va)
{
	return &h->tlb4k[(va >> PAGE_SHIFT) % TLB_4K_ENTRIES];
}

static struct tlb_entry *slot_2m(struct host_cpu *h, vaddr_t va)
{
	return &h->tlb2m[(va >> PMD_SHIFT) % TLB_2M_ENTRIES];
}

static void drop(struct tlb_entry *e, vaddr_t page, uint64_t mask)
{
	if ((e->tag & mask) == page)
		e->tag = 0;
}

void host_tlb_flush(struct host_cpu *h, const struct tlb_flush *f)
{
	uint64_t step = 1ULL << f->stride_shift;

	if (f->full && !f->ctx) {
		host_tlb_flush_all(h);
		return;
	}
	if (f->ctx != h->ctx)
		return; /* another address space's: its entries went when it did */
	/* A page larger than 2 MiB has an entry here for each 2 MiB that were touched. */
	if (f->full || f->stride_shift > PMD_SHIFT || (f->end - f->start) >> f->stride_shift > TLB_4K_ENTRIES) {
		host_tlb_flush_all(h);
		return;
	}
	/* As invlpg: whatever entry translates the address, of either size. */
	for (vaddr_t va = ALIGN_DOWN(f->start, step); va < f->end; va += step) {
		drop(slot_4k(h, va), va & PAGE_MASK, PAGE_MASK);
		drop(slot_2m(h, va), va & PMD_MASK, PMD_MASK);
	}
}

void host_flush_local(struct cpu *c, const struct tlb_flush *f)
{
	host_tlb_flush(host_cpu(c), f);
}

void host_load_context(struct cpu *c, pfn_t root, uint32_t ctx)
{
	struct host_cpu *h = host_cpu(c);

	ASSERT(root.v < c->m->max_pfn);
	host_quiesce(h);
	if (ctx != h->ctx || root.v != h->root.v)
		host_tlb_flush_all(h);
	h->root = root;
	h->ctx = ctx;
}

/* Where va's byte is, if a valid entry says so. */
static ATTR_ALWAYS_INLINE char *lookup(const struct host_cpu *h, vaddr_t va, bool write)
{
	const struct tlb_entry *e = &h->tlb4k[(va >> PAGE_SHIFT) % TLB_4K_ENTRIES];
	uint64_t right = write ? TLB_WRITE : 0, any = write ? 0 : TLB_WRITE;

	if (likely((e->tag & ~any) == ((va & PAGE_MASK) | h->key | right)))
		return (char *)(uintptr_t)(e->addend + va);
	e = &h->tlb2m[(va >> PMD_SHIFT) % TLB_2M_ENTRIES];
	if (likely((e->tag & ~any) == ((va & PMD_MASK) | h->key | right)))
		return (char *)(uintptr_t)(e->addend + va);
	return NULL;
}

/* ---- the walker ---- */

/* Set bits in an entry that still is what was read. */
static bool set_bits(uint64_t *e, uint64_t *v, uint64_t bits)
{
	if ((*v & bits) == bits)
		return true;
	if (!__atomic_compare_exchange_n(e, v, *v | bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return false;
	*v |= bits;
	return true;
}

static void fill(struct host_cpu *h, vaddr_t va, uint64_t pte, unsigned shift)
{
	uint64_t mask = shift == PAGE_SHIFT ? PAGE_MASK : PMD_MASK;
	struct tlb_entry *e = shift == PAGE_SHIFT ? slot_4k(h, va) : slot_2m(h, va);
	bool write = (pte & PTE_WRITE) && (pte & PTE_DIRTY);
	paddr_t pa = (pte & PTE_ADDR_MASK & mask) | (va & ((1ULL << shift) - 1) & mask); /* of 1 GiB: the 2 MiB around va */

	e->tag = (va & mask) | h->key | (write ? TLB_WRITE : 0);
	e->addend = (uint64_t)(uintptr_t)machine_ptr(h->c.m, pa) - (va & mask);
}

/*
 * One walk. 0 and the byte's address, with the translation in the TLB; or the error code for the fault hook. Entries are read with
 * acquire: what a table or page held before it was mapped is seen (free on x86, and an address dependency elsewhere).
 */
ATTR_NOINLINE static uint32_t walk(struct host_cpu *h, vaddr_t va, unsigned flags, char **ret)
{
	const uint32_t fail = NOT_MAPPED | (flags & (ACCESS_WRITE | ACCESS_USER | ACCESS_EXEC));
	uint64_t need = PTE_PRESENT | (flags & ACCESS_WRITE ? PTE_WRITE : 0) | (flags & ACCESS_USER ? PTE_USER : 0);
	uint64_t rights; /* write: only what every level allows */
	pfn_t table;

again:
	table = h->root;
	rights = ~0ULL;
	h->stats.tlb_misses++;
	if (!table.v || va >> 47)
		return fail;
	for (unsigned shift = PGDIR_SHIFT;; shift -= 9) {
		uint64_t *e = (uint64_t *)machine_ptr(h->c.m, pfn_to_paddr(table)) + ((va >> shift) & 511);
		uint64_t v = __atomic_load_n(e, __ATOMIC_ACQUIRE);
		bool leaf = shift == PAGE_SHIFT || (v & PTE_HUGE);

		rights &= v;
		if (!(v & PTE_PRESENT))
			return fail;
		if ((v & need) != need || ((flags & ACCESS_EXEC) && (v & PTE_NX)))
			return fail | ACCESS_PRESENT;
		ASSERT_DEBUG(paddr_to_pfn(v & PTE_ADDR_MASK).v < h->c.m->max_pfn);
		if (!set_bits(e, &v, PTE_ACCESSED | (leaf && (flags & ACCESS_WRITE) ? PTE_DIRTY : 0)))
			goto again;
		if (leaf) {
			fill(h, va, v & (rights | ~PTE_WRITE), shift);
			*ret = (char *)machine_ptr(h->c.m, v & PTE_ADDR_MASK & ~((1ULL << shift) - 1)) + (va & ((1ULL << shift) - 1));
			return 0;
		}
		table = paddr_to_pfn(v & PTE_ADDR_MASK);
	}
}

/*
 * After a fault on a write: the translation from the entry that the engine says it has filled. False: walk. The table is still there
 * and the entry is this address's, because no request has come in since before the fault: whoever takes a table away, or makes it
 * read-only above the entry, asks first (S1, S3: from here on he waits for us). Only for writes, which a table that is shared further
 * up never serves.
 */
static bool refill(struct host_cpu *h, vaddr_t va, uint64_t done, char **ret)
{
	const uint64_t need = PTE_PRESENT | PTE_WRITE | PTE_USER | PTE_ACCESSED | PTE_DIRTY;
	uint64_t v;

	if (!h->c.fault_entry || h->done != done)
		return false;
	v = __atomic_load_n(h->c.fault_entry, __ATOMIC_ACQUIRE);
	if ((v & need) != need)
		return false;
	fill(h, va, v, PAGE_SHIFT);
	*ret = (char *)machine_ptr(h->c.m, v & PTE_ADDR_MASK) + (va & ~PAGE_MASK);
	return true;
}

/* ---- accesses ---- */

/* Outside of the access: let the engine bring the page in. */
ATTR_NOINLINE static int fault(struct host_cpu *h, vaddr_t va, uint32_t code)
{
	struct cpu *c = &h->c;

	host_access_end(h);
	host_quiesce(h);
	if (!c->m->hooks.fault)
		return -EFAULT;
	h->stats.faults++;
	c->fault_entry = NULL;
	c->fault_offset = (uint32_t)(va & ~PAGE_MASK);
	h->keep = ALIGN_DOWN(c->fault_offset, CACHE_LINE);
	c->fault_start_ps = host_now_ns(c) * PS_PER_NS;
	return c->m->hooks.fault(c, va, code & ~NOT_MAPPED);
}

/* The slow half of access_to: walks, faults until it works. */
ATTR_NOINLINE static int translate(struct host_cpu *h, vaddr_t va, unsigned flags, char **ret)
{
	for (unsigned try = 0; try < MAX_RETRIES; try++) {
		uint32_t code = walk(h, va, flags, ret);
		uint64_t done = h->done;
		int err;

		if (!code)
			return 0;
		err = fault(h, va, code);
		if (err)
			return err;
		host_access_begin(h);
		if ((flags & ACCESS_WRITE) && likely(refill(h, va, done, ret)))
			return 0;
	}
	quire_bug(__FILE__, __LINE__, "fault hook makes progress");
}

/*
 * The whole of a hit, without a call: NULL when anything else is needed. Then the access that has begun goes on in access_to, which
 * begins again; nothing has been lost.
 */
static ATTR_ALWAYS_INLINE char *try_hit(struct host_cpu *h, vaddr_t va, bool write)
{
	__atomic_store_n(&h->in_access, 1, __ATOMIC_RELAXED);
	compiler_barrier();
	if (unlikely(__atomic_load_n(&h->req, __ATOMIC_ACQUIRE) != h->seen))
		return NULL;
	return lookup(h, va, write);
}

/* An aligned 1, 2, 4 or 8 bytes: what hits are made for, and never across a page. */
static ATTR_ALWAYS_INLINE bool is_plain(vaddr_t va, unsigned size)
{
	return size - 1 < 8 && !(size & (size - 1)) && !(va & (size - 1));
}

/* Begin an access to va. 0: *ret is where the byte is until host_access_end; else no access is in progress. */
static ATTR_ALWAYS_INLINE int access_to(struct host_cpu *h, vaddr_t va, unsigned flags, char **ret)
{
	host_access_begin(h);
	*ret = lookup(h, va, (flags & ACCESS_WRITE) != 0);
	if (likely(*ret && !(flags & ACCESS_EXEC)))
		return 0;
	return translate(h, va, flags, ret);
}

#ifdef QUIRE_TEST_SLOW_ACCESS
/* A test of the shootdown makes accesses last, so that they overlap with it. */
static void linger(void)
{
	for (unsigned i = 0; i < QUIRE_TEST_SLOW_ACCESS; i++)
		cpu_relax();
}
#else
#define linger() ((void)0)
#endif

/* Bytes of [va, va + size) that lie in va's page. */
static unsigned in_page(vaddr_t va, uint64_t size)
{
	return (unsigned)MIN(size, PAGE_SIZE - (va & ~PAGE_MASK));
}

static int access_split(struct host_cpu *h, vaddr_t va, unsigned size, unsigned flags)
{
	char *p;

	if (va + size < va)
		return -EFAULT;
	while (size) {
		unsigned part = in_page(va, size);
		int err = access_to(h, va, flags, &p);

		if (err)
			return err;
		guest_touch(p, part, (flags & ACCESS_WRITE) != 0);
		host_access_end(h);
		va += part;
		size -= part;
	}
	return 0;
}

ATTR_NOINLINE static int access_slow(struct host_cpu *h, vaddr_t va, unsigned size, unsigned flags)
{
	char *p;
	int err;

	if (unlikely(in_page(va, size) < size))
		return access_split(h, va, size, flags);
	err = access_to(h, va, flags, &p);
	if (unlikely(err))
		return err;
	if (likely(size))
		guest_touch(p, size, (flags & ACCESS_WRITE) != 0);
	host_access_end(h);
	return 0;
}

int host_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags)
{
	struct host_cpu *h = host_cpu(c);
	char *p;

	if (unlikely(!is_plain(va, size) || (flags & ACCESS_EXEC)))
		return access_slow(h, va, size, flags);
	if (flags & ACCESS_WRITE) {
		p = try_hit(h, va, true);
		if (unlikely(!p))
			return access_slow(h, va, size, flags);
		linger();
		guest_store(p, size, ~0ULL);
	} else {
		p = try_hit(h, va, false);
		if (unlikely(!p))
			return access_slow(h, va, size, flags);
		linger();
		(void)guest_load(p, size);
	}
	host_access_end(h);
	return 0;
}

/* k accesses that lie in one page. */
static ATTR_ALWAYS_INLINE void touch_run(char *p, uint64_t stride, uint64_t k, unsigned size, bool write)
{
	if (size == 8 && write)
		for (; k; k--, p += stride)
			guest_store(p, 8, ~0ULL);
	else if (size == 8)
		for (; k; k--, p += stride)
			(void)guest_load(p, 8);
	else
		for (; k; k--, p += stride)
			guest_touch(p, size, write);
}

int host_access_run(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags, unsigned insns,
		    uint64_t *ret_done)
{
	struct host_cpu *h = host_cpu(c);
	bool write = (flags & ACCESS_WRITE) != 0;
	uint64_t done = 0;
	int err = 0;

	(void)insns;
	ASSERT_DEBUG(stride);
	while (done < n) {
		uint64_t room = PAGE_SIZE - (va & ~PAGE_MASK), k = 1;
		char *p;

		if (unlikely(size > room)) {
			err = access_split(h, va, size, flags);
		} else {
			if (stride <= room - size)
				k = MIN((room - size) / stride + 1, n - done);
			err = access_to(h, va, flags, &p);
			if (likely(!err)) {
				if (size)
					touch_run(p, stride, k, size, write);
				host_access_end(h);
			}
		}
		if (unlikely(err))
			break;
		done += k;
		va += k * stride;
	}
	*ret_done = done;
	return err;
}

/* ---- values and buffers ---- */

/* All of it in one page. */
static int load_part(struct host_cpu *h, vaddr_t va, unsigned size, uint64_t *ret_value)
{
	char *p;
	int err = access_to(h, va, ACCESS_USER, &p);

	if (err)
		return err;
	*ret_value = guest_load(p, size);
	host_access_end(h);
	return 0;
}

static int store_part(struct host_cpu *h, vaddr_t va, unsigned size, uint64_t value)
{
	char *p;
	int err = access_to(h, va, ACCESS_USER | ACCESS_WRITE, &p);

	if (err)
		return err;
	guest_store(p, size, value);
	host_access_end(h);
	return 0;
}

ATTR_NOINLINE static int load_slow(struct host_cpu *h, vaddr_t va, unsigned size, uint64_t *ret_value)
{
	unsigned first = in_page(va, size);
	uint64_t low = 0, high = 0;
	int err = load_part(h, va, first, &low);

	if (!err && first < size)
		err = load_part(h, va + first, size - first, &high);
	if (!err)
		*ret_value = first < size ? low | high << (8 * first) : low;
	return err;
}

ATTR_NOINLINE static int store_slow(struct host_cpu *h, vaddr_t va, unsigned size, uint64_t value)
{
	unsigned first = in_page(va, size);
	int err = store_part(h, va, first, value);

	if (!err && first < size)
		err = store_part(h, va + first, size - first, value >> (8 * first));
	return err;
}

/* A word: what most accesses are. */
static ATTR_ALWAYS_INLINE bool is_word(vaddr_t va, unsigned size)
{
	return size == 8 && !(va & 7);
}

int host_load(struct cpu *c, vaddr_t va, unsigned size, uint64_t *ret_value)
{
	struct host_cpu *h = host_cpu(c);
	char *p = likely(is_word(va, size)) ? try_hit(h, va, false) : NULL;

	if (unlikely(!p))
		return load_slow(h, va, size, ret_value);
	linger();
	*ret_value = guest_load_word(p);
	host_access_end(h);
	return 0;
}

int host_store(struct cpu *c, vaddr_t va, unsigned size, uint64_t value)
{
	struct host_cpu *h = host_cpu(c);
	char *p = likely(is_word(va, size)) ? try_hit(h, va, true) : NULL;

	if (unlikely(!p))
		return store_slow(h, va, size, value);
	linger();
	guest_store_word(p, value);
	host_access_end(h);
	return 0;
}

int host_read(struct cpu *c, vaddr_t va, void *buf, size_t len, size_t *ret_done)
{
	struct host_cpu *h = host_cpu(c);
	size_t done = 0;
	int err = va + len < va ? -EFAULT : 0;
	char *p;

	while (!err && done < len) {
		unsigned part = in_page(va + done, len - done);

		err = access_to(h, va + done, ACCESS_USER, &p);
		if (err)
			break;
		guest_read((char *)buf + done, p, part);
		host_access_end(h);
		done += part;
	}
	*ret_done = done;
	return err;
}

int host_write(struct cpu *c, vaddr_t va, const void *buf, size_t len, size_t *ret_done)
{
	struct host_cpu *h = host_cpu(c);
	size_t done = 0;
	int err = va + len < va ? -EFAULT : 0;
	char *p;

	while (!err && done < len) {
		unsigned part = in_page(va + done, len - done);

		err = access_to(h, va + done, ACCESS_USER | ACCESS_WRITE, &p);
		if (err)
			break;
		guest_write(p, (const char *)buf + done, part);
		host_access_end(h);
		done += part;
	}
	*ret_done = done;
	return err;
}

/* Scripted contents live in the first word of the page (design rule 10). */
int host_load_value(struct cpu *c, vaddr_t va, uint64_t *ret_value)
{
	return host_load(c, va & PAGE_MASK, 8, ret_value);
}

int host_store_value(struct cpu *c, vaddr_t va, uint64_t value)
{
	return host_store(c, va & PAGE_MASK, 8, value);
}
