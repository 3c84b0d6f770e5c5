/*
 * References a second through model_replay, on a Haswell-like machine with a trivial fault hook: streaming with 8-byte stride and uniform
 * random 8-byte loads. Not a test: prints, asserts nothing. Arguments: [millions of references] [MiB].
 * Environment: ONLY=case, MACH=machine (numbers from 0), STATS=1.
 */
#include "base/rng.h"
#include "../unit/core_fixture.h"

#include <time.h>

const uint32_t machine_work_table[NR_MACHINE_PATHS] = { [PATH_FAULT] = 300 };

#define BLOCK 4096U

/* As machines/xeon-e5-2699v3-2s.yaml: inclusive. */
static struct machine_desc haswell(void)
{
	struct machine_desc d = fix_desc();

	fix_two_sockets(&d);
	d.cores_per_socket = 18;
	d.threads_per_core = 2;
	d.freq_khz = 2300000;
	d.l1d = (struct cache_desc){ .size = 32768, .ways = 8, .latency_ps = 1700, .replacement = REPL_PLRU };
	d.l2 = (struct cache_desc){ .size = 262144, .ways = 8, .latency_ps = 5200, .replacement = REPL_PLRU };
	d.llc = (struct cache_desc){ .size = 45ULL << 20, .ways = 20, .latency_ps = 21000, .replacement = REPL_SRRIP,
				     .inclusion = INCL_INCLUSIVE };
	d.dtlb = (struct tlb_desc){ .entries_4k = 64, .ways_4k = 4, .entries_2m = 32, .ways_2m = 4, .entries_1g = 4, .ways_1g = 4 };
	d.stlb = (struct tlb_desc){ .entries_4k = 1024, .ways_4k = 8, .shared_2m = true, .latency_ps = 3000 };
	d.pwc_pmd = 32;
	d.pwc_pud = 4;
	d.pwc_pgd = 2;
	d.prefetch.enabled = true;
	d.prefetch.streams = 32;
	d.prefetch.degree = 2;
	d.prefetch.distance = 20;
	for (int n = 0; n < 2; n++) {
		d.nodes[n].memory = 8ULL << 30;
		d.nodes[n].read_bw_MBps = 60000;
		d.nodes[n].write_bw_MBps = 40000;
	}
	return d;
}

/* As machines/cloud-2cpu.yaml: a victim cache beside a snoop filter. */
static struct machine_desc cloud(void)
{
	struct machine_desc d = haswell();

	d.sockets = d.nr_nodes = d.threads_per_core = 1;
	d.cores_per_socket = 2;
	d.mshrs = 16;
	d.walkers = 4;
	d.window_insns = 512;
	d.store_buffer = 112;
	d.l1d = (struct cache_desc){ .size = 48 << 10, .ways = 12, .latency_ps = 2170, .replacement = REPL_PLRU };
	d.l2 = (struct cache_desc){ .size = 2 << 20, .ways = 16, .latency_ps = 6500, .replacement = REPL_PLRU };
	d.llc = (struct cache_desc){ .size = 260ULL << 20, .ways = 20, .latency_ps = 71000, .replacement = REPL_SRRIP,
				     .inclusion = INCL_NON_INCLUSIVE };
	d.dtlb = (struct tlb_desc){ .entries_4k = 96, .ways_4k = 6, .entries_2m = 32, .ways_2m = 4, .entries_1g = 8 };
	d.stlb = (struct tlb_desc){ .entries_4k = 2048, .ways_4k = 16, .shared_2m = true, .latency_ps = 3000 };
	d.pwc_pgd = 4;
	return d;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

enum kind { STREAM, STREAM_STORE, RANDOM };

static void run(struct machine_desc d, const char *name, enum kind kind, uint64_t refs, uint64_t bytes, unsigned level)
{
	struct replay_windows win = { .nr = 1, .w = { { .start = 0, .end = 1ULL << 46, .delta = 0 } } };
	static uint64_t words[BLOCK];
	struct fixture f;
	struct rng r;
	char err[200];
	uint64_t ns = 0, at = 0, base = 1ULL << 40, start_ps = 0;

	if (fix_create(&f, &d, false, err, sizeof(err))) {
		printf("%s\n", err);
		exit(1);
	}
	rng_init(&r, 1, "bench");
	for (uint64_t va = 0; va < bytes; va += 1ULL << (12 + 9 * level))
		fix_map(&f, FIX_ROOT_PFN, base + va, (64ULL << 20) + va, level,
			PTE_WRITE | PTE_USER | PTE_ACCESSED | PTE_DIRTY);
	for (uint64_t done = 0; done < refs; done += BLOCK) {
		uint64_t t0;
		size_t n = 0;

		if (done == refs / 2 / BLOCK * BLOCK) { /* the first half warms up */
			ns = 0;
			start_ps = fix_cpu(&f, 0)->now_ps;
		}
		for (unsigned i = 0; i < BLOCK; i++) {
			uint64_t off = kind == RANDOM ? rng_below(&r, bytes / 8) * 8 : at;

			at = at + 8 < bytes ? at + 8 : 0;
			words[i] = (3ULL << 60) | (3ULL << 47) | (kind == STREAM_STORE ? 1ULL << 59 : 0) | (base + off);
		}
		t0 = now_ns();
		while (n < BLOCK) {
			int e;

			n += model_replay(fix_cpu(&f, 0), words + n, BLOCK - n, &win, &e);
			if (e)
				abort();
		}
		ns += now_ns() - t0;
	}
	printf("  %-24s %8.1f Mrefs/s  (%.2f ns a reference; modelled %.2f ns)\n", name, (double)(refs / 2) * 1e3 / (double)ns,
	       (double)ns / (double)(refs / 2), (double)(fix_cpu(&f, 0)->now_ps - start_ps) / 1e3 / (double)(refs / 2));
	if (getenv("STATS")) {
		const char *names[] = { "tlb_misses_4k", "walk_refs", "l1d_misses", "l2_misses", "llc_hits", "llc_misses",
					"prefetches", "prefetches_useful", "back_invalidations", "stall_ns", "user_ns", "llc_writebacks" };

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			printf("    %-20s %.4f\n", names[i], (double)fix_stat(&f, names[i]) / (double)refs);
	}
	fix_destroy(&f);
}

static const struct {
	const char *name;
	enum kind kind;
	unsigned level;
} cases[] = {
	{ "stream loads 4K", STREAM, 0 },
	{ "stream stores 4K", STREAM_STORE, 0 },
	{ "random loads 4K", RANDOM, 0 },
	{ "random loads 2M", RANDOM, 1 },
};

int main(int argc, char **argv)
{
	uint64_t refs = (argc > 1 ? strtoull(argv[1], NULL, 0) : 40) * 1000000, bytes = (argc > 2 ? strtoull(argv[2], NULL, 0) : 1024) << 20;

	for (int i = 0; i < 2; i++) {
		struct machine_desc d = i ? cloud() : haswell();

		if (getenv("MACH") && atoi(getenv("MACH")) != i)
			continue;
		printf("%s\n", i ? "non-inclusive, 260 MiB" : "inclusive, 45 MiB");
		for (unsigned k = 0; k < ARRAY_SIZE(cases); k++)
			if (!getenv("ONLY") || atoi(getenv("ONLY")) == (int)k)
				run(d, cases[k].name, cases[k].kind, cases[k].kind == RANDOM ? refs / 4 : refs, bytes, cases[k].level);
	}
	return 0;
}
