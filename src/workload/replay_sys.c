/*
 * System calls of a recording, replayed on the engine.
 *
 * Memory calls are made again, with addresses translated piece by piece; files are objects with a page cache; buffers that the kernel
 * read or wrote are accessed with the kernel's rights, with their faults (design rule 8); calls that waited wait for
 * whoever woke them, or for the recorded time. Everything else costs the entry into the kernel and back.
 */
#include "workload/replay_int.h"

#include "mm/fault.h"

#include <errno.h>

/* x86-64 system call numbers and flags, from the ABI. */
enum {
	NR_read = 0, NR_write = 1, NR_poll = 7, NR_mmap = 9, NR_mprotect = 10, NR_munmap = 11, NR_brk = 12,
	NR_pread64 = 17, NR_pwrite64 = 18, NR_readv = 19, NR_writev = 20, NR_select = 23, NR_mremap = 25, NR_msync = 26,
	NR_mincore = 27, NR_madvise = 28, NR_shmat = 30, NR_pause = 34, NR_nanosleep = 35, NR_sendfile = 40,
	NR_accept = 43, NR_recvfrom = 45, NR_recvmsg = 47, NR_clone = 56, NR_fork = 57, NR_vfork = 58, NR_wait4 = 61,
	NR_shmdt = 67, NR_rt_sigtimedwait = 128, NR_rt_sigsuspend = 130, NR_mlock = 149, NR_munlock = 150, NR_mlockall = 151,
	NR_munlockall = 152, NR_prctl = 157, NR_futex = 202, NR_clock_nanosleep = 230, NR_epoll_wait = 232,
	NR_waitid = 247, NR_pselect6 = 270, NR_ppoll = 271, NR_epoll_pwait = 281, NR_accept4 = 288, NR_preadv = 295,
	NR_pwritev = 296, NR_mlock2 = 325, NR_preadv2 = 327, NR_pwritev2 = 328, NR_clone3 = 435,
};

#define MAP_SHARED_ 0x01U
#define MAP_TYPE_ 0x0fU
#define MAP_FIXED_ 0x10U
#define MAP_ANONYMOUS_ 0x20U
#define MAP_FIXED_NOREPLACE_ 0x100000U
#define MREMAP_FIXED_ 2U
#define MREMAP_DONTUNMAP_ 4U
#define PR_SET_THP_DISABLE_ 41U
#define CLONE_VM_ 0x100U
#define CLONE_VFORK_ 0x4000U
#define CLONE_THREAD_ 0x10000U
#define CLONE_CHILD_CLEARTID_ 0x200000U

/* Waits shorter than this were no waits: the call had nothing to wait for. */
#define WAIT_THRESHOLD_NS 50000

static bool failed(int64_t r)
{
	return r < 0 && r > -4096;
}

static uint64_t page_len(uint64_t len)
{
	return len <= WORD_ADDR_MASK ? ALIGN_UP(len, PAGE_SIZE) : 0;
}

static void note_result(struct replay_stream *s, int64_t here, int64_t recorded)
{
	if (here == -ENOMEM)
		s->rp->res->out_of_memory = true;
	if (failed(here) != failed(recorded))
		s->rp->res->mm_call_diffs++;
}

static void map_error(struct replay_stream *s, int e)
{
	if (e)
		replay_fail(s->rp, e, "stream %u: too many areas to translate", s->nr);
}

/* ---- calls that make memory ---- */

/* glibc's main arena, refused by the emulator's short break, goes on with mmap: on Linux it would have been the break. */
static bool mmap_is_brk(const struct process *p, const uint64_t *a)
{
	return p->brk_failed && a[0] == 0 && (a[3] & (MAP_ANONYMOUS_ | MAP_TYPE_)) == (MAP_ANONYMOUS_ | 2U) &&
	       (a[2] & 7) == 3;
}

static int64_t grow_brk(struct cpu *c, struct process *p, uint64_t len, uint64_t *ret_old)
{
	int64_t now = mm_brk(c, p->mm, 0);
	uint64_t old = ALIGN_UP((uint64_t)now, PAGE_SIZE);

	*ret_old = old;
	now = mm_brk(c, p->mm, old + len);
	return (uint64_t)now == old + len ? 0 : -ENOMEM;
}

/* One mmap here for the recorded [at, at + len), at `here` when flags have MAP_FIXED. */
static int64_t map_piece(struct cpu *c, struct replay_stream *s, uint64_t at, uint64_t len, uint64_t here, unsigned flags,
			 struct mfile *f, uint64_t offset)
{
	int64_t r = mm_mmap(c, s->proc->mm, here, len, (unsigned)s->call.a[2] & 7, flags, f, offset);

