/*
 * What a row of a run yields: an ordered list of named numbers. Integers, or decimals kept as integers with a number
 * of places, so that the same run prints the same digits everywhere.
 */
#ifndef QUIRE_LAB_METRICS_H
#define QUIRE_LAB_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct metric {
	char *name;
	const char *unit; /* "ns", "bytes", "pages", "ratio", "" for counts; static text */
	const char *help; /* one line, static text; "" where the name says it all */
	uint64_t value; /* times 10^decimals */
	unsigned decimals;
};

struct metrics {
	struct metric *m;
	size_t nr, cap;
	int error; /* -ENOMEM, sticky */
};

/* The first of two with the same name stays. */
void metrics_add(struct metrics *ms, const char *name, uint64_t value, unsigned decimals, const char *unit,
		 const char *help);
const struct metric *metrics_find(const struct metrics *ms, const char *name);
/* The value without decimals, or 0 where there is no such metric. */
uint64_t metrics_u64(const struct metrics *ms, const char *name);
void metrics_done(struct metrics *ms);

#endif
