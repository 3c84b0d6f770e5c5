/* Break one thing, see the validator name it, put it back, and see that all is well again. */
#ifndef QUIRE_TESTS_DAMAGE_H
#define QUIRE_TESTS_DAMAGE_H

#include "paging_world.h"

#include "mm/alloc_int.h"
#include "mm/pagetable.h"
#include "mm/rmap.h"

#include <string.h>

static inline void expect_invalid(struct world *w, int rc, const char *what, int line)
{
	if (rc != -EINVAL || strncmp(w->q->err, what, strlen(what)))
		fail_msg("line %d: %d, '%s' instead of '%s'", line, rc, w->q->err, what);
	w->q->err[0] = '\0';
}

/* `check` gives -EINVAL and a text that begins with `what` while lvalue is `bad`. */
#define DAMAGE(w, check, lvalue, bad, what)                                                                                    \
	do {                                                                                                                   \
		__typeof__(lvalue) good = (lvalue);                                                                            \
		(lvalue) = (__typeof__(lvalue))(bad);                                                                          \
		expect_invalid(w, (check), what, __LINE__);                                                                    \
		(lvalue) = good;                                                                                               \
		assert_ok(check);                                                                                              \
	} while (0)

/* The same with two things broken at once. */
#define DAMAGE2(w, check, lvalue, bad, lvalue2, bad2, what)                                                                    \
	do {                                                                                                                   \
		__typeof__(lvalue2) good2 = (lvalue2);                                                                         \
		(lvalue2) = (__typeof__(lvalue2))(bad2);                                                                       \
		{                                                                                                              \
			__typeof__(lvalue) good = (lvalue);                                                                    \
			(lvalue) = (__typeof__(lvalue))(bad);                                                                  \
			expect_invalid(w, (check), what, __LINE__);                                                            \
			(lvalue) = good;                                                                                       \
		}                                                                                                              \
		(lvalue2) = good2;                                                                                             \
		assert_ok(check);                                                                                              \
	} while (0)

/* The entry of the level `shift` that serves va, whether empty or not. */
static inline pte_t *entry_of(struct world *w, struct mm *mm, vaddr_t va, unsigned shift)
{
	pfn_t table = mm->pgd;

	for (unsigned level = PGDIR_SHIFT;; level -= 9) {
		pte_t *e = (pte_t *)machine_ptr(w->m, pfn_to_paddr(table)) + pt_index(va, level);

		if (level == shift)
			return e;
		assert_true(pmd_table(*e));
		table = pte_pfn(*e);
	}
}

/* The table that an entry points to, or the frame that it maps. */
static inline struct frame *below(struct world *w, pte_t e)
{
	return frame_of(w->m, pte_pfn(e));
}

static inline struct vma *area_of(struct world *w, struct mm *mm, vaddr_t va)
{
	struct vma *v = vma_find(w->c, mm, va);

	assert_true(v && v->start <= va);
	return v;
}

#endif
