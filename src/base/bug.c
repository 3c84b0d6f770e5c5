/* The end of the line for a failed ASSERT: one message, then abort (so that a core and a backtrace exist). */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void quire_bug(const char *file, int line, const char *expr)
{
	fprintf(stderr, "quire: bug: %s:%d: assertion failed: %s\n", file, line, expr);
	abort();
}