	if (!failed(r))
		map_error(s, reloc_set(&s->proc->map, at, len, (uint64_t)r));
	return r;
}

/*
 * MAP_FIXED over areas that lie side by side as recorded need not find them so here: each piece goes where its own area is, and
 * what lies beyond all of them where mmap likes.
 */
static int64_t map_fixed(struct cpu *c, struct replay_stream *s, uint64_t at, uint64_t len, unsigned flags, struct mfile *f,
			 uint64_t offset)
{
	uint64_t end = at + len;
	int64_t r = 0;

	while (at < end && !failed(r)) {
		const struct reloc_range *in = reloc_find(&s->proc->map, at);
		uint64_t stop = end, delta = in ? in->delta : 0, next = at, piece_here, piece_len;

		if (in)
			stop = MIN(end, in->end);
		else if (reloc_next_piece(&s->proc->map, &next, end, &piece_here, &piece_len))
			stop = next - piece_len;
		r = map_piece(c, s, at, stop - at, in ? at + delta : 0, in ? flags : flags & ~MAP_FIXED_, f, offset);
		offset += f ? stop - at : 0;
		at = stop;
	}
	return r;
}

/* The file of an mmap with a reference; *flags becomes anonymous for /dev/zero and other devices. NULL without the flag: no memory. */
static struct mfile *map_file(struct cpu *c, struct replay_stream *s, unsigned *flags)
{
	if (*flags & MAP_ANONYMOUS_)
		return NULL;
	if (!s->call.has_file || s->call.file_kind == FILE_DEVICE) {
		*flags |= MAP_ANONYMOUS_;
		return NULL;
	}
	return replay_file(c, s->rp, s->call.file_dev, s->call.file_ino, s->call.file_size, s->call.file_kind == FILE_SHM);
}

static void sys_mmap(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	struct process *p = s->proc;
	const uint64_t *a = s->call.a;
	uint64_t len = page_len(a[1]), offset = 0, old;
	unsigned flags = (unsigned)a[3] & ~MAP_FIXED_NOREPLACE_;
	struct mfile *f;
	int64_t at;

	if (failed(rec) || !len || (uint64_t)rec + len > WORD_ADDR_MASK)
		return;
	if (mmap_is_brk(p, a) && !s->rp->o->keep_addresses && grow_brk(c, p, len, &old) == 0) {
		map_error(s, reloc_set(&p->map, (uint64_t)rec, len, old));
		p->brk_failed = false;
		return;
	}
	p->brk_failed = false;
	f = map_file(c, s, &flags);
	if (!f && !(flags & MAP_ANONYMOUS_)) {
		s->rp->res->out_of_memory = true;
		return;
	}
	if (f)
		offset = a[5] & PAGE_MASK;
	if (flags & MAP_FIXED_)
		replay_account_memory(s->rp);
	if (s->rp->o->keep_addresses)
		at = map_piece(c, s, (uint64_t)rec, len, (uint64_t)rec, flags | MAP_FIXED_, f, offset);
	else if (flags & MAP_FIXED_)
		at = map_fixed(c, s, (uint64_t)rec, len, flags, f, offset);
	else
		at = map_piece(c, s, (uint64_t)rec, len, 0, flags, f, offset);
	if (f)
		file_put(c, f);
	note_result(s, at, rec);
}

static void sys_brk(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	struct process *p = s->proc;
	uint64_t want = s->call.a[0], now = (uint64_t)rec, len, goal;
	int64_t at;

	if (now < p->rec_brk_start || now > WORD_ADDR_MASK)
		return;
	p->brk_failed = want > now;
	if (p->brk_failed || now == p->rec_brk)
		return;
	if (now < p->rec_brk)
		replay_account_memory(s->rp);
	/* By difference: what mmap stood in for is part of our break but not of the recorded one. */
	at = mm_brk(c, p->mm, 0);
	goal = (uint64_t)at + (now - p->rec_brk);
	at = mm_brk(c, p->mm, goal);
	if ((uint64_t)at != goal) { /* refused here: what it would have made is not there, and our break stands for the old one */
		note_result(s, -ENOMEM, rec);
		return;
	}
	len = page_len(now) > p->rec_brk_start ? page_len(now) - p->rec_brk_start : 0;
	if (now < p->rec_brk && page_len(now) < page_len(p->rec_brk))
		map_error(s, reloc_remove(&p->map, page_len(now), page_len(p->rec_brk) - page_len(now)));
	else if (len && page_len(now) > page_len(p->rec_brk)) {
		uint64_t grown = page_len(now) - page_len(p->rec_brk);

		map_error(s, reloc_set(&p->map, page_len(p->rec_brk), grown, ALIGN_UP((uint64_t)at, PAGE_SIZE) - grown));
	}
	p->rec_brk = now;
}

