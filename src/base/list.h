/* Intrusive circular doubly-linked list. An empty head points to itself. Freestanding. */
#ifndef QUIRE_BASE_LIST_H
#define QUIRE_BASE_LIST_H

#include "base/compiler.h"

#include <stdbool.h>

struct list_head {
	struct list_head *next, *prev;
};

static inline void list_init(struct list_head *h)
{
	h->next = h;
	h->prev = h;
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

static inline void list_insert_between(struct list_head *n, struct list_head *prev, struct list_head *next)
{
	next->prev = n;
	n->next = next;
	n->prev = prev;
	prev->next = n;
}

static inline void list_add(struct list_head *n, struct list_head *h)
{
	list_insert_between(n, h, h->next);
}

static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_insert_between(n, h->prev, h);
}

/* Leaves the entry self-linked, so that a second removal is harmless and list_empty(entry) says 'on no list'. */
static inline void list_del(struct list_head *n)
{
	n->next->prev = n->prev;
	n->prev->next = n->next;
	list_init(n);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(h, type, member) list_entry((h)->next, type, member)
#define list_last_entry(h, type, member) list_entry((h)->prev, type, member)

#define list_for_each_entry(pos, h, member)                                                        \
	for (pos = list_entry((h)->next, __typeof__(*pos), member); &pos->member != (h);            \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

#define list_for_each_entry_safe(pos, tmp, h, member)                                              \
	for (pos = list_entry((h)->next, __typeof__(*pos), member),                                 \
	    tmp = list_entry(pos->member.next, __typeof__(*pos), member);                           \
	     &pos->member != (h); pos = tmp, tmp = list_entry(tmp->member.next, __typeof__(*tmp), member))

#endif
