/*
 * What the tests of areas and address-space calls share: a booted engine on the null machine with one address space,
 * and its areas.
 */
#ifndef QUIRE_TESTS_VMA_TESTING_H
#define QUIRE_TESTS_VMA_TESTING_H

#include "testing.h"

#include "base/rng.h"
#include "machine/inject.h"
#include "machine/null.h"
#include "mm/fault.h"
#include "mm/vma_int.h"

#include <stdlib.h>
#include <string.h>

#define PG PAGE_SIZE
#define RW (UAPI_PROT_READ | UAPI_PROT_WRITE)
#define RO UAPI_PROT_READ
#define ANON (UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS)
#define FIXED (ANON | UAPI_MAP_FIXED)
#define WIN 0x200000000000ULL /* a window that nothing is placed into but by MAP_FIXED; 2 MiB aligned */

struct world {
	struct machine *m;
	struct quire *q;
	struct cpu *c;
	struct mm *mm;
	struct task task;
	struct inject *in;
};

/* Random tests print their seed when they fail; QUIRE_SEED=N repeats them with it. */
static inline uint64_t test_seed(uint64_t usual)
{
	const char *s = getenv("QUIRE_SEED");

	return s ? strtoull(s, NULL, 10) : usual;
}

static inline void world_up(struct world *w, const struct knobs *k)
{
	char err[200] = "";

	memset(w, 0, sizeof(*w));
	if (null_create(&(struct null_options){ .node_bytes = 1ULL << 30 }, &w->m, err, sizeof(err)))
		fail_msg("%s", err);
	if (quire_boot(w->m, k, &w->q, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(inject_attach(w->m, 1, &w->in), 0);
	w->c = w->m->cpus[0];
	assert_int_equal(mm_create(w->c, w->q, &w->mm), 0);
	w->task.mm = w->mm;
	w->c->current = &w->task;
	mm_activate(w->c, w->mm);
}

static inline void world_check(struct world *w)
{
	assert_int_equal(null_locks_held(w->c), 0);
	if (vma_validate(w->mm))
		fail_msg("%s", w->q->err);
}

static inline void world_down(struct world *w)
{
	world_check(w);
	if (mm_validate(w->mm))
		fail_msg("%s", w->q->err);
	w->c->current = NULL;
	mm_switch(w->c, &w->task, NULL);
	mm_put(w->c, w->mm);
	assert_int_equal(w->q->committed_pages, 0);
	if (quire_validate(w->q))
		fail_msg("%s", w->q->err);
	inject_detach(w->in);
	assert_int_equal(quire_shutdown(w->q), 0);
	null_destroy(w->m);
}

static inline int64_t map(struct world *w, vaddr_t addr, uint64_t pages, unsigned prot, unsigned flags)
{
	int64_t r = mm_mmap(w->c, w->mm, addr, pages * PG, prot, flags, NULL, 0);

	world_check(w);
	return r;
}

/* Write (or read) one word at va as the program does. 0 or -EFAULT. */
static inline int poke(struct world *w, vaddr_t va, bool write)
{
	return machine_access(w->c, va, 8, ACCESS_USER | (write ? ACCESS_WRITE : 0));
}

/*
 * The areas within [from, to) as text, in pages from `from`: "0-4rw 6-8r" and so on; p/s only shown for shared ("s"),
 * and in brackets what else matters: L locked, D dontcopy, H hugepage, N nohugepage, Q sequential, R random.
 */
static inline const char *areas(struct world *w, vaddr_t from, vaddr_t to, char *buf, size_t len)
{
	static const struct {
		uint64_t flag;
		char letter;
	} letters[] = {
		{ VM_READ, 'r' },     { VM_WRITE, 'w' },     { VM_EXEC, 'x' },	     { VM_SHARED, 's' },
		{ VM_LOCKED, 'L' },   { VM_DONTCOPY, 'D' },  { VM_HUGEPAGE, 'H' },   { VM_NOHUGEPAGE, 'N' },
		{ VM_SEQ_READ, 'Q' }, { VM_RAND_READ, 'R' }, { VM_WIPEONFORK, 'W' }, { VM_DONTDUMP, 'd' },
	};
	size_t n = 0;

	buf[0] = '\0';
	for (struct vma *v = vma_first(w->mm); v; v = vma_next(v)) {
		if (v->end <= from || v->start >= to)
			continue;
		n += (size_t)snprintf(buf + n, len - n, "%s%lld-%lld", n ? " " : "",
				      (long long)((int64_t)(v->start - from) >> 12),
				      (long long)((int64_t)(v->end - from) >> 12));
		for (size_t i = 0; i < ARRAY_SIZE(letters); i++)
			if ((v->flags & letters[i].flag) && n + 1 < len)
				buf[n++] = letters[i].letter;
		buf[n] = '\0';
	}
	return buf;
}

#define assert_areas(w, want)                                                                                          \
	do {                                                                                                           \
		char buf_[4096];                                                                                       \
                                                                                                                       \
		world_check(w);                                                                                        \
		assert_string_equal(areas(w, WIN, WIN + 0x10000000ULL, buf_, sizeof(buf_)), want);                     \
	} while (0)

#endif
