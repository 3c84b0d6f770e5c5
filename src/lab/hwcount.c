/* Hardware counters through perf_event_open. Nothing is estimated: a counter that shared its register with another is not used. */
#define _GNU_SOURCE
#include "lab/hwcount.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t events[NR_HW] = {
	[HW_CYCLES] = PERF_COUNT_HW_CPU_CYCLES,
	[HW_INSTRUCTIONS] = PERF_COUNT_HW_INSTRUCTIONS,
	[HW_CACHE_MISSES] = PERF_COUNT_HW_CACHE_MISSES,
};

static void close_all(struct hwcount *h)
{
	for (unsigned i = 0; i < NR_HW; i++) {
		if (h->fd[i] >= 0)
			close(h->fd[i]);
		h->fd[i] = -1;
	}
}

int hwcount_start_events(struct hwcount *h, uint32_t type, const uint64_t config[NR_HW])
{
	int rc = 0;

	for (unsigned i = 0; i < NR_HW; i++)
		h->fd[i] = -1;
	for (unsigned i = 0; i < NR_HW && !rc; i++) {
		struct perf_event_attr a = {
			.type = type, .size = sizeof(a), .config = config[i], .inherit = 1, .exclude_kernel = 1, .exclude_hv = 1,
			.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		};

		h->fd[i] = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (h->fd[i] < 0)
			rc = -errno;
	}
	if (rc)
		close_all(h);
	return rc;
}

int hwcount_start(struct hwcount *h)
{
	return hwcount_start_events(h, PERF_TYPE_HARDWARE, events);
}

bool hwcount_stop(struct hwcount *h, uint64_t ret[NR_HW])
{
	bool ok = true;

	for (unsigned i = 0; i < NR_HW; i++) {
		uint64_t v[3] = { 0 }; /* value, time enabled, time running */

		ok = ok && h->fd[i] >= 0 && read(h->fd[i], v, sizeof(v)) == (ssize_t)sizeof(v) && v[1] && v[1] == v[2];
		ret[i] = v[0];
	}
	close_all(h);
	return ok;
}
