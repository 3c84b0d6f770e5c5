/* The public interface (quire.h): managers, threads, address spaces, access and pins. Nothing but the public header is used. */
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <quire/quire.h>

#define MIB (1ULL << 20)
#define PAGE 4096ULL
#define RW (QUIRE_PROT_READ | QUIRE_PROT_WRITE)

struct world {
	struct quire_manager *q;
	struct quire_thread *t;
	struct quire_space *s;
};

static void begin(struct world *w, const char *const *settings)
{
	const struct quire_options o = { .memory = 256 * MIB, .max_threads = 8, .settings = settings };
	char err[200] = "";

	if (quire_open(&o, &w->q, err, sizeof(err)))
		fail_msg("open: %s", err);
	assert_int_equal(quire_attach(w->q, &w->t), 0);
	assert_int_equal(quire_space_create(w->t, &w->s), 0);
	quire_space_switch(w->t, w->s);
}

static int64_t counter(const struct world *w, const char *name)
{
	int64_t v = -1;

	assert_int_equal(quire_counter(w->q, name, &v), 0);
	return v;
}

static void finish(struct world *w)
{
	assert_int_equal(quire_close(w->q), -EBUSY);
	quire_space_put(w->t, w->s);
	quire_space_switch(w->t, NULL);
	assert_int_equal(counter(w, "nr_anon_pages"), 0);
	quire_detach(w->t);
	assert_int_equal(quire_close(w->q), 0);
}

static quire_addr_t map(struct world *w, uint64_t len)
{
	quire_addr_t a = 0;

	assert_int_equal(quire_mmap(w->t, 0, len, RW, QUIRE_MAP_PRIVATE, &a), 0);
	assert_true(a);
	return a;
}

static uint64_t get(struct world *w, quire_addr_t a)
{
	uint64_t v = ~0ULL;

	assert_int_equal(quire_load(w->t, a, 8, &v), 0);
	return v;
}

static void put(struct world *w, quire_addr_t a, uint64_t v)
{
	assert_int_equal(quire_store(w->t, a, 8, v), 0);
}

static const char *const no_thp[] = { "transparent_hugepage.enabled=never", NULL };
static const char *const thp[] = { "transparent_hugepage.enabled=always", NULL };
static const char *const thp_copy[] = { "transparent_hugepage.enabled=always", "quire.huge_cow=copy", NULL };

