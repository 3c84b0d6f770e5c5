/*
 * pmbench: threads of one process access pages of one map by a pattern, loads and stores mixed by chance, and each access is timed.
 *
 * As published: a warm-up of so many accesses as the pattern asks for, a barrier, then accesses until time or --ops are over; the page by
 * the pattern, the 32-bit word in it by chance or fixed, a store with the chance that --reads leaves. Latencies go into two
 * histograms with the published buckets. Drawing is outside of what is timed, but inside of what accesses/s is made of.
 *
 * Other than published: the random source is this project's, the map is 2 MiB pages' whole multiple where it can be, it is mapped writable
 * also where nobody writes, and time is looked at after each access, not after 10,000. The model's clock does not wait for loads as rdtscp
 * does: an access that misses is timed only as far as it holds up the next instruction, so that misses overlap and look short.
 */
#include "workload/draw.h"
#include "workload/work_int.h"

#include <stdlib.h>

/*
 * Around an access: two steps of a linear congruential generator, the page's and the word's address, the choice of load or store, the
 * clock read twice, the bucket. An estimate from what the published loop does, not a count of its instructions.
 */
#define INSNS_AROUND 60U
#define POINT_EVERY 64U

struct work_pm {
	struct draw draw;
	struct pmbench_hist hist[2]; /* loads, stores */
};

unsigned pmbench_bucket(uint64_t ns)
{
	unsigned e;

	if (ns < 1U << PMBENCH_FIRST)
		return 0;
	e = 63U - (unsigned)__builtin_clzll(ns);
	if (e <= PMBENCH_LAST_SPLIT)
		return 1 + (e - PMBENCH_FIRST) * 16 + (unsigned)(ns >> (e - 4) & 15);
	return PMBENCH_BUCKETS - 1 - (e >= PMBENCH_END ? 0 : PMBENCH_END - e);
}

uint64_t pmbench_bucket_from(unsigned i)
{
	unsigned split = 1 + (PMBENCH_LAST_SPLIT - PMBENCH_FIRST + 1) * 16;

	if (!i)
		return 0;
	if (i >= split)
		return 1ULL << (PMBENCH_LAST_SPLIT + 1 + i - split);
	i--;
	return (16ULL + i % 16) << (i / 16 + PMBENCH_FIRST - 4);
}

static uint64_t page_value(uint64_t page)
{
	return 1ULL << 40 | (page + 1);
}

/* With check, contents are those of the page's first word: all threads store the same. */
static bool access_page(struct work_task *k, uint64_t page, unsigned word, bool write)
{
	vaddr_t va = k->w->area + page * PAGE_SIZE;

	if (!k->w->o->check)
		return work_run(k, va + 4ULL * word, 4, 1, 4, write, 1);
	return write ? work_store(k, va, page_value(page), 1) : work_verify(k, va, page_value(page), true);
}

/* One access. timed: it counts. */
static bool one(struct work_task *k, bool timed)
{
	const struct workload_options *o = k->w->o;
	uint64_t page = draw_page(&k->pm->draw, &k->rng), from, ns;
	unsigned word = o->fixed_word ? o->word : (unsigned)rng_below(&k->rng, PAGE_SIZE / 4);
	bool write = rng_below(&k->rng, 100) >= (o->reads_given ? o->reads : 50);
	struct pmbench_hist *h = &k->pm->hist[write];

	(void)machine_work(k->c, PATH_USER, INSNS_AROUND);
	from = work_now(k);
	if (!access_page(k, page, word, write))
		return false;
	if (!timed)
		return true;
	ns = work_now(k) - from;
	h->count++;
	h->sum += ns;
	h->max = MAX(h->max, ns);
	h->bucket[pmbench_bucket(ns)]++;
	k->ops++;
	return true;
}

static bool warm_up(struct work_task *k)
{
	uint64_t n = k->w->o->cold ? 0 : draw_warmup(k->pm->draw.pattern) * k->pm->draw.n;

	for (uint64_t i = 0; i < n; i++)
		if ((i % POINT_EVERY == 0 && !work_point(k)) || !one(k, false))
			return false;
	return true;
}

static bool over(const struct work_task *k, uint64_t from)
{
	const struct work *w = k->w;

	return (w->o->ops && k->ops >= w->o->ops) || (w->limit_ns && work_now(k) - from >= w->limit_ns);
}

static uint64_t set_pages(const struct work *w)
{
	return (w->o->working_set ? w->o->working_set : w->task_bytes) / PAGE_SIZE;
}

const char *pmbench_refuses(const struct work *w)
{
	struct draw d;

	if (w->o->working_set > w->task_bytes)
		return "the working set is larger than the map (--size)";
	return draw_init(&d, w->o->pattern, set_pages(w), w->o->shape);
}

bool pmbench_run(struct work_task *k)
{
	uint64_t from;
	bool ok;

	k->pm = calloc(1, sizeof(*k->pm));
	ok = k->pm ? !draw_init(&k->pm->draw, k->w->o->pattern, set_pages(k->w), k->w->o->shape) : work_failed(k, -EAGAIN);
	ok = ok && warm_up(k);
	if (!work_barrier(k) || !ok) /* those who failed have come too */
		return false;
	from = work_now(k);
	for (uint64_t i = 1; ok && !over(k, from); i++)
		ok = one(k, true) && (i % POINT_EVERY || work_point(k));
	k->done_ns = work_now(k);
	k->value_ns = k->done_ns - from;
	k->value = k->value_ns ? (uint64_t)((unsigned __int128)k->ops * 1000000000ULL / k->value_ns) : 0;
	return ok;
}

static void extra(struct workload_result *r, const char *name, const char *unit, uint64_t value, unsigned decimals, const char *help)
{
	if (r->nr_extra < ARRAY_SIZE(r->extra))
		r->extra[r->nr_extra++] = (struct workload_extra){ name, unit, help, value, decimals };
}

static void add(struct pmbench_hist *to, const struct pmbench_hist *from)
{
	to->count += from->count;
	to->sum += from->sum;
	to->max = MAX(to->max, from->max);
	for (unsigned i = 0; i < PMBENCH_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

void pmbench_conclude(struct work *w)
{
	struct workload_result *r = w->res;
	const struct pmbench_hist *h;

	r->pmbench = calloc(2, sizeof(*r->pmbench));
	for (unsigned i = 0; i < w->nr; i++) {
		for (unsigned j = 0; r->pmbench && w->t[i].pm && j < 2; j++)
			add(&r->pmbench[j], &w->t[i].pm->hist[j]);
		free(w->t[i].pm);
		w->t[i].pm = NULL;
	}
	h = r->pmbench;
	if (!h) {
		w->error = w->error ? w->error : -ENOMEM;
		return;
	}
	extra(r, "reads", "", h[0].count, 0, "accesses that were loads, without warming up");
	extra(r, "writes", "", h[1].count, 0, "accesses that were stores, without warming up");
	extra(r, "read_latency_ns", "ns", h[0].count ? h[0].sum * 10 / h[0].count : 0, 1, "of a load, mean");
	extra(r, "write_latency_ns", "ns", h[1].count ? h[1].sum * 10 / h[1].count : 0, 1, "of a store, mean");
	extra(r, "read_latency_max_ns", "ns", h[0].max, 0, "the longest");
	extra(r, "write_latency_max_ns", "ns", h[1].max, 0, "the longest");
}
