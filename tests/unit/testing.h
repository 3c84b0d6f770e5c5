/* Shared by the unit tests: runs a cmocka group and closes with the plain line that every test program of the project ends in. */
#ifndef QUIRE_TESTS_TESTING_H
#define QUIRE_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define test_run(tests) test_run_counted(#tests, tests, sizeof(tests) / sizeof((tests)[0]))

static inline int test_run_counted(const char *name, const struct CMUnitTest *tests, size_t n)
{
	int failed = _cmocka_run_group_tests(name, tests, n, NULL, NULL);

	printf("%zu passed, %d failed\n", n - (size_t)failed, failed);
	return failed ? 1 : 0;
}

#endif
