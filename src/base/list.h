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

/*
 * pos walks over the entries. It is never formed from the head itself, which need not have an entry's alignment; after a loop that ran to
 * its end it is the last entry, or what it was before when the list was empty.
 */
#define list_for_each_entry(pos, h, member)                                                        \
	for (struct list_head *pos##_at = (h)->next;                                                \
	     pos##_at != (h) && ((pos) = list_entry(pos##_at, __typeof__(*pos), member), true); pos##_at = pos##_at->next)

/* The same where the body may take pos off the list. tmp: a second pointer like pos, for the macro's use. */
#define list_for_each_entry_safe(pos, tmp, h, member)                                              \
	for (struct list_head *pos##_at = (h)->next, *pos##_next = pos##_at->next;                  \
	     pos##_at != (h) && ((pos) = (tmp) = list_entry(pos##_at, __typeof__(*pos), member), (tmp) != NULL);          \
	     pos##_at = pos##_next, pos##_next = pos##_at->next)

#endif
