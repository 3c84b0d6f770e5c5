/*
 * System calls, and where threads and processes begin and end.
 *
 * A new thread is matched to its clone call through its vCPU number, which the emulator gives out inside the parent's
 * call; a forked process through the fork handlers of libc, which run inside the emulator's fork, before the child's
 * first reference.
 */
#define _GNU_SOURCE
#include "record/plugin/plugin.h"

#include <pthread.h>
#include <time.h>

enum {
	NR_clone = 56, NR_fork = 57, NR_vfork = 58, NR_execve = 59, NR_exit = 60, NR_exit_group = 231, NR_clone3 = 435,
};

#define CLONE_VM_ 0x100U
#define CLONE_VFORK_ 0x4000U
#define SIGCHLD_ 17U

#define PENDING 4096
#define CHILD_WAIT_SPINS 2000
#define CHILD_WAIT_PAUSES 10000 /* of 100 us */

/* By vCPU number: the clone call that made it. Written by the parent before the child runs. */
static struct {
	uint64_t parent, ticket, flags;
	bool set;
} pending[PENDING];

static uint64_t clone_flags(const struct ring *r)
{
	if (r->sys_nr == NR_fork)
		return SIGCHLD_;
	if (r->sys_nr == NR_vfork)
		return CLONE_VM_ | CLONE_VFORK_ | SIGCHLD_;
	return r->sys_args[0];
}

static bool is_clone(uint64_t nr)
{
	return nr == NR_clone || nr == NR_fork || nr == NR_vfork || nr == NR_clone3;
}

void sys_vcpu_created(uint64_t id, unsigned vcpu)
{
	struct ring *r = my_ring;

	(void)id;
	if (!r || !r->sys_open || !is_clone(r->sys_nr))
		return;
	pending[vcpu % PENDING].parent = r->stream;
	pending[vcpu % PENDING].ticket = r->sys_ticket;
	pending[vcpu % PENDING].flags = clone_flags(r);
	pending[vcpu % PENDING].set = true;
}

void sys_thread_begin(unsigned vcpu)
{
	unsigned i = vcpu % PENDING;

	if (!pending[i].set) {
		my_ring = stream_open(own.first_how, own.first_parent, own.first_ticket, 0);
		return;
	}
	pending[i].set = false;
	my_ring = stream_open(THREAD_CLONE, pending[i].parent, pending[i].ticket, pending[i].flags);
}

/* ---- fork ---- */

static void before_fork(void)
{
	struct ring *r = my_ring;

	own.fork_parent = r ? r->stream : RING_NO_STREAM;
	own.fork_ticket = r && r->sys_open ? r->sys_ticket : 0;
	own.fork_flags = r && r->sys_open ? clone_flags(r) : SIGCHLD_;
	own.fork_threads = __atomic_load_n(&own.live_threads, __ATOMIC_RELAXED) > 1;
}

static void in_child(void)
{
	enum thread_how how = own.fork_flags & CLONE_VFORK_ ? THREAD_VFORK : THREAD_FORK;

	own.fragile |= own.fork_threads;
	own.live_threads = 0;
	my_ring = stream_open(how, own.fork_parent, own.fork_ticket, own.fork_flags);
}

int sys_setup(void)
{
	return pthread_atfork(before_fork, NULL, in_child) ? -1 : 0;
}

/* R5: give the child the time to begin. It needs one turn on a CPU. */
static void wait_for_child(const struct ring *r)
{
	const uint64_t *a = &own.shared->announced[r->sys_ticket % RING_ANNOUNCE];

	for (unsigned i = 0; i < CHILD_WAIT_SPINS + CHILD_WAIT_PAUSES; i++) {
		if (__atomic_load_n(a, __ATOMIC_ACQUIRE) == r->sys_ticket || own.shared->off || r->discard)
			return;
		if (i < CHILD_WAIT_SPINS)
			__builtin_ia32_pause();
		else
			plugin_pause_us(100);
	}
}

/* ---- calls ---- */

static uint64_t cpu_time_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void sys_enter(uint64_t id, unsigned vcpu, int64_t nr, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
	       uint64_t a6, uint64_t a7, uint64_t a8)
{
	struct ring *r;

	(void)id;
	(void)a7;
	(void)a8;
	if (!my_ring)
		sys_thread_begin(vcpu);
	r = my_ring;
	if (!own.image_described)
		image_describe(r, 0);
	ring_flush_insns(r);
	r->sys_nr = (uint64_t)nr;
	r->sys_args[0] = a1;
	r->sys_args[1] = a2;
	r->sys_args[2] = a3;
	r->sys_args[3] = a4;
	r->sys_args[4] = a5;
	r->sys_args[5] = a6;
	r->sys_ticket = ring_ticket(own.shared);
	r->sys_open = 1;
	r->syscalls++;
	ring_put(r, W_SYSCALL, (uint64_t)nr, (uint64_t[]){ r->sys_ticket, a1, a2, a3, a4, a5, a6, plugin_now_ns() }, 8);
	switch (nr) {
	case NR_exit:
	case NR_exit_group:
		my_ring = NULL;
		stream_close(r, nr == NR_exit && own.live_threads > 1 ? EXIT_THREAD : EXIT_PROCESS, a1 & 0xff);
		break;
	case NR_execve:
		exec_substitute(r, a1, a2, a3);
		r->unrecorded_ns = plugin_now_ns();
		break;
	case NR_clone:
		if (own.fragile && (a1 & CLONE_VM_) && !(a1 & CLONE_VFORK_))
			r->doomed_ns = plugin_now_ns();
		break;
	default:
		break;
	}
}

void sys_return(uint64_t id, unsigned vcpu, int64_t nr, int64_t ret)
{
	struct ring *r = my_ring;
	uint64_t now = plugin_now_ns();

	(void)id;
	(void)vcpu;
	/* In a forked child the call that returns is its parent's. */
	if (!r || !r->sys_open || r->sys_nr != (uint64_t)nr)
		return;
	r->sys_open = 0;
	r->doomed_ns = 0;
	r->unrecorded_ns = 0;
	if (is_clone((uint64_t)nr) && ret > 0)
		wait_for_child(r);
	sysbuf_put(r, (uint64_t)nr, r->sys_args, ret);
	ring_put(r, W_SYSRET, (uint64_t)nr, (uint64_t[]){ ring_ticket(own.shared), (uint64_t)ret, now, cpu_time_ns() }, 4);
}
