/*
 * Clearing and copying frames: real bytes, 4 KiB a call, 512 calls for a huge page, so a call costs next to nothing beside the bytes.
 *
 *   rep     string instructions, as Linux does on x86: the lines end up in the caches
 *   nt      stores past the caches, the widest the CPU has: about three times the bandwidth on memory that is in no cache, but the
 *           page is in no cache afterwards either
 *   memset  what the C library chose for this CPU
 * Stores past the caches are ordered by the next locked instruction; a frame is mapped only under its table's lock, which is taken
 * after it was cleared. So no fence is needed for each page.
 * Under ThreadSanitizer the destination is written by plain stores that it sees: a stale access to a frame that is being cleared is
 * reported. The source of a copy may be written meanwhile by the program, if the copy is then thrown away: it is read relaxed.
 */
#include "machine/host/guest.h"
#include "machine/host/host_int.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void clear_memset(void *page)
{
	memset(page, 0, PAGE_SIZE);
}

#if GUEST_TSAN
static void copy_memset(void *dst, const void *src)
{
	uint64_t *to = dst;

	for (unsigned i = 0; i < PAGE_SIZE / sizeof(*to); i++)
		to[i] = __atomic_load_n((const uint64_t *)src + i, __ATOMIC_RELAXED);
}
#else
static void copy_memset(void *dst, const void *src)
{
	memcpy(dst, src, PAGE_SIZE);
}
#endif

#if defined(__x86_64__) && !GUEST_TSAN
static void clear_rep(void *page)
{
	uint64_t n = PAGE_SIZE;

	__asm__ volatile("rep stosb" : "+D"(page), "+c"(n) : "a"(0) : "memory");
}

static void copy_rep(void *dst, const void *src)
{
	uint64_t n = PAGE_SIZE;

	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}

static void clear_nt(void *page)
{
	const __m128i zero = _mm_setzero_si128();
	__m128i *to = page;

	for (unsigned i = 0; i < PAGE_SIZE / sizeof(*to); i += 4) {
		_mm_stream_si128(to + i, zero);
		_mm_stream_si128(to + i + 1, zero);
		_mm_stream_si128(to + i + 2, zero);
		_mm_stream_si128(to + i + 3, zero);
	}
}

static void copy_nt(void *dst, const void *src)
{
	const __m128i *from = src;
	__m128i *to = dst;

	for (unsigned i = 0; i < PAGE_SIZE / sizeof(*to); i += 4) {
		__m128i a = _mm_load_si128(from + i), b = _mm_load_si128(from + i + 1);
		__m128i c = _mm_load_si128(from + i + 2), d = _mm_load_si128(from + i + 3);

		_mm_stream_si128(to + i, a);
		_mm_stream_si128(to + i + 1, b);
		_mm_stream_si128(to + i + 2, c);
		_mm_stream_si128(to + i + 3, d);
	}
}

__attribute__((target("avx512f"))) static void clear_nt512(void *page)
{
	const __m512i zero = _mm512_setzero_si512();
	char *to = page;

	for (unsigned i = 0; i < PAGE_SIZE; i += 4 * CACHE_LINE) {
		_mm512_stream_si512((__m512i *)(void *)(to + i), zero);
		_mm512_stream_si512((__m512i *)(void *)(to + i + CACHE_LINE), zero);
		_mm512_stream_si512((__m512i *)(void *)(to + i + 2 * CACHE_LINE), zero);
		_mm512_stream_si512((__m512i *)(void *)(to + i + 3 * CACHE_LINE), zero);
	}
}

__attribute__((target("avx512f"))) static void copy_nt512(void *dst, const void *src)
{
	const char *from = src;
	char *to = dst;

	for (unsigned i = 0; i < PAGE_SIZE; i += 2 * CACHE_LINE) {
		__m512i a = _mm512_load_si512((const void *)(from + i));
		__m512i b = _mm512_load_si512((const void *)(from + i + CACHE_LINE));

		_mm512_stream_si512((__m512i *)(void *)(to + i), a);
		_mm512_stream_si512((__m512i *)(void *)(to + i + CACHE_LINE), b);
	}
}
#endif

void host_pages_choose(struct host_machine *hm, enum host_clear how)
{
	hm->clear = clear_memset;
	hm->copy = copy_memset;
#if defined(__x86_64__) && !GUEST_TSAN
	if (how == HOST_CLEAR_REP) {
		hm->clear = clear_rep;
		hm->copy = copy_rep;
	} else if (how == HOST_CLEAR_NT) {
		bool wide = __builtin_cpu_supports("avx512f");

		hm->clear = wide ? clear_nt512 : clear_nt;
		hm->copy = wide ? copy_nt512 : copy_nt;
	}
#else
	(void)how;
#endif
}

int host_clear_page(struct cpu *c, pfn_t p)
{
	ASSERT_DEBUG(p.v < c->m->max_pfn);
	host_of(c)->clear(machine_ptr(c->m, pfn_to_paddr(p)));
	return 0;
}

int host_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	ASSERT_DEBUG(dst.v < c->m->max_pfn && src.v < c->m->max_pfn);
	host_of(c)->copy(machine_ptr(c->m, pfn_to_paddr(dst)), machine_ptr(c->m, pfn_to_paddr(src)));
	return 0;
}