static void opening(void **state)
{
	const struct {
		struct quire_options o;
		const char *part; /* of the text */
	} bad[] = {
		{ { .memory = 1000 }, "128 MiB" },
		{ { .max_threads = 100000 }, "threads" },
		{ { .settings = (const char *const[]){ "nonsense", NULL } }, "name=value" },
		{ { .settings = (const char *const[]){ "vm.nonsense=1", NULL } }, "vm.nonsense" },
		{ { .settings = (const char *const[]){ "quire.huge_cow=maybe", NULL } }, "quire.huge_cow" },
	};
	struct quire_manager *q = NULL;
	char err[200];
	int64_t v;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err[0] = 0;
		assert_int_equal(quire_open(&bad[i].o, &q, err, sizeof(err)), -EINVAL);
		if (!strstr(err, bad[i].part))
			fail_msg("'%s' does not speak of '%s'", err, bad[i].part);
		assert_int_equal(quire_open(&bad[i].o, &q, NULL, 0), -EINVAL);
	}
	assert_null(q);
	assert_int_equal(quire_open(NULL, &q, err, sizeof(err)), 0);
	assert_int_equal(quire_counter(q, "pgfault", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(quire_counter(q, "pgnonsense", &v), -ENOENT);
	assert_int_equal(quire_close(q), 0);
	assert_int_equal(quire_close(NULL), 0);
}

static void mapping(void **state)
{
	struct world w;
	unsigned char vec[4];
	quire_addr_t moved;
	uint64_t v;

	(void)state;
	begin(&w, no_thp);
	quire_addr_t a = map(&w, 4 * PAGE);

	put(&w, a, 1);
	put(&w, a + 2 * PAGE, 3);
	assert_int_equal(counter(&w, "quire_fault_anon_4k"), 2);
	assert_int_equal(quire_mincore(w.t, a, 4 * PAGE, vec), 0);
	assert_int_equal(vec[0] << 3 | vec[1] << 2 | vec[2] << 1 | vec[3], 10);
	assert_int_equal(quire_mprotect(w.t, a, PAGE, QUIRE_PROT_READ), 0);
	assert_int_equal(quire_store(w.t, a, 8, 9), -EFAULT);
	assert_int_equal(get(&w, a), 1);
	assert_int_equal(quire_madvise(w.t, a + 2 * PAGE, PAGE, QUIRE_MADV_DONTNEED), 0);
	assert_int_equal(get(&w, a + 2 * PAGE), 0);
	assert_int_equal(quire_mlock(w.t, a, PAGE), 0);
	assert_int_equal(counter(&w, "nr_mlock"), 1);
	assert_int_equal(quire_munlock(w.t, a, PAGE), 0);
	assert_int_equal(quire_mprotect(w.t, a, PAGE, RW), 0);
	assert_int_equal(quire_mremap(w.t, a, 4 * PAGE, 64 * PAGE, QUIRE_MREMAP_MAYMOVE, 0, &moved), 0);
	assert_int_equal(get(&w, moved), 1);
	assert_int_equal(quire_munmap(w.t, moved, 64 * PAGE), 0);
	assert_int_equal(quire_load(w.t, moved, 8, &v), -EFAULT);
	assert_int_equal(quire_munmap(w.t, 1, PAGE), -EINVAL);
	assert_int_equal(quire_load(w.t, a, 0, &v), -EINVAL);
	assert_int_equal(quire_load(w.t, a, 9, &v), -EINVAL);
	assert_int_equal(quire_store(w.t, a, 16, 0), -EINVAL);
	quire_space_switch(w.t, NULL);
	assert_int_equal(quire_munmap(w.t, moved, PAGE), -EFAULT);
	assert_int_equal(quire_load(w.t, moved, 8, &v), -EFAULT);
	quire_space_switch(w.t, w.s);
	finish(&w);
}

static void forking(void **state)
{
	const char *const *const settings[] = { no_thp, thp, thp_copy };
	char out[10000], in[10000];
	struct world w;
	size_t done;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct quire_space *child;

		begin(&w, settings[i]);
		quire_addr_t a = map(&w, 4 * MIB);

		memset(out, 'p', sizeof(out));
		assert_int_equal(quire_write(w.t, a + 100, out, sizeof(out), NULL), 0);
		assert_int_equal(quire_space_fork(w.t, w.s, &child), 0);
		memset(out, 'q', sizeof(out));
		assert_int_equal(quire_write(w.t, a + 100, out, sizeof(out), &done), 0);
		assert_int_equal(done, sizeof(out));
		quire_space_switch(w.t, child);
		quire_space_put(w.t, child); /* lives on while we are in it */
		assert_int_equal(quire_read(w.t, a + 100, in, sizeof(in), &done), 0);
		for (size_t k = 0; k < sizeof(in); k++)
			assert_int_equal(in[k], 'p');
		put(&w, a, 5);
		quire_space_switch(w.t, w.s);
		assert_int_equal(get(&w, a), 0);
		assert_int_equal(quire_read(w.t, a + 100, in, sizeof(in), &done), 0);
		assert_memory_equal(in, out, sizeof(in));
		finish(&w);
	}
}

/* ---- threads ---- */

struct user {
	pthread_t thread;
	struct world *w;
	quire_addr_t at;
	uint64_t id;
	int bad;
};

static void *use(void *arg)
{
	struct user *u = arg;
	struct world own = { .q = u->w->q };

	u->bad |= quire_attach(own.q, &own.t);
	if (u->bad)
		return NULL;
	quire_space_switch(own.t, u->w->s);
	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 200; i++)
			u->bad |= quire_store(own.t, u->at + i * PAGE, 8, u->id << 32 | i);
		for (uint64_t i = 0; i < 200; i++) {
			uint64_t v = 0;

			u->bad |= quire_load(own.t, u->at + i * PAGE, 8, &v);
			u->bad |= v != (u->id << 32 | i);
		}
		u->bad |= quire_madvise(own.t, u->at, 200 * PAGE, QUIRE_MADV_DONTNEED);
	}
	quire_detach(own.t);
	return NULL;
}

