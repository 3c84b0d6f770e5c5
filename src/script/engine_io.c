/*
 * Accesses and the kernel's copies on the engine. A page's contents are one value (script.h): the frame's tag, or its first word where frames
 * have bytes. Touches keep away from that word; machines with tags make one that is 0 into ~0 at any store, which is undone here.
 */
#include "script/engine_int.h"

#include "mm/fault.h"
#include "mm/system.h"

#include <signal.h>

static uint64_t *frame_word(const struct machine *m, pfn_t p)
{
	return m->tags ? &m->tags[p.v] : machine_ptr(m, pfn_to_paddr(p));
}

uint64_t engine_frame_value(const struct machine *m, pfn_t p)
{
	return __atomic_load_n(frame_word(m, p), __ATOMIC_RELAXED);
}

static void set_frame_value(const struct machine *m, pfn_t p, uint64_t v)
{
	__atomic_store_n(frame_word(m, p), v, __ATOMIC_RELAXED);
}

/* The area at va, without a charge. Nobody changes the tree meanwhile. */
static const struct vma *area_at(const struct mm *mm, vaddr_t va)
{
	const struct vma *v = mm->root;

	while (v && (va < v->start || va >= v->end))
		v = va < v->start ? v->left : v->right;
	return v;
}

/* What the file's page holds, cached or not. */
static uint64_t file_value(struct engine_at *a, struct mfile *f, uint64_t index)
{
	struct frame *page = file_lookup(a->c, f, index);
	uint64_t v;

	if (!page)
		return f->shmem || index >= (f->size + PAGE_SIZE - 1) >> PAGE_SHIFT ? 0 : file_tag(f, index);
	v = engine_frame_value(a->x->m, frame_pfn(a->x->m, page));
	frame_put(a->c, page);
	return v;
}

/* The value that a look at va would find. No access. */
static uint64_t peek(struct engine_at *a, vaddr_t va)
{
	const struct vma *v;
	struct mm_page_info i;

	mm_page_info(a->mm, va, &i);
	if (i.present)
		return i.zero_page ? 0 : engine_frame_value(a->x->m, i.pfn);
	v = area_at(a->mm, va);
	return v && v->file ? file_value(a, v->file, v->pgoff + ((va - v->start) >> PAGE_SHIFT)) : 0;
}

static void poke(struct engine_at *a, vaddr_t va, uint64_t v)
{
	struct mm_page_info i;

	mm_page_info(a->mm, va, &i);
	if (i.present && !i.zero_page)
		set_frame_value(a->x->m, i.pfn, v);
}

/* An access gave rc; sigbus: how many there were before. */
static void fault_result(struct engine_at *a, int rc, int64_t sigbus)
{
	a->ret->ret = rc;
	if (rc == -EFAULT)
		a->ret->signal = vmstat_read(a->x->q, VM_quire_fault_sigbus) == sigbus ? SIGSEGV : SIGBUS;
}

/* ---- accesses ---- */

/* One access of one byte, never to the page's first word. */
static int touch_one(struct engine_at *a, vaddr_t va, bool write)
{
	bool zero;
	int rc;

	if (va >= TASK_SIZE) /* no machine translates what is no address of a program's */
		return -EFAULT;
	if ((va & ~PAGE_MASK) < 8)
		va += 8;
	zero = write && a->x->m->tags && !peek(a, va);
	rc = a->c->m->ops->access(a->c, va, 1, ACCESS_USER | (write ? ACCESS_WRITE : 0));
	if (zero && !rc)
		poke(a, va, 0);
	return rc;
}

void engine_touch(struct engine_at *a)
{
	const struct script_call *k = a->call;
	int64_t sigbus = vmstat_read(a->x->q, VM_quire_fault_sigbus);
	uint64_t n = (k->len + k->step - 1) / k->step, done = 0;
	bool keep_tags = k->write && a->x->m->tags;
	vaddr_t va = k->addr;
	int rc = 0;

	if (!IS_ALIGNED(k->step, PAGE_SIZE) || keep_tags || k->addr >= TASK_SIZE || k->len > TASK_SIZE - k->addr) {
		for (; done < n && !rc; done += !rc)
			rc = touch_one(a, k->addr + done * k->step, k->write);
	} else if (n) {
		va += (va & ~PAGE_MASK) < 8 ? 8 : 0;
		rc = a->c->m->ops->access_run(a->c, va, k->step, n, 1, ACCESS_USER | (k->write ? ACCESS_WRITE : 0), 1, &done);
	}
	a->ret->count = done;
	fault_result(a, rc, sigbus);
}

void engine_read(struct engine_at *a)
{
	int64_t sigbus = vmstat_read(a->x->q, VM_quire_fault_sigbus);
	vaddr_t va = a->call->addr & PAGE_MASK;
	uint64_t v = 0;
	int rc = va < TASK_SIZE ? a->c->m->ops->load_value(a->c, va, &v) : -EFAULT;

	a->ret->value = rc ? 0 : (int64_t)v;
	fault_result(a, rc, sigbus);
}

static int store(struct engine_at *a, vaddr_t va, uint64_t v)
{
	return va < TASK_SIZE ? a->c->m->ops->store_value(a->c, va & PAGE_MASK, v) : -EFAULT;
}

void engine_write(struct engine_at *a)
{
	int64_t sigbus = vmstat_read(a->x->q, VM_quire_fault_sigbus);

	fault_result(a, store(a, a->call->addr, (uint64_t)a->call->value), sigbus);
}

