/* Fibers over ucontext: portable, but each switch is a system call (it saves the signal mask). */
#include "machine/fiber_int.h"

#ifdef QUIRE_FIBER_UCONTEXT

#include <errno.h>
#include <stdint.h>

/* makecontext passes ints only: the pointer comes in two halves. */
static void ucontext_entry(unsigned hi, unsigned lo)
{
	fiber_main((struct fiber *)(((uintptr_t)hi << 16 << 16) | lo));
}

int fiber_arch_prepare(struct fiber *f)
{
	uintptr_t p = (uintptr_t)f;

	if (getcontext(&f->inside))
		return -errno;
	f->inside.uc_stack.ss_sp = f->stack;
	f->inside.uc_stack.ss_size = f->stack_size;
	f->inside.uc_link = NULL;
	makecontext(&f->inside, (void (*)(void))ucontext_entry, 2, (unsigned)(p >> 16 >> 16), (unsigned)(p & 0xffffffffU));
	return 0;
}

void fiber_arch_enter(struct fiber *f)
{
	swapcontext(&f->outside, &f->inside);
}

void fiber_arch_leave(struct fiber *f)
{
	swapcontext(&f->inside, &f->outside);
}

#endif