static void threads(void **state)
{
	struct user u[4];
	struct world w;

	(void)state;
	begin(&w, no_thp);
	for (unsigned i = 0; i < 4; i++) {
		u[i] = (struct user){ .w = &w, .at = map(&w, 200 * PAGE), .id = i + 1 };
		assert_int_equal(pthread_create(&u[i].thread, NULL, use, &u[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(u[i].thread, NULL);
		assert_int_equal(u[i].bad, 0);
	}
	assert_int_equal(counter(&w, "quire_fault_anon_4k"), 4 * 20 * 200);
	finish(&w);
}

static void attaching(void **state)
{
	struct quire_thread *more[8];
	struct world w;

	(void)state;
	begin(&w, NULL);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(quire_attach(w.q, &more[i]), 0);
	assert_int_equal(quire_attach(w.q, &more[7]), -EBUSY);
	for (unsigned i = 0; i < 7; i++)
		quire_detach(more[i]);
	quire_detach(NULL);
	finish(&w);
}

/* ---- pins ---- */

static size_t pinned_len(const struct quire_pin *p)
{
	size_t len = 0;

	for (size_t i = 0; i < p->nr; i++)
		len += p->segments[i].len;
	return len;
}

/* The pointers are the memory: what one side writes, the other sees. */
static void pins(void **state)
{
	const char *const *const settings[] = { no_thp, thp };
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct quire_pin *p;
		size_t at = 0;

		begin(&w, settings[i]);
		quire_addr_t a = map(&w, 4 * MIB), from = a + 3000;

		put(&w, a, 77);
		assert_int_equal(quire_pin(w.t, from, 3 * PAGE, QUIRE_PIN_WRITE, &p), 0);
		assert_int_equal(pinned_len(p), 3 * PAGE);
		if (i)
			assert_int_equal(p->nr, 1); /* one huge page */
		for (size_t s = 0; s < p->nr; at += p->segments[s].len, s++)
			memset(p->segments[s].ptr, (int)s + 1, p->segments[s].len);
		assert_int_equal(get(&w, a), 77);
		at = 0;
		for (size_t s = 0; s < p->nr; at += p->segments[s].len, s++) {
			uint64_t v;

			assert_int_equal(quire_load(w.t, from + at, 1, &v), 0);
			assert_int_equal(v, s + 1);
		}
		assert_int_equal(quire_store(w.t, from, 1, 0xee), 0);
		assert_int_equal(*(unsigned char *)p->segments[0].ptr, 0xee);
		quire_unpin(w.t, p);
		finish(&w);
	}
}

/* Whatever is done to the address space: the frames stay, and nobody else gets them. */
static void pins_last(void **state)
{
	struct world w;
	struct quire_pin *p;

	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		begin(&w, no_thp);
		quire_addr_t a = map(&w, 16 * PAGE);

		for (unsigned i = 0; i < 16; i++)
			put(&w, a + i * PAGE, i + 1);
		assert_int_equal(quire_pin(w.t, a, 16 * PAGE, 0, &p), 0);
		if (how == 0)
			assert_int_equal(quire_munmap(w.t, a, 16 * PAGE), 0);
		else
			assert_int_equal(quire_madvise(w.t, a, 16 * PAGE, QUIRE_MADV_DONTNEED), 0);
		/* Everything that is free is written over. */
		quire_addr_t b = map(&w, 64 * MIB);

		for (quire_addr_t at = b; at < b + 64 * MIB; at += PAGE)
			put(&w, at, ~0ULL);
		size_t at = 0;

		for (size_t s = 0; s < p->nr; s++)
			for (size_t o = 0; o < p->segments[s].len; o += PAGE, at += PAGE) {
				uint64_t v;

				memcpy(&v, (char *)p->segments[s].ptr + o, 8);
				assert_int_equal(v, at / PAGE + 1);
			}
		if (how == 2) { /* the address space itself goes first */
			quire_space_switch(w.t, NULL);
			quire_space_put(w.t, w.s);
			memcpy(&(uint64_t){ 0 }, p->segments[0].ptr, 8);
			quire_unpin(w.t, p);
			assert_int_equal(quire_space_create(w.t, &w.s), 0);
		} else {
			quire_unpin(w.t, p);
		}
		finish(&w);
	}
}

/* A child gets its own copy of what is pinned; the pin goes on showing the parent's memory. */
static void pins_and_fork(void **state)
{
	const char *const *const settings[] = { no_thp, thp, thp_copy };
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct quire_space *child;
		struct quire_pin *p;
		uint64_t *word;

		begin(&w, settings[i]);
		quire_addr_t a = map(&w, 2 * MIB);

		for (quire_addr_t at = a; at < a + 2 * MIB; at += PAGE)
			put(&w, at, at);
		assert_int_equal(quire_pin(w.t, a + 8 * PAGE, PAGE, QUIRE_PIN_WRITE, &p), 0);
		word = p->segments[0].ptr;
		assert_int_equal(quire_space_fork(w.t, w.s, &child), 0);
		if (i == 2)
			assert_int_equal(counter(&w, "quire_pages_copied"), 512);
		*word = 1;
		put(&w, a + 8 * PAGE + 8, 2);
		assert_int_equal(get(&w, a + 8 * PAGE), 1);
		assert_int_equal(word[1], 2);
		quire_space_switch(w.t, child);
		for (quire_addr_t at = a; at < a + 2 * MIB; at += PAGE)
			assert_int_equal(get(&w, at), at);
		assert_int_equal(get(&w, a + 8 * PAGE + 8), 0);
		put(&w, a + 8 * PAGE, 3);
		quire_space_switch(w.t, w.s);
		quire_space_put(w.t, child);
		assert_int_equal(*word, 1);
		assert_int_equal(get(&w, a + 8 * PAGE), 1);
		quire_unpin(w.t, p);
		finish(&w);
	}
}

