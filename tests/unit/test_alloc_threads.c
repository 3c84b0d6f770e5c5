/*
 * The page allocator under threads, on the host machine: random blocks of all orders and types, taken and given back at once. A shared
 * map has an owner for each frame, so that a frame given twice is seen by whoever gets it second. Made for ThreadSanitizer as well.
 */
#include "testing.h"

#include "base/rng.h"
#include "machine/host/host.h"
#include "mm/system.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define STEPS 20000
#define HELD 1500

struct worker {
	pthread_t id;
	struct machine *m;
	uint8_t *owner; /* by frame, atomic */
	unsigned me;
	unsigned failed;
	bool twice;
};

struct held {
	struct frame *f;
	unsigned order;
};

static void mark(struct worker *w, const struct held *h, uint8_t from, uint8_t to)
{
	uint64_t p = frame_pfn(w->m, h->f).v;

	for (uint64_t i = p; i < p + (1ULL << h->order); i++)
		if (__atomic_exchange_n(&w->owner[i], to, __ATOMIC_RELAXED) != from)
			w->twice = true;
}

static void *work(void *arg)
{
	static const unsigned gfp[] = { GFP_KERNEL, GFP_KERNEL | GFP_RECLAIMABLE, GFP_HIGHUSER_MOVABLE, GFP_HIGHUSER_MOVABLE | GFP_COMP };
	struct worker *w = arg;
	struct held held[HELD];
	unsigned nr = 0;
	struct rng r;
	struct cpu *c;

	if (host_attach(w->m, &c))
		return NULL;
	rng_init(&r, w->me, "threads");
	for (unsigned i = 0; i < STEPS; i++) {
		if (nr < HELD && rng_below(&r, 100) < ((i / 2000) % 2 ? 15 : 85)) {
			struct held h = { .order = (unsigned)(rng_below(&r, 4) ? rng_below(&r, 4) : rng_below(&r, MAX_ORDER + 1)) };

			h.f = page_alloc(c, &(struct alloc_req){ .order = h.order, .gfp = gfp[rng_below(&r, 4)], .nid = NID_NONE });
			if (h.f) {
				mark(w, &h, 0, (uint8_t)w->me);
				held[nr++] = h;
			} else {
				w->failed++;
			}
		} else if (nr) {
			unsigned j = (unsigned)rng_below(&r, nr);

			mark(w, &held[j], (uint8_t)w->me, 0);
			frame_put(c, held[j].f);
			held[j] = held[--nr];
		}
	}
	while (nr--) {
		mark(w, &held[nr], (uint8_t)w->me, 0);
		frame_put(c, held[nr].f);
	}
	pcp_drain(c);
	host_detach(c);
	return NULL;
}

static void test_threads(void **state)
{
	const struct host_options o = { .memory = 256ULL << 20, .nr_nodes = 2, .nr_cpus = THREADS + 1 };
	struct worker w[THREADS];
	struct machine *m;
	struct quire *q;
	char err[200] = "";
	uint64_t free_before;
	uint8_t *owner;
	unsigned failed = 0;

	(void)state;
	if (host_create(&o, &m, err, sizeof(err)) || quire_boot(m, NULL, &q, err, sizeof(err)))
		fail_msg("%s", err);
	owner = calloc(m->max_pfn, 1);
	free_before = memory_free_pages(q, NID_NONE);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .m = m, .owner = owner, .me = i + 1 };
		assert_int_equal(pthread_create(&w[i].id, NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(w[i].id, NULL);
		assert_false(w[i].twice);
		failed += w[i].failed;
	}
	assert_true(failed > 0); /* it ran full */
	if (memory_validate(q))
		fail_msg("%s", q->err);
	assert_int_equal(memory_free_pages(q, NID_NONE), free_before);
	/* Merged as far as alignment goes. */
	for (unsigned n = 0; n < 2; n++) {
		const struct zone *z = &q->nodes[n].zones[ZONE_DMA32];

		assert_int_equal(z->free_area[MAX_ORDER].nr_free, z->deferred_pfn / 1024 - (z->first_pfn + 1023) / 1024);
	}
	assert_int_equal(quire_shutdown(q), 0);
	host_destroy(m);
	free(owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads) };

	return test_run(tests);
}
