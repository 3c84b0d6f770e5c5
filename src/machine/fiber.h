/*
 * Fibers: contexts with a stack of their own, switched by hand. Four functions over one of two back ends:
 *   fiber_boost.c     Boost.Context's C entry points, a few nanoseconds a switch
 *   fiber_ucontext.c  ucontext, portable, some hundred nanoseconds (build define QUIRE_FIBER_UCONTEXT)
 *
 * Rules
 *  F1 A pool and its fibers belong to one host thread at a time.
 *  F2 Only the pool's owner (the context that called fiber_switch last without being a fiber: 'the scheduler') and the fiber that it
 *     switched to alternate: fiber_switch goes in, fiber_yield comes out. Fibers never switch to each other.
 *  F3 A fiber's entry function never returns: it ends by a last fiber_yield, after which the owner frees the fiber.
 *  F4 Stacks are mapped on first use with a guard page below, and reused: their memory is touched lazily by the kernel.
 * AddressSanitizer and ThreadSanitizer are told about each switch.
 */
#ifndef QUIRE_MACHINE_FIBER_H
#define QUIRE_MACHINE_FIBER_H

#include "base/compiler.h"

#define FIBER_STACK_SIZE (256UL << 10)

struct fiber;
struct fiber_pool;

ATTR_MUST_CHECK struct fiber_pool *fiber_pool_create(void); /* NULL: out of memory */
void fiber_pool_destroy(struct fiber_pool *pool);           /* all fibers must have been freed */

/* A fiber that will run fn(arg) on its first switch. NULL: out of memory or mappings. */
ATTR_MUST_CHECK struct fiber *fiber_create(struct fiber_pool *pool, void (*fn)(void *arg), void *arg);
/* Also for a fiber that has not ended: whatever its frames owned is lost. Never for the one that runs. */
void fiber_free(struct fiber *f);

/* Run f until it yields. */
void fiber_switch(struct fiber *f);
/* Back to the owner. last: this fiber will not be switched to again. */
void fiber_yield(struct fiber *f, int last);

#endif