/* ---- calls on ranges: translated piece by piece ---- */

static int64_t range_call(struct cpu *c, struct replay_stream *s, uint64_t here, uint64_t len)
{
	struct mm *mm = s->proc->mm;
	const uint64_t *a = s->call.a;

	switch (s->call.nr) {
	case NR_munmap:
	case NR_shmdt:
		return mm_munmap(c, mm, here, len);
	case NR_mprotect:
		return mm_mprotect(c, mm, here, len, (unsigned)a[2]);
	case NR_madvise:
		return mm_madvise(c, mm, here, len, (int)a[2]);
	case NR_mlock:
		return mm_mlock(c, mm, here, len, false);
	case NR_mlock2:
		return mm_mlock(c, mm, here, len, a[2] & 1);
	case NR_munlock:
		return mm_munlock(c, mm, here, len);
	default:
		return 0;
	}
}

/* The part of our break that an munmap of a stand-in at its very end gives back. */
static bool munmap_is_brk(struct cpu *c, struct replay_stream *s, uint64_t here, uint64_t len)
{
	struct process *p = s->proc;
	uint64_t now = (uint64_t)mm_brk(c, p->mm, 0);

	return s->call.nr == NR_munmap && here >= p->brk_start && here + len == ALIGN_UP(now, PAGE_SIZE) &&
	       (uint64_t)mm_brk(c, p->mm, here) == here;
}

/* What other threads did before it must not be done after it: it would fail, or be done to other pages. */
static bool takes_away(const struct pending_call *k)
{
	return k->nr == NR_munmap || (k->nr == NR_madvise && (k->a[2] == 4 || k->a[2] == 8)) || /* DONTNEED, FREE */
	       (k->nr == NR_mprotect && (k->a[2] & 3) != 3);
}

static struct cpu *sys_range(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	uint64_t addr = s->call.a[0], end = addr + page_len(s->call.a[1]), here, len;
	int64_t r = 0;

	if (failed(rec) || end <= addr || (addr & ~PAGE_MASK))
		return c;
	if (takes_away(&s->call))
		c = order_wait_process(c, s, s->call.ticket);
	replay_account_memory(s->rp); /* the peak is before what goes now */
	for (uint64_t at = addr; !failed(r) && reloc_next_piece(&s->proc->map, &at, end, &here, &len);)
		if (!munmap_is_brk(c, s, here, len))
			r = range_call(c, s, here, len);
	note_result(s, r, rec);
	if (s->call.nr == NR_munmap)
		map_error(s, reloc_remove(&s->proc->map, addr, end - addr));
	return c;
}

static struct cpu *sys_mremap(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	const uint64_t *a = s->call.a;
	struct process *p = s->proc;
	uint64_t old_len = page_len(a[1]), new_len = page_len(a[2]), to = 0;
	unsigned flags = (unsigned)a[3];
	const struct reloc_range *r = reloc_find(&p->map, a[0]);
	int64_t at;

	if (failed(rec) || !new_len || !r)
		return c;
	c = order_wait_process(c, s, s->call.ticket);
	replay_account_memory(s->rp);
	r = reloc_find(&p->map, a[0]);
	if (!r)
		return c;
	if (s->rp->o->keep_addresses && (uint64_t)rec != a[0]) {
		flags |= MREMAP_FIXED_ | 1U;
		to = (uint64_t)rec;
	} else if (flags & MREMAP_FIXED_) {
		const struct reloc_range *t = reloc_find(&p->map, (uint64_t)rec);

		if (t)
			to = (uint64_t)rec + t->delta;
		else
			flags &= ~MREMAP_FIXED_;
	} else if ((uint64_t)rec != a[0]) {
		flags |= 1U; /* it may move */
	}
	at = mm_mremap(c, p->mm, a[0] + r->delta, a[1], a[2], flags, to);
	note_result(s, at, rec);
	if (failed(at))
		return c;
	if (!(flags & MREMAP_DONTUNMAP_) && old_len)
		map_error(s, reloc_remove(&p->map, a[0], old_len));
	map_error(s, reloc_set(&p->map, (uint64_t)rec, new_len, (uint64_t)at));
	return c;
}

/* ---- tasks ---- */

