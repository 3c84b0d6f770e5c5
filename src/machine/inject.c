/*
 * The fault wrapper: a machine's operations with some calls made to fail.
 *
 * Invariant: while attached, m->ops points to the `ops` inside a struct inject, which is how a call finds its rules.
 * Random failures draw from one stream a site, so that rules at one site never shift another's.
 */
#include "machine/inject.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>

struct inject {
	struct machine_ops ops; /* what m->ops points to */
	const struct machine_ops *inner;
	struct machine *m;
	uint64_t seed;
	struct {
		enum inject_mode mode;
		uint64_t n, calls, failures;
		struct rng rng;
	} site[NR_INJECT_SITES];
};

static struct inject *inject_of(const struct cpu *c)
{
	/* The operations are constant for everybody but their owner. */
	return (struct inject *)(uintptr_t)c->m->ops;
}

static bool decide(struct cpu *c, enum inject_site site)
{
	struct inject *in = inject_of(c);
	bool fail = false;

	in->site[site].calls++;
	switch (in->site[site].mode) {
	case INJECT_NEVER:
		break;
	case INJECT_NTH:
		fail = in->site[site].calls == in->site[site].n;
		break;
	case INJECT_EVERY:
		fail = in->site[site].calls % in->site[site].n == 0;
		break;
	case INJECT_RANDOM:
		fail = rng_below(&in->site[site].rng, 1000) < in->site[site].n;
		break;
	}
	in->site[site].failures += fail;
	return fail;
}

static int inject_clear_page(struct cpu *c, pfn_t p)
{
	return decide(c, INJECT_CLEAR) ? -ENOMEM : inject_of(c)->inner->clear_page(c, p);
}

static int inject_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	return decide(c, INJECT_COPY) ? -EHWPOISON : inject_of(c)->inner->copy_page(c, dst, src);
}

static bool inject_trylock(struct cpu *c, struct mlock *l)
{
	return !decide(c, INJECT_TRYLOCK) && inject_of(c)->inner->trylock(c, l);
}

int inject_attach(struct machine *m, uint64_t seed, struct inject **ret)
{
	struct inject *in = calloc(1, sizeof(*in));

	if (!in)
		return -ENOMEM;
	in->inner = m->ops;
	in->m = m;
	in->seed = seed;
	in->ops = *m->ops;
	in->ops.clear_page = inject_clear_page;
	in->ops.copy_page = inject_copy_page;
	in->ops.trylock = inject_trylock;
	in->ops.inject = decide;
	m->ops = &in->ops;
	*ret = in;
	return 0;
}

void inject_detach(struct inject *in)
{
	if (!in)
		return;
	in->m->ops = in->inner;
	free(in);
}

int inject_set(struct inject *in, enum inject_site site, enum inject_mode mode, uint64_t n)
{
	char name[] = "inject-0";

	if ((mode != INJECT_NEVER && !n) || (mode == INJECT_RANDOM && n > 1000))
		return -EINVAL;
	name[sizeof(name) - 2] = (char)('0' + site);
	in->site[site].mode = mode;
	in->site[site].n = n;
	in->site[site].calls = 0;
	in->site[site].failures = 0;
	rng_init(&in->site[site].rng, in->seed, name);
	return 0;
}

uint64_t inject_calls(const struct inject *in, enum inject_site site)
{
	return in->site[site].calls;
}

uint64_t inject_failures(const struct inject *in, enum inject_site site)
{
	return in->site[site].failures;
}
