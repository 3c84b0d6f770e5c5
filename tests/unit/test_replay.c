/* Replay: recordings made by hand in, what the engine saw out. */
#include "testing.h"

#include "replay_testing.h"

#include "base/rng.h"

static const struct replay_options plain = { .validate = true };

static struct outcome run_and_close(struct hand *h, unsigned cores)
{
	struct outcome o = replay_hand(h, cores, &plain);

	h->s.ops->close(&h->s);
	if (o.error)
		fail_msg("%d: %s", o.error, o.err);
	assert_int_equal(o.r.refs_unmapped, 0);
	assert_int_equal(o.r.mm_call_diffs, 0);
	return o;
}

static void one_process(void **state)
{
	struct hand *h = hand_new();

	(void)state;
	rec_touch(h, 0, STACK_TOP - 0x40000, 0x40000, true); /* the stack grows below what exec gave it */
	rec_touch(h, 0, EXE, 0x4000, false);
	rec_mmap(h, 0, ANON, 1 << 20);
	rec_touch(h, 0, ANON, 1 << 20, true);
	rec_touch(h, 0, ANON, 1 << 20, false);
	rec_munmap(h, 0, ANON, 1 << 20);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1);

	assert_int_equal(o.r.refs, 64 + 4 + 512);
	assert_int_equal(o.r.stores, 64 + 256);
	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 64 + 256);
	assert_true(o.counter[VM_quire_fault_file] >= 1);
	assert_int_equal(o.r.syscalls, 2);
	assert_int_equal(o.r.processes, 1);
	assert_true(o.r.rss_peak_bytes >= (64 + 256) * PAGE_SIZE);
	assert_true(o.r.rss_final_bytes < o.r.rss_peak_bytes);
	/* What stays is the file's page cache until the file goes: all of it comes back. */
	assert_int_equal(o.free_after, o.free_before);
}

/* The child writes what it shares: one copy a page; the parent then owns its pages alone and reuses them. */
static void fork_copies_on_write(void **state)
{
	struct hand *h = hand_new();
	uint64_t t;

	(void)state;
	rec_mmap(h, 0, ANON, 64 * PAGE_SIZE);
	rec_touch(h, 0, ANON, 64 * PAGE_SIZE, true);
	t = call_enter(h, 0, 56, 0x1200011, 0, 0, 0, 0, 0);
	rec_thread(h, 1, 101, 101, 0, t, 0x1200011, THREAD_FORK);
	call_return(h, 0, 56, 101, 1000);
	rec_touch(h, 1, ANON, 32 * PAGE_SIZE, true);
	rec_exit(h, 1, EXIT_PROCESS);
	call_enter(h, 0, 61, 101, 0, 0, 0, 0, 0);
	call_return(h, 0, 61, 101, 1000);
	rec_touch(h, 0, ANON, 64 * PAGE_SIZE, true);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.counter[VM_quire_fork], 1);
	assert_int_equal(o.counter[VM_quire_fault_cow_4k], 32);
	/* wait4 orders the parent's stores behind the child's exit, so none of them copies. */
	assert_int_equal(o.counter[VM_quire_fault_reuse_4k], 64);
	assert_int_equal(o.r.processes, 2);
	assert_int_equal(o.r.order_released, 0);
	assert_int_equal(o.free_after, o.free_before);
}

/* A vfork child borrows the address space; the parent goes on when it has executed something else. */
static void vfork_borrows(void **state)
{
	struct hand *h = hand_new();
	uint64_t t;

	(void)state;
	rec_mmap(h, 0, ANON, 16 * PAGE_SIZE);
	t = call_enter(h, 0, 58, 0, 0, 0, 0, 0, 0);
	rec_thread(h, 1, 101, 101, 0, t, 0, THREAD_VFORK);
	call_return(h, 0, 58, 101, 1000);
	rec_touch(h, 1, ANON, 16 * PAGE_SIZE, true);
	rec_image(h, 1);
	rec_touch(h, 1, STACK_TOP - 0x1000, 0x1000, true);
	rec_exit(h, 1, EXIT_PROCESS);
	rec_touch(h, 0, ANON, 16 * PAGE_SIZE, true);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.counter[VM_quire_fork], 0);
	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 16 + 1); /* the parent found the child's pages */
	assert_int_equal(o.r.images, 2);
	assert_int_equal(o.free_after, o.free_before);
}

