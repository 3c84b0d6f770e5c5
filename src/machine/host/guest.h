/*
 * The one place where the bytes of user frames are touched on behalf of a program.
 *
 * All are relaxed: two threads of the program that race with each other are the program's business, as on hardware, so
 * ThreadSanitizer must not speak of them. A program's access that races with the *engine's* clearing or copying of a frame is
 * our bug, and is seen: the engine's side (pages.c) is made of plain stores in such builds.
 */
#ifndef QUIRE_MACHINE_HOST_GUEST_H
#define QUIRE_MACHINE_HOST_GUEST_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define GUEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GUEST_TSAN 1
#endif
#endif
#ifndef GUEST_TSAN
#define GUEST_TSAN 0
#endif

static ATTR_ALWAYS_INLINE uint64_t guest_load_bytes(const char *p, unsigned size)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < size; i++)
		v |= (uint64_t)__atomic_load_n((const uint8_t *)p + i, __ATOMIC_RELAXED) << (8 * i);
	return v;
}

static ATTR_ALWAYS_INLINE void guest_store_bytes(char *p, unsigned size, uint64_t v)
{
	for (unsigned i = 0; i < size; i++)
		__atomic_store_n((uint8_t *)p + i, (uint8_t)(v >> (8 * i)), __ATOMIC_RELAXED);
}

/* An aligned word. */
static ATTR_ALWAYS_INLINE uint64_t guest_load_word(const char *p)
{
	return __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED);
}

static ATTR_ALWAYS_INLINE void guest_store_word(char *p, uint64_t v)
{
	__atomic_store_n((uint64_t *)(void *)p, v, __ATOMIC_RELAXED);
}

/* 1 to 8 bytes, little-endian; indivisible where aligned and a power of two. */
static ATTR_ALWAYS_INLINE uint64_t guest_load(const char *p, unsigned size)
{
	if (likely(size == 8 && !((uintptr_t)p & 7)))
		return __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED);
	if (size == 4 && !((uintptr_t)p & 3))
		return __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_RELAXED);
	if (size == 2 && !((uintptr_t)p & 1))
		return __atomic_load_n((const uint16_t *)(const void *)p, __ATOMIC_RELAXED);
	return guest_load_bytes(p, size);
}

static ATTR_ALWAYS_INLINE void guest_store(char *p, unsigned size, uint64_t v)
{
	if (likely(size == 8 && !((uintptr_t)p & 7)))
		__atomic_store_n((uint64_t *)(void *)p, v, __ATOMIC_RELAXED);
	else if (size == 4 && !((uintptr_t)p & 3))
		__atomic_store_n((uint32_t *)(void *)p, (uint32_t)v, __ATOMIC_RELAXED);
	else if (size == 2 && !((uintptr_t)p & 1))
		__atomic_store_n((uint16_t *)(void *)p, (uint16_t)v, __ATOMIC_RELAXED);
	else
		guest_store_bytes(p, size, v);
}

/* A buffer within a page. */
static inline void guest_read(void *to, const char *from, size_t len)
{
#if GUEST_TSAN
	for (size_t i = 0; i < len; i++)
		((char *)to)[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
#else
	memcpy(to, from, len);
#endif
}

static inline void guest_write(char *to, const void *from, size_t len)
{
#if GUEST_TSAN
	for (size_t i = 0; i < len; i++)
		__atomic_store_n(to + i, ((const char *)from)[i], __ATOMIC_RELAXED);
#else
	memcpy(to, from, len);
#endif
}

/* What an access that carries no value does: every word is read, or overwritten with ones ('not zero' is all that is known). */
static ATTR_ALWAYS_INLINE void guest_touch(char *p, unsigned size, bool write)
{
	for (; size > 8; size -= 8, p += 8) {
		if (write)
			guest_store(p, 8, ~0ULL);
		else
			(void)guest_load(p, 8);
	}
	if (write)
		guest_store(p, size, ~0ULL);
	else
		(void)guest_load(p, size);
}

#endif
