/*
 * Counters through perf_event_open, both ways: where there are some they count, threads that start later included, and where there are none
 * it is said and nothing is left open. Events of the kernel's own stand for the hardware's, which many virtual machines have not.
 */
#include "testing.h"

#include "lab/hwcount.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES 300U

static unsigned open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Fault in so many pages. */
static void *touch(void *arg)
{
	volatile char *p = mmap(NULL, PAGES * 4096UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	if (p == MAP_FAILED)
		abort();
	(void)madvise((void *)(uintptr_t)p, PAGES * 4096UL, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < PAGES; i++)
		p[i * 4096UL] = 1;
	munmap((void *)(uintptr_t)p, PAGES * 4096UL);
	return NULL;
}

static void none_is_said(void **state)
{
	const uint64_t no_such[NR_HW] = { PERF_COUNT_SW_PAGE_FAULTS, 0xffffff, PERF_COUNT_SW_PAGE_FAULTS };
	unsigned before = open_files();
	struct hwcount h;
	uint64_t v[NR_HW];

	(void)state;
	assert_true(hwcount_start_events(&h, PERF_TYPE_SOFTWARE, no_such) < 0);
	assert_int_equal(open_files(), before);
	for (unsigned i = 0; i < NR_HW; i++)
		assert_int_equal(h.fd[i], -1);
	assert_false(hwcount_stop(&h, v));
	assert_int_equal(open_files(), before);
}

static void what_there_is_counts(void **state)
{
	const uint64_t faults[NR_HW] = { PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ };
	unsigned before = open_files();
	struct hwcount h;
	uint64_t v[NR_HW];
	pthread_t t;
	int rc = hwcount_start_events(&h, PERF_TYPE_SOFTWARE, faults);

	(void)state;
	if (rc) { /* a container may forbid all of them */
		assert_true(rc == -EACCES || rc == -EPERM || rc == -ENOSYS || rc == -ENOENT || rc == -EOPNOTSUPP);
		return;
	}
	assert_int_equal(open_files(), before + NR_HW);
	touch(NULL);
	assert_int_equal(pthread_create(&t, NULL, touch, NULL), 0);
	pthread_join(t, NULL);
	assert_true(hwcount_stop(&h, v));
	assert_true(v[HW_CYCLES] >= 2 * PAGES && v[HW_INSTRUCTIONS] >= 2 * PAGES);
	assert_int_equal(open_files(), before);
}

/* The hardware's own: either all, or none with a reason. */
static void the_hardware_answers_or_not(void **state)
{
	struct hwcount h;
	uint64_t v[NR_HW];
	int rc = hwcount_start(&h);

	(void)state;
	if (rc) {
		assert_true(rc < 0);
		assert_false(hwcount_stop(&h, v));
		return;
	}
	touch(NULL);
	if (hwcount_stop(&h, v)) /* else another user of the counters had them for a while */
		assert_true(v[HW_CYCLES] > PAGES && v[HW_INSTRUCTIONS] > PAGES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_said),
		cmocka_unit_test(what_there_is_counts),
		cmocka_unit_test(the_hardware_answers_or_not),
	};

	return test_run(tests);
}