/* A break that grew when it was recorded and can't here: what lies in it is nowhere, not in what was there before. */
static void brk_refused_here(void **state)
{
	struct hand *h = hand_new();
	uint64_t brk = EXE + 0x7000, far = brk + (1ULL << 37);
	struct outcome o;

	(void)state;
	call_enter(h, 0, 12, brk + 0x100000, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)brk + 0x100000, 100);
	rec_touch(h, 0, brk, 0x100000, true);
	call_enter(h, 0, 12, far, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)far, 100);
	rec_touch(h, 0, far - 0x10000, 0x10000, true);
	call_enter(h, 0, 12, brk + 0x100000, 0, 0, 0, 0, 0); /* given back: nothing to do here */
	call_return(h, 0, 12, (int64_t)brk + 0x100000, 100);
	rec_touch(h, 0, brk, 0x100000, false);
	rec_exit(h, 0, EXIT_PROCESS);
	o = replay_hand(h, 1, &plain);
	h->s.ops->close(&h->s);
	assert_int_equal(o.error, 0);
	assert_true(o.r.out_of_memory);
	assert_int_equal(o.r.mm_call_diffs, 1);
	assert_int_equal(o.r.refs_unmapped, 16);
	assert_int_equal(o.r.refs_failed, 0);
	assert_int_equal(o.r.refs, 512);
	assert_int_equal(o.free_after, o.free_before);
}

/* glibc goes round the emulator's short break with mmap: here both are the break, one area, and huge pages can span them. */
static void refused_brk_is_the_break(void **state)
{
	struct hand *h = hand_new();
	uint64_t brk = EXE + 0x7000;

	(void)state;
	call_enter(h, 0, 12, 0, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)brk, 100);
	call_enter(h, 0, 12, brk + 0x100000, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)brk + 0x100000, 100);
	rec_touch(h, 0, brk, 0x100000, true);
	call_enter(h, 0, 12, brk + 0x200000, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)brk + 0x100000, 100); /* refused */
	rec_mmap(h, 0, ANON, 0x100000);
	rec_touch(h, 0, ANON, 0x100000, true);
	rec_munmap(h, 0, ANON + 0x80000, 0x80000); /* trimmed */
	rec_touch(h, 0, ANON, 0x80000, false);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1);

	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 512);
	assert_int_equal(o.free_after, o.free_before);
}

/* One map stands for the refused break. The next is a map of its own: where Linux puts it, 2 MiB of it are one huge page. */
static void only_the_first_map_is_the_break(void **state)
{
	struct hand *h = hand_new();
	uint64_t brk = EXE + 0x7000;

	(void)state;
	call_enter(h, 0, 12, 0, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)brk, 100);
	call_enter(h, 0, 12, brk + 0x100000, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)brk, 100); /* refused */
	rec_mmap(h, 0, ANON, 0x100000);
	rec_touch(h, 0, ANON, 0x100000, true);
	rec_mmap(h, 0, ANON + (4 << 20), 2 << 20);
	rec_touch(h, 0, ANON + (4 << 20), PAGE_SIZE, true);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1);

	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 256);
	assert_int_equal(o.counter[VM_quire_fault_anon_2m], 1);
}

