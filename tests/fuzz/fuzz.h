/*
 * Fuzz targets: one file each, LLVMFuzzerTestOneInput as libFuzzer wants it. Linked with libFuzzer (scripts/fuzz) they look for inputs; linked
 * with main.c they run the inputs of tests/fuzz/corpus again, which is what `make test` does.
 *
 * A target must say what it expects, not only that nothing crashes: broken expectations go through fuzz_check, which ends the
 * process with a line, so that the input is kept.
 */
#ifndef QUIRE_TESTS_FUZZ_H
#define QUIRE_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(cond, ...)                                                                                          \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			fuzz_fail(__FILE__, __LINE__, #cond, __VA_ARGS__);                                             \
	} while (0)

_Noreturn void fuzz_fail(const char *file, int line, const char *what, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The input as a file: a path that can be opened until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* A message must be there, be one line without control characters (a file's bytes are not for the terminal), and end within its buffer. */
void fuzz_check_message(const char *err, size_t errlen);

/*
 * Bytes taken one after another; 0 once they are used up. At most one call of a taker in an expression: the order of a call's arguments is
 * the compiler's, and an input that clang found must mean the same under gcc.
 */
struct fuzz_bytes {
	const uint8_t *p;
	size_t left;
};

static inline uint8_t fuzz_u8(struct fuzz_bytes *b)
{
	if (!b->left)
		return 0;
	b->left--;
	return *b->p++;
}

static inline uint64_t fuzz_u64(struct fuzz_bytes *b, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)fuzz_u8(b) << (8 * i);
	return v;
}

#endif
