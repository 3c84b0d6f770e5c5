/*
 * A binary min-heap of events ordered by (time, seq), for the scheduler's CPUs and timers. Each item knows where its position is
 * kept, so that it can be taken out of the middle; the pointer takes no part in the order.
 */
#ifndef QUIRE_MACHINE_MODEL_EVENT_HEAP_H
#define QUIRE_MACHINE_MODEL_EVENT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define EVENT_ABSENT UINT32_MAX

struct event {
	uint64_t time_ps, seq;
	uint32_t *pos; /* index in the heap, EVENT_ABSENT when not in one */
};

struct event_heap {
	struct event *e; /* the owner sees to it that there is room */
	uint32_t nr;
};

static inline bool event_before(const struct event *a, const struct event *b)
{
	return a->time_ps != b->time_ps ? a->time_ps < b->time_ps : a->seq < b->seq;
}

static inline void event_heap_place(struct event_heap *h, uint32_t i, struct event v)
{
	h->e[i] = v;
	*v.pos = i;
}

static inline void event_heap_up(struct event_heap *h, uint32_t i, struct event v)
{
	while (i) {
		uint32_t parent = (i - 1) / 2;

		if (!event_before(&v, &h->e[parent]))
			break;
		event_heap_place(h, i, h->e[parent]);
		i = parent;
	}
	event_heap_place(h, i, v);
}

static inline void event_heap_down(struct event_heap *h, uint32_t i, struct event v)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= h->nr)
			break;
		if (child + 1 < h->nr && event_before(&h->e[child + 1], &h->e[child]))
			child++;
		if (!event_before(&h->e[child], &v))
			break;
		event_heap_place(h, i, h->e[child]);
		i = child;
	}
	event_heap_place(h, i, v);
}

static inline void event_heap_insert(struct event_heap *h, struct event v)
{
	event_heap_up(h, h->nr++, v);
}

static inline void event_heap_remove(struct event_heap *h, uint32_t i)
{
	struct event v = h->e[--h->nr];

	*h->e[i].pos = EVENT_ABSENT;
	if (i == h->nr)
		return;
	if (i && event_before(&v, &h->e[(i - 1) / 2]))
		event_heap_up(h, i, v);
	else
		event_heap_down(h, i, v);
}

#endif