/* A forked child goes on with its parent's break, each with its own from then on. */
static void fork_inherits_the_break(void **state)
{
	struct hand *h = hand_new();
	uint64_t brk = EXE + 0x7000, t;

	(void)state;
	call_enter(h, 0, 12, brk + 16 * PAGE_SIZE, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)(brk + 16 * PAGE_SIZE), 100);
	rec_touch(h, 0, brk, 16 * PAGE_SIZE, true);
	t = call_enter(h, 0, 56, 0x1200011, 0, 0, 0, 0, 0);
	rec_thread(h, 1, 101, 101, 0, t, 0x1200011, THREAD_FORK);
	call_return(h, 0, 56, 101, 1000);
	call_enter(h, 1, 12, brk + 48 * PAGE_SIZE, 0, 0, 0, 0, 0);
	call_return(h, 1, 12, (int64_t)(brk + 48 * PAGE_SIZE), 100);
	rec_touch(h, 1, brk + 16 * PAGE_SIZE, 32 * PAGE_SIZE, true);
	call_enter(h, 1, 12, brk, 0, 0, 0, 0, 0);
	call_return(h, 1, 12, (int64_t)brk, 100);
	rec_exit(h, 1, EXIT_PROCESS);
	call_enter(h, 0, 12, brk + 20 * PAGE_SIZE, 0, 0, 0, 0, 0);
	call_return(h, 0, 12, (int64_t)(brk + 20 * PAGE_SIZE), 100);
	rec_touch(h, 0, brk, 20 * PAGE_SIZE, true);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.r.refs_failed, 0);
	assert_int_equal(o.r.refs, 16 + 32 + 20);
	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 16 + 32 + 4);
	assert_int_equal(o.free_after, o.free_before);
}

/* A hole in the middle of a map: both sides stay where they are. */
static void a_hole_leaves_both_sides(void **state)
{
	struct hand *h = hand_new();

	(void)state;
	rec_mmap(h, 0, ANON, 48 * PAGE_SIZE);
	rec_touch(h, 0, ANON, 48 * PAGE_SIZE, true);
	rec_munmap(h, 0, ANON + 16 * PAGE_SIZE, 16 * PAGE_SIZE);
	rec_touch(h, 0, ANON, 16 * PAGE_SIZE, true);
	rec_touch(h, 0, ANON + 32 * PAGE_SIZE, 16 * PAGE_SIZE, true);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1); /* which fails on a reference that found no area */

	assert_int_equal(o.r.refs, 48 + 32);
	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 48);
}

static struct hand *two_threads(void)
{
	struct hand *h = hand_new();
	uint64_t t = call_enter(h, 0, 56, 0x3d0f00, 0, 0, ANON + 0x900, 0, 0);

	rec_thread(h, 1, 100, 101, 0, t, 0x3d0f00, THREAD_CLONE);
	call_return(h, 0, 56, 101, 1000);
	return h;
}

/* Thread 1 uses memory that thread 0 maps later in its own time: the reference waits for the map instead of being lost. */
static void other_threads_map_is_waited_for(void **state)
{
	struct hand *h = two_threads();

	(void)state;
	for (int i = 0; i < 2000; i++) /* thread 0 is slow */
		put(h, 0, word_ref(STACK_TOP - 64, 3, 1, 4000));
	rec_mmap(h, 0, ANON, 64 * PAGE_SIZE);
	call_enter(h, 0, 202, ANON, 1, 1, 0, 0, 0);
	call_return(h, 0, 202, 1, 100);
	rec_touch(h, 1, ANON, 64 * PAGE_SIZE, true);
	call_enter(h, 1, 39, 0, 0, 0, 0, 0, 0);
	call_return(h, 1, 39, 100, 100);
	rec_exit(h, 1, EXIT_THREAD);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 64 + 1);
	assert_int_equal(o.r.processes, 1);
}

/* A futex wait ends after the wake: what the waiter touches afterwards comes after what the waker did before. */
static void futex_orders(void **state)
{
	struct hand *h = two_threads();
	uint64_t waits, word = EXE + 0x5000;

	(void)state;
	rec_mmap(h, 0, ANON, 64 * PAGE_SIZE);
	waits = call_enter(h, 1, 202, word, 0x80, 0, 0, 0, 0);
	(void)waits;
	for (int i = 0; i < 500; i++)
		put(h, 0, word_ref(STACK_TOP - 64, 3, 1, 4000));
	rec_touch(h, 0, ANON, 64 * PAGE_SIZE, true);
	call_enter(h, 0, 202, word, 0x81, 1, 0, 0, 0);
	call_return(h, 0, 202, 1, 100);
	call_return(h, 1, 202, 0, 500000);
	rec_munmap(h, 1, ANON, 64 * PAGE_SIZE);
	rec_exit(h, 1, EXIT_THREAD);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 64 + 1);
	assert_int_equal(o.r.order_released, 0);
	assert_int_equal(o.r.think_ns, 0);
	assert_true(o.r.elapsed_ns > 500 * 4000 / 4); /* the waiter's end lies behind the waker's work */
}

