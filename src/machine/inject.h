/*
 * Makes calls fail on purpose, over any machine: the n-th call at a site, every k-th, or a random fraction that a seed decides.
 * A test counts the calls of a run without failures, then repeats the run once for each n: whatever the engine does then, it must
 * return an error and stay valid.
 *
 * Attaching replaces the machine's operations by a copy in which clear_page, copy_page, trylock and inject ask first.
 * INJECT_COPY makes copy_page return -EHWPOISON, INJECT_CLEAR makes clear_page return -ENOMEM. Not thread-safe.
 */
#ifndef QUIRE_MACHINE_INJECT_H
#define QUIRE_MACHINE_INJECT_H

#include "machine/machine.h"

enum inject_mode {
	INJECT_NEVER,
	INJECT_NTH,    /* the n-th call from now fails, n from 1; others don't */
	INJECT_EVERY,  /* each n-th call fails */
	INJECT_RANDOM, /* n of 1000 calls fail */
};

struct inject;

/* 0 or -ENOMEM. Detach before the machine is destroyed. */
ATTR_MUST_CHECK int inject_attach(struct machine *m, uint64_t seed, struct inject **ret);
void inject_detach(struct inject *in);
/* Sets what happens at a site and starts its counts anew. -EINVAL: n is 0, or beyond 1000 for INJECT_RANDOM. */
int inject_set(struct inject *in, enum inject_site site, enum inject_mode mode, uint64_t n);
uint64_t inject_calls(const struct inject *in, enum inject_site site);
uint64_t inject_failures(const struct inject *in, enum inject_site site);

#endif
