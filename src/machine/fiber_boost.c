/*
 * Fibers over Boost.Context's C entry points, which its header offers to C++ only: make_fcontext and jump_fcontext, from the
 * static library. jump_fcontext returns where the other side left off, which is where the next jump to it must go.
 */
#include "machine/fiber_int.h"

#ifndef QUIRE_FIBER_UCONTEXT

struct boost_transfer {
	void *context;
	void *data;
};

void *make_fcontext(void *stack_top, size_t size, void (*fn)(struct boost_transfer));
struct boost_transfer jump_fcontext(void *to, void *data);

static void boost_entry(struct boost_transfer t)
{
	struct fiber *f = t.data;

	f->outside = t.context;
	fiber_main(f);
}

int fiber_arch_prepare(struct fiber *f)
{
	f->inside = make_fcontext(f->stack + f->stack_size, f->stack_size, boost_entry);
	return 0;
}

void fiber_arch_enter(struct fiber *f)
{
	f->inside = jump_fcontext(f->inside, f).context;
}

void fiber_arch_leave(struct fiber *f)
{
	f->outside = jump_fcontext(f->outside, f).context;
}

#endif
