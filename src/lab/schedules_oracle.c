/* The oracle's registers: a list of writes each, newest first. Programs are tiny, so looking at all of them is cheap. */
#include "lab/schedules_oracle.h"

#include <errno.h>
#include <stdlib.h>

int oracle_init(struct oracle *o, size_t events)
{
	*o = (struct oracle){ .pool = calloc(events, sizeof(struct oracle_event)), .cap = events };
	return o->pool ? 0 : -ENOMEM;
}

void oracle_done(struct oracle *o)
{
	free(o->pool);
	o->pool = NULL;
}

void oracle_clear(struct oracle *o)
{
	o->now = 0;
	o->used = 0;
	o->full = false;
}

static struct oracle_event *begin(struct oracle *o, struct oracle_reg *r)
{
	struct oracle_event *e;

	if (o->used == o->cap) {
		o->full = true;
		return NULL;
	}
	e = &o->pool[o->used++];
	*e = (struct oracle_event){ .older = r->last, .begin = o->now, .end = ORACLE_OPEN };
	r->last = e;
	return e;
}

struct oracle_event *oracle_write(struct oracle *o, struct oracle_reg *r, uint64_t value)
{
	struct oracle_event *e = begin(o, r);

	if (e)
		e->value = value;
	return e;
}

struct oracle_event *oracle_copy(struct oracle *o, struct oracle_reg *r, const struct oracle_reg *from)
{
	struct oracle_event *e = begin(o, r);

	if (e)
		e->from = from;
	return e;
}

void oracle_end(struct oracle *o, struct oracle_event *e)
{
	if (e)
		e->end = o->now;
}

void oracle_cancel(struct oracle_event *e)
{
	if (e)
		e->cancelled = true;
}

void oracle_end_all(struct oracle *o, struct oracle_mark m, bool happened)
{
	for (size_t i = m.first; i < o->used && o->pool[i].begin == m.begin; i++) {
		if (happened)
			oracle_end(o, &o->pool[i]);
		else
			oracle_cancel(&o->pool[i]);
	}
}

/* Was what e wrote certainly written over before `begin`? */
static bool is_past(const struct oracle_reg *r, const struct oracle_event *e, uint64_t begin)
{
	for (const struct oracle_event *n = r->last; n; n = n->older)
		if (!n->cancelled && n->begin > e->end && n->end < begin)
			return true;
	return false;
}

bool oracle_allows(const struct oracle_reg *r, uint64_t begin, uint64_t end, uint64_t mask, uint64_t want)
{
	for (const struct oracle_event *e = r->last; e; e = e->older) {
		if (e->cancelled || e->begin > end || is_past(r, e, begin))
			continue;
		if (e->from ? oracle_allows(e->from, e->begin, e->end < end ? e->end : end, mask, want) : (e->value & mask) == want)
			return true;
	}
	/* Before the first write: nothing, and no rights. */
	for (const struct oracle_event *e = r->last; e; e = e->older)
		if (!e->cancelled && e->end < begin)
			return false;
	return want == 0;
}
