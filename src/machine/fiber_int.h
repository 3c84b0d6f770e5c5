/* What fiber.c and its two back ends share. */
#ifndef QUIRE_MACHINE_FIBER_INT_H
#define QUIRE_MACHINE_FIBER_INT_H

#include "base/list.h"
#include "machine/fiber.h"

#ifdef QUIRE_FIBER_UCONTEXT
#include <ucontext.h>
#endif

struct fiber {
	struct fiber_pool *pool;
	struct list_head link; /* on the pool's list of free ones */
	void (*fn)(void *arg);
	void *arg;
	char *map;   /* the guard page, then the stack */
	char *stack; /* lowest usable byte */
	size_t stack_size;
	void *fake_stack; /* AddressSanitizer's, while the fiber is not running */
	void *tsan;       /* ThreadSanitizer's context */
#ifdef QUIRE_FIBER_UCONTEXT
	ucontext_t inside, outside;
#else
	void *inside, *outside;
#endif
};

/* fiber.c: the first function on a fiber's stack; calls f->fn and does not return. */
_Noreturn void fiber_main(struct fiber *f);

/* Back end: make f ready so that the first fiber_arch_enter calls fiber_main(f) on its stack. 0 or -errno. */
int fiber_arch_prepare(struct fiber *f);
void fiber_arch_enter(struct fiber *f);
void fiber_arch_leave(struct fiber *f);

#endif