void engine_fill(struct engine_at *a)
{
	const struct script_call *k = a->call;
	int64_t sigbus = vmstat_read(a->x->q, VM_quire_fault_sigbus);
	uint64_t n = (k->len + k->step - 1) / k->step, done = 0;
	int rc = 0;

	for (; done < n && !rc; done += !rc)
		rc = store(a, k->addr + done * k->step, (uint64_t)k->value + done);
	a->ret->count = done;
	fault_result(a, rc, sigbus);
}

/* ---- files ---- */

static void set_file_value(struct engine_at *a, struct mfile *f, uint64_t index, uint64_t v)
{
	struct frame *page = file_lookup(a->c, f, index);

	if (!page)
		return;
	set_frame_value(a->x->m, frame_pfn(a->x->m, page), v);
	frame_put(a->c, page);
}

/* A piece of a copy: inside of one page of the file, and of the program where there is one. */
static uint64_t piece(uint64_t off, uint64_t left, uint64_t addr)
{
	uint64_t n = MIN(left, PAGE_SIZE - (off & ~PAGE_MASK));

	return MIN(n, PAGE_SIZE - (addr & ~PAGE_MASK));
}

/* Writes n bytes at off, of which the first eight are v. */
static int write_piece(struct engine_at *a, struct mfile *f, uint64_t off, uint64_t n, uint64_t v)
{
	uint64_t index = off >> PAGE_SHIFT, before = file_value(a, f, index);
	int rc = file_rw(a->c, f, off, n, true);

	if (!rc)
		set_file_value(a, f, index, off & ~PAGE_MASK ? before : v);
	return rc;
}

static uint64_t readable(const struct mfile *f, uint64_t off, uint64_t len)
{
	return off < f->size ? MIN(len, f->size - off) : 0;
}

/* A copy of `done` bytes ended with rc: like read(2) and write(2), an error counts only when nothing was copied. */
static void copied(struct engine_at *a, uint64_t done, int rc)
{
	a->ret->ret = done || !rc ? (int64_t)done : rc;
}

void engine_file_read(struct engine_at *a, struct mfile *f)
{
	uint64_t len = readable(f, a->call->off, a->call->len);

	copied(a, len, file_rw(a->c, f, a->call->off, len, false));
}

void engine_file_write(struct engine_at *a, struct mfile *f)
{
	const struct script_call *k = a->call;
	uint64_t done = 0, n;
	int rc = 0;

	file_note_write(f, k->len);
	for (; done < k->len; done += n) {
		n = piece(k->off + done, k->len - done, 0);
		/* In the buffer every page has the value, and the file's pages may lie askew to the buffer's. */
		rc = write_piece(a, f, k->off + done, n, done & ~PAGE_MASK ? 0 : (uint64_t)k->value);
		if (rc)
			break;
	}
	copied(a, done, rc);
}

void engine_pread(struct engine_at *a, struct mfile *f)
{
	const struct script_call *k = a->call;
	struct file_reading r = file_read_begin(f, k->off, k->len);
	uint64_t len = readable(f, k->off, k->len), done = 0, n, v, before;
	int rc = 0;

	for (; done < len; done += n) {
		vaddr_t va = k->addr + done;
		uint64_t off = k->off + done;

		n = piece(off, len - done, va);
		rc = file_read_next(a->c, &r, n);
		v = off & ~PAGE_MASK ? 0 : file_value(a, f, off >> PAGE_SHIFT);
		before = peek(a, va);
		if (!rc)
			rc = va < TASK_SIZE ? mm_copy_user(a->c, va, n, true) : -EFAULT;
		if (rc)
			break;
		file_read_copied(&r, n);
		/* The copy reached the page's value, or it is as it was. */
		poke(a, va, va & ~PAGE_MASK ? before : v);
	}
	if (len)
		file_read_end(&r);
	copied(a, done, rc);
}

/* Can the kernel read there without a fault, or does a fault come first anyway? */
static bool at_hand(struct engine_at *a, vaddr_t va)
{
	struct mm_page_info p;

	if (!a->x->q->knobs.write_begins_first)
		return true;
	if (va >= TASK_SIZE)
		return false;
	mm_page_info(a->mm, va, &p);
	return p.present;
}

void engine_pwrite(struct engine_at *a, struct mfile *f)
{
	const struct script_call *k = a->call;
	uint64_t done = 0, n, v;
	int rc = 0;

	file_note_write(f, k->len);
	for (; done < k->len; done += n) {
		vaddr_t va = k->addr + done;

		n = piece(k->off + done, k->len - done, va);
		rc = at_hand(a, va) ? 0 : file_write_begin(a->c, f, k->off + done, MIN(k->len - done, PAGE_SIZE - ((k->off + done) & ~PAGE_MASK)));
		if (!rc)
			rc = va < TASK_SIZE ? mm_copy_user(a->c, va, n, false) : -EFAULT;
		v = peek(a, va);
		if (!rc)
			rc = write_piece(a, f, k->off + done, n, va & ~PAGE_MASK ? 0 : v);
		if (rc)
			break;
	}
	copied(a, done, rc);
}

void engine_file_truncate(struct engine_at *a, struct mfile *f)
{
	a->ret->ret = file_truncate(a->c, f, a->call->len);
}
