/*
 * Scripts from a seed: calls with mostly valid, sometimes odd arguments, in a window of addresses small enough that they meet. Two kinds of
 * window: 24 pages, and one of 8 MiB with a large grain, for huge pages. Everything is in numbers relative to ARENA, so that each statement stands
 * for itself and shrinking may take any away.
 */
#include "fidelity/fidelity.h"

#include <inttypes.h>

#include "base/compiler.h"
#include "base/rng.h"

#define MAX_PROCS 3

struct gen {
	struct rng r;
	FILE *to;
	bool huge, forks, files, locks, all, breaks; /* all: mlockall */
	uint64_t window, grain; /* pages */
	unsigned procs;         /* alive: main and P1, P2 */
	unsigned made;          /* processes so far */
	bool alive[MAX_PROCS + 1];
	char who[24];
};

static uint64_t below(struct gen *g, uint64_t n)
{
	return rng_below(&g->r, n);
}

static bool one_in(struct gen *g, uint64_t n)
{
	return !below(g, n);
}

static uint64_t pick_page(struct gen *g)
{
	uint64_t p = below(g, g->window / g->grain) * g->grain;

	return g->huge && one_in(g, 4) ? p + below(g, g->grain) : p;
}

static uint64_t pick_len(struct gen *g, uint64_t at)
{
	uint64_t most = g->window - at, n = (1 + below(g, g->huge ? 4 : 10)) * g->grain;

	if (g->huge && one_in(g, 4))
		n = 1 + below(g, 2 * g->grain);
	return MIN(n, most);
}

/* "ARENA+5p 3p", rarely odd. */
static void range(struct gen *g)
{
	static const char *const odd[] = { "0", "1", "4097", "0xffffffffffffffff" };
	uint64_t at = pick_page(g), n = pick_len(g, at);

	fprintf(g->to, "ARENA+%" PRIu64 "p", at);
	if (one_in(g, 40))
		fprintf(g->to, "+8");
	if (one_in(g, 40))
		fprintf(g->to, " %s", odd[below(g, ARRAY_SIZE(odd))]);
	else
		fprintf(g->to, " %" PRIu64 "p", n);
}

static const char *prot(struct gen *g)
{
	static const char *const words[] = { "rw", "rw", "rw", "rw", "r", "none", "w", "rx", "rwx" };

	return words[below(g, ARRAY_SIZE(words))];
}

static void gen_mmap(struct gen *g)
{
	uint64_t at = pick_page(g), n = pick_len(g, at);
	bool file = g->files && one_in(g, 3), shared = one_in(g, 4);

	fprintf(g->to, "mmap %" PRIu64 "p prot=%s at=ARENA+%" PRIu64 "p flags=%s,%s", n, prot(g), at,
		one_in(g, 10) ? "fixed_noreplace" : "fixed", shared ? "shared" : "private");
	if (!file)
		fprintf(g->to, ",anon");
	if (one_in(g, 8))
		fprintf(g->to, ",noreserve");
	if (one_in(g, 8))
		fprintf(g->to, ",populate");
	if (g->locks && one_in(g, 12))
		fprintf(g->to, ",locked");
	if (one_in(g, 16))
		fprintf(g->to, ",stack");
	if (file)
		fprintf(g->to, " file=%s off=%" PRIu64 "p", one_in(g, 2) ? "F" : "G", below(g, 8));
}