/*
 * The kernel clears a dying thread's word and wakes who waits on it. So the first thread's work goes on beside the third's, which is
 * as long; without the wake it would begin when nobody could wake it any more, behind the third's.
 */
static void a_threads_end_wakes_its_joiner(void **state)
{
	struct hand *h = two_threads();
	uint64_t t = call_enter(h, 0, 56, 0x3d0f00, 0, 0, ANON + 0x980, 0, 0);

	(void)state;
	rec_thread(h, 2, 100, 102, 0, t, 0x3d0f00, THREAD_CLONE);
	call_return(h, 0, 56, 102, 1000);
	call_enter(h, 0, 202, ANON + 0x900, 0, 101, 0, 0, 0);
	rec_exit(h, 1, EXIT_THREAD);
	call_return(h, 0, 202, 0, 100000);
	for (int i = 0; i < 1000; i++) {
		put(h, 0, word_ref(STACK_TOP - 64, 3, 1, 4000));
		put(h, 2, word_ref(STACK_TOP - 4096, 3, 1, 4000));
	}
	rec_exit(h, 2, EXIT_THREAD);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 3);

	assert_true(o.r.elapsed_ns < o.r.cpu_ns * 3 / 4);
}

/* A slow thread's stores were before the call that takes the right to store away: they come before it here too. */
static void mprotect_waits_for_earlier_stores(void **state)
{
	struct hand *h = two_threads();

	(void)state;
	rec_mmap(h, 0, ANON, 64 * PAGE_SIZE);
	for (int i = 0; i < 30; i++) /* slow, and its next ticket is known */
		put(h, 1, word_ref(STACK_TOP - 4096, 3, 1, 4000));
	rec_touch(h, 1, ANON, 16 * PAGE_SIZE, true);
	call_enter(h, 1, 39, 0, 0, 0, 0, 0, 0);
	call_return(h, 1, 39, 100, 100);
	call_enter(h, 0, 10, ANON, 64 * PAGE_SIZE, PROT_READ, 0, 0, 0);
	call_return(h, 0, 10, 0, 100);
	rec_exit(h, 1, EXIT_THREAD);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.r.refs_failed, 0);
	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 16 + 1);
}

/* The same of calls that take the memory itself away. */
static void earlier_stores_come_before_what_goes(void **state)
{
	static const struct {
		unsigned nr;
		uint64_t arg;
	} calls[] = { { 11, 0 }, { 28, MADV_DONTNEED }, { 28, MADV_FREE } };

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct hand *h = two_threads();

		rec_mmap(h, 0, ANON, 64 * PAGE_SIZE);
		for (int k = 0; k < 30; k++) /* slow, and its next ticket is known */
			put(h, 1, word_ref(STACK_TOP - 4096, 3, 1, 4000));
		rec_touch(h, 1, ANON, 16 * PAGE_SIZE, true);
		call_enter(h, 1, 39, 0, 0, 0, 0, 0, 0);
		call_return(h, 1, 39, 100, 100);
		call_enter(h, 0, calls[i].nr, ANON, 64 * PAGE_SIZE, calls[i].arg, 0, 0, 0);
		call_return(h, 0, calls[i].nr, 0, 100);
		if (calls[i].nr == 28) /* each page is there again */
			rec_touch(h, 0, ANON, 16 * PAGE_SIZE, true);
		rec_exit(h, 1, EXIT_THREAD);
		rec_exit(h, 0, EXIT_PROCESS);
		/* What another CPU has in its batches, and not yet on a list, can't be freed lazily (lru.h). */
		struct outcome o = run_and_close(h, calls[i].arg == MADV_FREE ? 1 : 2);

		assert_int_equal(o.counter[VM_quire_fault_anon_4k], (calls[i].arg == MADV_DONTNEED ? 32 : 16) + 1);
		assert_int_equal(o.counter[VM_pglazyfree], calls[i].arg == MADV_FREE ? 16 : 0);
	}
}

