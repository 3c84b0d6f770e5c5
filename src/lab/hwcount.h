/* Instructions, cycles and cache misses of this process, kernel excluded, where the computer lets a program read them. */
#ifndef QUIRE_LAB_HWCOUNT_H
#define QUIRE_LAB_HWCOUNT_H

#include <stdbool.h>
#include <stdint.h>

enum { HW_CYCLES, HW_INSTRUCTIONS, HW_CACHE_MISSES, NR_HW };

struct hwcount {
	int fd[NR_HW]; /* -1: not available */
};

/* Opens them, for this thread and those that it starts from now on. 0, or the negative errno of the first that could not be had. */
int hwcount_start(struct hwcount *h);
/* The same of other events of perf_event_open. For tests: those that the kernel counts exist where the hardware has none. */
int hwcount_start_events(struct hwcount *h, uint32_t type, const uint64_t config[NR_HW]);
/* false: some could not be read, or did not run all the time. Closes them in any case. */
bool hwcount_stop(struct hwcount *h, uint64_t ret[NR_HW]);

#endif
