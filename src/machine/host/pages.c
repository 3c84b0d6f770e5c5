/*
 * Clearing and copying frames: real bytes, 4 KiB a call, 512 calls for a huge page, so a call costs next to nothing beside the bytes.
 *
 *   rep     string instructions, as Linux does on x86: the lines end up in the caches
 *   nt      stores past the caches, the widest the CPU has: about three times the bandwidth on memory that is in no cache, but the
 *           page is in no cache afterwards either, but for the line whose access has faulted
 *   memset  what the C library chose for this CPU
 * Stores past the caches are ordered by the next locked instruction; a frame is mapped only under its table's lock, which is taken
 * after it was cleared. So no fence is needed for each page. That instruction waits for them, though, which takes as long as half a
 * page: so the engine is asked to clear several frames at once (cpu.clear_ahead), and the next fault's line is fetched before it comes.
 * Under ThreadSanitizer the destination is written by plain stores that it sees: a stale access to a frame that is being cleared is
 * reported. The source of a copy may be written meanwhile by the program, if the copy is then thrown away: it is read relaxed.
 */
#include "machine/host/guest.h"
#include "machine/host/host_int.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define NT_CLEAR_AHEAD 15U /* frames: 16 at once share the wait, and are done in the time of a fault or two of this computer's kernel */

static void clear_memset(void *page, unsigned keep)
{
	(void)keep;
	memset(page, 0, PAGE_SIZE);
}

#if GUEST_TSAN
static void copy_memset(void *dst, const void *src, unsigned keep)
{
	uint64_t *to = dst;

	(void)keep;
	for (unsigned i = 0; i < PAGE_SIZE / sizeof(*to); i++)
		to[i] = __atomic_load_n((const uint64_t *)src + i, __ATOMIC_RELAXED);
}
#else
static void copy_memset(void *dst, const void *src, unsigned keep)
{
	(void)keep;
	memcpy(dst, src, PAGE_SIZE);
}
#endif

#if defined(__x86_64__) && !GUEST_TSAN
static void clear_rep(void *page, unsigned keep)
{
	uint64_t n = PAGE_SIZE;

	(void)keep;
	__asm__ volatile("rep stosb" : "+D"(page), "+c"(n) : "a"(0) : "memory");
}

static void copy_rep(void *dst, const void *src, unsigned keep)
{
	uint64_t n = PAGE_SIZE;

	(void)keep;
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}

/*
 * keep: offset of the line that is wanted next (it is fetched at once, and written last, into the cache), or PAGE_SIZE. A page is
 * dealt with in two halves, before and after that line.
 */
static void clear_lines(char *at, const char *end)
{
	const __m128i zero = _mm_setzero_si128();

	for (; at < end; at += CACHE_LINE)
		for (unsigned i = 0; i < CACHE_LINE; i += sizeof(zero))
			_mm_stream_si128((__m128i *)(void *)(at + i), zero);
}

static void clear_nt(void *page, unsigned keep)
{
	char *to = page;

	if (keep < PAGE_SIZE)
		prefetch_write(to + keep);
	clear_lines(to, to + keep);
	if (keep < PAGE_SIZE) {
		clear_lines(to + keep + CACHE_LINE, to + PAGE_SIZE);
		memset(to + keep, 0, CACHE_LINE);
	}
}

static void copy_lines(char *to, const char *from, const char *end)
{
	for (; from < end; to += CACHE_LINE, from += CACHE_LINE) {
		const __m128i *f = (const __m128i *)(const void *)from;
		__m128i a = _mm_load_si128(f), b = _mm_load_si128(f + 1), c = _mm_load_si128(f + 2), d = _mm_load_si128(f + 3);
		__m128i *t = (__m128i *)(void *)to;

		_mm_stream_si128(t, a);
		_mm_stream_si128(t + 1, b);
		_mm_stream_si128(t + 2, c);
		_mm_stream_si128(t + 3, d);
	}
}

static void copy_nt(void *dst, const void *src, unsigned keep)
{
	const char *from = src;
	char *to = dst;

	if (keep < PAGE_SIZE)
		prefetch_write(to + keep);
	copy_lines(to, from, from + keep);
	if (keep < PAGE_SIZE) {
		copy_lines(to + keep + CACHE_LINE, from + keep + CACHE_LINE, from + PAGE_SIZE);
		memcpy(to + keep, from + keep, CACHE_LINE);
	}
}

__attribute__((target("avx512f"))) static void clear_lines512(char *at, const char *end)
{
	for (; at < end; at += CACHE_LINE)
		_mm512_stream_si512((__m512i *)(void *)at, _mm512_setzero_si512());
}

__attribute__((target("avx512f"))) static void clear_nt512(void *page, unsigned keep)
{
	char *to = page;

	if (keep < PAGE_SIZE)
		prefetch_write(to + keep);
	clear_lines512(to, to + keep);
	if (keep < PAGE_SIZE) {
		clear_lines512(to + keep + CACHE_LINE, to + PAGE_SIZE);
		_mm512_store_si512((void *)(to + keep), _mm512_setzero_si512());
	}
}

__attribute__((target("avx512f"))) static void copy_lines512(char *to, const char *from, const char *end)
{
	for (; from < end; to += CACHE_LINE, from += CACHE_LINE)
		_mm512_stream_si512((__m512i *)(void *)to, _mm512_load_si512((const void *)from));
}

__attribute__((target("avx512f"))) static void copy_nt512(void *dst, const void *src, unsigned keep)
{
	const char *from = src;
	char *to = dst;

	if (keep < PAGE_SIZE)
		prefetch_write(to + keep);
	copy_lines512(to, from, from + keep);
	if (keep < PAGE_SIZE) {
		copy_lines512(to + keep + CACHE_LINE, from + keep + CACHE_LINE, from + PAGE_SIZE);
		_mm512_store_si512((void *)(to + keep), _mm512_load_si512((const void *)(from + keep)));
	}
}
#endif

void host_pages_choose(struct host_machine *hm, enum host_clear how)
{
	hm->clear = clear_memset;
	hm->copy = copy_memset;
	hm->clear_ahead = how == HOST_CLEAR_NT ? NT_CLEAR_AHEAD : 0;
#if defined(__x86_64__) && !GUEST_TSAN
	if (how == HOST_CLEAR_REP) {
		hm->clear = clear_rep;
		hm->copy = copy_rep;
	} else if (how == HOST_CLEAR_NT) {
		bool wide = __builtin_cpu_supports("avx512f");

		hm->clear = wide ? clear_nt512 : clear_nt;
		hm->copy = wide ? copy_nt512 : copy_nt;
	}
#endif
}

/* The line that the faulting access wants, for the first page that its fault clears or copies: of a base page, it is in there. */
static unsigned take_keep(struct cpu *c)
{
	struct host_cpu *h = host_cpu(c);
	unsigned keep = h->keep;

	h->keep = PAGE_SIZE;
	return keep;
}

int host_clear_page(struct cpu *c, pfn_t p)
{
	ASSERT_DEBUG(p.v < c->m->max_pfn);
	host_of(c)->clear(machine_ptr(c->m, pfn_to_paddr(p)), take_keep(c));
	return 0;
}

int host_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	ASSERT_DEBUG(dst.v < c->m->max_pfn && src.v < c->m->max_pfn);
	host_of(c)->copy(machine_ptr(c->m, pfn_to_paddr(dst)), machine_ptr(c->m, pfn_to_paddr(src)), take_keep(c));
	return 0;
}