static struct cpu *sys_clone(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	unsigned nr = s->call.nr;
	uint64_t flags = nr == NR_clone ? s->call.a[0] : nr == NR_vfork ? (CLONE_VM_ | CLONE_VFORK_) : 0;
	struct replay_stream *child;
	struct mm *mm;

	if (rec <= 0)
		return c;
	child = replay_find_child(s->rp, s->nr, s->call.ticket, false);
	if (!child)
		return c; /* it never made a step that was recorded */
	flags = child->clone_flags ? child->clone_flags : flags;
	if (child->how == THREAD_VFORK)
		flags |= CLONE_VM_ | CLONE_VFORK_;
	if (flags & CLONE_VM_) {
		child->proc = s->proc;
		s->proc->refs++;
	} else {
		int e = mm_fork(c, s->proc->mm, &mm);

		if (e) {
			s->rp->res->out_of_memory = true;
			replay_fail(s->rp, e, "stream %u: fork: out of memory", s->nr);
			return c;
		}
		child->proc = process_new(c, s->rp, mm, child->pid);
		if (!child->proc || reloc_copy(&child->proc->map, &s->proc->map)) {
			replay_fail(s->rp, -ENOMEM, "stream %u: fork: out of memory", s->nr);
			return c;
		}
		child->proc->rec_brk_start = s->proc->rec_brk_start;
		child->proc->rec_brk = s->proc->rec_brk;
		child->proc->brk_start = s->proc->brk_start;
	}
	if ((flags & CLONE_CHILD_CLEARTID_) && nr == NR_clone)
		child->cleartid = s->call.a[3];
	if (flags & CLONE_VFORK_)
		child->vfork_parent = s;
	if (replay_start(c, child))
		return c;
	if (flags & CLONE_VFORK_)
		c = order_wait(c, s, (struct order_key){ ORDER_VFORK, child->nr, 0 }, 0, ~0ULL);
	return c;
}

/* ---- waiting ---- */

/* Calls that wait for one of many things. */
static bool is_poll(unsigned nr)
{
	switch (nr) {
	case NR_poll:
	case NR_select:
	case NR_pause:
	case NR_accept:
	case NR_accept4:
	case NR_recvfrom:
	case NR_recvmsg:
	case NR_rt_sigtimedwait:
	case NR_rt_sigsuspend:
	case NR_epoll_wait:
	case NR_epoll_pwait:
	case NR_pselect6:
	case NR_ppoll:
		return true;
	default:
		return false;
	}
}

static bool is_read(unsigned nr)
{
	return nr == NR_read || nr == NR_readv;
}

/* It waited, and what for is not in the recording: for the process's own threads if any was at work (O5), else for the outside. */
static struct cpu *wait_for_something(struct cpu *c, struct replay_stream *s, uint64_t ticket, uint64_t waited)
{
	if (order_others_at_work(s, s->call.ticket, ticket))
		return order_wait(c, s, (struct order_key){ ORDER_TICKET, s->proc->id, 0 }, 0, ticket);
	return replay_think(c, s, waited);
}

static struct cpu *sys_wait(struct cpu *c, struct replay_stream *s, uint64_t ticket, int64_t rec, uint64_t time_ns)
{
	const struct pending_call *k = &s->call;
	uint64_t waited = time_ns > k->time_ns ? time_ns - k->time_ns : 0;
	unsigned op = (unsigned)k->a[1] & 0x7f;

	if (k->nr == NR_futex) {
		if ((op == 0 || op == 9) && rec == 0) /* FUTEX_WAIT, FUTEX_WAIT_BITSET */
			c = order_wait(c, s, (struct order_key){ ORDER_FUTEX, s->proc->id, k->a[0] }, k->ticket, ticket);
		else if ((op == 0 || op == 9) && rec == -ETIMEDOUT)
			c = wait_for_something(c, s, ticket, waited);
	} else if ((k->nr == NR_wait4 || k->nr == NR_waitid) && rec > 0) {
		c = order_wait(c, s, (struct order_key){ ORDER_EXIT, (uint64_t)rec, 0 }, 0, ticket);
	} else if (waited < WAIT_THRESHOLD_NS) {
		return c;
	} else if (is_read(k->nr) && k->has_file && k->file_kind == FILE_PIPE) {
		c = order_wait(c, s, (struct order_key){ ORDER_PIPE, k->file_dev, k->file_ino }, k->ticket, ticket);
	} else if (k->nr == NR_nanosleep || k->nr == NR_clock_nanosleep) {
		c = replay_think(c, s, waited);
	} else if (is_poll(k->nr) || (is_read(k->nr) && k->has_file && k->file_kind != FILE_REGULAR)) {
		c = wait_for_something(c, s, ticket, waited);
	}
	return c;
}

