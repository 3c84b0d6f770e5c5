/*
 * The loops that write descriptors, bare: no charges, no tests, nothing that the compiler could not see through. scripts/count-stores
 * counts in their machine code what is left of the eight stores that zero a descriptor.
 */
#include "mm/meminit.h"

#include <string.h>

/*
 * Word stores instead of a call: the compiler drops those that a field's store overwrites, and may merge the rest. A size that it can't
 * be done for is an error when compiling.
 */
#define ZERO_WORDS(p)                                                                              \
	do {                                                                                        \
		_Static_assert(sizeof(*(p)) % 8 == 0 && sizeof(*(p)) >= 56 && sizeof(*(p)) <= 80,   \
			       "descriptors of 56, 64, 72 or 80 bytes");                            \
		zero_words((p), sizeof(*(p)));                                                      \
	} while (0)

static ATTR_ALWAYS_INLINE void zero_words(void *p, size_t size)
{
	uint64_t *word = p;

	switch (size) {
	case 80:
		word[9] = 0;
		__attribute__((fallthrough));
	case 72:
		word[8] = 0;
		__attribute__((fallthrough));
	case 64:
		word[7] = 0;
		__attribute__((fallthrough));
	case 56:
		word[6] = 0;
		word[5] = 0;
		word[4] = 0;
		word[3] = 0;
		word[2] = 0;
		word[1] = 0;
		word[0] = 0;
	}
}

#define SIZED(n)                                                                                   \
	static ATTR_NOINLINE void zero_##n(void *p)                                                 \
	{                                                                                           \
		struct {                                                                            \
			uint64_t word[(n) / 8];                                                     \
		} *d = p;                                                                           \
		ZERO_WORDS(d);                                                                      \
	}
SIZED(56)
SIZED(64)
SIZED(72)
SIZED(80)

bool meminit_zero_sized(void *p, size_t size)
{
	switch (size) {
	case 56:
		zero_56(p);
		return true;
	case 64:
		zero_64(p);
		return true;
	case 72:
		zero_72(p);
		return true;
	case 80:
		zero_80(p);
		return true;
	}
	return false;
}

static ATTR_ALWAYS_INLINE void set_fields(struct frame *f, uint64_t flags, int refs)
{
	f->flags = flags;
	list_init(&f->lru);
	f->refcount = refs;
	f->mapcount = -1;
}

/*
 * Keeps one descriptor's stores together: compilers otherwise make two loops of one, the second for the flags word alone, which goes over
 * all of the memory again.
 */
static ATTR_ALWAYS_INLINE void one_after_the_other(void)
{
	__asm__ volatile("" ::: "memory");
}

/* A real call for each: the library is not known to a freestanding compiler. */
void meminit_one_memset(struct frame *f, uint64_t flags)
{
	memset(f, 0, sizeof(*f));
	set_fields(f, flags, 1);
}

void meminit_one_words(struct frame *f, uint64_t flags)
{
	ZERO_WORDS(f);
	set_fields(f, flags, 1);
}

void meminit_run_memset(struct frame *f, uint64_t n, uint64_t flags)
{
	for (const struct frame *end = f + n; f < end; f++) {
		memset(f, 0, sizeof(*f));
		set_fields(f, flags, 1);
		one_after_the_other();
	}
}

void meminit_run_words(struct frame *f, uint64_t n, uint64_t flags)
{
	for (const struct frame *end = f + n; f < end; f++) {
		ZERO_WORDS(f);
		set_fields(f, flags, 1);
		one_after_the_other();
	}
}

void meminit_run_free(struct frame *f, uint64_t n, uint64_t flags)
{
	for (const struct frame *end = f + n; f < end; f++) {
		ZERO_WORDS(f);
		set_fields(f, flags, 0);
		one_after_the_other();
	}
}

void meminit_run_backwards(struct frame *first, uint64_t n, uint64_t flags, void *pgmap, bool folded)
{
	for (struct frame *f = first + n; f-- > first;) {
		ZERO_WORDS(f);
		set_fields(f, folded ? flags | FRAME_RESERVED : flags, 1);
		if (pgmap) {
			f->lru.next = pgmap;
			f->lru.prev = NULL;
		}
		if (!folded)
			frame_set(f, FRAME_RESERVED);
		one_after_the_other();
	}
}

#if defined(__x86_64__)
static ATTR_ALWAYS_INLINE void store_nt(uint64_t *to, uint64_t v)
{
	__asm__ volatile("movnti %1, %0" : "=m"(*to) : "r"(v));
}

static ATTR_ALWAYS_INLINE void store_nt_fence(void)
{
	__asm__ volatile("sfence" ::: "memory");
}
#else
static ATTR_ALWAYS_INLINE void store_nt(uint64_t *to, uint64_t v)
{
	*to = v;
}

static ATTR_ALWAYS_INLINE void store_nt_fence(void)
{
}
#endif

_Static_assert(offsetof(struct frame, lru) == 8 && offsetof(struct frame, mapcount) == 48 && offsetof(struct frame, refcount) == 52,
	       "the words of a free frame");

void meminit_run_stream(struct frame *f, uint64_t n, uint64_t flags)
{
	for (const struct frame *end = f + n; f < end; f++) {
		uint64_t *word = (uint64_t *)(void *)f, link = (uint64_t)(uintptr_t)&f->lru;

		store_nt(word, flags);
		store_nt(word + 1, link);
		store_nt(word + 2, link);
		store_nt(word + 3, 0);
		store_nt(word + 4, 0);
		store_nt(word + 5, 0);
		store_nt(word + 6, 0xffffffffULL); /* mapcount -1, no reference (little endian, as this only is on x86) */
		store_nt(word + 7, 0);
	}
}

void meminit_stream_fence(void)
{
	store_nt_fence();
}

void meminit_run_free_nt(struct frame *f, uint64_t n, uint64_t flags)
{
	meminit_run_stream(f, n, flags);
	store_nt_fence();
}