/* What is given back at once was there all the same, by whatever call it goes. */
static void peak_is_before_what_goes(void **state)
{
	(void)state;
	for (int how = 0; how < 5; how++) {
		struct hand *h = hand_new();
		uint64_t at = how == 4 ? EXE + 0x7000 : ANON;

		if (how == 4) {
			call_enter(h, 0, 12, at + 40 * PAGE_SIZE, 0, 0, 0, 0, 0);
			call_return(h, 0, 12, (int64_t)(at + 40 * PAGE_SIZE), 100);
		} else {
			rec_mmap(h, 0, at, 40 * PAGE_SIZE);
		}
		rec_touch(h, 0, at, 40 * PAGE_SIZE, true);
		if (how == 0)
			call_enter(h, 0, 11, at, 40 * PAGE_SIZE, 0, 0, 0, 0);
		else if (how == 1)
			call_enter(h, 0, 28, at, 40 * PAGE_SIZE, 4, 0, 0, 0);
		else if (how == 2)
			call_enter(h, 0, 25, at, 40 * PAGE_SIZE, PAGE_SIZE, 0, 0, 0);
		else if (how == 3)
			call_enter(h, 0, 9, at, 40 * PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ULL, 0);
		else
			call_enter(h, 0, 12, at, 0, 0, 0, 0, 0);
		call_return(h, 0, (unsigned[]){ 11, 28, 25, 9, 12 }[how], how == 1 || how == 0 ? 0 : (int64_t)at, 100);
		rec_exit(h, 0, EXIT_PROCESS);
		struct outcome o = run_and_close(h, 1);

		assert_int_equal(o.r.rss_peak_bytes, 40 * PAGE_SIZE);
	}
}

/* Nobody wakes it: it is let go, the replay ends. */
static void wait_without_waker_ends(void **state)
{
	struct hand *h = two_threads();

	(void)state;
	call_enter(h, 1, 202, EXE + 0x5000, 0x80, 0, 0, 0, 0);
	call_return(h, 1, 202, 0, 500000);
	call_enter(h, 0, 202, EXE + 0x5008, 0x80, 0, 0, 0, 0);
	call_return(h, 0, 202, 0, 500000);
	rec_exit(h, 0, EXIT_THREAD);
	rec_exit(h, 1, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.r.streams, 2);
}

/*
 * A thread that looks up every 300 ms while another works, because the recording is slow: that time is the emulator's, and the
 * wait is for the worker. Also for those looks that come after the worker is done here.
 */
static void waiting_for_a_worker_is_not_think_time(void **state)
{
	struct hand *h = two_threads();
	uint64_t word = EXE + 0x5000;

	(void)state;
	for (int i = 0; i < 8; i++) {
		call_enter(h, 0, 202, word, 0x89, 0, 0, 0, 0);
		call_return(h, 0, 202, -110, 300000000);
	}
	call_enter(h, 0, 202, word, 0x80, 0, 0, 0, 0);
	for (int i = 0; i < 30000; i++)
		put(h, 1, word_ref(STACK_TOP - 64, 3, 1, 4));
	call_enter(h, 1, 202, word, 0x81, 1, 0, 0, 0);
	call_return(h, 1, 202, 1, 100);
	call_return(h, 0, 202, 0, 1000);
	rec_exit(h, 1, EXIT_THREAD);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 2);

	assert_int_equal(o.r.think_ns, 0);
	assert_true(o.r.elapsed_ns < 300000000);
}

/*
 * Two maps side by side as recorded, the lower one mapped first: here the second lies below the first. A MAP_FIXED over the end of
 * one and the start of the other must touch those two and nothing else.
 */
