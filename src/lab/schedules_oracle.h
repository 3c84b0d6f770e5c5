/*
 * What a page may show to a reader, whatever the interleaving was (schedules_oracle.c).
 *
 * A page of an address space is two registers: contents, and rights. Calls and stores write them, in intervals of time: somewhere between its
 * begin and its end a write takes effect. A read may see what was written last before it, or anything that was written
 * beside it: a regular register. Sound for any order in which the engine may do things inside a call; strict once calls are over.
 */
#ifndef QUIRE_LAB_SCHEDULES_ORACLE_H
#define QUIRE_LAB_SCHEDULES_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORACLE_OPEN UINT64_MAX
enum { RIGHT_READ = 1, RIGHT_WRITE = 2 };

struct oracle_event {
	struct oracle_event *older;
	const struct oracle_reg *from; /* a copy of what this register holds meanwhile; NULL: the value */
	uint64_t value, begin, end;
	bool cancelled;
};

struct oracle_reg {
	struct oracle_event *last;
};

struct oracle_page {
	struct oracle_reg contents, rights;
};

/* Events of one run. */
struct oracle {
	uint64_t now;
	struct oracle_event *pool;
	size_t used, cap;
	bool full;
};

int oracle_init(struct oracle *o, size_t events);
void oracle_done(struct oracle *o);
void oracle_clear(struct oracle *o); /* for the next run; registers are the caller's to clear */
static inline uint64_t oracle_tick(struct oracle *o)
{
	return ++o->now;
}

/* A write begins; it ends with oracle_end, or never was with oracle_cancel. NULL when full (o->full). */
struct oracle_event *oracle_write(struct oracle *o, struct oracle_reg *r, uint64_t value);
struct oracle_event *oracle_copy(struct oracle *o, struct oracle_reg *r, const struct oracle_reg *from);
void oracle_end(struct oracle *o, struct oracle_event *e);
/* For calls that write many: those that begin from here to the next tick, ended or cancelled together. */
struct oracle_mark {
	size_t first;
	uint64_t begin;
};
static inline struct oracle_mark oracle_mark(const struct oracle *o)
{
	return (struct oracle_mark){ .first = o->used, .begin = o->now };
}
void oracle_end_all(struct oracle *o, struct oracle_mark m, bool happened);
void oracle_cancel(struct oracle_event *e);
/* May a read from `begin` to `end` see a value v with (v & mask) == want? */
bool oracle_allows(const struct oracle_reg *r, uint64_t begin, uint64_t end, uint64_t mask, uint64_t want);

#endif
