/*
 * Makes calls fail on purpose, over any machine, by rules after Linux's fault injection (failslab, fail_page_alloc): a rule has a
 * kind of call, conditions, and how often it fails what meets them. A point is one call that could fail. Where a point lies, its
 * site, is the engine's path that asked: the innermost of machine/paths.h that is not a part of the allocators or of copying.
 *
 * Attaching replaces the machine's operations by a copy in which clear_page, copy_page, trylock, swap_io and inject ask first.
 * fail_copy_page makes copy_page return -EHWPOISON, fail_clear_page makes clear_page return -ENOMEM; the engine makes an allocation
 * return nothing, and a read of a file's page or a transfer of the swap device -EIO. Attach and detach while nothing runs; decisions may be asked for on any number
 * of CPUs at once (then the order in which rules count them is the order of their arrival).
 *
 * Each rule draws from a random stream of its own, so that one rule never shifts another's draws.
 */
#ifndef QUIRE_MACHINE_INJECT_H
#define QUIRE_MACHINE_INJECT_H

#include "machine/machine.h"

#define INJECT_ANY (-1)
#define INJECT_MAX_RULES 16

/* Fails a point when all holds: kind, site, order; `space` bytes asked for before have passed; then interval, nth, times, chance. */
struct inject_rule {
	enum inject_site kind;
	unsigned probability; /* per cent */
	uint64_t interval;    /* each interval-th only; 1: all */
	int64_t times;        /* failures at most; -1: no limit */
	uint64_t space;       /* bytes that are let through first */
	uint64_t nth;         /* only the nth that meets the conditions, from 1; 0: any */
	int order;            /* fail_page_alloc: of this order only; INJECT_ANY */
	int site;             /* enum machine_path, or INJECT_ANY */
};

/*
 * "fail_page_alloc:probability=10,times=5,order=9,site=fault_huge". What is not said: probability 100, interval 1, no limit, no
 * space, any order and site. 0, or -EINVAL with one line in err.
 */
ATTR_MUST_CHECK int inject_rule_parse(const char *text, struct inject_rule *ret, char *err, size_t errlen);
struct inject_rules {
	struct inject_rule rule[INJECT_MAX_RULES];
	unsigned nr;
};
/* failslab, fail_page_alloc...; and what fails, in one line. */
const char *inject_kind_name(enum inject_site kind);
const char *inject_kind_help(enum inject_site kind);
/* Of a path: its identifier in lower case. For INJECT_ANY "any". */
void inject_site_name(int site, char *buf, size_t len);
/* May a point lie there? Not in the paths that only serve others. */
bool inject_site_possible(enum machine_path site);

struct inject;

/* 0 or -ENOMEM. Detach before the machine is destroyed. */
ATTR_MUST_CHECK int inject_attach(struct machine *m, uint64_t seed, struct inject **ret);
void inject_detach(struct inject *in);
/* With rules from the start. 0, -ENOMEM, or -EINVAL. NULL or no rules: nothing is attached and *ret is NULL. */
ATTR_MUST_CHECK int inject_attach_rules(struct machine *m, uint64_t seed, const struct inject_rules *rules, struct inject **ret);
/* 0, -EINVAL or -ENOSPC. */
ATTR_MUST_CHECK int inject_add(struct inject *in, const struct inject_rule *r);

/* ---- what happened: since attaching ---- */
struct inject_count {
	uint64_t points, failures;
};
struct inject_count inject_count_at(const struct inject *in, enum inject_site kind, enum machine_path site);
struct inject_count inject_count_kind(const struct inject *in, enum inject_site kind);
uint64_t inject_failed(const struct inject *in); /* all kinds */

/* ---- one point of a run ---- */
struct inject_point {
	enum inject_site kind;
	enum machine_path site;
};
/* Points are numbered from 1 on; the nth, of whatever kind, fails once. 0: none. Numbering begins anew. */
void inject_fail_point(struct inject *in, uint64_t n);
/* How many points there have been since, and which was the one that failed: false when it has not been met. */
uint64_t inject_points(const struct inject *in);
bool inject_point_failed(const struct inject *in, struct inject_point *ret);
/* Write each point down from now on, cap at most. NULL: no more. */
void inject_log(struct inject *in, struct inject_point *log, uint64_t cap);

/* ---- one simple rule a kind, for tests ---- */
enum inject_mode {
	INJECT_NEVER,
	INJECT_NTH,    /* the n-th call from now fails, n from 1; others don't */
	INJECT_EVERY,  /* each n-th call fails */
	INJECT_RANDOM, /* n of 1000 calls fail */
};
/* Sets what happens to a kind and starts its counts below anew. -EINVAL: n is 0, or beyond 1000 for INJECT_RANDOM. */
int inject_set(struct inject *in, enum inject_site kind, enum inject_mode mode, uint64_t n);
uint64_t inject_calls(const struct inject *in, enum inject_site kind);
uint64_t inject_failures(const struct inject *in, enum inject_site kind); /* by the simple rule */

#endif
