/* What the fuzz targets share. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: expected %s: ", file, line, what);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[40];

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(fd >= 0, "no file in memory");
	fuzz_check(!ftruncate(fd, 0), "not emptied");
	for (size_t at = 0; at < size;) {
		ssize_t n = pwrite(fd, data + at, size - at, (off_t)at);

		fuzz_check(n > 0, "not written");
		at += (size_t)n;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

void fuzz_check_message(const char *err, size_t errlen)
{
	size_t n = strnlen(err, errlen);

	fuzz_check(n > 0 && n < errlen, "%zu characters", n);
	for (size_t i = 0; i < n; i++)
		fuzz_check((unsigned char)err[i] >= ' ' && err[i] != 0x7f, "byte %#x, more than a line: %s", (unsigned char)err[i], err);
}