static void fixed_over_two_areas(void **state)
{
	struct hand *h = hand_new();

	(void)state;
	rec_mmap(h, 0, ANON, 16 * PAGE_SIZE);
	rec_mmap(h, 0, ANON + 16 * PAGE_SIZE, 16 * PAGE_SIZE);
	rec_mmap(h, 0, ANON + 64 * PAGE_SIZE, 16 * PAGE_SIZE);
	rec_touch(h, 0, ANON, 32 * PAGE_SIZE, true);
	rec_touch(h, 0, ANON + 64 * PAGE_SIZE, 16 * PAGE_SIZE, true);
	call_enter(h, 0, 9, ANON + 12 * PAGE_SIZE, 8 * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ULL, 0);
	call_return(h, 0, 9, ANON + 12 * PAGE_SIZE, 100);
	rec_touch(h, 0, ANON, 32 * PAGE_SIZE, true);
	rec_touch(h, 0, ANON + 64 * PAGE_SIZE, 16 * PAGE_SIZE, true);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1);

	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 48 + 8);
	assert_int_equal(o.r.rss_peak_bytes, 48 * PAGE_SIZE);
}

static void outside_wait_is_think_time(void **state)
{
	struct hand *h = hand_new();

	(void)state;
	call_enter(h, 0, 232, 5, 0, 0, 0, 0, 0);
	call_return(h, 0, 232, 1, 7000000);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1);

	assert_int_equal(o.r.think_ns, 7000000);
	assert_true(o.r.elapsed_ns >= 7000000 && o.r.cpu_ns < 7000000);
}

/* The kernel's own copy into fresh memory takes that memory's faults. */
static void read_into_fresh_memory_faults(void **state)
{
	struct hand *h = hand_new();

	(void)state;
	rec_mmap(h, 0, ANON, 64 * PAGE_SIZE);
	call_enter(h, 0, 0, 3, ANON, 64 * PAGE_SIZE, 0, 0, 0);
	CONTROL(h, 0, W_FILE, 0, 1, 99, 64 * PAGE_SIZE, 0, FILE_REGULAR);
	CONTROL(h, 0, W_BUFFER, 1, ANON, 64 * PAGE_SIZE);
	call_return(h, 0, 0, 64 * PAGE_SIZE, 1000);
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome o = run_and_close(h, 1);

	assert_int_equal(o.counter[VM_quire_fault_anon_4k], 64);
	assert_int_equal(o.r.refs, 0);
}

static struct hand *two_at_work(void)
{
	struct hand *h = two_threads();
	struct rng r;

	rng_init(&r, 7, "busy");
	rec_mmap(h, 0, ANON, 4 << 20);
	for (int i = 0; i < 3000; i++) {
		put(h, 0, word_ref(ANON + rng_below(&r, (4 << 20) - 64), (unsigned)rng_below(&r, 7), (int)rng_below(&r, 2),
				   1 + rng_below(&r, 30)));
		if (i > 100)
			put(h, 1, word_ref(ANON + rng_below(&r, (4 << 20) - 64), 3, (int)rng_below(&r, 2), 5));
	}
	rec_exit(h, 1, EXIT_THREAD);
	rec_exit(h, 0, EXIT_PROCESS);
	return h;
}

static void same_bytes_every_time(void **state)
{
	struct hand *h = two_at_work();
	struct outcome a = replay_hand(h, 2, &plain), b = replay_hand(h, 2, &plain);

	(void)state;
	h->s.ops->close(&h->s);
	assert_int_equal(a.error, 0);
	assert_memory_equal(&a, &b, sizeof(a));
}

