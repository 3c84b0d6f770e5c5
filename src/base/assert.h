/*
 * Three levels of checks. Asserts are for our own bugs; a caller's mistake gets an error return.
 *   ASSERT            always compiled in, cheap
 *   ASSERT_DEBUG      in debug and sanitizer builds (QUIRE_DEBUG)
 *   ASSERT_EXPENSIVE  whole-structure walks (QUIRE_EXPENSIVE)
 */
#ifndef QUIRE_BASE_ASSERT_H
#define QUIRE_BASE_ASSERT_H

#include "base/compiler.h"

/* Provided by base/bug.c: prints one line and aborts. The engine itself never prints. */
_Noreturn void quire_bug(const char *file, int line, const char *expr);

#define ASSERT(e) (likely(e) ? (void)0 : quire_bug(__FILE__, __LINE__, #e))

#ifdef QUIRE_DEBUG
#define ASSERT_DEBUG(e) ASSERT(e)
#else
#define ASSERT_DEBUG(e) ((void)sizeof(!(e)))
#endif

#ifdef QUIRE_EXPENSIVE
#define ASSERT_EXPENSIVE(e) ASSERT(e)
#else
#define ASSERT_EXPENSIVE(e) ((void)sizeof(!(e)))
#endif

#endif