/* ---- the two ends of a call ---- */

void replay_syscall_enter(struct cpu *c, struct replay_stream *s)
{
	const struct pending_call *k = &s->call;
	unsigned op = (unsigned)k->a[1] & 0x7f;

	machine_enter(c, ENTRY_SYSCALL);
	/* Wakers act at entry, so that whoever they wake can be past its own return by our return. */
	if (k->nr == NR_futex && s->proc && op != 0 && op != 9) {
		order_event(c, s->rp, (struct order_key){ ORDER_FUTEX, s->proc->id, k->a[0] }, k->ticket);
		if (op == 3 || op == 4 || op == 5) /* REQUEUE, CMP_REQUEUE, WAKE_OP: the second word too */
			order_event(c, s->rp, (struct order_key){ ORDER_FUTEX, s->proc->id, k->a[4] }, k->ticket);
	}
}

void replay_buffer(struct cpu *c, struct replay_stream *s, bool write, uint64_t addr, uint64_t len)
{
	uint64_t end = addr + len, here, n;

	if (!s->proc || end <= addr || end > WORD_ADDR_MASK)
		return;
	while (reloc_next_piece(&s->proc->map, &addr, end, &here, &n)) {
		int e = mm_copy_user(c, here, n, write);

		if (e == -ENOMEM)
			s->rp->res->out_of_memory = true;
		if (e) {
			s->rp->res->refs_failed++;
			return;
		}
	}
}

static void sys_file_io(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	const struct pending_call *k = &s->call;
	bool write = k->nr == NR_write || k->nr == NR_pwrite64 || k->nr == NR_writev || k->nr == NR_pwritev || k->nr == NR_pwritev2;
	struct mfile *f;

	if (rec <= 0 || !k->has_file)
		return;
	if (k->file_kind == FILE_PIPE && write) {
		order_event(c, s->rp, (struct order_key){ ORDER_PIPE, k->file_dev, k->file_ino }, k->ticket);
		return;
	}
	if ((k->file_kind != FILE_REGULAR && k->file_kind != FILE_SHM) || k->file_off == ~0ULL)
		return;
	/* The file may have grown by this very call. */
	f = replay_file(c, s->rp, k->file_dev, k->file_ino, MAX(k->file_size, k->file_off + (uint64_t)rec), k->file_kind == FILE_SHM);
	if (!f || file_rw(c, f, k->file_off, (uint64_t)rec, write))
		s->rp->res->out_of_memory = true;
	if (f)
		file_put(c, f);
}

static struct cpu *sys_dispatch(struct cpu *c, struct replay_stream *s, int64_t rec)
{
	struct mm *mm = s->proc->mm;

	switch (s->call.nr) {
	case NR_mmap:
		sys_mmap(c, s, rec);
		break;
	case NR_brk:
		sys_brk(c, s, rec);
		break;
	case NR_munmap:
	case NR_mprotect:
	case NR_madvise:
	case NR_mlock:
	case NR_mlock2:
	case NR_munlock:
		return sys_range(c, s, rec);
	case NR_mremap:
		return sys_mremap(c, s, rec);
	case NR_mlockall:
		if (!failed(rec))
			note_result(s, mm_mlockall(c, mm, (unsigned)s->call.a[0]), rec);
		break;
	case NR_munlockall:
		note_result(s, mm_munlockall(c, mm), rec);
		break;
	case NR_prctl:
		if (s->call.a[0] == PR_SET_THP_DISABLE_ && !failed(rec))
			note_result(s, mm_set_thp_disable(c, mm, s->call.a[1] != 0), rec);
		break;
	case NR_clone:
	case NR_clone3:
	case NR_fork:
	case NR_vfork:
		return sys_clone(c, s, rec);
	case NR_read:
	case NR_write:
	case NR_pread64:
	case NR_pwrite64:
	case NR_readv:
	case NR_writev:
	case NR_preadv:
	case NR_pwritev:
	case NR_preadv2:
	case NR_pwritev2:
		sys_file_io(c, s, rec);
		break;
	default:
		break;
	}
	return c;
}

struct cpu *replay_syscall_exit(struct cpu *c, struct replay_stream *s, uint64_t ticket, int64_t ret, uint64_t time_ns)
{
	if (!s->call.open)
		return c;
	s->rp->res->syscalls++;
	if (s->proc && s->proc->mm) {
		c = sys_dispatch(c, s, ret);
		c = sys_wait(c, s, ticket, ret, time_ns);
		replay_account_memory(s->rp);
	}
	s->call.open = false;
	machine_leave(c, ENTRY_SYSCALL);
	return c;
}
