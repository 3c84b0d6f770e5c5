/*
 * Fibers: pool, stacks, and what the sanitizers must be told (fiber.h has the rules).
 *
 * A stack is mapped when a fiber needs one and none is free, and given back to the kernel only with the pool: programs that start
 * and end thousands of tasks pay for the deepest moment once. AddressSanitizer's shadow of a reused stack is cleaned, since
 * frames that never returned (the entry function's) leave their red zones behind.
 */
#include "machine/fiber_int.h"

#include "base/assert.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif

#ifdef FIBER_ASAN
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *save, const void **ret_bottom, size_t *ret_size);
void __asan_unpoison_memory_region(void const volatile *p, size_t size);
#endif
#ifdef FIBER_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

struct fiber_pool {
	struct list_head free;
	unsigned live; /* fibers handed out */
	/* the owner's context, for the sanitizers, while a fiber runs */
	void *fake_stack;
	const void *stack;
	size_t stack_size;
	void *tsan;
};

/*
 * The notices are inlined into the functions that switch: ThreadSanitizer keeps a call stack a context, and a function that
 * is entered in one context must be left in it.
 */
static ATTR_ALWAYS_INLINE void announce_enter(ATTR_UNUSED struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(&f->pool->fake_stack, f->stack, f->stack_size);
#endif
#ifdef FIBER_TSAN
	f->pool->tsan = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(f->tsan, 0);
#endif
}

static ATTR_ALWAYS_INLINE void entered(ATTR_UNUSED struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(f->fake_stack, &f->pool->stack, &f->pool->stack_size);
#endif
}

static ATTR_ALWAYS_INLINE void announce_leave(ATTR_UNUSED struct fiber *f, ATTR_UNUSED int last)
{
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(last ? NULL : &f->fake_stack, f->pool->stack, f->pool->stack_size);
#endif
#ifdef FIBER_TSAN
	__tsan_switch_to_fiber(f->pool->tsan, 0);
#endif
}

static ATTR_ALWAYS_INLINE void left(ATTR_UNUSED struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(f->pool->fake_stack, NULL, NULL);
#endif
}

struct fiber_pool *fiber_pool_create(void)
{
	struct fiber_pool *pool = calloc(1, sizeof(*pool));

	if (pool)
		list_init(&pool->free);
	return pool;
}

static size_t guard_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

void fiber_pool_destroy(struct fiber_pool *pool)
{
	struct fiber *f, *tmp;

	if (!pool)
		return;
	ASSERT(!pool->live);
	list_for_each_entry_safe(f, tmp, &pool->free, link) {
		munmap(f->map, guard_size() + f->stack_size);
		free(f);
	}
	free(pool);
}

static struct fiber *fiber_new(struct fiber_pool *pool)
{
	struct fiber *f = calloc(1, sizeof(*f));
	size_t guard = guard_size();

	if (!f)
		return NULL;
	f->pool = pool;
	f->stack_size = ALIGN_UP(FIBER_STACK_SIZE, guard);
	f->map = mmap(NULL, guard + f->stack_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (f->map == MAP_FAILED) {
		free(f);
		return NULL;
	}
	if (mprotect(f->map, guard, PROT_NONE)) {
		munmap(f->map, guard + f->stack_size);
		free(f);
		return NULL;
	}
	f->stack = f->map + guard;
	list_init(&f->link);
	return f;
}

struct fiber *fiber_create(struct fiber_pool *pool, void (*fn)(void *arg), void *arg)
{
	struct fiber *f;

	if (list_empty(&pool->free)) {
		f = fiber_new(pool);
		if (!f)
			return NULL;
	} else {
		f = list_first_entry(&pool->free, struct fiber, link);
		list_del(&f->link);
#ifdef FIBER_ASAN
		__asan_unpoison_memory_region(f->stack, f->stack_size);
#endif
	}
	f->fn = fn;
	f->arg = arg;
	f->fake_stack = NULL;
	if (fiber_arch_prepare(f)) {
		list_add(&f->link, &pool->free);
		return NULL;
	}
#ifdef FIBER_TSAN
	f->tsan = __tsan_create_fiber(0);
#endif
	pool->live++;
	return f;
}

void fiber_free(struct fiber *f)
{
	if (!f)
		return;
#ifdef FIBER_TSAN
	__tsan_destroy_fiber(f->tsan);
#endif
	f->pool->live--;
	list_add(&f->link, &f->pool->free); /* last in, first out: its stack is warm */
}

void fiber_main(struct fiber *f)
{
	entered(f);
	f->fn(f->arg);
	quire_bug(__FILE__, __LINE__, "a fiber's entry function returned");
}

void fiber_switch(struct fiber *f)
{
	announce_enter(f);
	fiber_arch_enter(f);
	left(f);
}

void fiber_yield(struct fiber *f, int last)
{
	announce_leave(f, last);
	fiber_arch_leave(f);
	entered(f);
}