static void gen_mremap(struct gen *g)
{
	uint64_t at = pick_page(g), n = pick_len(g, at), to = pick_page(g), m = pick_len(g, to);

	switch (below(g, 6)) {
	case 0:
	case 1:
		fprintf(g->to, "mremap ARENA+%" PRIu64 "p %" PRIu64 "p %" PRIu64 "p flags=none", at, n, MIN(m, g->window - at));
		break;
	case 2:
		to = MIN(to, g->window - n);
		fprintf(g->to, "mremap ARENA+%" PRIu64 "p %" PRIu64 "p %" PRIu64 "p flags=maymove,fixed,dontunmap to=ARENA+%" PRIu64 "p", at, n, n, to);
		break;
	case 3:
		fprintf(g->to, "mremap ARENA+%" PRIu64 "p 0 %" PRIu64 "p flags=maymove,fixed to=ARENA+%" PRIu64 "p", at, m, to);
		break;
	default:
		to = MIN(to, g->window - n);
		fprintf(g->to, "mremap ARENA+%" PRIu64 "p %" PRIu64 "p %" PRIu64 "p flags=maymove,fixed to=ARENA+%" PRIu64 "p", at, n,
			one_in(g, 3) ? MIN(m, g->window - to) : n, to);
		break;
	}
}

static void gen_madvise(struct gen *g)
{
	static const char *const advices[] = {
		"normal", "random", "sequential", "willneed", "dontneed", "dontneed", "dontneed", "free", "free", "dontfork", "dofork", "hugepage",
		"hugepage", "nohugepage", "dontdump", "dodump", "wipeonfork", "keeponfork", "populate_read", "populate_write", "populate_write",
		"dontneed_locked", "collapse", "1234", "cold", "pageout",
	};

	fprintf(g->to, "madvise ");
	range(g);
	fprintf(g->to, " %s", g->huge && one_in(g, 3) ? one_in(g, 3) ? "collapse" : "hugepage" : advices[below(g, ARRAY_SIZE(advices))]);
}

static void gen_msync(struct gen *g)
{
	static const char *const flags[] = { "sync", "async", "invalidate", "sync,invalidate", "sync", "sync", "none", "sync,async" };

	fprintf(g->to, "msync ");
	range(g);
	fprintf(g->to, " %s", flags[below(g, ARRAY_SIZE(flags))]);
}

/* A call on a file beside its mappings. */
static void gen_file(struct gen *g)
{
	const char *file = one_in(g, 2) ? "F" : "G";
	uint64_t off = below(g, 18), n = 1 + below(g, 6), what = below(g, 6);

	switch (what) {
	case 0:
		fprintf(g->to, "file truncate %s %" PRIu64 "p", file, 1 + below(g, 20));
		break;
	case 1:
		fprintf(g->to, "file read %s %" PRIu64 "p %" PRIu64 "p", file, off, n);
		break;
	case 2:
		fprintf(g->to, "file write %s %" PRIu64 "p %" PRIu64 "p %" PRIu64, file, off, n, 1 + below(g, 1000000));
		break;
	case 3:
	case 4:
		fprintf(g->to, "%s %s ARENA+%" PRIu64 "p %" PRIu64 "p ", what == 3 ? "pread" : "pwrite", file, pick_page(g), off);
		if (one_in(g, 4))
			fprintf(g->to, "%" PRIu64, 8 * (1 + below(g, 3000)));
		else
			fprintf(g->to, "%" PRIu64 "p", n);
		break;
	default:
		gen_msync(g);
		break;
	}
}

static void gen_access(struct gen *g)
{
	uint64_t at = pick_page(g), n = pick_len(g, at);

	switch (below(g, 5)) {
	case 0:
		fprintf(g->to, "read ARENA+%" PRIu64 "p", at);
		break;
	case 1:
		fprintf(g->to, "write ARENA+%" PRIu64 "p %" PRIu64, at, 1 + below(g, 1000000));
		break;
	case 2:
		fprintf(g->to, "touch ARENA+%" PRIu64 "p..ARENA+%" PRIu64 "p read", at, at + n);
		break;
	case 3:
		fprintf(g->to, "touch ARENA+%" PRIu64 "p..ARENA+%" PRIu64 "p write", at, at + n);
		break;
	default:
		fprintf(g->to, "fill ARENA+%" PRIu64 "p..ARENA+%" PRIu64 "p %" PRIu64, at, at + n, 1000 * (1 + below(g, 1000)));
		break;
	}
}

