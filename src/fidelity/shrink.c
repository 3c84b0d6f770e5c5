/*
 * Shrinking: take statements away while what is left still differs. Halves first, then quarters, down to single ones (delta debugging), over
 * the script's outer statements, then inside of blocks; again until nothing more can go.
 */
#include "fidelity/fidelity.h"

#include <errno.h>

#include "base/compiler.h"

/* What is tried: a copy of `best` without statements [at, at + n) of the block that path leads to. */
struct shrink {
	bool (*differs)(void *arg, const struct script *s);
	void *arg;
	struct script *best;
};

static struct script_block *inner(struct script_stmt *st, unsigned which)
{
	return which ? &st->other : &st->body;
}

/* The index-th block of the tree in order, the outermost first; NULL behind the last. */
static struct script_block *block_at(struct script_block *b, size_t *index)
{
	if (!(*index)--)
		return b;
	for (size_t i = 0; i < b->nr; i++)
		for (unsigned w = 0; w < 2; w++)
			if (inner(b->s[i], w)->nr) {
				struct script_block *found = block_at(inner(b->s[i], w), index);

				if (found)
					return found;
			}
	return NULL;
}

static size_t block_len(struct script *s, size_t block)
{
	struct script_block *b = block_at(&s->body, &block);

	return b ? b->nr : 0;
}

/* 1: gone, 0: needed, or -ENOMEM. */
static int try_without(struct shrink *sh, size_t block, size_t at, size_t n)
{
	struct script *s = script_copy(sh->best);
	struct script_block *b;

	if (!s)
		return -ENOMEM;
	b = block_at(&s->body, &block);
	for (size_t i = 0; b && i < n && at < b->nr; i++)
		script_block_remove(b, at);
	if (b && sh->differs(sh->arg, s)) {
		script_free(sh->best);
		sh->best = s;
		return 1;
	}
	script_free(s);
	return 0;
}

/* Whether anything went, or -ENOMEM. */
static int shrink_block(struct shrink *sh, size_t block)
{
	int any = 0, rc;

	for (size_t n = (block_len(sh->best, block) + 1) / 2; n; n /= 2)
		for (size_t at = 0; at < block_len(sh->best, block);) {
			/* A lone inner statement stays: a block has at least one. */
			if (block && block_len(sh->best, block) <= n)
				break;
			rc = try_without(sh, block, at, n);
			if (rc < 0)
				return rc;
			any |= rc;
			if (!rc)
				at += n;
		}
	return any;
}

int fidelity_shrink(const struct script *s, bool (*differs)(void *arg, const struct script *s), void *arg, struct script **ret)
{
	struct shrink sh = { .differs = differs, .arg = arg, .best = script_copy(s) };
	int any = 1, rc = 0;

	if (!sh.best)
		return -ENOMEM;
	while (any && rc >= 0) {
		any = 0;
		for (size_t block = 0; rc >= 0 && block_len(sh.best, block); block++) {
			rc = shrink_block(&sh, block);
			any |= rc > 0;
		}
	}
	if (rc < 0) {
		script_free(sh.best);
		return rc;
	}
	*ret = sh.best;
	return 0;
}