/* The fast path and one machine_access a reference come to the same counts. */
static void fast_path_equals_slow_path(void **state)
{
	struct hand *h = hand_new();
	struct replay_options slow = { .generic_access = true };
	struct rng r;

	(void)state;
	rng_init(&r, 9, "fast");
	rec_mmap(h, 0, ANON, 4 << 20);
	for (int i = 0; i < 5000; i++)
		put(h, 0, word_ref(ANON + rng_below(&r, (4 << 20) - 64), (unsigned)rng_below(&r, 7), (int)rng_below(&r, 2),
				   1 + rng_below(&r, 30)));
	rec_exit(h, 0, EXIT_PROCESS);
	struct outcome a = replay_hand(h, 1, &plain), b = replay_hand(h, 1, &slow);

	h->s.ops->close(&h->s);
	assert_int_equal(a.error, 0);
	assert_memory_equal(&a.r, &b.r, sizeof(a.r));
	assert_memory_equal(a.counter, b.counter, sizeof(a.counter));
}

/* Recordings come from other people: any words at all must come to an end, with nothing lost. */
static void nonsense_ends(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct hand *h = two_threads();
		struct rng r;

		rng_init(&r, seed, "nonsense");
		for (int i = 0; i < 300; i++) {
			unsigned st = (unsigned)rng_below(&r, 2);
			static const unsigned nrs[] = { 9, 10, 11, 12, 25, 28, 56, 57, 58, 61, 149, 151, 202, 0, 1, 232, 157, 435 };
			uint64_t a = ANON + rng_below(&r, 64) * PAGE_SIZE * (1 + 511 * rng_below(&r, 2));

			switch (rng_below(&r, 6)) {
			case 0:
				rec_mmap(h, st, a, rng_below(&r, 1 << 22));
				break;
			case 1:
				call_enter(h, st, nrs[rng_below(&r, ARRAY_SIZE(nrs))], a, rng_next(&r) >> rng_below(&r, 64),
					   rng_next(&r) >> rng_below(&r, 64), rng_below(&r, 64), a, 0);
				break;
			case 2:
				call_return(h, st, 0, (int64_t)(rng_next(&r) >> rng_below(&r, 64)), rng_below(&r, 100000));
				break;
			case 3:
				CONTROL(h, st, W_BUFFER, rng_below(&r, 2), a, rng_next(&r) >> (40 + rng_below(&r, 24)));
				break;
			case 4:
				CONTROL(h, st, W_AREA, rng_below(&r, 9), a, rng_next(&r) >> (36 + rng_below(&r, 28)), rng_below(&r, 9),
					rng_below(&r, 2), 5, 0, 1 << 20);
				break;
			default:
				rec_touch(h, st, a, rng_below(&r, 1 << 18), rng_below(&r, 2));
			}
		}
		rec_exit(h, 0, EXIT_PROCESS);
		struct outcome o = replay_hand(h, 2, &plain);

		h->s.ops->close(&h->s);
		if (o.error && o.error != -ENOMEM)
			fail_msg("seed %d: %d %s", (int)seed, o.error, o.err);
		assert_int_equal(o.free_after, o.free_before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process),
		cmocka_unit_test(fork_copies_on_write),
		cmocka_unit_test(vfork_borrows),
		cmocka_unit_test(refused_brk_is_the_break),
		cmocka_unit_test(brk_refused_here),
		cmocka_unit_test(only_the_first_map_is_the_break),
		cmocka_unit_test(fork_inherits_the_break),
		cmocka_unit_test(a_hole_leaves_both_sides),
		cmocka_unit_test(other_threads_map_is_waited_for),
		cmocka_unit_test(futex_orders),
		cmocka_unit_test(a_threads_end_wakes_its_joiner),
		cmocka_unit_test(mprotect_waits_for_earlier_stores),
		cmocka_unit_test(earlier_stores_come_before_what_goes),
		cmocka_unit_test(peak_is_before_what_goes),
		cmocka_unit_test(wait_without_waker_ends),
		cmocka_unit_test(waiting_for_a_worker_is_not_think_time),
		cmocka_unit_test(fixed_over_two_areas),
		cmocka_unit_test(outside_wait_is_think_time),
		cmocka_unit_test(read_into_fresh_memory_faults),
		cmocka_unit_test(same_bytes_every_time),
		cmocka_unit_test(fast_path_equals_slow_path),
		cmocka_unit_test(nonsense_ends),
	};

	return test_run(tests);
}