static void gen_lock(struct gen *g)
{
	static const char *const calls[] = { "mlock ", "mlock ", "munlock ", "mlock2 " };
	size_t i = below(g, ARRAY_SIZE(calls));

	fprintf(g->to, "%s", calls[i]);
	range(g);
	if (i == 3)
		fprintf(g->to, " onfault");
}

static void gen_all(struct gen *g)
{
	static const char *const calls[] = { "mlockall current", "mlockall future", "mlockall current,future", "mlockall current,onfault",
					      "mlockall future,onfault", "munlockall", "munlockall", "munlockall" };

	fprintf(g->to, "%s", calls[below(g, ARRAY_SIZE(calls))]);
}

static void gen_break(struct gen *g)
{
	if (one_in(g, 3))
		fprintf(g->to, "sbrk (-%" PRIu64 "p)", 1 + below(g, 6));
	else
		fprintf(g->to, "sbrk %" PRIu64 "%s", below(g, 12), one_in(g, 6) ? "000" : "p");
}

static void gen_range_call(struct gen *g, const char *call, const char *after)
{
	fprintf(g->to, "%s ", call);
	range(g);
	fprintf(g->to, "%s%s", *after ? " " : "", after);
}

/* A statement of the process that g->who names. */
static void gen_call(struct gen *g)
{
	uint64_t what = below(g, 100);

	fprintf(g->to, "%s", g->who);
	if (g->all && one_in(g, 8))
		gen_all(g);
	else if (g->breaks && one_in(g, 6))
		gen_break(g);
	else if (what < 22)
		gen_mmap(g);
	else if (what < 28)
		gen_range_call(g, "munmap", "");
	else if (what < 42)
		gen_range_call(g, "mprotect", prot(g));
	else if (what < 50)
		gen_mremap(g);
	else if (what < 66)
		gen_madvise(g);
	else if (what < 72 && g->locks)
		gen_lock(g);
	else if (what < 74)
		gen_range_call(g, "mincore", "");
	else if (what < 75)
		gen_msync(g);
	else if (what < 82 && g->files)
		gen_file(g);
	else
		gen_access(g);
	fputc('\n', g->to);
}

static void pick_who(struct gen *g)
{
	unsigned p = (unsigned)below(g, g->made + 1);

	g->who[0] = '\0';
	if (p && g->alive[p])
		snprintf(g->who, sizeof(g->who), "proc P%u: ", p);
}

/* fork, or the end of a process. */
static bool gen_process(struct gen *g)
{
	pick_who(g);
	if (g->made < MAX_PROCS && one_in(g, 2)) {
		g->made++;
		g->alive[g->made] = true;
		fprintf(g->to, "%sfork P%u\n", g->who, g->made);
		return true;
	}
	for (unsigned p = 1; p <= g->made; p++)
		if (g->alive[p] && one_in(g, 2)) {
			g->alive[p] = false;
			fprintf(g->to, "proc P%u: exit\n", p);
			return true;
		}
	return false;
}

void fidelity_random(uint64_t seed, FILE *to)
{
	struct gen g = { .to = to };
	unsigned steps;

	rng_init(&g.r, seed, "fidelity");
	g.huge = one_in(&g, 4);
	g.forks = one_in(&g, 3);
	g.files = one_in(&g, 5);
	g.locks = one_in(&g, 4);
	g.all = g.locks && one_in(&g, 4);
	g.breaks = one_in(&g, 6);
	g.grain = g.huge ? 512 : 1;
	g.window = g.huge ? 2048 : 24;
	steps = 6 + (unsigned)below(&g, 25);
	fprintf(to, "# seed %" PRIu64 "\n", seed);
	if (g.files)
		fprintf(to, "file create F 16p shmem\nfile create G 16p plain\n");
	/* A first mapping, so that not everything fails. */
	gen_mmap(&g);
	fputc('\n', to);
	for (unsigned i = 0; i < steps; i++) {
		if (g.forks && one_in(&g, 8) && gen_process(&g))
			continue;
		pick_who(&g);
		gen_call(&g);
	}
}