/* Memory that a fork shares is unshared before it is pinned, for reading too; and whose rights say no is not pinned. */
static void pins_unshare(void **state)
{
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct quire_space *child;
		struct quire_pin *p;
		uint64_t *word;

		begin(&w, i & 1 ? thp : no_thp);
		quire_addr_t a = map(&w, 2 * MIB);

		put(&w, a, 1);
		assert_int_equal(quire_space_fork(w.t, w.s, &child), 0);
		if (i & 2)
			assert_int_equal(quire_mprotect(w.t, a, 2 * MIB, QUIRE_PROT_READ), 0);
		/* A page that was never touched is no shared zero page when it is pinned. */
		uint64_t v;

		assert_int_equal(quire_load(w.t, a + 5 * PAGE, 8, &v), 0);
		assert_int_equal(quire_pin(w.t, a, 6 * PAGE, 0, &p), 0);
		word = p->segments[0].ptr;
		assert_int_equal(*word, 1);
		if (i & 2) {
			assert_int_equal(quire_store(w.t, a, 8, 2), -EFAULT);
			assert_int_equal(quire_pin(w.t, a, PAGE, QUIRE_PIN_WRITE, &p), -EFAULT);
			assert_int_equal(quire_mprotect(w.t, a, 2 * MIB, RW), 0);
		}
		put(&w, a, 2);
		assert_int_equal(*word, 2);
		put(&w, a + 5 * PAGE, 6);
		assert_int_equal(*(uint64_t *)(void *)((char *)p->segments[p->nr - 1].ptr + p->segments[p->nr - 1].len - PAGE), 6);
		quire_space_switch(w.t, child);
		assert_int_equal(get(&w, a), 1);
		quire_space_switch(w.t, w.s);
		quire_space_put(w.t, child);
		quire_unpin(w.t, p);
		assert_int_equal(quire_mprotect(w.t, a, PAGE, QUIRE_PROT_NONE), 0);
		assert_int_equal(quire_pin(w.t, a, PAGE, 0, &p), -EFAULT);
		assert_int_equal(quire_pin(w.t, a + PAGE, 4 * MIB, 0, &p), -EFAULT);
		assert_int_equal(quire_pin(w.t, a, 0, 0, &p), -EINVAL);
		assert_int_equal(quire_pin(w.t, a, 1, 64, &p), -EINVAL);
		finish(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opening),   cmocka_unit_test(mapping),	      cmocka_unit_test(forking),
		cmocka_unit_test(threads),   cmocka_unit_test(attaching),     cmocka_unit_test(pins),
		cmocka_unit_test(pins_last), cmocka_unit_test(pins_and_fork), cmocka_unit_test(pins_unshare),
	};

	return test_run(tests);
}
